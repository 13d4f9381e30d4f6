"""The division of a panel's items: even, complete, and the same for the same seed."""

from collections import Counter
from itertools import combinations

import pytest

from tiltyard.core.judging.panel_assignment import (
    PANEL_ITEM_LIMIT,
    PANEL_RATER_LIMIT,
    PanelItem,
    assign_items,
    list_panel_items,
)
from tiltyard.errors import BadOption


def full(prompts, models):
    return {prompt: set(range(models)) for prompt in range(prompts)}


SIZES = [(8, 4, 6, 2), (8, 4, 6, 3), (8, 4, 6, 6), (5, 3, 4, 1), (60, 4, 12, 2), (7, 3, 5, 4), (1, 2, 3, 2)]


@pytest.mark.parametrize(("prompts", "models", "raters", "overlap"), SIZES)
def test_work_is_even_and_every_item_has_its_raters(prompts, models, raters, overlap):
    seed = 2**62 + prompts
    items = list_panel_items(full(prompts, models), None, seed)
    tasks = assign_items(items, raters, overlap, seed)
    found = {}
    for task in tasks:
        found.setdefault(task.item, []).append(task.rater)
    by_item = found
    assert sorted(by_item) == list(range(len(items)))
    assert all(len(set(found)) == overlap == len(found) for found in by_item.values())
    loads = Counter(task.rater for task in tasks)
    counts = [loads[rater] for rater in range(raters)]
    assert max(counts) - min(counts) <= 1
    pairs = Counter(pair for found in by_item.values() for pair in combinations(sorted(found), 2))
    shared = [pairs[pair] for pair in combinations(range(raters), 2)]
    if overlap > 1:
        assert max(shared) - min(shared) <= 3
    for rater in range(raters):
        places = sorted(task.place for task in tasks if task.rater == rater)
        assert places == list(range(len(places)))


def test_the_seed_decides_everything_for_ever():
    items = list_panel_items(full(8, 4), 3, 5)
    assert items == list_panel_items(full(8, 4), 3, 5)
    assert assign_items(items, 6, 2, 5) == assign_items(items, 6, 2, 5)
    assert assign_items(items, 6, 2, 5) != assign_items(items, 6, 2, 6)
    assert items != list_panel_items(full(8, 4), 3, 6)
    # Whoever repeats an assignment from a log, with any version, must get the same one.
    tasks = assign_items(list_panel_items(full(2, 3), None, 1), 3, 2, 1)
    shown = [f"{task.item}{task.rater}{task.place}{'x' if task.exchanged else '-'}" for task in tasks]
    assert " ".join(shown) == ("300- 401x 520x 221x 502- 410- 022x 103x 323x 211x 112- 013x")
    tasks = assign_items(list_panel_items(full(60, 4), None, 3), 12, 2, 3)
    share = sum(task.exchanged for task in tasks) / len(tasks)
    assert 0.42 < share < 0.58


def test_a_number_of_pairs_per_prompt_is_spread_over_pairs_of_models():
    items = list_panel_items(full(12, 4), 2, 9)
    assert Counter(item.prompt for item in items) == dict.fromkeys(range(12), 2)
    pairs = Counter((item.one, item.other) for item in items)
    assert len(pairs) == 6
    assert max(pairs.values()) - min(pairs.values()) <= 2
    assert list_panel_items(full(3, 3), 99, 1) == list_panel_items(full(3, 3), None, 1)


def test_a_prompt_that_few_models_answered_has_fewer_items():
    assert list_panel_items({4: {2, 0}, 5: {1}, 6: set()}, None, 0) == [PanelItem(4, 0, 2)]


@pytest.mark.parametrize(
    ("items", "raters", "overlap", "said"),
    [
        (3, 0, 1, "raters"),
        (3, PANEL_RATER_LIMIT + 1, 1, "raters"),
        (3, 2, 3, "overlap"),
        (3, 2, 0, "overlap"),
        (0, 2, 1, "items"),
        (PANEL_ITEM_LIMIT + 1, 2, 1, "items"),
    ],
)
def test_what_cannot_be_divided_is_refused(items, raters, overlap, said):
    with pytest.raises(BadOption, match=said):
        assign_items([PanelItem(0, 0, 1)] * items, raters, overlap, 0)


def test_no_pairs_per_prompt_are_refused():
    with pytest.raises(BadOption, match="pairs per prompt"):
        list_panel_items(full(2, 2), 0, 0)
