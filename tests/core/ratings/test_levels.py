"""Prompts of one category, day or repository that depend on each other: what is found, chosen and withheld."""

from dataclasses import replace

import numpy as np
import pytest

from support.sizes import sized
from support.worlds import drawn, mirrored, relabelled, table
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.battles.cluster_keys import mix_bits
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.level_test import departing_levels, holds_whole_prompts
from tiltyard.core.ratings.pairs import Scoring, comparable_groups, score_pairs
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.errors import BadOption

M = 10


def topics(seed, *, effect=0.0, groups=8, prompts=15, battles=3000, voters=0, level="category"):
    """Models that are equal on average; each is better at some topics, and at some prompts of them."""
    rng = np.random.default_rng([7, seed])
    by_topic = rng.normal(0.0, effect, (M, groups))
    by_prompt = rng.normal(0.0, 0.3, (M, groups * prompts))
    a = rng.integers(0, M, battles)
    b = (a + rng.integers(1, M, battles)) % M
    prompt = rng.integers(0, groups * prompts, battles)
    topic = prompt // prompts
    logit = by_topic[a, topic] - by_topic[b, topic] + by_prompt[a, prompt] - by_prompt[b, prompt]
    kind = np.where(rng.random(battles) < 1.0 / (1.0 + np.exp(-logit)), Kind.WIN_A, Kind.WIN_B)
    return CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        np.where(rng.random(battles) < 0.15, Kind.TIE, kind).astype(np.uint8),
        prompt=mix_bits((prompt + 1).astype(np.uint64)),
        voter=rng.integers(1, voters + 1, battles).astype(np.uint64) if voters else None,
        levels={level: mix_bits((topic + 1).astype(np.uint64))},
    )


def departing(codes):
    world = table(codes, M)
    pairs = score_pairs(world.counts, M, Scoring())
    fitted = fit_groups(pairs, comparable_groups(pairs, prior=False))
    return departing_levels(world, fitted.row_scores(Scoring()), by_voter=codes.voter is not None)


def said(result):
    return [finding for finding in result.findings if finding.name == "dependent-prompts"]


def test_topics_that_matter_are_found_and_the_wider_interval_is_used():
    world = table(topics(1, effect=0.4), M)
    result = BradleyTerry()(world)
    by_prompt, by_topic = BradleyTerry(clusters="prompt")(world), BradleyTerry(clusters="category")(world)
    widths = [one.interval.high - one.interval.low for one in (by_prompt, by_topic)]
    (found,) = said(result)
    assert {name: found.values[name] for name in ("level", "groups", "p")} == {
        "level": "category",
        "groups": 8,
        "p": 0.001,
    }
    assert found.values["by_prompt"] == pytest.approx(np.median(widths[0]) / 2.0)
    assert found.values["by_group"] == pytest.approx(np.median(widths[1]) / 2.0)
    assert (result.interval.high - result.interval.low >= np.maximum(*widths) - 1e-9).all()
    assert (result.uncertainty.dof == np.minimum(by_prompt.uncertainty.dof, by_topic.uncertainty.dof)).all()
    assert not said(by_prompt)
    assert not said(by_topic)


def test_a_chosen_level_is_what_its_groups_would_be_as_prompts():
    for voters, kind, scope in (
        (0, "category", "categories like these"),
        (3, "category", "categories like these and these voters only"),
        (40, "category × voter", "categories and voters like these"),
    ):
        codes = topics(1, effect=0.2, voters=voters)
        chosen = BradleyTerry(clusters="category", max_share=None)(table(codes, M))
        as_prompts = replace(codes, prompt=codes.levels["category"], levels={})
        expected = BradleyTerry(max_share=None)(table(as_prompts, M))
        np.testing.assert_allclose(chosen.interval.low, expected.interval.low)
        np.testing.assert_array_equal(chosen.uncertainty.dof, expected.uncertainty.dof)
        assert (chosen.interval.clusters, chosen.interval.scope) == (kind, scope)
        assert chosen.interval.n_clusters == 8
        assert "8 categories" in chosen.interval.basis


def test_battles_without_a_group_keep_their_prompts():
    codes = topics(1)
    some = np.where(codes.levels["category"] == codes.levels["category"][0], 0, codes.levels["category"])
    result = BradleyTerry(clusters="category")(table(replace(codes, levels={"category": some}), M))
    assert result.interval.n_clusters == 7 + 15


