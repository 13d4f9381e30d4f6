"""Is B better than A, by the scores that both carry: the mean difference over samples, its interval, and what answers cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy.special import stdtrit

from tiltyard.core.ratings.level_test import holm, p_of_exchange
from tiltyard.core.ratings.paired_difference import (
    MIN_CLUSTER_COUNT,
    ABDecision,
    PairedDifference,
    decide,
    paired_difference,
    prompts_needed,
)
from tiltyard.errors import BadOption
from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.files.answer_formats.answer_tables import ERROR_METRICS, SHARE_METRICS
from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.foundation.option_names import option_name
from tiltyard.judges.providers.provider import Usage
from tiltyard.report.ab_report import GUARD_FAILED, ABReport, CostRatio, interval_text
from tiltyard.settings.prices import PICODOLLARS_PER_USD, PriceBook, PriceEntry, open_prices

#: Scores of one model: metric → prompt → values of its repeats.
ScoreTable = Mapping[str, Mapping[str, list[float]]]

#: From this value on, scores beside some that lie between 0 and 1 look like percentages.
_LARGE_SCORE_POINTS = 10.0
#: What `cluster` is called where samples are taken for independent, whatever a test finds.
NO_CLUSTERS = "prompt"
#: Fields of an answer that samples can come in; further ones are those that a file has beside them.
_FIELDS = ("category", "source", "language")
#: Costs of fewer samples are not compared: a few long answers would decide.
MIN_SAMPLE_COUNT = 30


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """How one score is compared."""

    score: str
    #: Differences up to this count as the same, in units of the score.
    margin: float | None = None
    lower_is_better: bool = False
    at_not_worse: bool = False
    #: The least and the greatest value of scores that are not known to be shares.
    bounds: tuple[float, float] | None = None
    #: What samples come in.
    cluster: str | None = None
    #: Whether the score must not be worse by more than the margin, whatever others say.
    guard: bool = False
    #: The level of the interval; with several comparisons it is higher, so that all intervals hold at once.
    level: float = 0.95


def compare_scores(first: Sequence[Answer], second: Sequence[Answer], rule: ScoreRule) -> ABReport:
    """The mean difference of the second model's scores to the first's; repeats of a sample are averaged first."""
    score, notes = rule.score, list[str]()
    a, b = (score_table(side).get(score, {}) for side in (first, second))
    both = [prompt for prompt in a if prompt in b]
    left, right = (np.array([fmean(side[prompt]) for prompt in both]) for side in (a, b))
    values = [[value for repeats in side.values() for value in repeats] for side in (a, b)]
    reach = _reach(score, rule.bounds, [*values[0], *values[1]])
    found = clustered_difference(
        right - left, reach, (*first, *second), both, rule.cluster, notes, level=rule.level
    )
    if reach is not None and np.isfinite(found.low):
        found = replace(found, low=max(found.low, -reach), high=min(found.high, reach))
    ends = (-found.high, -found.low) if rule.lower_is_better else (found.low, found.high)
    decision = decide(*ends, rule.margin)
    sought = {ABDecision.UNDECIDED} if rule.at_not_worse else {ABDecision.UNDECIDED, ABDecision.NOT_WORSE}
    needed = prompts_needed(found, rule.margin, not_worse=rule.at_not_worse) if decision in sought else None
    return ABReport(
        name_a=first[0].model,
        name_b=second[0].model,
        decision=GUARD_FAILED if rule.guard and decision is ABDecision.WORSE else decision.value,
        basis="scores",
        unit=score,
        difference=found.mean,
        low=found.low,
        high=found.high,
        level=found.level,
        compared=found.prompts,
        margin=rule.margin,
        more=None if needed is None else max(needed - found.prompts, 1),
        details={
            "mean_a": float(left.mean()),
            "mean_b": float(right.mean()),
            "only_in_a": len(a) - len(both),
            "only_in_b": len(b) - len(both),
        },
        lower_is_better=rule.lower_is_better,
        reason=_nothing_varies(found, reach) if decision is ABDecision.UNDECIDED else None,
        notes=(*notes, *_repeat_note(a, b, both), *_scale_note(*values)),
        guard=rule.guard,
    )


def common_scores(first: Sequence[Answer], second: Sequence[Answer]) -> list[str]:
    """The scores that some sample has on both sides; `BadOption` if samples cannot be paired."""
    a, b = score_table(first), score_table(second)
    found = [name for name in a if name in b and not a[name].keys().isdisjoint(b[name])]
    if not found and not a.keys().isdisjoint(b):
        raise BadOption(
            "no sample has a score in both files: samples are paired by their id; are these logs of the same task?"
        )
    return found


def without_copies(
    names: Sequence[str], lower: Collection[str], first: Sequence[Answer], second: Sequence[Answer]
) -> dict[str, list[str]]:
    """These scores, each with the others that equal it in every sample, as of promptfoo's tests with one assertion."""
    a, b = score_table(first), score_table(second)
    found: dict[str, list[str]] = {}
    for name in names:
        same = (one for one in found if (one in lower, a[one], b[one]) == (name in lower, a[name], b[name]))
        found.setdefault(next(same, name), []).append(name)
    return {name: copies[1:] for name, copies in found.items()}


