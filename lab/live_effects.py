"""``python -m lab.live_effects``: whether the effects of length and waiting on a live board hold the truth, as a table.

Finished worlds are kept: an interrupted run is resumed, and more worlds extend it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from lab.bars import SIZES, StudyRuns
from lab.effect_studies import EFFECTS, EffectResult, EffectSettings
from lab.live_prompts import HOSTILE_LIVE
from lab.live_worlds import LiveWorldSettings
from tiltyard.arena.boards.battle_effects import EFFECT_VOTES
from tiltyard.simulation.studies import lab_folder, summarise

EFFECT_HEADER = """\
| world | votes | true effect of length | covered | found | true effect of waiting | covered | claimed | not estimated |
|---|--:|--:|--:|--:|--:|--:|--:|--:|"""
_WORLDS = ("kind", "popular", "heavy-voters", "own-kinds", "all", "all, 20 voters")


def effect_cells() -> list[tuple[str, EffectSettings]]:
    """Worlds in which a doubling of length is worth 31 points to each voter, and waiting nothing; one with large effects."""
    cells = [
        (name, EffectSettings(LiveWorldSettings(**HOSTILE_LIVE[name])))  # type: ignore[arg-type]
        for name in _WORLDS
    ]
    kind = cells[0][1]
    seen = replace(kind, length=100.0, waiting=-100.0)
    return [("kind", replace(kind, votes=EFFECT_VOTES + 60)), *cells, ("kind, large effects", seen)]


def effect_row(name: str, settings: EffectSettings, results: Sequence[EffectResult]) -> str:
    """One row of the table."""
    figures = [f"| {name} | {settings.votes:,} "]
    for which in (0, 1):
        truth = summarise([one.truth[which] for one in results]).mean
        figures.append(f"| {truth:.0f} | {_share([one.covered(which) for one in results])} ")
        figures.append(f"| {_share([one.claimed(which) for one in results])} ")
    missing = sum(None in one.points for one in results)
    return "".join(figures) + f"| {missing} of {len(results)} |"


def _share(values: Sequence[bool | None]) -> str:
    known = [float(value) for value in values if value is not None]
    if not known:
        return "–"
    found = summarise(known)
    return f"{100.0 * found.mean:.1f} %"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200, help="worlds of each kind")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(given)
    runs = StudyRuns(SIZES["full"], lab_folder(), options.processes, lambda _name, _done, _total: None)
    sys.stdout.write(f"{EFFECT_HEADER}\n")
    for name, settings in effect_cells():
        results = runs(EFFECTS, settings, options.worlds)
        sys.stdout.write(f"{effect_row(name, settings, results)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
