"""Tiltyard's side of the benchmark: `python bench/ours.py [CASE ...] --data DIR [--no-fast]`.

Each case goes through the public API, from ready integer codes (or a Parquet file of names) to
ratings. Compiling is not counted: every case runs once before it is timed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tiltyard
from tiltyard.core.battles import CodedBattles
from tiltyard.foundation import compiled_kernels
from tiltyard.foundation.compiled_kernels import KernelChoice
from timing import ELO_K, PERMUTATIONS, REFITS, TAU, asked, farthest, load, repeat, report

CASES = ["bt", "bt-names", "bootstrap", "elo", "glicko2", "style", "read"]
LARGE = ("bt", "glicko2", "style")


def table_of(arrays: dict[str, np.ndarray], *, style: bool = False) -> tiltyard.Table:
    codes = CodedBattles(
        arrays["a"], arrays["b"], arrays["winner"], covariates=arrays["style"] if style else None
    )
    names = [f"model-{k:04}" for k in range(len(arrays["names"]))]
    columns = [f"style-{k}" for k in range(arrays["style"].shape[1])] if style else []
    return tiltyard.Table.from_codes(names, codes, covariates=columns)


def work_of(case: str, data: Path, kernel: KernelChoice) -> tuple[Callable[[], object], int]:
    """What to time for a case, and how many battles (for Elo, updates) it rates."""
    if case in ("read", "bt-names"):
        path = data / "large.parquet"
        rows = tiltyard.open_battles(path).rows or 0
        # The whole command, interpreter and imports included.
        command = [sys.executable, "-m", "tiltyard", "rate", str(path), "--intervals", "battles"]
        if case == "read":
            return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), rows
        bare = tiltyard.BradleyTerry(interval="none", clusters="battle")
        return lambda: bare(tiltyard.read_table(path, clusters=False)), rows
    arrays = load(data, "large" if case in LARGE else "medium")
    n = len(arrays["a"])
    if case == "bt":
        method = tiltyard.BradleyTerry(interval="none")
        return lambda: method(table_of(arrays)), n
    if case == "bootstrap":
        method = tiltyard.BradleyTerry(interval="bootstrap", clusters="battle", n_bootstraps=REFITS)
        return lambda: method(table_of(arrays)), n
    if case == "elo":
        elo = tiltyard.Elo(k=ELO_K, n_permutations=PERMUTATIONS, interval="none", kernel=kernel)
        return lambda: elo(table_of(arrays)), n * PERMUTATIONS
    if case == "glicko2":
        glicko = tiltyard.Glicko2(initial_volatility=0.06, tau=TAU, kernel=kernel)
        return lambda: glicko(table_of(arrays)), n
    style = tiltyard.BradleyTerry(interval="none", style=True, kernel=kernel)
    return lambda: style(table_of(arrays, style=True)), n


def main() -> None:
    fast = "--no-fast" not in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--no-fast"]
    cases, data = asked(CASES)
    if not fast:
        compiled_kernels._COMPILE_WORK_STEPS = sys.maxsize  # as if numba were not installed
    for case in cases:
        work, n = work_of(case, data, "compiled" if fast else "plain")
        slow = not fast and case in ("elo", "glicko2")
        first = None if slow else work()
        note = ""
        if isinstance(first, tiltyard.Ratings) and case in ("bt", "style"):
            note = farthest(first.rating, data / f"exact-{case}.npy")
        runs = repeat(work, most=1 if slow else 7, budget=20.0)
        report(peer="tiltyard", version=tiltyard.__version__, case=case, n=n, runs=runs, note=note)


if __name__ == "__main__":
    main()