def test_too_few_groups_withhold_intervals_and_order():
    codes = topics(2, effect=1.0, groups=3)
    found = BradleyTerry()(table(codes, M))
    assert said(found)[0].values["case"] == "few"
    for result in (found, BradleyTerry(clusters="category")(table(codes, M))):
        assert np.isnan(result.interval.low).all()
        assert not rank_models(result).above.any()
        assert "interval-withheld" in {finding.name for finding in result.findings}
    assert not np.isnan(BradleyTerry(clusters="prompt")(table(codes, M)).interval.low).any()


def test_levels_that_can_show_nothing_are_not_tested():
    codes = topics(1, effect=1.0)
    prompts = codes.prompt
    crossing = mix_bits(1 + np.arange(len(prompts), dtype=np.uint64) % 8)
    for keys in (np.full(len(prompts), 5, dtype=np.uint64), prompts, crossing):
        assert departing(replace(codes, levels={"day": keys})) == {}
    nested = replace(codes, levels={"day": crossing, "category": codes.levels["category"]})
    assert [holds_whole_prompts(table(nested, M), level) for level in ("category", "day")] == [True, False]
    assert set(departing(nested)) == {"category"}


def test_where_prompts_are_in_several_groups_the_wider_of_both_is_used():
    codes = topics(1, effect=0.4)
    team = mix_bits(1 + np.arange(len(codes), dtype=np.uint64) % 20)
    world = table(replace(codes, levels={"team": team}), M)
    by_team = table(replace(codes, prompt=team, levels={}), M)
    chosen, one, other = (
        BradleyTerry(clusters=choice, max_share=None)(battles).uncertainty
        for choice, battles in (("team", world), ("prompt", world), ("auto", by_team))
    )
    np.testing.assert_allclose(chosen.ratings(), np.maximum(one.ratings(), other.ratings()))
    np.testing.assert_array_equal(chosen.dof, np.minimum(one.dof, other.dof))


def test_holm_shares_the_level_between_levels():
    codes = topics(25, effect=0.12)
    alone = departing(codes)
    assert 0.01 < alone["category"] <= 0.05
    rng = np.random.default_rng(0)
    keys, prompt = np.unique(codes.prompt, return_inverse=True)
    noise = {name: mix_bits(rng.integers(1, 9, len(keys)).astype(np.uint64))[prompt] for name in "abcd"}
    assert departing(replace(codes, levels={**codes.levels, **noise})) == {}


def test_what_is_found_depends_neither_on_order_nor_on_sides_or_names():
    rng = np.random.default_rng(3)
    for seed in range(3):
        codes = topics(seed, effect=0.12)
        expected = departing(codes)
        shuffled = rng.permutation(len(codes))
        again = replace(
            codes,
            **{name: getattr(codes, name)[shuffled] for name in ("a", "b", "kind", "prompt")},
            levels={"category": codes.levels["category"][shuffled]},
        )
        assert departing(again) == expected
        assert departing(mirrored(codes)) == expected
        assert departing(relabelled(codes, np.arange(M)[::-1])) == expected


def test_many_prompts_are_looked_at_together():
    assert departing(topics(1, effect=0.4, prompts=2000, battles=60_000))
    assert not departing(topics(1, prompts=2000, battles=60_000))
    assert departing(topics(1, effect=0.2, prompts=500, battles=600_000))


def test_prompts_without_structure_seldom_draw_a_finding():
    worlds = sized(20, 100)
    assert sum(bool(departing(topics(seed))) for seed in range(worlds)) <= sized(3, 10)


def sessions(seed, voters=100, each=15, days=8):
    """Voters with tastes of their own, each with prompts of its own on a single day."""
    rng = np.random.default_rng([9, seed])
    voter = np.repeat(np.arange(voters), each)
    taste = rng.normal(0.0, 0.7, (M, voters))
    a = rng.integers(0, M, len(voter))
    b = (a + rng.integers(1, M, len(voter))) % M
    better = rng.random(len(voter)) < 1.0 / (1.0 + np.exp(taste[b, voter] - taste[a, voter]))
    return CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        np.where(better, Kind.WIN_A, Kind.WIN_B).astype(np.uint8),
        prompt=mix_bits(1 + np.arange(len(voter), dtype=np.uint64)),
        voter=mix_bits((voter + 1).astype(np.uint64)),
        levels={"day": mix_bits((voter % days + 1).astype(np.uint64))},
    )