def score_table(answers: Sequence[Answer]) -> ScoreTable:
    """The scores of a file, by metric and sample."""
    found: dict[str, dict[str, list[float]]] = {}
    for answer in answers:
        for name, value in answer.scores.items():
            found.setdefault(name, {}).setdefault(answer.prompt_id, []).append(value)
    return found


def refuse_unknown_scores(known: Collection[str], named: Mapping[str, Iterable[str]]) -> None:
    """Refuse scores that some option names and the two sides do not both have."""
    for option, name in ((option, name) for option, names in named.items() for name in names):
        if name not in known:
            raise BadOption(f"{option_name(option, name)}: no such score in both: {', '.join(known)}")


def lower_is_better(score: str, metrics: Collection[str]) -> bool:
    """Whether a score is one of these metrics, with any filter or part, or an error by its name."""
    plain = _plain_name(score)
    return score in metrics or plain in metrics or plain.lower() in ERROR_METRICS


def clusters_of(answers: Iterable[Answer], prompts: Collection[str], field: str) -> dict[str, str]:
    """What each of the prompts comes in, by a field of its answers; `BadOption` if some lack it."""
    found: dict[str, str] = {}
    for answer in answers:
        value = _field(answer, field)
        if value is not None:
            found.setdefault(answer.prompt_id, value)
    lacking = [prompt for prompt in prompts if prompt not in found]
    if lacking:
        raise BadOption(
            f"{option_name('cluster', field)}: {len(lacking):,} of {len(prompts):,} prompts have no {field}, "
            f"such as {lacking[0]}"
        )
    return {prompt: found[prompt] for prompt in prompts}


def _plain_name(score: str) -> str:
    return score.partition(",")[0].partition("/")[0]


def _reach(score: str, bounds: tuple[float, float] | None, values: Collection[float]) -> float | None:
    """The largest difference that two scores can have: by the stated bounds, or by what the score is.

    The range of the values at hand says nothing: among many equal samples it is 0.
    """
    if _plain_name(score).lower() in SHARE_METRICS and all(0.0 <= value <= 1.0 for value in values):
        return 1.0
    if bounds is not None:
        outside = next((value for value in values if not bounds[0] <= value <= bounds[1]), None)
        if outside is not None:
            raise BadOption(
                f"{option_name('bounds', f'{bounds[0]:g},{bounds[1]:g}')}: a score of {score} is {outside:g}"
            )
        return bounds[1] - bounds[0]
    return 1.0 if set(values) <= {0.0, 1.0} else None


def _nothing_varies(found: PairedDifference, reach: float | None) -> str | None:
    """Why there is no interval, if it is for want of differences or of clusters."""
    if found.clusters < MIN_CLUSTER_COUNT and found.clusters < found.prompts:
        return (
            f"the samples come in only {found.clusters:.1f} even clusters, too few to tell how others would differ; "
            f"{MIN_CLUSTER_COUNT} are needed"
        )
    if reach is None and not np.isfinite(found.low):
        return f"all samples differ by the same; say which values the score can have, with {option_name('bounds')}"
    return None


def clustered_difference(
    values: Floats,
    reach: float | None,
    answers: Sequence[Answer],
    prompts: Sequence[str],
    cluster: str | None,
    notes: list[str],
    level: float = 0.95,
) -> PairedDifference:
    """The difference by the clusters that were chosen; else by those that a test finds, if they make it wider."""

    def by(field: str) -> PairedDifference:
        return paired_difference(values, reach, level=level, clusters=numbers[field])

    numbers: dict[str, Ints] = {}
    if cluster is not None and cluster != NO_CLUSTERS:
        numbers[cluster] = _numbered(clusters_of(answers, prompts, cluster))
        return by(cluster)
    alone = paired_difference(values, reach, level=level)
    if cluster == NO_CLUSTERS:
        return alone
    extra = dict.fromkeys(name for answer in answers for name in answer.extra)
    for field in (*_FIELDS, *extra):
        try:
            numbered = _numbered(clusters_of(answers, prompts, field))
        except BadOption:
            continue
        if 1 < numbered.max() + 1 < len(prompts):
            numbers[field] = numbered
    # Fields by which samples differ more than chance explains, by Holm's procedure; the coarsest first.
    found = {}
    for field, clusters in numbers.items():
        order = np.argsort(clusters, kind="stable")
        found[field] = p_of_exchange((values - values.mean())[order, np.newaxis], clusters[order])
    for field in sorted(holm(found), key=lambda field: int(numbers[field].max())):
        wider = by(field)
        if wider.high - wider.low > alone.high - alone.low:
            shown = interval_text(alone.low, alone.high, "")
            notes.append(
                f"samples of one {field} are alike, so the interval is for more of them ({shown.strip()} if they "
                f"were not); {option_name('cluster', field)} chooses it, {option_name('cluster', NO_CLUSTERS)} the other"
            )
            return wider
    return alone


