"""Win rates: of each pair of models, and of each model against a baseline, as arena-hard and alpaca_eval publish them.

The win rate against a baseline is a model's mean score in battles with it, each with its weight. On the logit scale that
is the Bradley–Terry difference of the two models, so its variance and degrees of freedom are those of ratings: each
prompt (and voter) is left out in turn. A weight is not a number of battles: scores are summed by prompt before they
are squared, so a prompt that weighs three times as much is still one prompt.

The length-controlled win rate follows alpaca_eval (Dubois et al., 2024): logit p = θ + φ·tanh(Δ/sd), Δ the length of
the model's answer minus that of the baseline's, sd its standard deviation, and the rate is p at Δ = 0. Their term for
the difficulty of each instruction is left out: it is fitted on the annotations of many models, which a file rarely has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.battle import JUDGMENT_WEIGHT
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings import BradleyTerry, RatingMethod
from tiltyard.core.ratings.findings import MIN_DOF, Finding
from tiltyard.core.ratings.group_fit import fit_groups, fit_with_style
from tiltyard.core.ratings.leave_one_out import prompt_key
from tiltyard.core.ratings.pairs import Scoring, score_pairs, sum_by_index
from tiltyard.core.ratings.proportions import wilson_interval
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.variance import (
    ZERO_VARIANCE_TOLERANCE,
    Clustering,
    choose_clusters,
    clustered_variance,
    critical_value,
)
from tiltyard.core.ratings.weight_limits import limit_shares
from tiltyard.foundation.arrays import Floats, Ints

_COLUMN = {
    Kind.WIN_A: 0,
    Kind.LEAN_A: 0,
    Kind.WIN_B: 1,
    Kind.LEAN_B: 1,
    Kind.TIE: 2,
    Kind.INCONSISTENT: 3,
    Kind.BOTH_BAD: 4,
}
#: How battles are scored and weighed: as the board does, or as the program does that wrote the file.
BaselineRule = Literal["battles", "arena-hard", "alpaca-eval"]
#: The columns of a table from which length is controlled.
LENGTHS = ("length_a", "length_b")
#: Scores are stated from the model's side.
_STATED = Scoring(soft=True)
_PAIR = ("baseline", "model")
#: Below this share of battles, answers of one order of lengths are too rare to say much about equal length.
_RARE_SHARE = 0.1
_EXTRAPOLATED = (
    "nearly all answers are shorter, or nearly all longer, than the baseline's, so the length-controlled rate "
    "guesses what the battles hardly show"
)
_WITHHELD = "too few prompts or voters, or one of them outweighs the others: no interval"


class PairScore(TypedDict):
    """Two models of an arena, in the document from which heatmaps are drawn. ``score`` is the first one's."""

    model_a: str
    model_b: str
    battles: int
    both_bad: int
    score: float | None


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two models in alphabetical order and how their battles ended, inconsistent results apart."""

    model_a: str
    model_b: str
    a_wins: int
    b_wins: int
    ties: int
    inconsistent: int
    #: Both responses were called bad: as the outcome (a tie too, if the method counts it as one), or by a judge's flag.
    both_bad: int

    @property
    def battles(self) -> int:
        """Battles that rate skill."""
        return self.a_wins + self.b_wins + self.ties + self.inconsistent

    @property
    def a_score(self) -> float | None:
        """A's share of the points, a tie or an inconsistent result counting half."""
        if not self.battles:
            return None
        return (self.a_wins + 0.5 * (self.ties + self.inconsistent)) / self.battles


def scoring_of(method: RatingMethod) -> Scoring:
    """How battles are scored and counted beside the ratings of a method."""
    if isinstance(method, BradleyTerry):
        return method.scoring()
    return Scoring(soft=getattr(method, "soft", False))


