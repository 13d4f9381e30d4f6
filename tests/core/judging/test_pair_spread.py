"""Any first part of the pairs is spread evenly, and a larger sample contains the smaller ones."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.judging.matches import Match, MatchList, sample_pairs, spread_order
from tiltyard.errors import BadOption

SIZES = st.integers(1, 9), st.integers(2, 7)


def table(prompts: int, models: int) -> list[tuple[str, str, str]]:
    names = [f"m{k}" for k in range(models)]
    return [(f"p{k}", *pair) for k in range(prompts) for pair in itertools.combinations(names, 2)]


@given(*SIZES, st.integers(0, 99))
def test_no_prompt_or_pair_is_used_again_before_all_others(prompts, models, seed):
    cells = table(prompts, models)
    order = spread_order(cells, seed).tolist()
    assert sorted(order) == list(range(len(cells)))
    by_prompt, by_pair = Counter(cell[0] for cell in cells), Counter(cell[1:] for cell in cells)
    by_prompt, by_pair = Counter(dict.fromkeys(by_prompt, 0)), Counter(dict.fromkeys(by_pair, 0))
    for place in order:
        by_prompt[cells[place][0]] += 1
        by_pair[cells[place][1:]] += 1
        assert max(by_prompt.values()) - min(by_prompt.values()) <= 1
        assert max(by_pair.values()) - min(by_pair.values()) <= 1


@given(*SIZES, st.data())
def test_where_responses_are_missing_pairs_of_models_still_take_turns(prompts, models, data):
    cells = data.draw(st.lists(st.sampled_from(table(prompts, models)), unique=True))
    order = spread_order(cells).tolist()
    assert sorted(order) == list(range(len(cells)))
    left = Counter(cell[1:] for cell in cells)
    used = Counter(dict.fromkeys(left, 0))
    for place in order:
        pair = cells[place][1:]
        assert all(used[other] >= used[pair] for other in left if left[other])
        used[pair] += 1
        left[pair] -= 1


@given(*SIZES, st.randoms(use_true_random=False))
def test_only_names_and_the_seed_matter(prompts, models, random):
    cells = table(prompts, models)
    shuffled = random.sample(cells, len(cells))
    assert [cells[k] for k in spread_order(cells)] == [shuffled[k] for k in spread_order(shuffled)]


def test_another_seed_draws_others():
    cells = table(30, 5)
    assert [spread_order(cells, seed)[:10].tolist() for seed in (0, 0)] == [
        spread_order(cells)[:10].tolist()
    ] * 2
    assert spread_order(cells, 1)[:10].tolist() != spread_order(cells)[:10].tolist()


def listed(prompts: int, models: int) -> MatchList:
    return MatchList([Match(name, *cell) for name in "de" for cell in table(prompts, models)], 3, {"m0": 1})


@given(*SIZES, st.data())
def test_samples_are_nested_and_in_canonical_order(prompts, models, data):
    whole = listed(prompts, models)
    few, many = sorted(data.draw(st.tuples(st.integers(0, 40), st.integers(0, 40))))
    small, large = sample_pairs(whole, few, 7), sample_pairs(whole, many, 7)
    assert set(small.matches) <= set(large.matches)
    assert len(small.matches) == 2 * min(few, len(whole.matches) // 2)
    assert small.matches == [one for one in whole.matches if one in set(small.matches)]
    assert (small.dropped, small.missing) == (3, {"m0": 1})
    assert sample_pairs(whole, None, 7) is whole


def test_a_sample_below_nothing_is_refused():
    with pytest.raises(BadOption, match="-1"):
        sample_pairs(listed(1, 2), -1, 0)
