"""How cost grows with the number of battles: `python bench/growth.py --out RESULTS.md`.

Writes Parquet files of 1 M, 10 M and 100 M battles (300 models, 20,000 prompts, names as text),
rates each in a process of its own on one thread, and notes CPU seconds and peak memory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from timing import ONE_THREAD

MODELS, PROMPTS = 300, 20_000
CHUNK = 1_000_000
WINNERS = ("model_a", "model_b", "tie", "both_bad")
WAYS = {"battle-level": "battles", "prompt-clustered": "prompts"}


@dataclass(frozen=True)
class Run:
    battles: int
    way: str
    cpu_seconds: float
    peak_mib: float


def batches(battles: int) -> Iterator[pa.RecordBatch]:
    """Battles between uniformly drawn models on uniformly drawn prompts."""
    rng = np.random.default_rng(1)
    strength = rng.normal(0.0, 1.15, MODELS)
    names = pa.array([f"org-{k % 30:02}/model-{k:03}" for k in range(MODELS)])
    prompts = pa.array([rng.bytes(16).hex() for _ in range(PROMPTS)])
    for first in range(0, battles, CHUNK):
        n = min(CHUNK, battles - first)
        a = rng.integers(0, MODELS, n, dtype=np.int32)
        b = (a + rng.integers(1, MODELS, n, dtype=np.int32)) % MODELS
        won = rng.random(n) < 1.0 / (1.0 + np.exp(strength[b] - strength[a]))
        other = rng.random(n)
        winner = np.where(other < 0.16, 2, np.where(other < 0.2, 3, np.where(won, 0, 1))).astype(np.int32)
        columns = {
            "model_a": pa.DictionaryArray.from_arrays(a, names),
            "model_b": pa.DictionaryArray.from_arrays(b, names),
            "winner": pa.DictionaryArray.from_arrays(winner, pa.array(WINNERS)),
            "question_id": pa.DictionaryArray.from_arrays(
                rng.integers(0, PROMPTS, n, dtype=np.int32), prompts
            ),
        }
        yield pa.RecordBatch.from_pydict(columns)


def written(battles: int, folder: Path) -> Path:
    path = folder / f"battles-{battles}.parquet"
    if not path.exists():
        stream = batches(battles)
        first = next(stream)
        draft = path.with_suffix(".part")
        with pq.ParquetWriter(draft, first.schema, compression="zstd") as writer:
            writer.write_batch(first)
            for batch in stream:
                writer.write_batch(batch)
        draft.rename(path)
    return path


def rated(path: Path, battles: int, way: str) -> Run:
    """One run of `tiltyard rate` in a process of its own."""
    command = [sys.executable, "-m", "tiltyard", "rate", str(path), "--intervals", WAYS[way]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD})
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    return Run(battles, way, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def chart(runs: list[Run], path: Path) -> None:
    """CPU time and memory against battles, both on logarithmic axes."""
    import altair as alt

    rows = [{"battles": r.battles, "way": r.way, "s": r.cpu_seconds, "MiB": r.peak_mib} for r in runs]
    base = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(x=alt.X("battles:Q", scale=alt.Scale(type="log")), color=alt.Color("way:N", title=None))
    )
    log = alt.Scale(type="log")
    time = base.encode(y=alt.Y("s:Q", scale=log, title="CPU seconds")).properties(width=300, height=220)
    memory = base.encode(y=alt.Y("MiB:Q", title="peak memory, MiB")).properties(width=300, height=220)
    (time | memory).save(str(path))


def page(runs: list[Run], picture: str) -> str:
    largest = max(r.battles for r in runs)
    lines = [
        "# Growth, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/growth.py`: `tiltyard rate` on one Parquet file, "
            f"{MODELS} models, {PROMPTS:,} prompts, names as text, one thread; the whole process, start included."
        ),
        "",
        "| battles | intervals | CPU s | ns a battle | peak memory, MiB |",
        "|--:|---|--:|--:|--:|",
    ]
    lines += [
        f"| {r.battles:,} | {r.way} | {r.cpu_seconds:.1f} | {1e9 * r.cpu_seconds / r.battles:.0f} "
        f"| {r.peak_mib:.0f} |"
        for r in runs
    ]
    lines += ["", f"![CPU time and memory against battles]({picture})", "", "## To a billion", ""]
    for way in WAYS:
        mine = sorted((r for r in runs if r.way == way), key=lambda r: r.battles)
        slope = (mine[-1].cpu_seconds - mine[0].cpu_seconds) / (mine[-1].battles - mine[0].battles)
        lines.append(
            f"- {way}: {1e9 * slope:.0f} ns a battle between {mine[0].battles:,} and {largest:,}, so a billion "
            f"battles take about {1e9 * slope:.0f} CPU seconds on one core, in "
            f"{mine[-1].peak_mib / 1024:.1f} GiB or a little more."
        )
    lines += [
        "",
        (
            "Time is linear in battles. Battle-level memory does not depend on their number: it holds counts, "
            "300 × 300 cells of seven kinds. Prompt-clustered ratings above 20 million battles read the file "
            "once for counts and seven times for the limit on weights and for leaving each prompt out, and hold a few "
            "numbers per prompt and model."
        ),
        "",
        (
            "Counts add. To split a billion battles over machines, count each part where it lies "
            "(`tiltyard.read_table(part, clusters=False, log=False)`), send the tables (a few megabytes each, they "
            "pickle) to one place and `merge` them: the ratings are the same to the last bit, whatever the split."
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [1_000_000, 10_000_000, 100_000_000]
    parser.add_argument("--battles", type=int, nargs="*", default=sizes)
    default = Path(tempfile.gettempdir()) / "tiltyard-bench" / "growth"
    parser.add_argument("--scratch", type=Path, default=default)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for battles in options.battles:
        path = written(battles, options.scratch)
        for way in WAYS:
            runs.append(rated(path, battles, way))
            print(runs[-1], file=sys.stderr, flush=True)
    markdown = page(runs, "../../images/growth.svg")
    print(markdown)
    if options.out:
        options.out.write_text(markdown)
    if options.plot:
        chart(runs, options.plot)


if __name__ == "__main__":
    main()
