"""``python -m lab.settled``: is an order that is called settled ever false, and how much is settled when?

Finished arenas are kept: an interrupted run is resumed, and more arenas extend it. `just settled` runs it at full size.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lab.bars import SIZES, StudyRuns
from lab.settled_studies import SETTLED, SettledResult, SettledSettings
from tiltyard._version import __version__
from tiltyard.simulation.studies import lab_folder, summarise
from tiltyard.simulation.worlds import WorldSettings, hostile_world


@dataclass(frozen=True, slots=True)
class SettledCell:
    """One kind of arena, and the results of its arenas."""

    name: str
    settings: SettledSettings
    results: Sequence[SettledResult] = ()


def _false_claims(models: int, name: str) -> SettledCell:
    return SettledCell(name, SettledSettings(hostile_world(name, WorldSettings(models))))


#: Arenas in which a claim of order is false, or may be.
FALSE_CLAIMS = (
    *(_false_claims(10, name) for name in ("equal", "clone", "equal+voters", "equal+heavy-voters")),
    *(_false_claims(20, name) for name in ("equal", "equal+heavy-voters")),
)
#: Kind arenas, with the eight best models close together and without.
POWER = (
    SettledCell("kind", SettledSettings(WorldSettings(20), votes=20_000, every=1000)),
    SettledCell(
        "kind, no close top", SettledSettings(WorldSettings(20, close_top=False), votes=20_000, every=1000)
    ),
)

_ABOUT = """Arenas under the policy's own lanes, 100 prompts, effects of model × prompt with a standard deviation of half a logit, \
16 % ties, 7 % both bad, 5 % random voters. *voters*: 20 voters with tastes of half a logit; *heavy-voters*: 200 of them \
whose activity is Pareto with exponent 1.1. Each scope is compared with its own truth: *prompts like these* with the \
population of prompts, *these prompts* with the same prompts, weighted as they were voted on; voters are a sample in both."""
_FALSE = """4,500 votes, with a look at every 50 from 300 on. A false claim at any look counts. *Rank ranges* are those of \
`rate`, which hold at one look: here they are looked at 85 times, and show why arenas need a sequence. *Rang* is the share of \
evaluations at which the cross-check rang, and of arenas in which it ever did."""
_POWER = """Pairs that are settled, of 190, and what rank ranges separate at the same number of votes."""


def settled_page(false: Sequence[SettledCell], power: Sequence[SettledCell], command: str) -> str:
    """Both tables as Markdown."""
    return "\n".join(
        [
            "# Orders called settled, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`. {_ABOUT}",
            "",
            "## False claims",
            "",
            _FALSE,
            "",
            "| models | world | these prompts | prompts like these | rank ranges | rang |",
            "|--:|---|--:|--:|--:|--:|",
            *map(_false_row, false),
            "",
            "## Power",
            "",
            _POWER,
            "",
            "| world | votes | these prompts | prompts like these | rank ranges | settled of what ranges separate | rang |",
            "|---|--:|--:|--:|--:|--:|--:|",
            *(row for cell in power for row in _power_rows(cell)),
            "",
        ]
    )


def _false_row(cell: SettledCell) -> str:
    results, n = cell.results, len(cell.results)
    columns = (
        str(cell.settings.world.models),
        cell.name,
        f"{sum(one.these_false for one in results)} of {n}",
        f"{sum(one.like_these_false for one in results)} of {n}",
        f"{sum(one.ranges_false for one in results)} of {n}",
        _rang(results),
    )
    return f"| {' | '.join(columns)} |"


def _rang(results: Sequence[SettledResult]) -> str:
    share = sum(one.alarms for one in results) / sum(one.evaluations for one in results)
    return f"{share:.1%}, {sum(one.alarms > 0 for one in results)} of {len(results)}"


def _power_rows(cell: SettledCell) -> list[str]:
    rows = []
    for votes in (2000, 5000, 10_000, 20_000):
        looks = [look for one in cell.results for look in one.looks if look.votes == votes]
        if len(looks) < 2:
            continue
        means = [
            summarise([getattr(look, name) for look in looks]) for name in ("these", "like_these", "ranges")
        ]
        figures = [f"{one.mean:.0f} ({one.error:.0f}), {one.mean / 190:.0%}" for one in means]
        share = f"{means[1].mean / max(means[2].mean, 1e-9):.0%}"
        rows.append(f"| {cell.name} | {votes:,} | {' | '.join(figures)} | {share} | {_rang(cell.results)} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arenas", type=int, default=300, help="arenas of each kind, for false claims")
    parser.add_argument("--power-arenas", type=int, default=24, help="the same, for power")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    runs = StudyRuns(SIZES["full"], lab_folder(), options.processes, lambda _name, _done, _total: None)
    done: dict[bool, list[SettledCell]] = {False: [], True: []}
    for power, cells, arenas in ((True, POWER, options.power_arenas), (False, FALSE_CLAIMS, options.arenas)):
        for cell in cells if arenas else ():
            done[power].append(replace(cell, results=runs(SETTLED, cell.settings, arenas)))
            rows = _power_rows(done[power][-1]) if power else [_false_row(done[power][-1])]
            sys.stdout.write("\n".join(rows) + "\n")
            sys.stdout.flush()
    if options.out:
        command = f"python -m lab.settled --arenas {options.arenas} --power-arenas {options.power_arenas}"
        options.out.write_text(settled_page(done[False], done[True], command), encoding="utf-8")


if __name__ == "__main__":
    main()
