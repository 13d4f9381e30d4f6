"""Ratings at equal style: Bradley–Terry with the length and the Markdown of the two responses, beside that without.

Both are fitted to the same votes: those on two texts of which the style is known. Other votes are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from tiltyard.arena.boards.filtered_boards import BoardOrigin
from tiltyard.arena.log.votes import Ballots
from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import Keys, mix_bits
from tiltyard.core.policy.state.events import NO_FREE_PROMPT
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.result import Ratings
from tiltyard.errors import CannotRate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: What is measured of a text, in the order of the columns in which it is read.
STYLE_TRAITS = ("length", "headers", "lists", "bold")


class IntervalValues(TypedDict):
    """A rating with its interval; ``None`` where the votes support none."""

    rating: float | None
    low: float | None
    high: float | None


class StyledRow(TypedDict):
    """One model, as it is and at equal style."""

    model: str
    plain: IntervalValues
    equal_style: IntervalValues


class StyleEffect(TypedDict):
    """What a trait is worth: the coefficient of its scaled difference, and its standard error."""

    trait: str
    coefficient: float
    standard_error: float | None


class StyledDocument(BoardOrigin):
    """Ratings at equal style beside those without."""

    #: Votes that both are fitted to, and votes that are left out.
    votes: int
    left_out: int
    level: float
    #: Empty where style cannot be told apart from the models.
    effects: list[StyleEffect]
    rows: list[StyledRow]


def styled_ratings(
    ballots: Ballots, models: Sequence[str], styles: Ints, about: BoardOrigin, *, voters: bool
) -> StyledDocument:
    """Fit votes with and without style. ``styles`` has model, prompt and traits; ``voters``: whether voters are a sample."""
    traits, known = _traits(ballots, styles)
    left, right = traits[0][known].astype(float), traits[1][known].astype(float)
    total = left + right
    differences = (left - right) / np.where(total == 0.0, 1.0, total)
    table = covariate_table(ballots[known], models, differences, STYLE_TRAITS, voters=voters)
    place = {name: k for k, name in enumerate(table.models)}
    plain = fit_or_none(BradleyTerry(), table)
    styled = fit_or_none(BradleyTerry(style=True), table)
    return {
        **about,
        "votes": int(known.sum()),
        "left_out": int((~known).sum()),
        "level": BradleyTerry().level,
        "effects": _effects(styled),
        "rows": [
            {
                "model": name,
                "plain": _values(plain, place[name]),
                "equal_style": _values(styled, place[name]),
            }
            for name in models
        ],
    }


def covariate_table(
    ballots: Ballots, models: Sequence[str], covariates: Floats, names: tuple[str, ...], *, voters: bool
) -> Table:
    """Votes as a table with covariates, clustered by the prompt, the voter's own if there is one, and by voter."""
    ordered = sorted(models)
    place = {name: k for k, name in enumerate(ordered)}
    code = np.array([place[name] for name in models], dtype=np.int64)
    prompt = np.where(ballots.free_prompt == NO_FREE_PROMPT, ballots.prompt, ballots.free_prompt)
    codes = CodedBattles(
        code[ballots.a],
        code[ballots.b],
        ballots.kind.astype(np.uint8),
        prompt=_keys(prompt),
        voter=_keys(ballots.session) if voters else None,
        covariates=covariates,
    )
    return Table.from_codes(ordered, codes, covariates=names)


def _traits(ballots: Ballots, styles: Ints) -> tuple[tuple[Ints, Ints], npt.NDArray[np.bool_]]:
    """The traits of the left and the right response of each vote, and where both are known."""
    width = 1 + max(int(part.max(initial=0)) for part in (ballots.prompt, styles[:, 1]))
    cells = styles[:, 0] * width + styles[:, 1]
    found, there = [], []
    for model in (ballots.a, ballots.b):
        sought = model * width + ballots.prompt
        at = np.minimum(np.searchsorted(cells, sought), max(len(cells) - 1, 0))
        there.append(cells[at] == sought if len(cells) else np.zeros(len(sought), dtype=bool))
        found.append(styles[at, 2:] if len(cells) else np.zeros((len(sought), len(STYLE_TRAITS)), np.int64))
    return (found[0], found[1]), there[0] & there[1]


def _keys(numbers: Ints) -> Keys:
    """Distinct keys of distinct numbers, none of them that of a missing one."""
    return mix_bits(numbers.astype(np.uint64) + np.uint64(1))


def fit_or_none(method: BradleyTerry, table: Table) -> Ratings | None:
    """The ratings; ``None`` where the votes support none, or style and models cannot be told apart."""
    try:
        return method(table)
    except (CannotRate, np.linalg.LinAlgError):
        return None


def _values(ratings: Ratings | None, model: int) -> IntervalValues:
    if ratings is None or ratings.group[model] != 0:
        return {"rating": None, "low": None, "high": None}
    interval = ratings.interval
    return {
        "rating": _number(ratings.rating[model]),
        "low": None if interval is None else _number(interval.low[model]),
        "high": None if interval is None else _number(interval.high[model]),
    }


def _effects(ratings: Ratings | None) -> list[StyleEffect]:
    if ratings is None:
        return []
    errors = ratings.extras.get("style_se", {})
    return [
        {"trait": trait, "coefficient": value, "standard_error": _number(errors.get(trait, math.nan))}
        for trait, value in ratings.extras.get("style", {}).items()
    ]


def _number(value: float) -> float | None:
    return round(float(value), 3) if math.isfinite(value) else None
