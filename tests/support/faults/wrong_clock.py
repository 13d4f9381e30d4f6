"""A library that makes a process's clock wrong by ``SKEW`` seconds, and leaves its steady clock alone."""

import shutil
import subprocess
from pathlib import Path

_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t which, struct timespec *moment)
{
    static int (*honest)(clockid_t, struct timespec *);
    if (!honest)
        honest = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = honest(which, moment);
    if (!failed && which == CLOCK_REALTIME)
        moment->tv_sec += atol(getenv("SKEW"));
    return failed;
}
"""


def wrong_clock(folder: Path) -> Path | None:
    """The library, for ``LD_PRELOAD``; ``None`` where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, made = folder / "wrong_clock.c", folder / "wrong_clock.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made
