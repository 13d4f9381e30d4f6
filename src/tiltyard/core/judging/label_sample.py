"""Which matches people label, so that few labels tell how far a judge can be trusted.

Matches are cut into strata by how sure the judge was, since doubt tells where people disagree. In each stratum they are
drawn at random: every match has a known chance, and what people say of the drawn ones holds for all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.core.battles.outcome import JUDGE_LABELS, Label
from tiltyard.core.judging.matches import stable_id
from tiltyard.errors import BadOption

#: A stratum with fewer labels would say nothing of its own; it joins its neighbour.
MIN_STRATUM_LABEL_COUNT = 10
_FEWEST_LABEL_COUNT, _MOST_LABEL_COUNT = 20, 2_000
#: The disagreement expected where the judge saw a clear winner in both orders, and elsewhere. A guess for dividing
#: labels only: if it is wrong, a few more labels are needed, and no figure changes.
_GUESSED_SHARES = {Label.WIN: 0.1}
_ELSEWHERE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class LabelStratum:
    """Matches on which the judge was equally sure, and how many of them people label."""

    labels: tuple[Label, ...]
    matches: int
    chosen: int


@dataclass(frozen=True, slots=True)
class LabelSample:
    """The drawn matches, as places in the list that they were drawn from, in the order in which they are shown."""

    strata: tuple[LabelStratum, ...]
    places: tuple[int, ...]
    #: The stratum of each.
    stratum: tuple[int, ...]


def draw_labelled(ids: Sequence[str], labels: Sequence[Label], count: int, seed: int) -> LabelSample:
    """Draw ``count`` of the matches with these ids and labels; all of them, if there are no more."""
    low, high = _FEWEST_LABEL_COUNT, _MOST_LABEL_COUNT
    if not low <= count <= high:
        raise BadOption(f"labels is {count}; expected {low} to {high:,}")
    if len(ids) < low:
        raise BadOption(
            f"the run has {len(ids)} judged matches; with fewer than {low} people can label every one themselves"
        )
    strata = _cut(Counter(labels), min(count, len(ids)))
    number = {label: place for place, stratum in enumerate(strata) for label in stratum.labels}
    members: list[list[int]] = [[] for _ in strata]
    for place, label in enumerate(labels):
        members[number[label]].append(place)
    keys = [stable_id(["label", seed, one]) for one in ids]
    drawn = [
        (keys[place], place, own)
        for own, (stratum, places) in enumerate(zip(strata, members, strict=True))
        for place in sorted(places, key=keys.__getitem__)[: stratum.chosen]
    ]
    drawn.sort(key=lambda one: stable_id(["shown", one[0]]))
    return LabelSample(tuple(strata), tuple(one[1] for one in drawn), tuple(one[2] for one in drawn))


def _cut(counts: Counter[Label], count: int) -> list[LabelStratum]:
    """One stratum for each label, but that small ones join their neighbours."""
    groups: list[tuple[Label, ...]] = [(label,) for label in JUDGE_LABELS if counts[label]]
    while True:
        chosen = _allocate([[(label, counts[label]) for label in group] for group in groups], count)
        least = min(range(len(groups)), key=chosen.__getitem__)
        if len(groups) == 1 or chosen[least] >= MIN_STRATUM_LABEL_COUNT:
            sizes = [sum(counts[label] for label in group) for group in groups]
            return [LabelStratum(*one) for one in zip(groups, sizes, chosen, strict=True)]
        # Towards doubt: where the judge was sure, a stratum stays pure as long as it can.
        other = least + 1 if least + 1 < len(groups) else least - 1
        first = min(least, other)
        groups[first : first + 2] = [groups[first] + groups[first + 1]]


def _allocate(groups: Sequence[Sequence[tuple[Label, int]]], count: int) -> list[int]:
    """Labels for each stratum: by its size and the spread that is expected in it (Neyman 1934; in whole numbers, Wright 2012)."""
    sizes = [sum(size for _, size in group) for group in groups]
    weights = [size * _spread(group) for size, group in zip(sizes, groups, strict=True)]
    chosen = [1] * len(groups)
    for _ in range(count - len(groups)):
        gains = {
            weights[place] / math.sqrt(n * (n + 1)): place
            for place, n in reversed([*enumerate(chosen)])
            if n < sizes[place]
        }
        chosen[gains[max(gains)]] += 1
    return chosen


def _spread(group: Sequence[tuple[Label, int]]) -> float:
    total = sum(size for _, size in group)
    share = sum(_GUESSED_SHARES.get(label, _ELSEWHERE_SHARE) * size for label, size in group) / total
    return math.sqrt(share * (1.0 - share))
