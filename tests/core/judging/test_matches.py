"""Who meets whom, and which prompts a pilot takes."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.judging.matches import Match, PairRules, Prompt, all_pairs, pilot_subset, sample_pairs
from tiltyard.errors import BadOption

NAMES = st.lists(st.text(min_size=1, max_size=4), min_size=2, max_size=5, unique=True)


def bank(counts: dict[str, int]) -> list[Prompt]:
    """Prompts of several sources, interleaved."""
    rows = [(number, source) for source, count in counts.items() for number in range(count)]
    return [Prompt(f"{source}-{number}", "?", source) for number, source in sorted(rows)]


@given(NAMES, st.integers(1, 4), st.data())
def test_every_pair_that_has_both_responses_meets_once_in_canonical_order(models, n_prompts, data):
    prompts = [Prompt(f"p{9 - n}", "?") for n in range(n_prompts)]
    everything = [(model, prompt.prompt_id) for model in models for prompt in prompts]
    has = set(data.draw(st.lists(st.sampled_from(everything), unique=True)))
    found = all_pairs(prompts, models, ["z", "a"], has)
    expected = [
        Match(dimension, prompt.prompt_id, a, b)
        for dimension in ("z", "a")
        for prompt in prompts
        for a, b in map(sorted, itertools.combinations(models, 2))
        if {(a, prompt.prompt_id), (b, prompt.prompt_id)} <= has
    ]
    assert found.matches == expected
    assert found.dropped == n_prompts * len(models) * (len(models) - 1) // 2 - len(expected) // 2
    absent = Counter(model for model, prompt_id in everything if (model, prompt_id) not in has)
    assert found.missing == absent


@given(NAMES, st.randoms(use_true_random=False))
def test_the_rosters_order_changes_only_the_order(models, random):
    prompts = bank({"s": 3})
    has = {(model, prompt.prompt_id) for model in models for prompt in prompts}
    shuffled = random.sample(models, len(models))
    found, other = (all_pairs(prompts, names, ["d"], has) for names in (models, shuffled))
    assert set(found.matches) == set(other.matches)
    assert [match.id for match in found.matches] == [
        Match.between("d", match.prompt_id, match.model_b, match.model_a).id for match in found.matches
    ]


def test_prompts_without_a_gold_answer_are_left_out_where_one_is_needed():
    prompts = [Prompt(f"p{n}", "?", gold="yes" if n % 2 else None) for n in range(6)]
    has = {(model, prompt.prompt_id) for model in "abc" for prompt in prompts}
    whole = all_pairs(prompts, "abc", ["d", "e"], has)
    found = all_pairs(prompts, "abc", ["d", "e"], has, PairRules(4, gold_only=["e"]))
    assert (found.dropped, found.missing) == (0, {})
    with_gold = [one for one in whole.matches[18:] if one.prompt_id in {"p1", "p3", "p5"}]
    assert found.matches == [*whole.matches[:4], *with_gold[:4]]
    sampled = sample_pairs(
        all_pairs(prompts, "abc", ["d", "e"], has, PairRules(gold_only=["e"])), 5, 0
    ).matches
    assert Counter(one.dimension for one in sampled) == {"d": 5, "e": 5}
    assert {one.prompt_id for one in sampled if one.dimension == "e"} == {"p1", "p3", "p5"}


def test_a_limit_keeps_the_first_pairs_of_each_dimension():
    prompts = bank({"s": 4})
    has = {(model, prompt.prompt_id) for model in "abc" for prompt in prompts}
    whole = all_pairs(prompts, "abc", ["d", "e"], has).matches
    cut = all_pairs(prompts, "abc", ["d", "e"], has, PairRules(5)).matches
    assert cut == [*whole[:5], *whole[12:17]]
    assert all_pairs(prompts, "abc", ["d", "e"], has, PairRules(0)).matches == []


@pytest.mark.parametrize(("models", "limit"), [(["a", "b", "a"], None), (["a", "b"], -1)])
def test_models_named_twice_and_negative_limits_are_errors(models, limit):
    with pytest.raises(BadOption, match=r"duplicate|limit"):
        all_pairs([], models, ["d"], set(), PairRules(limit))


@given(st.tuples(*[st.text(max_size=3)] * 4), st.tuples(*[st.text(max_size=3)] * 4))
def test_ids_of_matches_tell_matches_apart(one, other):
    assert (Match(*one).id == Match(*other).id) == (one == other)


def test_an_id_is_32_hex_digits_and_does_not_change_between_versions():
    assert Match("factuality", "p1", "a", "b").id == "f559816925384c8f7267b08bd287ce49"


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 8), min_size=1),
    st.data(),
    st.integers(0, 1 << 40),
)
def test_a_subset_holds_what_was_asked_of_each_source_in_bank_order(counts, data, seed):
    prompts = bank(counts)
    sizes = {source: data.draw(st.integers(0, count)) for source, count in counts.items()}
    found = pilot_subset(prompts, sizes, seed)
    assert Counter(prompt.source for prompt in found) == Counter(sizes)
    assert found == [prompt for prompt in prompts if prompt in found]
    assert {p.prompt_id for p in pilot_subset(prompts[::-1], sizes, seed)} == {p.prompt_id for p in found}


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30), min_size=1), st.data(), st.integers())
def test_one_number_is_shared_in_proportion_by_largest_remainder(counts, data, seed):
    prompts = bank(counts)
    size = data.draw(st.integers(0, len(prompts)))
    found = pilot_subset(prompts, size, seed)
    shares = Counter(prompt.source for prompt in found)
    assert len(found) == size
    for source, count in counts.items():
        assert abs(shares[source] - size * count / len(prompts)) < 1
    quotas = {source: size * count / len(prompts) for source, count in counts.items()}
    up = [quotas[s] % 1 for s in quotas if shares[s] > quotas[s]]
    down = [quotas[s] % 1 for s in quotas if shares[s] < quotas[s]]
    assert not up or not down or min(up) >= max(down) - 1e-9


def test_seeds_draw_different_subsets_and_a_grown_bank_keeps_most_of_one():
    prompts = bank({"s": 100})
    drawn = [frozenset(p.prompt_id for p in pilot_subset(prompts, 20, seed)) for seed in range(10)]
    assert len(set(drawn)) == 10
    grown = {p.prompt_id for p in pilot_subset([*prompts, Prompt("new", "?", "s")], 20, 0)}
    assert len(grown & drawn[0]) >= 19


@pytest.mark.parametrize("sizes", [{"s": 4}, {"s": -1}, {"other": 1}, 4, -1])
def test_a_source_with_too_few_prompts_is_an_error_that_names_it(sizes):
    with pytest.raises(BadOption, match=r"'s'|'other'|has 3"):
        pilot_subset(bank({"s": 3}), sizes, 0)


def test_whole_prompts_are_dropped_for_one_missing_response():
    has = {(model, prompt) for model in "abc" for prompt in "pqr"} - {("b", "q")}
    prompts = [Prompt(name, "") for name in "pqr"]
    found = all_pairs(prompts, "abc", ["d"], has, PairRules(whole_prompts=True))
    assert [match.prompt_id for match in found.matches] == ["p"] * 3 + ["r"] * 3
    assert (found.dropped, found.missing) == (3, {"b": 1})
    # The limit counts what is left.
    assert len(all_pairs(prompts, "abc", ["d"], has, PairRules(5, whole_prompts=True)).matches) == 5


#: For the matches of one model under test.
AROUND = [Prompt("p", ""), Prompt("q", ""), Prompt("r", "")]


def test_around_one_model_only_its_own_pairs_are_made_and_missed():
    has = {("new", "p"), ("a", "p"), ("b", "p"), ("new", "q"), ("a", "q"), ("a", "r"), ("b", "r")}
    found = all_pairs(AROUND, ["new", "b", "a"], ["d"], has, PairRules(around="new"))
    assert [(one.prompt_id, one.model_a, one.model_b) for one in found.matches] == [
        ("p", "b", "new"),
        ("p", "a", "new"),
        ("q", "a", "new"),
    ]
    has = {("new", "p"), ("a", "p"), ("b", "q")}
    found = all_pairs(AROUND, ["new", "b", "a"], ["d"], has, PairRules(around="new"))
    assert found.dropped == 2
    assert found.missing == {"new": 2}
