"""``python -m lab.design_study``: how good is the order of the top ten when fewer pairs are judged?

In each world the true order of 20 models is known. A judge answers; every pair is judged, or pairs spread evenly, or pairs
that an adaptive design chooses round by round, in both orders or in one drawn at random.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.core.battles import Battle, Outcome, Table
from tiltyard.core.battles.outcome import Label, reconcile_outcomes
from tiltyard.core.board.adaptive_matches import next_matches, settled_pairs
from tiltyard.core.judging.match_design import MatchDesign, Orders
from tiltyard.core.judging.matches import Match, MatchList, sample_pairs
from tiltyard.core.ratings import BradleyTerry, Ratings

Floats = npt.NDArray[np.float64]
_MODEL_COUNT, _TOP_COUNT = 20, 10
_NAMES = [f"m{k:02d}" for k in range(_MODEL_COUNT)]
#: Leads within this are ties, in logits.
_TIE_LOGITS = 0.2
#: Rounds, tenths of all pairs, within 40 % of the calls: in both orders, and in one with a tenth in both.
_ROUNDS: Mapping[Orders, int] = {"both": 4, "random": 7}


@dataclass(frozen=True, slots=True)
class DesignWorld:
    """Strengths in logits, best first, and how the judge sees them."""

    strength: tuple[float, ...]
    #: How much a model's strength varies from prompt to prompt.
    prompts: float = 0.5
    #: Noise of the judge: of a match, the same in both orders, and of each order.
    noise: float = 0.7
    slot: float = 0.0
    tie: float = _TIE_LOGITS
    #: On this share of the prompts all models are alike.
    flat: float = 0.0


def _steps(first: float, last: float, count: int = _MODEL_COUNT) -> tuple[float, ...]:
    return tuple(np.linspace(first, last, count).tolist())


_SPREAD = _steps(1.0, -1.0)
WORLDS = {
    "spread": DesignWorld(_SPREAD),
    "spread wide": DesignWorld(_steps(2.5, -2.5)),
    "equal top five": DesignWorld((1.0,) * 5 + _steps(0.7, -1.0, 15)),
    "close top ten, far rest": DesignWorld(_steps(0.4, 0.0, 10) + _steps(-0.6, -2.5, 10)),
    "four close groups": DesignWorld(
        tuple(g + s for g in (1.2, 0.4, -0.4, -1.2) for s in _steps(0.1, -0.1, 5))
    ),
    "heavy prompt effects": DesignWorld(_SPREAD, prompts=1.2),
    "hardly any prompt effects": DesignWorld(_SPREAD, prompts=0.1),
    "uneven prompts: two thirds tell nothing": DesignWorld(_SPREAD, flat=2.0 / 3.0),
    "noisy judge": DesignWorld(_SPREAD, noise=2.0),
    "judge that follows the slot": DesignWorld(_SPREAD, slot=1.0),
    "many ties": DesignWorld(_SPREAD, tie=1.2),
    "all equal": DesignWorld((0.0,) * _MODEL_COUNT),
}


class Judged(NamedTuple):
    """All matches of a world, and of each the preferred side by order."""

    pool: list[Match]
    seen: dict[Match, tuple[Outcome, Outcome]]


def judge_world(world: DesignWorld, prompts: int, rng: np.random.Generator) -> Judged:
    pairs = np.array(list(combinations(range(_MODEL_COUNT), 2)))
    quality = np.array(world.strength) + rng.normal(0.0, world.prompts, (prompts, _MODEL_COUNT))
    quality[: round(world.flat * prompts)] = 0.0
    lead = quality[:, pairs[:, 0]] - quality[:, pairs[:, 1]]
    lead = lead + rng.normal(0.0, world.noise, lead.shape)
    orders = [
        lead + rng.logistic(0.0, world.noise * 0.7, lead.shape) + slot for slot in (world.slot, -world.slot)
    ]
    pool = [Match("d", f"p{p:03d}", _NAMES[i], _NAMES[j]) for p in range(prompts) for i, j in pairs.tolist()]
    sides = [[_side(value, world.tie) for value in order.ravel().tolist()] for order in orders]
    return Judged(pool, dict(zip(pool, zip(*sides, strict=True), strict=True)))


def _side(lead: float, tie: float) -> Outcome:
    if abs(lead) < tie:
        return Outcome.TIE
    return Outcome.MODEL_A if lead > 0.0 else Outcome.MODEL_B


def battle_of(judged: Judged, match: Match, design: MatchDesign) -> Battle:
    orders = design.asked_orders(match, "j")
    both = [judged.seen[match][order] for order in orders]
    outcome, label = both[0], Label.TIE if both[0] is Outcome.TIE else Label.WIN
    if len(both) == 2:
        outcome, label = reconcile_outcomes(*both)
    return Battle(
        model_a=match.model_a, model_b=match.model_b, winner=outcome, label=label, question_id=match.prompt_id
    )


def rate(judged: Judged, matches: Sequence[Match], design: MatchDesign) -> Ratings:
    return BradleyTerry()(Table.from_battles(battle_of(judged, one, design) for one in matches))


def adaptive(judged: Judged, design: MatchDesign) -> list[Match]:
    """The matches that an adaptive run judges with 40 % of the calls, or less if the order is settled."""
    asked: dict[Match, Battle] = {}
    for _ in range(_ROUNDS[design.orders]):
        more = next_matches(judged.pool, asked, list(asked.values()), design.seed)
        asked |= {one: battle_of(judged, one, design) for one in more}
    return [one for one in judged.pool if one in asked]


class Quality(NamedTuple):
    """The shares of pairs of the top ten, and of all pairs, in the right order."""

    top: float
    pairs: float
    #: The share of the calls of all pairs in both orders.
    calls: float
    #: Whether any order is settled that is wrong, and the share of pairs that are settled.
    wrong: float
    settled: float
    #: The share of intervals that hold the mean rating; of equal models alone it is the truth.
    held: float


def quality_of(ratings: Ratings, strength: Sequence[float], calls: float) -> Quality:
    value = dict(zip(ratings.models, np.nan_to_num(ratings.rating).tolist(), strict=True))
    right: list[list[bool]] = [[], []]
    for i, j in combinations(range(_MODEL_COUNT), 2):
        if strength[i] != strength[j]:
            good = value[_NAMES[i]] > value[_NAMES[j]]
            right[1].append(good)
            if j < _TOP_COUNT:
                right[0].append(good)
    settled = settled_pairs(ratings, _MODEL_COUNT)
    known = [int(name[1:]) for name in ratings.models]
    false = any(strength[known[i]] <= strength[known[j]] for i, j in np.argwhere(settled).tolist())
    top, all_pairs = (float(np.mean(one)) if one else np.nan for one in right)
    assert ratings.interval is not None
    held = (ratings.interval.low <= ratings.rating.mean()) & (ratings.rating.mean() <= ratings.interval.high)
    pairs = _MODEL_COUNT * (_MODEL_COUNT - 1) / 2
    return Quality(top, all_pairs, calls, float(false), float(settled.sum()) / pairs, float(held.mean()))


def compare_designs(world: DesignWorld, prompts: int, seed: int) -> dict[str, Quality]:
    """All pairs, 40 % of them spread evenly, and the adaptive designs, on the same verdicts."""
    judged = judge_world(world, prompts, np.random.default_rng(seed))
    both, pool = MatchDesign(seed=seed), judged.pool
    spread = sample_pairs(MatchList(pool, 0, {}), round(0.4 * len(pool)), seed).matches
    chosen = {"all": (pool, both), "spread": (spread, both)}
    for orders in _ROUNDS:
        design = MatchDesign("adaptive", orders=orders, seed=seed)
        chosen[f"adaptive, {orders}"] = adaptive(judged, design), design
    return {
        name: quality_of(
            rate(judged, matches, design),
            world.strength,
            sum(len(design.asked_orders(one, "j")) for one in matches) / (2 * len(pool)),
        )
        for name, (matches, design) in chosen.items()
    }


def _rows(prompts: int, seeds: int) -> Iterator[str]:
    for name, world in WORLDS.items():
        runs = [compare_designs(world, prompts, seed) for seed in range(seeds)]
        figures = {design: np.array([run[design] for run in runs]) for design in runs[0]}
        whole = figures["all"]
        cells = [_shares(whole)]
        for design in list(figures)[1:]:
            apart = 100.0 * (figures[design][:, 0] - whole[:, 0])
            error = apart.std(ddof=1) / np.sqrt(seeds)
            said = "–" if np.isnan(error) else f"{apart.mean():+.1f} ± {2.0 * error:.1f}"
            cells.append(f"{_shares(figures[design])} | {said} | {100 * figures[design][:, 2].mean():.0f} %")
        wrong = " / ".join(f"{int(one[:, 3].sum())}" for one in figures.values())
        settled = " / ".join(f"{100 * one[:, 4].mean():.0f}" for one in figures.values())
        held = " / ".join(f"{100 * one[:, 5].mean():.0f}" for one in figures.values())
        equal = len(set(world.strength)) == 1
        yield f"| {name} | {' | '.join(cells)} | {settled} | {wrong} | {held if equal else '–'} |"


def _shares(found: Floats) -> str:
    top, pairs = found[:, 0].mean(), found[:, 1].mean()
    return "–" if np.isnan(pairs) else f"{100 * top:.1f} ({2 * pairs - 1:.3f})"


def design_page(prompts: int, seeds: int, command: str) -> str:
    """The table as Markdown."""
    heads = ("spread evenly", "adaptive, both orders", "adaptive, random order")
    return "\n".join(
        [
            "# Designs that judge fewer pairs, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
            "",
            (
                f"{_MODEL_COUNT} models, {prompts} prompts, {seeds} worlds of each kind, the same verdicts for each design. The "
                f"percentage of pairs of the true top ten in the right order, and Kendall's τ of all models; beside it the "
                "difference from all pairs in points, ± two standard errors, and the share of the calls. *Settled*: the "
                "percentage of pairs whose order is claimed; *wrong*: worlds with a claim that is false; *held*: the "
                "percentage of 95 % intervals that hold the truth. These by design: all, spread, adaptive, adaptive."
            ),
            "",
            f"| world | all pairs | {' | '.join(f'{head} | beside all | calls' for head in heads)} | settled | wrong | held |",
            "|---|--:|" + "--:|--:|--:|" * 3 + "--:|--:|--:|",
            *_rows(prompts, seeds),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=30, help="worlds of each kind")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    command = f"python -m lab.design_study --prompts {options.prompts} --seeds {options.seeds}"
    write_page(design_page(options.prompts, options.seeds, command), options.out)


if __name__ == "__main__":
    main()
