"""``python -m lab.live_prompts``: intervals and claims of order where voters write their own prompts, as one page.

Finished arenas are kept: an interrupted run is resumed, and more arenas extend it. `just live-prompts` runs it at full
size.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lab.bars import SIZES, StudyRuns
from lab.live_prompt_studies import LIVE_PROMPTS, LivePromptLook, LivePromptResult, LivePromptSettings
from lab.live_worlds import LiveWorldSettings
from tiltyard._version import __version__
from tiltyard.simulation.studies import lab_folder, summarise

#: What makes a world with free prompts hostile, by name: the settings that it changes.
HOSTILE_LIVE: dict[str, dict[str, float]] = {
    "kind": {},
    "popular": {"popular_share": 0.6},
    "one-prompt": {"popular_share": 0.25, "popular": 1},
    "heavy-voters": {"heavy_share": 0.5},
    "own-kinds": {"heavy_share": 0.5, "own_sd": 0.5},
    "categories": {"categories": 6, "category_sd": 0.5},
    "all": {"popular_share": 0.4, "heavy_share": 0.5, "own_sd": 0.5, "categories": 6, "category_sd": 0.5},
    "all, 20 voters": {
        "popular_share": 0.4,
        "heavy_share": 0.5,
        "own_sd": 0.5,
        "categories": 6,
        "category_sd": 0.5,
        "voters": 20,
    },
}
#: Votes between two looks at what is settled.
LOOK_INTERVAL_VOTES = 150


@dataclass(frozen=True, slots=True)
class LiveCell:
    """One kind of arena, and the results of its arenas."""

    name: str
    settings: LivePromptSettings
    results: Sequence[LivePromptResult] = ()


def _world(name: str, **changes: float) -> LiveWorldSettings:
    return LiveWorldSettings(**HOSTILE_LIVE[name], **changes)  # type: ignore[arg-type]


def interval_cells() -> list[LiveCell]:
    """Arenas of models of different strength, rated at three sizes."""
    return [LiveCell(name, LivePromptSettings(_world(name))) for name in HOSTILE_LIVE]


def one_look_cells() -> list[LiveCell]:
    """Arenas in which claims of order are false, each size looked at by itself."""
    return _without_order(LivePromptSettings())


def watched_cells() -> list[LiveCell]:
    """The same, looked at again and again."""
    return _without_order(LivePromptSettings(every=LOOK_INTERVAL_VOTES))


def _without_order(settings: LivePromptSettings) -> list[LiveCell]:
    cells = [
        LiveCell(f"equal, {name}", replace(settings, world=_world(name, equal=True))) for name in HOSTILE_LIVE
    ]
    return [*cells, LiveCell("equal in pairs, all", replace(settings, world=_world("all", clones=True)))]


def lane_cells() -> list[LiveCell]:
    """The same where the policy chooses pairs."""
    watched = LivePromptSettings(sizes=(500, 1500, 3000), lanes=True, every=LOOK_INTERVAL_VOTES)
    return [
        LiveCell("equal, categories, lanes", replace(watched, world=_world("categories", equal=True))),
        LiveCell("equal, all, lanes", replace(watched, world=_world("all", equal=True))),
        LiveCell("equal in pairs, all, lanes", replace(watched, world=_world("all", clones=True))),
    ]


_COVERED = "ratings covered | differences covered | votes taken for independent"
_ABOUT = """The command writes this page; what it shows is explained in \
[the ranking policy](../../explanation/ranking-policy.md#prompts-that-voters-write)."""
_WORLDS = """Ten models and 200 voters. A model's success depends on the prompt (standard deviation of half a logit for each \
different prompt) and on the voter's taste (the same); a tenth of a voter's own prompts were typed before; ties are 16 %, both \
bad 7 %, and one vote in twenty is random. *popular*: 60 % of the votes are on 200 prompts that everybody types, by Zipf's law \
with exponent 1.1; *one-prompt*: a quarter of all votes are on one prompt; *heavy-voters*: one voter in ten casts half of the \
votes; *own-kinds*: these, and models differ by half a logit more on the kind of prompts that a voter writes, which goes with \
the voter's taste (correlation 0.7); *categories*: six categories, each written in 0.6 times as often as the one before, in \
which models differ by half a logit, and which each voter favours in their own way; *all*: heavy voters with their own kinds of \
prompts in six categories, and 40 % of the votes on popular prompts. *Equal* models are equal over the whole mix of categories, \
though not in each. The truth is that of prompts and voters like these. Everything is computed by the code that makes an arena's \
board, under a policy with `free_prompts`. In brackets: standard errors over arenas."""
_INTERVALS = """Models of different strength (standard deviation of 200 points), uniform pairs. *Covered* is the share of true \
ratings, and of true differences, inside their 95 % intervals; *votes taken for independent* is the same share without \
clusters; *no interval* the share of ratings that get none; half-width and error (root mean square) are medians in points; ν is \
the median of the effective degrees of freedom."""
_ONE_LOOK = """Every claim of order is false between equal models. Arenas whose rank ranges (95 %, all pairs at once) make one, for \
each number of votes by itself."""
_WATCHED = """The same kinds of arenas, looked at every 150 votes from 300 to 4,500, and under the policy's lanes to 3,000. *Settled*: \
arenas that called a false order settled at any look. *In ranges*: the same for rank ranges, which are made for one look only."""
_LANES = """The policy chooses the pairs, in the category of what the voter typed. *Relaxed* is the share of matchups for which a \
rule of matchmaking was given up; *out of tolerance* the share of windows in which a model was shown too often or too seldom."""


@dataclass(frozen=True, slots=True)
class LivePages:
    """What the page shows."""

    intervals: Sequence[LiveCell]
    one_look: Sequence[LiveCell]
    watched: Sequence[LiveCell]
    lanes: Sequence[LiveCell]


def live_prompts_page(found: LivePages, command: str) -> str:
    """All tables as Markdown."""
    return "\n".join(
        [
            "# Live prompts, measured",
            "",
            f"Measured on {datetime.now(UTC):%Y-%m-%d} with Tiltyard {__version__} by `{command}`. {_ABOUT}",
            "",
            _WORLDS,
            "",
            "## Intervals",
            "",
            _INTERVALS,
            "",
            f"| world | arenas | votes | prompts | {_COVERED} | no interval | half-width | error | ν |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            *(row for cell in found.intervals for row in interval_rows(cell)),
            "",
            "## Claims of order at one look",
            "",
            _ONE_LOOK,
            "",
            "| world | 500 votes | 1,500 votes | 4,500 votes | ratings covered at 4,500 |",
            "|---|--:|--:|--:|--:|",
            *(one_look_row(cell) for cell in found.one_look),
            "",
            "## Claims of order at every look",
            "",
            _WATCHED,
            "",
            "| world | settled | in ranges | ratings covered at the end |",
            "|---|--:|--:|--:|",
            *(watched_row(cell) for cell in (*found.watched, *found.lanes)),
            "",
            "## Under the lanes",
            "",
            _LANES,
            "",
            "| world | arenas | relaxed | out of tolerance |",
            "|---|--:|--:|--:|",
            *(lane_row(cell) for cell in found.lanes),
            "",
        ]
    )


def interval_rows(cell: LiveCell) -> list[str]:
    """One row for each size."""
    rows = []
    for at, votes in enumerate(cell.settings.sizes):
        looks = [one.looks[at] for one in cell.results]
        columns = (
            cell.name,
            str(len(looks)),
            f"{votes:,}",
            f"{_middle(look.prompts for look in looks):,.0f}",
            _share(look.ratings_covered for look in looks),
            _share(look.differences_covered for look in looks),
            _share(look.unclustered_covered for look in looks),
            f"{summarise([look.refused for look in looks]).mean:.2f}",
            f"{_middle(look.half_width for look in looks):.0f}",
            f"{_middle(look.error for look in looks):.0f}",
            f"{_middle(look.dof for look in looks):.0f}",
        )
        rows.append(f"| {' | '.join(columns)} |")
    return rows


def one_look_row(cell: LiveCell) -> str:
    results, n = cell.results, len(cell.results)
    false = [sum(one.looks[at].ranges_false for one in results) for at in range(len(cell.settings.sizes))]
    covered = _share(_last(one).ratings_covered for one in results)
    return f"| {' | '.join([cell.name, *(f'{count} of {n}' for count in false), covered])} |"


def watched_row(cell: LiveCell) -> str:
    results, n = cell.results, len(cell.results)
    columns = (
        cell.name,
        f"{sum(one.settled_false for one in results)} of {n}",
        f"{sum(one.ranges_ever_false for one in results)} of {n}",
        _share(_last(one).ratings_covered for one in results),
    )
    return f"| {' | '.join(columns)} |"


def lane_row(cell: LiveCell) -> str:
    results = cell.results
    served = len(results) * max(cell.settings.sizes)
    watched = sum(one.watched for one in results)
    columns = (
        cell.name,
        str(len(results)),
        f"{sum(one.given_up for one in results) / served:.2%}",
        f"{sum(one.outside for one in results) / watched:.2%}" if watched else "–",
    )
    return f"| {' | '.join(columns)} |"


def _last(result: LivePromptResult) -> LivePromptLook:
    return result.looks[-1]


def _share(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{(found := summarise(known)).mean:.3f} ({found.error:.3f})" if len(known) > 1 else "–"


def _middle(values: Iterable[float | None]) -> float:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else float("nan")


def _run(
    runs: StudyRuns, cells: Sequence[LiveCell], arenas: int, rows: Callable[[LiveCell], list[str]]
) -> list[LiveCell]:
    """Run every kind of arena, and print its rows when it is done."""
    done = []
    for cell in cells if arenas else ():
        done.append(replace(cell, results=runs(LIVE_PROMPTS, cell.settings, arenas)))
        sys.stdout.write("\n".join(rows(done[-1])) + "\n")
        sys.stdout.flush()
    return done


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arenas", type=int, default=200, help="arenas of each kind, at one look")
    parser.add_argument("--watched-arenas", type=int, default=100, help="the same, at every look")
    parser.add_argument("--lane-arenas", type=int, default=100, help="the same, under the policy's lanes")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(given)
    runs = StudyRuns(SIZES["full"], lab_folder(), options.processes, lambda _name, _done, _total: None)
    found = LivePages(
        intervals=_run(runs, interval_cells(), options.arenas, interval_rows),
        one_look=_run(runs, one_look_cells(), options.arenas, lambda cell: [one_look_row(cell)]),
        watched=_run(runs, watched_cells(), options.watched_arenas, lambda cell: [watched_row(cell)]),
        lanes=_run(runs, lane_cells(), options.lane_arenas, lambda cell: [watched_row(cell), lane_row(cell)]),
    )
    if options.out:
        command = "python -m lab.live_prompts " + " ".join(
            f"--{name} {getattr(options, name.replace('-', '_'))}"
            for name in ("arenas", "watched-arenas", "lane-arenas")
        )
        options.out.write_text(live_prompts_page(found, command), encoding="utf-8")


if __name__ == "__main__":
    main()
