"""Measure everything and print one table: `python bench/run.py --out RESULTS.md`.

Tiltyard is measured through `bench/ours.py`, run by this interpreter (see README.md for what that
script must do); without it the table compares the peers with the bare kernels only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from environments import BARE, CASES, HERE, PEERS, Contestant, python_for

OURS = HERE / "ours.py"
TILTYARD = "tiltyard"
WITHOUT_FAST = "tiltyard --no-fast"
ROUNDS = 3
LONGEST = 900  # seconds for one case of one contestant

Result = dict[str, Any]
Results = dict[str, dict[str, Result]]  # by case, then by who


def measured(command: list[str | Path]) -> Result:
    """The JSON line a timed script prints, or why there is none."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"stopped after {LONGEST} s"}
    if done.returncode != 0:
        return {"skipped": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def of_contestant(contestant: Contestant, case: str, scratch: Path, data: Path) -> Result:
    return measured([python_for(contestant, scratch), contestant.script, case, "--data", data])


def of_ours(case: str, data: Path, *extra: str) -> Result:
    return measured([sys.executable, OURS, case, "--data", data, *extra])


def pooled(rounds: list[Result]) -> Result:
    """Several results of one contestant as one, with all their runs."""
    timed = [result for result in rounds if "cpu_seconds" in result]
    if not timed:
        return rounds[0]
    return {**timed[0], "cpu_seconds": [run for result in timed for run in result["cpu_seconds"]]}


def make_data(size: str, scratch: Path) -> Path:
    data = scratch / "data" / size
    if not (data / "medium.npz").exists():  # the last file written
        command = [python_for(BARE, scratch), HERE / "data.py", data, "--size", size]
        subprocess.run(command, check=True)
    return data


def measure(options: argparse.Namespace, kept: Results, keep: Path) -> Results:
    """Bare kernels and Tiltyard afresh, the peers from earlier results where there are any."""
    data = make_data(options.size, options.scratch)
    for case in options.case or CASES:
        found = kept.setdefault(case, {})
        # Alternate, so that both run under the same conditions.
        bare, ours = [], []
        for _ in range(ROUNDS):
            if options.only in (None, "bare", "ours"):
                bare.append(of_contestant(BARE, case, options.scratch, data))
            if options.only in (None, "ours") and OURS.exists():
                ours.append(of_ours(case, data))
        if bare:
            found["bare"] = pooled(bare)
        if ours:
            found[TILTYARD] = pooled(ours)
            found[WITHOUT_FAST] = of_ours(case, data, "--no-fast")
        if options.only in (None, "peers"):
            for peer in PEERS:
                if case in peer.cases and (options.again or "cpu_seconds" not in found.get(peer.name, {})):
                    found[peer.name] = of_contestant(peer, case, options.scratch, data)
        keep.write_text(json.dumps(kept, indent=1))
        for who, result in found.items():
            print(case, who, result.get("cpu_seconds", result.get("skipped")), file=sys.stderr, flush=True)
    return kept


def median(result: Result | None) -> float | None:
    return statistics.median(result["cpu_seconds"]) if result and "cpu_seconds" in result else None


def ratio(result: Result, base: Result | None) -> str:
    seconds, unit = median(result), median(base)
    return f"{seconds / unit:.3g}" if seconds and unit else ""


def row(case: str, who: str, result: Result, found: dict[str, Result]) -> str:
    if "cpu_seconds" not in result:
        return f"| {case} | {who} | | | | | | | {result['skipped']} |"
    scaled = result["scaled_from"]
    notes = [result["note"], f"scaled from {scaled:,}" if scaled else ""]
    cells = [
        case,
        who,
        result["version"],
        f"{result['n']:,}",
        f"{median(result):.3g}",
        f"{min(result['cpu_seconds']):.3g} ({len(result['cpu_seconds'])})",
        ratio(result, found.get("bare")),
        ratio(result, found.get(TILTYARD)),
        "; ".join(filter(None, notes)),
    ]
    return f"| {' | '.join(cells)} |"


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def table(results: Results, size: str) -> str:
    order = ("bare", TILTYARD, WITHOUT_FAST, *(peer.name for peer in PEERS))
    lines = [
        "# Speed, measured",
        "",
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {cpu_model()}, Python {platform.python_version()}.",
        f"Size `{size}`; CPU seconds on one thread, the median and the least of the runs (their number).",
        "",
        "| case | who | version | n | CPU s | least | × bare | × tiltyard | note |",
        "|---|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for case in CASES:
        found = results.get(case, {})
        lines += [row(case, who, found[who], found) for who in order if who in found]
    return "\n".join([*lines, "", *(f"- `{case}`: {what}." for case, what in CASES.items()), ""])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=CASES, help="repeatable; default: all")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--only", choices=("ours", "bare", "peers"))
    parser.add_argument("--again", action="store_true", help="measure peers that have results, too")
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file")
    default = Path(tempfile.gettempdir()) / "tiltyard-bench"
    parser.add_argument("--scratch", type=Path, default=default, help="data, environments, results")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    options.scratch.mkdir(parents=True, exist_ok=True)
    keep = options.scratch / f"results-{options.size}.json"
    kept: Results = json.loads(keep.read_text()) if keep.exists() else {}
    markdown = table(measure(options, kept, keep), options.size)
    print(markdown)
    if options.out:
        options.out.write_text(markdown)


if __name__ == "__main__":
    main()
