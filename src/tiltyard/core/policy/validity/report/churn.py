"""Churn: who changed places at the top between evaluations, and whether anybody had claimed otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.validity.evaluation import Evaluation
from tiltyard.core.policy.validity.report.report_records import Churn, ChurnStep, SwappedPair

__all__ = ["churn"]

Ints = npt.NDArray[np.int64]


def churn(evaluations: Sequence[Evaluation], models: Sequence[str], top: int) -> Churn:
    """Every step from one of these evaluations to the next, and the pairs that changed order."""
    steps: list[ChurnStep] = []
    times: Counter[tuple[int, int]] = Counter()
    beyond: Counter[tuple[int, int]] = Counter()
    far: Counter[tuple[int, int]] = Counter()
    for old, new in pairwise(evaluations):
        swapped = list(_swaps(old, new, top))
        torn = [pair for pair in swapped if _apart(old, new, *pair) > 1.0]
        times.update(swapped)
        beyond.update(torn)
        far.update(pair for pair in torn if _apart(old, new, *pair) > 2.0)
        places = _places_changed(old.order[:top], new.order[:top])
        first = old.order[:1].tolist() != new.order[:1].tolist()
        steps.append(ChurnStep(new.votes, new.time, places, first, len(swapped), len(torn)))
    pairs = sorted(times, key=lambda pair: (-far[pair], -beyond[pair], -times[pair], pair))
    return Churn(
        top,
        tuple(steps),
        tuple(SwappedPair(models[i], models[j], times[i, j], beyond[i, j], far[i, j]) for i, j in pairs),
    )


def _places_changed(old: Ints, new: Ints) -> int:
    """Places held by another model, or by one where there was none (and the other way round)."""
    shared = min(len(old), len(new))
    return int(np.count_nonzero(old[:shared] != new[:shared])) + max(len(old), len(new)) - shared


def _swaps(old: Evaluation, new: Evaluation, top: int) -> Iterator[tuple[int, int]]:
    """Pairs among the models of either top, enabled both times, that changed order."""
    before = {model: place for place, model in enumerate(old.order.tolist())}
    after = {model: place for place, model in enumerate(new.order.tolist())}
    either = {*old.order[:top].tolist(), *new.order[:top].tolist()} & before.keys() & after.keys()
    for i, j in combinations(sorted(either), 2):
        if (before[i] < before[j]) != (after[i] < after[j]):
            yield i, j


def _apart(old: Evaluation, new: Evaluation, i: int, j: int) -> float:
    """The gap of the two ratings over the sum of their RD, before or after, whichever is wider.

    The bands rating ± RD overlap up to 1, the bands rating ± 2·RD up to 2.
    """
    return max(
        float(abs(known.rating[i] - known.rating[j]) / (known.rd[i] + known.rd[j])) for known in (old, new)
    )