def pair_rows(table: Table, method: RatingMethod) -> list[PairRow]:
    """Every pair that met, in alphabetical order, counted as the method counts."""
    counts, m, kinds = table.counts, len(table.models), scoring_of(method).counted_kinds()
    met = counts.a != counts.b
    a, b, n = counts.a[met], counts.b[met], counts.n[met]
    kind = counts.kind[met]
    column = np.array([_COLUMN[kind.plain] for kind in kinds])[kind]
    flagged = np.array([kind.flagged for kind in kinds])[kind]
    swap = a > b
    column = np.where(swap & (column < 2), 1 - column, column)
    keys = np.where(swap, b * m + a, a * m + b)
    pairs, place = np.unique(keys, return_inverse=True)
    cells = np.zeros((len(pairs), 5), dtype=np.int64)
    np.add.at(cells, (place, column), n)
    np.add.at(cells, (place[flagged], _COLUMN[Kind.BOTH_BAD]), n[flagged])
    return [
        PairRow(table.models[key // m], table.models[key % m], *row)
        for key, row in zip(pairs.tolist(), cells.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class BaselineChoice:
    """The model that the others are compared with, and the rule by which battles count."""

    #: ``None``: the model that the file compares all others with, if there is one.
    model: str | None = None
    rule: BaselineRule = "battles"


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """One model against the baseline. What the battles do not support is ``None``; ``notes`` say why."""

    model: str
    win_rate: float | None = None
    win_rate_low: float | None = None
    win_rate_high: float | None = None
    #: At equal length of both answers.
    length_controlled: float | None = None
    length_controlled_low: float | None = None
    length_controlled_high: float | None = None
    battles: int = 0
    #: Distinct prompts; ``None`` if the battles name none.
    prompts: int | None = None
    notes: tuple[str, ...] = ()


#: The fields of a row, in order.
BASELINE_COLUMNS = tuple(field.name for field in fields(BaselineRow))


@dataclass(frozen=True, slots=True)
class BaselineWinRates:
    """Every other model against the baseline, highest win rate first."""

    baseline: str
    rule: BaselineRule
    #: The confidence level of the intervals, and what they speak of; ``None`` without intervals.
    level: float | None
    scope: str | None
    #: Whether the battles have lengths.
    has_lengths: bool
    rows: tuple[BaselineRow, ...]

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain lists by column, highest win rate first."""
        return {name: [getattr(row, name) for row in self.rows] for name in BASELINE_COLUMNS}


def find_baseline(table: Table, choice: BaselineChoice) -> str | None:
    """The baseline's name: the one that was chosen, or the model that every battle has on its format's side."""
    if choice.model is not None:
        return choice.model
    shared = _baselines(table, choice)
    return shared[0] if len(shared) == 1 else None


def baseline_findings(table: Table, choice: BaselineChoice) -> tuple[Finding, ...]:
    """Why there is no baseline, where there should be one: arena-hard has another one for each category."""
    several = [] if choice.model is not None or choice.rule != "arena-hard" else _baselines(table, choice)
    if len(several) < 2:
        return ()
    return (Finding("several-baselines", {"count": len(several), **first_of("models", several)}),)


def _baselines(table: Table, choice: BaselineChoice) -> list[str]:
    side = table.counts.b if choice.rule == "arena-hard" else table.counts.a
    return [table.models[number] for number in np.unique(side).tolist()]


def baseline_win_rates(
    table: Table, baseline: str, rule: BaselineRule, method: RatingMethod
) -> BaselineWinRates:
    """Win rates of all models of a table whose covariates may be `JUDGMENT_WEIGHT` and `LENGTHS`.

    Level, clusters and, for the rule ``battles``, scores and limits of weights are those of ``method``; a coarser
    level than prompts is not.
    """
    others = [name for name in table.models if name != baseline]
    number = table.models.index(baseline) if baseline in table.models else -1
    scoring = scoring_of(method) if rule == "battles" else _STATED
    parts = [_one_side(run, table, number, scoring, rule) for run in table.scan()]
    columns = zip(*([getattr(part, field.name) for field in fields(_Played)] for part in parts), strict=True)
    played = _Played(*(np.concatenate(column) for column in columns))
    level = None if getattr(method, "interval", "sandwich") == "none" else getattr(method, "level", 0.95)
    # What is resampled, by all battles with the baseline: the same for every model.
    chosen = getattr(method, "clusters", "auto")
    choice = chosen if chosen in ("prompt", "battle") else "auto"
    clustering = choose_clusters(played.table(), _STATED, choice, [])
    most = getattr(method, "max_share", None) if rule == "battles" else None
    rows = [
        _row(name, baseline, played.take(played.model == table.models.index(name)), clustering, level, most)
        for name in others
    ]
    rows.sort(key=lambda row: (row.win_rate is None, -(row.win_rate or 0.0), row.model))
    scope = None if level is None else clustering.scope
    lengths = set(LENGTHS) <= set(table.covariates)
    return BaselineWinRates(baseline, rule, level, scope, lengths, tuple(rows))


@dataclass(frozen=True, slots=True, eq=False)
class _Played:
    """Battles with the baseline that count, each from the other model's side."""

    model: Ints
    score: Floats
    weight: Floats
    prompt: Keys
    voter: Keys
    #: How much longer the model's answer is; NaN if that is unknown.
    longer: Floats

    def __len__(self) -> int:
        return len(self.score)

    def take(self, chosen: npt.NDArray[Any]) -> _Played:
        return _Played(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def with_coin_flip(self, weight: float) -> _Played:
        """One imaginary prompt and voter more, on which the models are even and answers equally long."""
        # The smallest key that does not occur.
        keys = np.concatenate([self.prompt, self.voter])
        known = set(keys.tolist())
        key = next(key for key in range(1, len(known) + 2) if key not in known)
        added = (0, 0.5, weight, key, key, 0.0)
        return _Played(
            *(np.append(getattr(self, field.name), value).astype(getattr(self, field.name).dtype)
              for field, value in zip(fields(self), added, strict=True))
        )  # fmt: skip

    def table(self, covariate: Floats | None = None) -> Table:
        """The battles as those of two models, the model on side A."""
        n = len(self)
        codes = CodedBattles(
            np.ones(n, dtype=np.uint16), np.zeros(n, dtype=np.uint16), np.full(n, Kind.TIE, dtype=np.uint8),
            self.prompt, self.voter, self.weight, self.score, None if covariate is None else covariate[:, None],
        )  # fmt: skip
        return Table.from_codes(_PAIR, codes, covariates=() if covariate is None else ("length",))

    def cluster_weights(self, clustering: Clustering) -> list[Floats]:
        """What each cluster weighs, for each way of clustering; by battle if there is none."""
        ways = ["prompt" if key is prompt_key else "voter" for key in clustering.keys]
        named = [(getattr(self, way), getattr(self, way) != MISSING_KEY) for way in ways]
        by_key = [np.unique(keys[has], return_inverse=True)[1] for keys, has in named]
        sums = [
            sum_by_index(place, self.weight[has], int(place.max(initial=-1)) + 1)
            for place, (_, has) in zip(by_key, named, strict=True)
        ]
        return sums or [self.weight]


def _one_side(
    run: CodedBattles, table: Table, baseline: int, scoring: Scoring, rule: BaselineRule
) -> _Played:
    n, a, b = len(run), run.a.astype(np.int64), run.b.astype(np.int64)
    extra = dict(zip(table.covariates, () if run.covariates is None else run.covariates.T, strict=True))
    weight = np.ones(n) if run.weight is None else run.weight
    if rule == "arena-hard":
        weight = weight * extra.get(JUDGMENT_WEIGHT, np.ones(n))
    score, none = scoring.of(run), np.full(n, MISSING_KEY)
    longer = extra[LENGTHS[0]] - extra[LENGTHS[1]] if set(LENGTHS) <= set(extra) else np.full(n, np.nan)
    on_a = b == baseline
    played = _Played(
        np.where(on_a, a, b),
        np.where(on_a, score, 1.0 - score),
        weight,
        none if run.prompt is None else run.prompt,
        none if run.voter is None else run.voter,
        np.where(on_a, longer, -longer),
    )
    return played.take((on_a | (a == baseline)) & ~np.isnan(score) & (weight > 0.0))


def _row(
    name: str,
    baseline: str,
    played: _Played,
    clustering: Clustering,
    level: float | None,
    most: float | None,
) -> BaselineRow:
    if not len(played):
        return BaselineRow(name, notes=(f"no battle with {baseline} that counts",))
    weights = limit_shares(played.table(), _STATED, most).table.log().weight
    assert weights is not None
    played = replace(played, weight=weights)
    rate = _mean_rate(played, clustering, level)
    controlled = _length_controlled(played, clustering, level)
    prompts = np.unique(played.prompt[played.prompt != MISSING_KEY])
    return BaselineRow(
        name,
        *rate.ends,
        *controlled.ends,
        len(played),
        len(prompts) or None,
        tuple(dict.fromkeys((*rate.notes, *controlled.notes))),
    )


class _Rate(NamedTuple):
    """A win rate with its interval, and what to know of it."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[float | None, float | None, float | None]:
        return self.value, self.low, self.high


def _mean_rate(played: _Played, clustering: Clustering, level: float | None) -> _Rate:
    value = float(played.weight @ played.score) / float(played.weight.sum())
    if level is None:
        return _Rate(value)
    if (played.score == played.score[0]).all():
        return _without_spread(value, played, clustering, level)
    return _with_interval(value, played, None, clustering, level)


def _length_controlled(played: _Played, clustering: Clustering, level: float | None) -> _Rate:
    known = played.take(np.isfinite(played.longer))
    if not len(known):
        return _Rate()
    missing = len(known) < len(played)
    notes = (f"length known in {len(known)} of {len(played)} battles",) if missing else ()
    if not known.longer.any():
        return _mean_rate(known, clustering, level)._replace(notes=notes)
    if min((known.longer < 0).mean(), (known.longer > 0).mean()) < _RARE_SHARE:
        notes = (*notes, _EXTRAPOLATED)
    spread = float(known.longer.std(ddof=1)) if len(known) > 1 else 0.0
    covariate = np.tanh(known.longer / spread) if spread > 0.0 else None
    reason = _why_not(covariate, known.score)
    if covariate is None or reason:
        return _Rate(notes=(reason,))
    value = float(expit(_fit(known, covariate, clustering).theta))
    if level is None:
        return _Rate(value, notes=notes)
    found = _with_interval(value, known, covariate, clustering, level)
    return found._replace(notes=(*found.notes, *notes))


def _why_not(covariate: Floats | None, score: Floats) -> str:
    """Why no finite logistic curve fits best; empty if one does."""
    if covariate is None:
        return "all answers differ in length by the same amount: length cannot be controlled"
    won, lost = covariate[score > 0.0], covariate[score < 1.0]
    if not len(won) or not len(lost):
        return "one side won every battle: no length-controlled win rate fits"
    if won.max() <= lost.min() or lost.max() <= won.min():
        return "length separates wins from losses: no length-controlled win rate fits"
    return ""


class _Fit(NamedTuple):
    """The logit of a win rate, its variance and the degrees of freedom of that."""

    theta: float
    variance: float
    dof: float


def _fit(played: _Played, covariate: Floats | None, clustering: Clustering) -> _Fit:
    table, together = played.table(covariate), np.zeros(2, dtype=np.int64)
    if covariate is None:
        fitted = fit_groups(score_pairs(table.counts, 2, _STATED), together)
    else:
        fitted = fit_with_style(table, _STATED, together, prior_precision=0.0, kernel="plain", bread=True)
    found = clustered_variance(table, _STATED, fitted, clustering, 1.0, []).uncertainty
    theta = float(fitted.theta[1] - fitted.theta[0])
    return _Fit(theta, float(found.differences()[1, 0]), float(found.difference_dof()[1, 0]))


def _with_interval(
    value: float, played: _Played, covariate: Floats | None, clustering: Clustering, level: float
) -> _Rate:
    """Student's t on the logit scale, and the same with one imaginary prompt that is a coin flip: the wider of both ends.

    Without it an interval near 0 or 1 is too short where few prompts hold all wins. It weighs as much as the prompt of
    a typical battle, Σw²/Σw.
    """
    plain = _fit(played, covariate, clustering)
    if plain.dof < MIN_DOF:
        return _Rate(value, notes=(_WITHHELD,))
    if plain.variance <= ZERO_VARIANCE_TOLERANCE:
        return _without_spread(value, played, clustering, level)
    weights = played.cluster_weights(clustering)[0]
    more = played.with_coin_flip(float(weights @ weights / weights.sum()))
    flipped = _fit(more, None if covariate is None else np.append(covariate, 0.0), clustering)
    t = float(critical_value(level, plain.dof))
    low = min(fit.theta - t * fit.variance**0.5 for fit in (plain, flipped))
    high = max(fit.theta + t * fit.variance**0.5 for fit in (plain, flipped))
    return _Rate(value, min(float(expit(low)), value), max(float(expit(high)), value))


def _without_spread(value: float, played: _Played, clustering: Clustering, level: float) -> _Rate:
    """Wilson's interval where all prompts agree, so that nothing shows how they differ: each counts as one trial."""
    even = min(
        float(weights.sum() ** 2 / (weights @ weights)) for weights in played.cluster_weights(clustering)
    )
    if even - 1.0 < MIN_DOF:
        return _Rate(value, notes=(_WITHHELD,))
    return _Rate(value, *wilson_interval(value, even, even - 1.0, level))
