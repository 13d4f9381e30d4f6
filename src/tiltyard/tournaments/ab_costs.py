"""What answers of two models cost, in dollars, tokens and seconds: means over the same samples, and their ratio."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.special import stdtrit

from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.judges.providers.provider import Usage
from tiltyard.report.ab_report import CostRatio
from tiltyard.settings.prices import PICODOLLARS_PER_USD, PriceBook, PriceEntry, open_prices
from tiltyard.tournaments.ab_scores import clustered_difference

#: Costs of fewer samples are not compared: a few long answers would decide.
MIN_SAMPLE_COUNT = 30


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
