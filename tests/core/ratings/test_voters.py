"""Voters with tastes of their own: what intervals say of them, however few prompts the battles name."""

from dataclasses import replace

import numpy as np
import pytest

from support.sizes import sized
from support.worlds import drawn, table, told
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import BradleyTerry, Elo
from tiltyard.core.ratings.leave_one_out import two_way_keys
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.variance import voters_differ

M = 4
ELO = Elo(n_permutations=10, n_bootstraps=40, n_orders=2)


def tastes(seed, *, voters=40, prompts=0, heavy=0.0, battles=1500, sd=1.0):
    """Models that are equal on average, though each voter has favourites; one voter may cast most of the votes."""
    rng = np.random.default_rng([5, seed])
    taste = rng.normal(0.0, sd, (M, voters))
    share = np.full(voters, (1.0 - heavy) / voters)
    share[0] += heavy
    voter = rng.choice(voters, battles, p=share)
    a = rng.integers(0, M, battles)
    b = (a + rng.integers(1, M, battles)) % M
    p = 1.0 / (1.0 + np.exp(taste[b, voter] - taste[a, voter]))
    return CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        np.where(rng.random(battles) < p, Kind.WIN_A, Kind.WIN_B).astype(np.uint8),
        prompt=rng.integers(1, prompts + 1, battles).astype(np.uint64) if prompts else None,
        voter=(voter + 1).astype(np.uint64),
    )


def said(result, name):
    return next(finding for finding in result.findings if finding.name == name)


def false_orders(method, worlds, **world):
    return sum(rank_models(method(table(tastes(seed, **world)))).above.any() for seed in range(worlds))


BATTLE_LEVEL = ("battle", "these prompts only")
ONLY_THESE = ("battle", "these prompts and voters only")
BY_VOTER = ("voter", "voters like these and these prompts only")


@pytest.mark.parametrize(
    ("prompts", "voters", "expected", "findings"),
    [
        (0, 0, BATTLE_LEVEL, {"no-prompts"}),
        (1, 0, BATTLE_LEVEL, {"few-prompts"}),
        (0, 1, ONLY_THESE, {"no-prompts", "few-voters"}),
        (1, 1, ONLY_THESE, {"few-prompts", "few-voters"}),
        (0, 9, BY_VOTER, {"no-prompts", "few-voters"}),
        (0, 40, BY_VOTER, {"no-prompts"}),
        (1, 40, BY_VOTER, {"few-prompts"}),
        (30, 0, ("prompt", "prompts like these"), set()),
        (30, 1, ("prompt", "prompts like these and these voters only"), {"few-voters"}),
        (30, 4, ("prompt", "prompts like these and these voters only"), {"few-voters"}),
        (30, 5, ("prompt", "prompts and voters like these"), {"few-voters"}),
        (30, 9, ("prompt", "prompts and voters like these"), {"few-voters"}),
        (30, 40, ("prompt × voter", "prompts and voters like these"), set()),
    ],
)
def test_an_interval_speaks_of_voters_as_far_as_they_are_known(prompts, voters, expected, findings):
    world = table(drawn(M, 900, 1, prompts=prompts, voters=voters))
    for method in (BradleyTerry(), replace(ELO, n_bootstraps=10)):
        result = method(world)
        assert (result.interval.clusters, result.interval.scope) == expected
        assert result.interval.n_voters == (voters if "voter" in expected[0] else None)
        about = {"no-prompts", "few-prompts", "few-voters"}
        assert {finding.name for finding in result.findings} & about == findings


def test_a_few_voters_have_sentences_of_their_own():
    few = BradleyTerry()(table(drawn(M, 900, 1, prompts=30, voters=4)))
    assert said(few, "few-voters").values == {"voters": 4, "least": 10}
    alike = BradleyTerry()(table(drawn(M, 900, 1, prompts=30, voters=9)))
    assert said(alike, "few-voters").values == {"case": "alike", "voters": 9, "least": 10}
    sampled = BradleyTerry()(table(drawn(M, 900, 1, voters=9)))
    assert "9 voters" in said(sampled, "few-voters").text
    one = BradleyTerry()(table(drawn(M, 900, 1, voters=1)))
    assert "only one voter" in said(one, "few-voters").text


@pytest.mark.parametrize("voters", [5, 7, 9])
def test_from_five_voters_on_their_tastes_are_found_and_prove_no_order(voters):
    world = {"voters": voters, "prompts": 25, "battles": 600}
    result = BradleyTerry()(table(tastes(1, **world)))
    assert (result.interval.clusters, result.interval.n_voters) == ("prompt × voter", voters)
    assert said(result, "few-voters").values == {"case": "sampled", "voters": voters, "least": 10}
    worlds = sized(12, 40)
    assert false_orders(BradleyTerry(), worlds, **world) <= sized(1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.0, 0.25, 0.4, 0.7])
@pytest.mark.parametrize("voters", [5, 7, 9, 10])
def test_intervals_hold_for_voters_like_a_few(voters, sd):
    held, false, widths, worlds = [], 0, [], 300
    for seed in range(worlds):
        world = tastes(seed, voters=voters, prompts=25, battles=600, sd=sd)
        result = BradleyTerry()(table(world))
        held.append(((result.interval.low <= 1500.0) & (result.interval.high >= 1500.0)).mean())
        widths.append(np.median(result.interval.high - result.interval.low) / 2.0)
        false += rank_models(result).above.any()
    print(f"{voters} voters, tastes {sd}: held {np.mean(held):.1%}, false {false}, ±{np.mean(widths):.0f}")
    assert np.mean(held) >= 0.93
    assert false <= 22


