"""CPU of the first `tiltyard.rate` in a fresh process, and of `tiltyard rate --out`; the least of several runs.

python bench/first_rate.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
LIBRARIES = "import numpy, scipy.special, scipy.linalg, scipy.sparse, pyarrow.compute"


def battles(path: Path, rows: int, models: int) -> Path:
    """Battles with prompts and voters, half a point of a logit between neighbours in ten."""
    random = np.random.default_rng(0)
    a = random.integers(0, models, rows)
    b = (a + random.integers(1, models, rows)) % models
    won = np.where(random.random(rows) < 1 / (1 + np.exp((a - b) / 20)), "model_a", "model_b")
    won = np.where(random.random(rows) < 0.15, "tie", won)
    prompt, voter = random.integers(0, 3000, rows), random.integers(0, 2500, rows)
    lines = (f"m{i},m{j},{w},p{p},v{v}" for i, j, w, p, v in zip(a, b, won, prompt, voter, strict=True))
    path.write_text("model_a,model_b,winner,question_id,voter\n" + "\n".join(lines) + "\n")
    return path


def cpu(command: list[str], runs: int) -> float:
    """Seconds of user and system time of a command."""
    found = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=os.environ | THREADS, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        small, large = (battles(Path(folder) / f"{n}.csv", n, m) for n, m in ((2000, 8), (40_000, 60)))
        rate = f"import tiltyard; tiltyard.rate({str(small)!r})"
        out = ["-m", "tiltyard", "rate", str(large), "--out", str(Path(folder) / "run")]
        cases = {
            "NumPy, SciPy and pyarrow alone": ["-c", LIBRARIES],
            "first `tiltyard.rate`, 2,000 battles in CSV": ["-c", rate],
            "`tiltyard rate --out`, 40,000 battles of 60 models": out,
        }
        print("| what | CPU seconds |\n|---|--:|")
        for name, code in cases.items():
            print(f"| {name} | {cpu([sys.executable, *code], runs):.2f} |")


if __name__ == "__main__":
    main()
