"""Divides the items of an expert panel among its raters: evenly, and by a seed, so that anybody can repeat it.

An item is one prompt with the responses of two models. Every item goes to as many raters as the overlap says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tiltyard.core.judging.matches import spread_order, stable_id
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Ints

PANEL_RATER_LIMIT = 100
#: Items of one panel; each rater's list is held in memory while the panel is open.
PANEL_ITEM_LIMIT = 10_000


@dataclass(frozen=True, slots=True, order=True)
class PanelItem:
    """A prompt and two models, the one with the lower number first."""

    prompt: int
    one: int
    other: int


@dataclass(frozen=True, slots=True)
class PanelTask:
    """An item that a rater is asked about: its number, its place in the rater's list, and whether sides are exchanged."""

    item: int
    rater: int
    place: int
    exchanged: bool


def list_panel_items(
    models_by_prompt: Mapping[int, AbstractSet[int]], pairs_per_prompt: int | None, seed: int
) -> list[PanelItem]:
    """The items of a panel: all pairs of the models that answered each prompt, or a number of pairs per prompt.

    If only some pairs are chosen, they are spread evenly over pairs of models.
    """
    if pairs_per_prompt is not None and pairs_per_prompt < 1:
        raise BadOption(f"pairs per prompt is {pairs_per_prompt}; expected 1 or more")
    items = [
        PanelItem(prompt, one, other)
        for prompt in sorted(models_by_prompt)
        for one, other in combinations(sorted(models_by_prompt[prompt]), 2)
    ]
    if pairs_per_prompt is None:
        return items
    left = dict.fromkeys(models_by_prompt, pairs_per_prompt)
    names = [(f"{item.prompt}", f"{item.one}", f"{item.other}") for item in items]
    chosen = []
    for place in spread_order(names, seed).tolist():
        item = items[place]
        if left[item.prompt]:
            left[item.prompt] -= 1
            chosen.append(item)
    return sorted(chosen)


def assign_items(items: Sequence[PanelItem], raters: int, overlap: int, seed: int) -> list[PanelTask]:
    """Give every item to ``overlap`` raters.

    Raters have equally many items, give or take one, and pairs of raters share nearly equally many. Each rater has an
    order of its own, and the sides of each task are exchanged by a coin. Everything follows from the seed.
    """
    _check(len(items), raters, overlap)
    load = np.zeros(raters, dtype=np.int64)
    together = np.zeros((raters, raters), dtype=np.int64)
    tasks: list[tuple[str, int, int]] = []
    for item in sorted(range(len(items)), key=lambda item: stable_id(["panel item", seed, item])):
        chosen = _choose(load, together, overlap, [seed, item])
        load[chosen] += 1
        together[np.ix_(chosen, chosen)] += 1
        tasks += [(stable_id(["panel task", seed, item, rater]), item, rater) for rater in chosen]
    places = [0] * raters
    assigned = []
    for key, item, rater in sorted(tasks):
        swapped = int(stable_id([key, "side"])[:8], 16) % 2 == 1
        assigned.append(PanelTask(item, rater, places[rater], swapped))
        places[rater] += 1
    return assigned


def _choose(load: Ints, together: Ints, overlap: int, key: list[int]) -> list[int]:
    """The raters of one item: those with the least work, and of these the ones that have shared the fewest items.

    Taking the least loaded first keeps loads within one of each other.
    """
    tie_break = np.argsort(
        np.argsort([stable_id(["panel rater", *key, rater]) for rater in range(len(load))])
    )
    chosen: list[int] = []
    for _ in range(overlap):
        free = [rater for rater in range(len(load)) if rater not in chosen]
        least = load[free].min()
        near = [rater for rater in free if load[rater] == least]
        shared = together[near][:, chosen].sum(axis=1) if chosen else _fewest_shared(together, near)
        chosen.append(near[int(np.lexsort((tie_break[near], shared))[0])])
    return chosen


def _fewest_shared(together: Ints, near: list[int]) -> Ints:
    """For each rater that may come first: the fewest items that it has shared with another one of them."""
    shared = together[np.ix_(near, near)] + np.diag(np.full(len(near), np.iinfo(np.int32).max))
    return np.asarray(shared.min(axis=1), dtype=np.int64)


def _check(items: int, raters: int, overlap: int) -> None:
    if not 1 <= raters <= PANEL_RATER_LIMIT:
        raise BadOption(f"the panel has {raters} raters; expected 1 to {PANEL_RATER_LIMIT}")
    if not 1 <= overlap <= raters:
        raise BadOption(f"overlap is {overlap}; expected 1 to {raters}, the number of raters")
    if not 1 <= items <= PANEL_ITEM_LIMIT:
        raise BadOption(
            f"the panel has {items:,} items; expected 1 to {PANEL_ITEM_LIMIT:,}: choose other prompts or pairs per prompt"
        )
