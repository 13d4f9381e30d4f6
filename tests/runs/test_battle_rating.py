"""Rating a table: what stands beside its ratings."""

import json
from dataclasses import replace

import numpy as np
import pytest

from support.worlds import told
from tiltyard.core.battles import Table
from tiltyard.core.ratings import BradleyTerry, Elo
from tiltyard.core.ratings.fit_check import check_fit, predict_ahead
from tiltyard.runs.battle_rating import K_SWEEP, RateSettings, open_all, rate_files, rate_table, with_checks
from tiltyard.simulation.worlds import WorldSettings, draw_world_of


def units(rated):
    return [flip.unit for flip in rated.flips]


def test_votes_to_flip_are_not_counted_where_some_battles_weigh_less():
    rng = np.random.default_rng(1)
    even = draw_world_of(WorldSettings(4, 30, close_top=False), rng).table(400, rng)
    assert units(rate_table(even, RateSettings(BradleyTerry()), checks=True)) == ["vote", "prompt"]
    prompt = even.log().prompt.copy()
    prompt[:200] = prompt[0]
    uneven = Table.from_codes(even.models, replace(even.log(), prompt=prompt))
    limited = rate_table(uneven, RateSettings(BradleyTerry()), checks=True)
    assert "weight-limited" in {finding.name for finding in limited.board.findings}
    assert units(limited) == []
    method = BradleyTerry()
    weighted = method.limited(uneven).table
    assert limited.fit == check_fit(weighted)
    assert limited.fit != check_fit(uneven)
    assert with_checks(limited).prediction == predict_ahead(weighted)
    assert units(rate_table(uneven, RateSettings(BradleyTerry(max_share=1.0)), checks=True)) == [
        "vote",
        "prompt",
    ]


def test_only_elo_is_compared_with_other_values_of_k():
    world = told("a>b*6 b>a*3 b>c*4 c>a*2")
    assert with_checks(rate_table(world, RateSettings())).sweep == {}
    asked = Elo(start=1000.0, n_permutations=3, interval="none")
    sweep = with_checks(rate_table(world, RateSettings(asked))).sweep
    assert list(sweep) == list(K_SWEEP)
    np.testing.assert_array_equal(sweep[16.0].rating, asked(world).rating)


@pytest.fixture
def heavy_voter(tmp_path):
    """A file in which one voter, who prefers b, cast half of the votes."""
    path = tmp_path / "battles.jsonl"
    with path.open("w") as file:
        for k in range(200):
            voter = "heavy" if k % 2 else f"v{k % 40}"
            winner = "model_b" if k % 2 or k % 3 == 0 else "model_a"
            battle = {"model_a": "a", "model_b": "b", "winner": winner, "voter": voter}
            file.write(json.dumps(battle) + "\n")
    return open_all([path])


@pytest.mark.parametrize(
    "method",
    [BradleyTerry(clusters="battle"), BradleyTerry(interval="none")],
    ids=["battles", "none"],
)
def test_ratings_are_the_same_whatever_the_interval(method, heavy_voter):
    plain, other, free = (
        rate_files(heavy_voter, RateSettings(one))[0].ratings
        for one in (BradleyTerry(), method, replace(method, max_share=1.0))
    )
    assert "weight-limited" in {finding.name for finding in other.findings}
    np.testing.assert_array_equal(other.rating, plain.rating)
    assert abs(free.rating[0] - plain.rating[0]) > 10.0


@pytest.mark.parametrize("anchor", [None, "b"])
def test_a_bootstrap_rates_by_the_mean_over_its_refits(anchor, heavy_voter):
    plain = BradleyTerry(anchor=anchor, anchor_rating=900.0)
    estimate = rate_files(heavy_voter, RateSettings(plain))[0].ratings.rating
    group = rate_files(heavy_voter, RateSettings(replace(plain, interval="bootstrap"), n_bootstraps=100))[0]
    found = group.ratings
    refits = group.bootstrap.extras["replicates"]
    np.testing.assert_array_equal(found.extras["estimate"], estimate)
    np.testing.assert_allclose(found.rating, refits.mean(axis=0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        [found.interval.low, found.interval.high], np.percentile(refits, [2.5, 97.5], axis=0), atol=1e-9
    )
    assert 0.0 < abs(found.rating - estimate).max() < 30.0
    assert anchor is None or found.rating[1] == pytest.approx(900.0)


def test_counts_are_enough_where_nothing_is_limited(heavy_voter):
    free = RateSettings(BradleyTerry(clusters="battle", max_share=1.0))
    assert not rate_files(heavy_voter, free)[0].table.has_log
    assert rate_files(heavy_voter, replace(free, method=BradleyTerry(clusters="battle")))[0].table.has_log


@pytest.mark.parametrize("method", [BradleyTerry(clusters="battle"), Elo(clusters="battle", n_bootstraps=2)])
def test_battle_level_intervals_say_that_voters_are_these(method, heavy_voter):
    ratings = rate_files(heavy_voter, RateSettings(method))[0].ratings
    assert ratings.interval.scope.endswith("voters only")
    assert "voter" not in rate_files(heavy_voter, RateSettings(Elo(interval="none")))[0].table.keyed