def test_whether_voters_differ_depends_neither_on_order_nor_on_sides_or_names():
    rng = np.random.default_rng(3)
    found = set()
    for seed in range(6):
        codes = drawn(M, 300, seed, prompts=30, voters=6)
        expected = voters_differ(table(codes), Scoring())
        shuffled = rng.permutation(len(codes))
        fields = ("a", "b", "kind", "prompt", "voter")
        again = replace(codes, **{name: getattr(codes, name)[shuffled] for name in fields})
        assert voters_differ(table(again), Scoring()) == expected
        swapped = np.where(
            codes.kind == Kind.WIN_A, Kind.WIN_B, np.where(codes.kind == Kind.WIN_B, Kind.WIN_A, codes.kind)
        )
        other = replace(codes, a=codes.b, b=codes.a, kind=swapped.astype(np.uint8))
        assert voters_differ(table(other), Scoring()) == expected
        renamed = replace(codes, a=M - 1 - codes.a, b=M - 1 - codes.b)
        assert voters_differ(table(renamed), Scoring()) == expected
        found.add(expected)
    assert found == {False, True}


def test_without_prompts_voters_are_left_out_as_prompts_are():
    codes = tastes(1)
    result = BradleyTerry()(table(codes))
    as_prompts = BradleyTerry()(table(replace(codes, prompt=codes.voter, voter=None)))
    np.testing.assert_array_equal(result.uncertainty.covariances, as_prompts.uncertainty.covariances)
    np.testing.assert_array_equal(result.uncertainty.dof, as_prompts.uncertainty.dof)
    np.testing.assert_array_equal(result.these_prompts.covariances, result.uncertainty.covariances)
    assert result.interval.n_clusters == result.interval.n_voters == 40


def test_a_bootstrap_resamples_prompts_or_else_voters():
    codes = tastes(1)
    method = BradleyTerry(interval="bootstrap", n_bootstraps=4)
    as_prompts = method(table(replace(codes, prompt=codes.voter, voter=None)))
    result = method(table(codes))
    np.testing.assert_array_equal(result.extras["replicates"], as_prompts.extras["replicates"])
    assert (result.interval.clusters, result.interval.scope) == BY_VOTER
    result = BradleyTerry(interval="bootstrap", n_bootstraps=3)(table(tastes(1, prompts=30)))
    assert "these voters only" in result.interval.scope
    assert result.interval.n_voters is None
    assert len(result.uncertainty.covariances) == 3


@pytest.mark.parametrize("prompts", [0, 1])
def test_voters_with_tastes_prove_no_order_of_equal_models_without_prompts(prompts):
    world = {"prompts": prompts, "battles": 4000}
    worlds = sized(12, 20)
    assert false_orders(BradleyTerry(), worlds, **world) <= sized(1, 2)
    assert false_orders(BradleyTerry(clusters="battle"), worlds, **world) >= worlds / 2


def test_voters_who_only_called_both_bad_do_not_count():
    codes = drawn(M, 900, 1, prompts=30, voters=9)
    codes.voter[:5], codes.kind[:5] = 77, Kind.BOTH_BAD
    assert said(BradleyTerry()(table(codes)), "few-voters").values["voters"] == 9


def test_elo_adds_both_ways_and_takes_off_their_overlap():
    codes = tastes(3, voters=30, prompts=25)
    result = ELO(table(codes))

    def by(keys):
        return ELO(table(replace(codes, prompt=keys, voter=None))).uncertainty

    cells = two_way_keys(codes)
    one, other, overlap = by(codes.prompt), by(codes.voter), by(cells)
    sizes = np.unique(cells, return_counts=True)[1]
    factor = len(sizes) / (len(sizes) - 1.0) / (1.0 - sizes.max() / len(codes)) ** 2
    both = one.covariances[0] + other.covariances[0] - overlap.covariances[0] / factor
    expected = (both, one.covariances[0], other.covariances[0])
    np.testing.assert_allclose(result.uncertainty.covariances, expected, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(result.uncertainty.dof, np.minimum(one.dof, other.dof))
    assert (result.interval.n_clusters, result.interval.n_voters) == (25, 30)


def test_elo_refuses_where_one_voter_has_most_votes():
    result = ELO(table(tastes(1, prompts=30, heavy=0.5)))
    assert np.isnan(result.interval.low).all()
    assert not rank_models(result).above.any()
    found = said(result, "interval-withheld")
    assert (found.values["case"], found.values["voters"]) == ("elo-voters", 40)
    assert found.values["share"] == pytest.approx(0.5, abs=0.05)


def test_battles_of_no_skill_name_no_prompts_that_count():
    result = BradleyTerry()(told("a!b*30", question_id=["q", "r"] * 15))
    assert not {"few-prompts", "no-prompts"} & {finding.name for finding in result.findings}
    mixed = drawn(M, 200, 1, prompts=2)
    mixed.kind[mixed.prompt == 2] = Kind.BOTH_BAD
    assert said(BradleyTerry()(table(mixed)), "few-prompts").values["case"] == "one"


def test_parts_of_the_log_may_name_neither_prompt_nor_voter():
    named = told("a>b*30 b>a*20", question_id=["p", "q"] * 25, voter=["v", "w"] * 25)
    result = BradleyTerry()(told("a>b b>a").merge(named))
    assert (result.interval.clusters, result.interval.n_clusters) == ("prompt", 2)
    assert said(result, "few-voters").values["voters"] == 2
