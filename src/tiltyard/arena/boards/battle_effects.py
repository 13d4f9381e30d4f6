"""Whether longer answers, or slower models, win more often in a live arena: Bradley–Terry with both as covariates.

The effects stand beside the board, whose ratings do not use them. A battle's length is that of all its answers; its
waiting time is what the model took to its first token, whatever the pace at which the voter saw it.

Ratings at equal style: Bradley–Terry with the length and the Markdown of the two responses, beside that without.

Both are fitted to the same votes: those on two texts of which the style is known. Other votes are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypedDict

import numpy as np

from tiltyard.arena.boards.filtered_boards import BoardOrigin
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.votes import Ballots
from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import Keys, mix_bits
from tiltyard.core.policy.state.events import NO_FREE_PROMPT
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import MIN_DOF, MIN_PROMPTS, SAMPLE_VOTERS, FindingDocument
from tiltyard.core.ratings.result import Ratings
from tiltyard.core.ratings.variance import critical_value
from tiltyard.errors import CannotRate
from tiltyard.foundation.arrays import Bools, Floats, Ints
from tiltyard.postgres.connections import Connection

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


class StyledRatings(TypedDict):
    """Ratings at equal style beside those without."""

    #: The hash of the board whose votes were counted.
    snapshot: str
    #: Votes that both are fitted to, and votes that are left out.
    votes: int
    left_out: int
    level: float
    #: Empty where style cannot be told apart from the models.
    effects: list[StyleEffect]
    rows: list[StyledRow]


def styled_ratings(
    ballots: Ballots, models: Sequence[str], styles: Ints, *, snapshot: str, voters: bool
) -> StyledRatings:
    """Fit votes with and without style. ``styles`` has model, prompt and traits; ``voters``: whether voters are a sample."""
    traits, known = _traits(ballots, styles)
    left, right = traits[0][known].astype(float), traits[1][known].astype(float)
    total = left + right
    differences = (left - right) / np.where(total == 0.0, 1.0, total)
    # A trait that no response has says nothing; the fit would be singular.
    varied = np.flatnonzero(differences.any(axis=0))
    names = tuple(STYLE_TRAITS[k] for k in varied)
    table = covariate_table(ballots[known], models, differences[:, varied], names, voters=voters)
    place = {name: k for k, name in enumerate(table.models)}
    plain = fit_or_none(BradleyTerry(), table)
    styled = fit_or_none(BradleyTerry(style=True), table) if names else None
    return {
        "snapshot": snapshot,
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


def _traits(ballots: Ballots, styles: Ints) -> tuple[tuple[Ints, Ints], Bools]:
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


#: Fewer votes than this, and no effect is estimated.
EFFECT_VOTES: Final = 200
#: What is read of each battle: the position of its vote; characters and seconds, on the left and on the right.
TRAIT_COLUMNS: Final = 5
#: Nobody perceives a shorter wait.
_LEAST_WAIT_SECONDS = 0.1
EFFECT_NAMES: Final = ("length", "waiting")
_METHOD = BradleyTerry(style=True)


class BattleEffect(TypedDict):
    """What twice the length, or twice the waiting time, is worth in points, with its interval."""

    trait: str
    points: float
    low: float
    high: float


class EffectsDocument(BoardOrigin):
    """The effects of length and waiting on the votes behind a board, and what they say in words."""

    #: Votes that rate skill and whose battles have both traits; and those that are left out because a trait is unknown.
    votes: int
    left_out: int
    prompts: int
    voters: int
    level: float
    effects: list[BattleEffect]
    findings: list[FindingDocument]


def battle_effects(
    ballots: Ballots, models: Sequence[str], traits: Floats, about: BoardOrigin
) -> EffectsDocument:
    """Estimate both effects. ``traits`` has a row of `TRAIT_COLUMNS` for each battle, ordered by position."""
    scored = ~np.isnan(_METHOD.scoring().by_kind()[ballots.kind])
    ratios, known = _ratios(ballots, traits)
    used = scored & known
    counts = {
        "votes": int(used.sum()),
        "prompts": len(np.unique(ballots.free_prompt[used])),
        "voters": len(np.unique(ballots.session[used])),
    }
    lacking = _lacking(counts)
    effects: list[BattleEffect] = []
    if lacking is None:
        effects = _estimate(ballots[used], models, ratios[used])
        findings = [_said(effect) for effect in effects]
        lacking = _unseparated({effect["trait"] for effect in effects})
    else:
        findings = []
    return {
        **about,
        "votes": counts["votes"],
        "left_out": int((scored & ~known).sum()),
        "prompts": counts["prompts"],
        "voters": counts["voters"],
        "level": _METHOD.level,
        "effects": effects,
        "findings": [one.to_dict() for one in (*findings, *([lacking] if lacking else []))],
    }


async def read_traits(connection: Connection, arena: int, source: int, *, upto: int) -> Floats:
    """What is known of the battles that were voted on, up to a position; NaN where a number is unknown."""
    values = {"arena": arena, "source": source, "upto": upto}
    rows = await fetch_rows(connection, "effects_traits", values)
    return np.array(rows, dtype=np.float64).reshape(-1, TRAIT_COLUMNS)


def _ratios(ballots: Ballots, traits: Floats) -> tuple[Floats, Bools]:
    """How many times longer the left side was, in doublings: its text and its wait; and where both are known."""
    at = np.searchsorted(traits[:, 0], ballots.position)
    at = np.minimum(at, max(len(traits) - 1, 0))
    found = traits[at] if len(traits) else np.full((len(ballots), TRAIT_COLUMNS), np.nan)
    known = (found[:, 0] == ballots.position) & np.isfinite(found).all(axis=1)
    known &= (found[:, 1] > 0.0) & (found[:, 2] > 0.0)
    length = np.where(known[:, None], found[:, 1:3], 1.0)
    waiting = np.maximum(np.where(known[:, None], found[:, 3:5], 1.0), _LEAST_WAIT_SECONDS)
    ratios = np.stack([np.log2(part[:, 0] / part[:, 1]) for part in (length, waiting)], axis=1)
    return ratios, known


def _lacking(counts: dict[str, int]) -> Finding | None:
    """What there is too little of; ``None`` if there is enough."""
    for case, least in (("votes", EFFECT_VOTES), ("prompts", MIN_PROMPTS), ("voters", SAMPLE_VOTERS)):
        if counts[case] < least:
            return Finding("effects-unknown", {"case": case, "count": counts[case], "least": least})
    return None


def _unseparated(known: set[str]) -> Finding | None:
    missing = [name for name in EFFECT_NAMES if name not in known]
    if not missing:
        return None
    return Finding("effects-unknown", {"case": "both" if len(missing) == 2 else missing[0]})


def _estimate(ballots: Ballots, models: Sequence[str], ratios: Floats) -> list[BattleEffect]:
    """Both effects together; where these cannot be told apart, each one alone that can be told from the models."""
    both = _fitted(ballots, models, ratios, (0, 1))
    if both is not None:
        return both
    alone = [_fitted(ballots, models, ratios, (which,)) for which in (0, 1)]
    return [effect for fitted in alone if fitted is not None for effect in fitted]


def _fitted(
    ballots: Ballots, models: Sequence[str], ratios: Floats, which: tuple[int, ...]
) -> list[BattleEffect] | None:
    """The effects that the votes decide; ``None`` if they cannot be told from each other or from the models."""
    names = tuple(EFFECT_NAMES[one] for one in which)
    ratings = fit_or_none(_METHOD, covariate_table(ballots, models, ratios[:, which], names, voters=True))
    if ratings is None:
        return None
    return [effect for trait in names if (effect := _effect(ratings, trait)) is not None]


def _effect(ratings: Ratings, trait: str) -> BattleEffect | None:
    """An effect in points for a doubling; ``None`` if too few prompts or voters decide it."""
    extras = ratings.extras
    dof, se = extras["style_dof"][trait], extras["style_se"][trait]
    if dof < MIN_DOF or not se > 0.0:
        return None
    unit = _METHOD.scale / math.log(10.0) / extras["style_scale"][trait]
    points, half = unit * extras["style"][trait], unit * se * float(critical_value(_METHOD.level, dof))
    return {
        "trait": trait,
        "points": round(points, 1),
        "low": round(points - half, 1),
        "high": round(points + half, 1),
    }


def _said(effect: BattleEffect) -> Finding:
    """An effect in words. What goes with winning is said of less where less wins."""
    points, low, high = effect["points"], effect["low"], effect["high"]
    values: dict[str, object] = {"case": "none", "below": -low, "above": high}
    if low > 0.0:
        values = {"case": "more", "points": points, "low": low, "high": high}
    elif high < 0.0:
        values = {"case": "less", "points": -points, "low": -high, "high": -low}
    return (
        Finding("length-effect", values) if effect["trait"] == "length" else Finding("waiting-effect", values)
    )
