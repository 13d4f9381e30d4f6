"""The same million battles in a DataFrame, rated with Tiltyard, arena-rank, evalica and choix.

    python bench/from_frame.py --wheel dist/tiltyard-*.whl --out docs/evidence/data/from_frame.md

Each program below is what a user of that package writes: its lines are counted as they stand, and run in an
environment of their own, in turn. CPU seconds cover the program with its imports, from a frame of names that is
already in memory; memory is the peak of the process meanwhile, without
the frame. All run on one thread (Linux only: the peak is read from /proc).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from environments import PYTHON
from frames import rows
from timing import ONE_THREAD

_FRAMES = ("numpy==2.4.6", "pandas==3.1.1", "pyarrow==26.0.1", "scipy==1.17.1")


@dataclass(frozen=True)
class Program:
    """What a user writes, and what it needs."""

    name: str
    packages: tuple[str, ...]
    code: str


PROGRAMS = (
    Program(
        "Tiltyard",
        ("tiltyard", *_FRAMES),
        """
import tiltyard
board = tiltyard.rate(frame)
""",
    ),
    Program(
        "Tiltyard, intervals by battle",
        ("tiltyard", *_FRAMES),
        """
import tiltyard
board = tiltyard.rate(frame, intervals="battles", max_share=1.0)
""",
    ),
    Program(
        "arena-rank 0.1.1",
        (
            "arena-rank==0.1.1",
            "jax==0.8.1",
            "jaxlib==0.8.1",
            "optax==0.2.8",
            "pandas==3.1.1",
            "pyarrow==26.0.1",
        ),
        """
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset
dataset = PairDataset.from_pandas(frame)
model = BradleyTerry(n_competitors=len(dataset.competitors))
board = model.compute_ratings_and_cis(dataset, significance_level=0.05)
""",
    ),
    Program(
        "evalica 0.4.2, no intervals",
        ("evalica==0.4.2", *_FRAMES),
        """
import evalica
words = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
winners = frame["winner"].map(words)
board = evalica.bradley_terry(frame["model_a"], frame["model_b"], winners)
""",
    ),
    Program(
        "evalica 0.4.2, 20 resamples",
        ("evalica==0.4.2", *_FRAMES),
        """
import evalica
words = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
winners = frame["winner"].map(words)
board = evalica.bootstrap(
    evalica.bradley_terry, frame["model_a"], frame["model_b"], winners,
    n_resamples=20, bootstrap_method="percentile", random_state=0,
)
""",
    ),
    Program(
        "choix 0.4.1, no intervals, no ties",
        ("choix==0.4.1", *_FRAMES),
        """
import choix, numpy as np, pandas as pd
decided = frame[frame["winner"] != "tie"]
codes, names = pd.factorize(pd.concat([decided["model_a"], decided["model_b"]]))
a, b = codes[: len(decided)], codes[len(decided) :]
won = (decided["winner"] == "model_a").to_numpy()
pairs = list(zip(np.where(won, a, b), np.where(won, b, a)))
board = choix.ilsr_pairwise(len(names), pairs)
""",
    ),
)

_MEASURE = """
import json, re, sys, time
import pandas as pd
frame = pd.read_parquet(sys.argv[1])
memory = lambda name: int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
open("/proc/self/clear_refs", "w").write("5")
before, began = memory("VmRSS"), time.process_time()
exec(sys.argv[2])
seconds = time.process_time() - began
print(json.dumps({"seconds": seconds, "mebibytes": memory("VmHWM") - before}))
"""


def measured(python: Path, program: Program, data: Path) -> dict[str, float]:
    done = subprocess.run(
        [python, "-c", _MEASURE, data, program.code],
        env={**os.environ, **ONE_THREAD, "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def python_with(packages: tuple[str, ...], folder: Path, wheel: Path) -> Path:
    python = folder / "bin" / "python"
    if not python.exists():
        named = [str(wheel) if name == "tiltyard" else name for name in packages]
        subprocess.run(["uv", "venv", "--quiet", "--python", PYTHON, folder], check=True)
        install = ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
        subprocess.run([*install, *named], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--battles", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {program.name: [] for program in PROGRAMS}
    with tempfile.TemporaryDirectory() as scratch:
        import pyarrow as pa
        import pyarrow.parquet as pq

        data = Path(scratch) / "battles.parquet"
        pq.write_table(pa.table(rows(asked.battles)), data)
        pythons = {
            program.name: python_with(
                program.packages, Path(scratch) / program.name.split(",")[0].replace(" ", "-"), asked.wheel
            )
            for program in PROGRAMS
        }
        for _ in range(asked.rounds):
            for program in PROGRAMS:
                found[program.name].append(measured(pythons[program.name], program, data))
                print(program.name, found[program.name][-1], flush=True)
    text = page(found, asked.battles, asked.rounds)
    if asked.out is None:
        print(text)
    else:
        asked.out.write_text(text)


def page(found: dict[str, list[dict[str, float]]], battles: int, rounds: int) -> str:
    how = (
        f"`python bench/from_frame.py`, {datetime.now(UTC):%Y-%m-%d}: {rounds} rounds in turn on one thread, medians and "
        "the range of the CPU time. Each program starts anew, and its imports are counted."
    )
    lines = [
        f"# {battles:,} battles from a DataFrame",
        "",
        how,
        "",
        "| program | lines | CPU seconds | memory, MiB |",
        "|---|---|---|---|",
    ]
    for program in PROGRAMS:
        seconds = [one["seconds"] for one in found[program.name]]
        memory = statistics.median(one["mebibytes"] for one in found[program.name])
        count = len(program.code.strip().splitlines())
        lines.append(
            f"| {program.name} | {count} | {statistics.median(seconds):.1f} ({min(seconds):.1f}–{max(seconds):.1f}) "
            f"| {memory:,.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
