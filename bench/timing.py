"""How every script here measures and reports: CPU time, repeats, one JSON line a case.

Only the standard library and NumPy are imported, so that each peer's environment can use it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 1000
REFITS = 100
ELO_K = 16.0
TAU = 0.5  # Glicko-2's system constant
ELO_PER_LOGIT = 400.0 / np.log(10.0)

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "NPROC": "1",  # the size of XLA's thread pool
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}

Floats = NDArray[np.float64]


def one_thread() -> None:
    """Start this script over on one CPU with one thread a library, unless it already runs so.

    Thread pools read these settings when they are loaded, which is before any of our code runs;
    and an idle pool that spins would be counted as CPU time.
    """
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ONE_THREAD})


def cpu_seconds() -> float:
    """CPU time of this process, all its threads, and the children it has waited for."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def repeat(work: Callable[[], object], most: int = 3, budget: float = 120.0) -> list[float]:
    """CPU seconds of each run, at least one, stopping at `most` runs or when `budget` is spent."""
    runs: list[float] = []
    while not runs or (len(runs) < most and sum(runs) + min(runs) <= budget):
        start = cpu_seconds()
        work()
        runs.append(cpu_seconds() - start)
    return runs


def report(
    *,
    peer: str,
    version: str,
    case: str,
    n: int,
    runs: list[float],
    scaled_from: int | None = None,
    note: str = "",
) -> None:
    """Print one result; a run on `scaled_from` units is stretched linearly to `n` units."""
    factor = 1.0 if scaled_from is None else n / scaled_from
    result = {
        "peer": peer,
        "version": version,
        "case": case,
        "n": n,
        "cpu_seconds": [round(seconds * factor, 6) for seconds in runs],
        "scaled_from": scaled_from,
        "note": note,
    }
    print(json.dumps(result), flush=True)


def load(data: Path, name: str) -> dict[str, NDArray[np.generic]]:
    """The arrays that data.py wrote for the set `name`."""
    with np.load(data / f"{name}.npz") as arrays:
        return dict(arrays)


def skip(peer: str, reason: str) -> None:
    print(json.dumps({"peer": peer, "skipped": reason}), flush=True)


def farthest(elo: Floats, exact_file: Path) -> str:
    """How far ratings in Elo points lie from the bare kernel's exact ones, both centred."""
    if not exact_file.exists():
        return ""
    exact = np.load(exact_file)
    gap = np.abs((elo - elo.mean()) - (exact - exact.mean())).max()
    return f"largest error {gap:.2g} Elo"


def asked(cases: list[str]) -> tuple[list[str], Path]:
    """The command line all timed scripts share: the cases to run and the data folder."""
    one_thread()
    parser = argparse.ArgumentParser()
    parser.add_argument("case", nargs="*", help=f"any of: {', '.join(cases)} (default: all)")
    parser.add_argument("--data", type=Path, required=True, help="folder written by data.py")
    options = parser.parse_args()
    unknown = set(options.case) - set(cases)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; choose from {', '.join(cases)}")
    return options.case or cases, options.data