def test_tastes_of_voters_are_not_taken_for_those_of_their_days():
    worlds = [sessions(seed) for seed in range(sized(8, 20))]
    assert sum(bool(departing(codes)) for codes in worlds) <= sized(1, 3)
    assert sum(bool(departing(replace(codes, voter=None))) for codes in worlds) >= sized(2, 5)


def bank(seed, *, effect, own, days=12, each=8, prompts=120, battles=1800):
    """Voters of one day each, whose prompts are those of everybody or, with ``own``, of their day."""
    rng = np.random.default_rng([11, seed])
    a = rng.integers(0, M, battles)
    b = (a + rng.integers(1, M, battles)) % M
    day = np.arange(battles) * days // battles
    voter = day * each + rng.integers(0, each, battles)
    prompt = rng.integers(0, prompts, battles)
    prompt = day * prompts // days + prompt // days if own else prompt
    effects = ((rng.normal(0.0, effect, (M, days)), day), (rng.normal(0.0, 0.5, (M, days * each)), voter))
    logit = sum(taste[a, of] - taste[b, of] for taste, of in effects)
    difficult = rng.normal(0.0, 0.6, (M, prompts))
    logit += difficult[a, prompt] - difficult[b, prompt]
    better = rng.random(battles) < 1.0 / (1.0 + np.exp(-logit))
    return CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        np.where(better, Kind.WIN_A, Kind.WIN_B).astype(np.uint8),
        prompt=mix_bits((prompt + 1).astype(np.uint64)),
        voter=mix_bits((voter + 1).astype(np.uint64)),
        levels={"day": mix_bits((day + 1).astype(np.uint64))},
    )


@pytest.mark.parametrize("own", [False, True])
def test_days_are_found_where_their_voters_share_prompts(own):
    worlds = 20
    found = [departing(bank(seed, effect=0.6, own=own)).keys() for seed in range(worlds)]
    assert sum(levels == {"day"} for levels in found) >= 18
    assert sum(bool(departing(bank(seed, effect=0.0, own=own))) for seed in range(worlds)) <= 3
    without = [replace(bank(seed, effect=0.6, own=False), voter=None) for seed in range(5)]
    assert all(departing(codes) for codes in without)


def test_signs_depend_neither_on_order_nor_on_sides_or_names():
    rng = np.random.default_rng(4)
    codes = bank(3, effect=0.3, own=False)
    expected, shuffled = departing(codes), rng.permutation(len(codes))
    again = replace(
        codes,
        **{name: getattr(codes, name)[shuffled] for name in ("a", "b", "kind", "prompt", "voter")},
        levels={"day": codes.levels["day"][shuffled]},
    )
    for other in (again, mirrored(codes), relabelled(codes, np.arange(M)[::-1])):
        assert departing(other) == expected


def test_bootstrap_intervals_are_widened_too():
    world = table(topics(1, effect=0.4), M)
    widened = BradleyTerry(interval="bootstrap", n_bootstraps=20)(world).interval
    expected = BradleyTerry()(world).interval
    assert (widened.high - widened.low >= expected.high - expected.low - 1e-9).all()
    chosen = BradleyTerry(interval="bootstrap", n_bootstraps=20, clusters="category")(world)
    assert chosen.interval.clusters == "category"


def test_a_level_that_no_battle_has_is_refused():
    with pytest.raises(BadOption):
        BradleyTerry(clusters="team")(table(drawn(M, 300, 1, prompts=30)))


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.1, 0.2, 0.4])
def test_intervals_hold_for_topics_like_these(effect):
    found, held, false, widths, worlds = 0, [], 0, [], 300
    for seed in range(worlds):
        world = table(topics(seed, effect=effect), M)
        result, by_prompt = BradleyTerry()(world), BradleyTerry(clusters="prompt")(world)
        interval = result.interval
        found += len(said(result))
        held.append(((interval.low <= 1500.0) & (interval.high >= 1500.0)).mean())
        false += rank_models(result).above.any()
        widths.append(np.median(interval.high - interval.low))
        widths[-1] /= np.median(by_prompt.interval.high - by_prompt.interval.low)
    print(
        f"8 × 15 topics, effect {effect}: found {found / worlds:.1%}, held {np.mean(held):.1%}, "
        f"false {false / worlds:.1%}, width {np.mean(widths):.2f} × by prompt"
    )
    assert np.mean(held) >= 0.93
    assert false <= 0.075 * worlds
    assert effect or (found <= 0.075 * worlds and np.mean(widths) <= 1.05)
