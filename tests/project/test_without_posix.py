"""Ratings and comparisons import nothing that only POSIX has, so that they run on Windows."""

import subprocess
import sys

import pytest

#: Hides what Windows lacks, and stands in for its locks of bytes.
PRELUDE = """
import errno, os, sys, tempfile, types
import subprocess

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "grp", "pwd", "resource", "termios"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def locking(descriptor, kind, size):
    assert (os.lseek(descriptor, 0, os.SEEK_CUR), size) == (1 << 30, 1)
    os.lockf(descriptor, kind, size)

sys.meta_path.insert(0, Hidden())
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules.pop(name, None)
import tiltyard.errors
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_LOCK=os.F_LOCK, LK_NBLCK=os.F_TLOCK)
here, sys.platform = sys.platform, "win32"
import tiltyard.foundation.local_files
sys.platform = here
del sys.modules["msvcrt"]
"""
RATED = """
from tiltyard.cli import main
for command in ("demo battles", "check battles.jsonl", "rate battles.jsonl --out run", "verify run"):
    sys.argv = ["tiltyard", *command.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
"""
COMPARED = """
import tiltyard
prompts = [f"What is {number} and {number}?" for number in range(20)]
answers = [str(2 * number) for number in range(20)]
rows = [
    [{"prompt": prompt, "response": text + end, "score": 1.0} for prompt, text in zip(prompts, answers)]
    for end in ("", "!")
]
told = tiltyard.ab(*rows)
assert told.decision == "undecided", told
told = tiltyard.ab(*rows, judge=lambda prompt, first, second: "tie", judge_version="1")
assert told.basis == "judge", told
"""


@pytest.mark.slow(but="ratings")
@pytest.mark.parametrize("script", [RATED, COMPARED], ids=["ratings", "ab"])
def test_nothing_of_posix_is_imported(script, tmp_path):
    command = [sys.executable, "-c", PRELUDE + script]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