def _numbered(clusters: Mapping[str, str]) -> Ints:
    return np.unique(list(clusters.values()), return_inverse=True)[1].astype(np.int64)


def _field(answer: Answer, name: str) -> str | None:
    value = getattr(answer, name) if name in _FIELDS else answer.extra.get(name)
    return str(value) if isinstance(value, str | int) and value != "" else None


def _repeat_note(
    a: Mapping[str, list[float]], b: Mapping[str, list[float]], both: Collection[str]
) -> Iterator[str]:
    repeated = sum(len(a[prompt]) > 1 or len(b[prompt]) > 1 for prompt in both)
    if repeated:
        yield f"{repeated:,} {'sample has' if repeated == 1 else 'samples have'} repeats; they were averaged"


def _scale_note(a: Collection[float], b: Collection[float]) -> Iterator[str]:
    """Between 0 and 1 on one side, and up to 100 on the other."""
    low, high = sorted((max(a), max(b)))
    if all(value >= 0.0 for value in (*a, *b)) and low <= 1.0 and _LARGE_SCORE_POINTS <= high <= 100.0:
        yield (
            f"the scores of A are between {min(a):g} and {max(a):g}, those of B between {min(b):g} and {max(b):g}: "
            "their scales seem to differ"
        )


def cost_ratios(
    first: Sequence[Answer],
    second: Sequence[Answer],
    cluster: str | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
) -> tuple[CostRatio, ...]:
    """What the second model's answers cost by the first's, where both are known.

    The interval is that of the logarithm of the ratio, by leaving out one sample at a time. It respects clusters as the
    interval of a score does. Dollars that a log does not state follow from
    its tokens, at stated prices or those of the built-in list; an unknown price is no cost.
    """
    book = open_prices(prices)
    sides = [_amounts(side, book) for side in (first, second)]
    return tuple(
        found
        for name in ("dollars", "output tokens", "seconds")
        if (found := _ratio(name, sides[0][name], sides[1][name], (*first, *second), cluster)) is not None
    )


def _ratio(
    name: str,
    first: Mapping[str, list[float]],
    second: Mapping[str, list[float]],
    answers: Sequence[Answer],
    cluster: str | None,
) -> CostRatio | None:
    both = [prompt for prompt in first if prompt in second]
    if len(both) < MIN_SAMPLE_COUNT:
        return None
    a, b = (np.array([np.mean(side[prompt]) for prompt in both]) for side in (first, second))
    mean_a, mean_b = float(a.mean()), float(b.mean())
    if not (np.count_nonzero(a) > 1 and np.count_nonzero(b) > 1):
        return None
    without = np.log((b.sum() - b) / (a.sum() - a))
    influence = (len(both) - 1.0) * (without.mean() - without)
    found = clustered_difference(influence, None, answers, both, cluster, [])
    # A few long answers can carry most of a mean: as many degrees of freedom as even answers with their weight.
    even = 1.0 / float(((a / a.sum() + b / b.sum()) ** 2).sum() / 4.0)
    half = (found.high - found.low) / 2.0 * _quantile(min(found.clusters, even)) / _quantile(found.clusters)
    low, high = (mean_b / mean_a * float(np.exp(end)) for end in (-half, half))
    return CostRatio(name, len(both), mean_a, mean_b, low, high)


def _quantile(count: float) -> float:
    return float(stdtrit(max(count - 1.0, 1.0), 0.975))


def _amounts(answers: Iterable[Answer], book: PriceBook) -> Mapping[str, Mapping[str, list[float]]]:
    """By name and sample: what its repeats cost, as far as it is known."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        usage = answer.usage or AnswerUsage()
        amounts = {
            "dollars": _dollars(answer.model, usage, book) if usage.cost_usd is None else usage.cost_usd,
            "output tokens": usage.output_tokens,
            "seconds": usage.latency_seconds,
        }
        for name, amount in amounts.items():
            if amount is not None:
                found[name][answer.prompt_id].append(float(amount))
    return found


def _dollars(model: str, usage: AnswerUsage, book: PriceBook) -> float | None:
    """The cost of an answer's tokens; input from a cache counts as other input."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    provider, _, name = model.rpartition("/")
    price = book.price(provider, model) or book.price(provider, name)
    if price is None:
        return None
    return price.cost(Usage(usage.input_tokens, usage.output_tokens), batch=False) / PICODOLLARS_PER_USD
