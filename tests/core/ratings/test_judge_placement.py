"""Placing a model that only a judge has compared among models that people have rated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import t

from tiltyard.core.battles import Battle, CodedBattles, Kind, Outcome, Table
from tiltyard.core.ratings import BradleyTerry, Elo
from tiltyard.core.ratings.judge_placement import (
    MIN_OVERLAP_MODELS,
    MIN_REPEATED_BATTLES,
    place_by_judge,
)
from tiltyard.errors import BadOption

UNIT = 400.0 / np.log(10.0)


def battles_table(names, a, b, score, prompts=None, weight=None):
    """A table of wins, ties and losses of ``a`` against ``b``."""
    kinds = {1.0: Kind.WIN_A, 0.5: Kind.TIE, 0.0: Kind.WIN_B}
    kind = np.array([kinds[value] for value in np.asarray(score, dtype=float)], dtype=np.uint8)
    keys = None if prompts is None else np.asarray(prompts, dtype=np.uint64) * np.uint64(7919) + np.uint64(11)
    codes = CodedBattles(np.asarray(a), np.asarray(b), kind, prompt=keys, weight=weight)
    return Table.from_codes(names, codes)


def setting(
    models=8, seed=0, bias=0.0, judged=300, own=0.3, prompts=60, opponents=None, slope=1.0, between=0
):
    """Human battles between all but the last model, and a judge's of the last one with them, and among them."""
    rng = np.random.default_rng(seed)
    names = [f"m{k:02d}" for k in range(models)]
    strength = np.append(np.linspace(1.0, -1.0, models - 1), own)
    a = rng.integers(0, models - 1, 3000)
    b = (a + rng.integers(1, models - 1, 3000)) % (models - 1)
    human = battles_table(
        names,
        a,
        b,
        (rng.random(3000) < expit(strength[a] - strength[b])).astype(float),
        rng.integers(0, prompts, 3000),
    )
    shift = rng.normal(0.0, bias, models)
    met = rng.integers(0, opponents or models - 1, judged)
    side = np.full(judged, models - 1)
    if between:
        first = rng.integers(0, models - 1, between)
        second = (first + rng.integers(1, models - 1, between)) % (models - 1)
        side, met = np.append(side, first), np.append(met, second)
    chance = expit(slope * (strength[side] - strength[met]) + shift[side] - shift[met])
    score = (rng.random(len(side)) < chance).astype(float)
    return BradleyTerry()(human), battles_table(names, side, met, score, rng.integers(0, prompts, len(side)))


def test_the_rating_is_where_the_judge_puts_it_among_the_human_ones():
    human, judged = setting()
    placed = place_by_judge(human, judged, "m07")
    rest = human.rating[:7]
    assert placed.label == "judge, bias added"
    assert placed.rating == pytest.approx(1500 + 0.3 * UNIT, abs=50)
    assert placed.difference[:7] == pytest.approx(placed.rating - rest)
    assert (placed.difference_low[:7] < placed.difference[:7]).all()
    assert (placed.difference[:7] < placed.difference_high[:7]).all()
    assert np.isnan([placed.difference[7], placed.difference_low[7], placed.difference_high[7]]).all()
    assert placed.slope_low < 1.0 < placed.slope_high
    assert placed.low < placed.rating < placed.high
    assert (placed.opponents, placed.battles, placed.group) == (7, 300, 0)
    assert placed.rank == 1 + (rest > placed.rating).sum()
    assert 1 <= placed.rank_low <= placed.rank <= placed.rank_high <= 8
    [finding] = placed.findings
    assert finding.name == "placed-by-judge"
    assert finding.values["low"] == placed.rank_low
    assert finding.values["models"] == 8


def test_with_few_opponents_it_is_conditional_on_the_judge_and_claims_no_order():
    human, judged = setting(models=12, opponents=MIN_OVERLAP_MODELS - 1)
    placed = place_by_judge(human, judged, "m11")
    assert placed.label == "judge only"
    assert placed.rank is placed.rank_low is placed.rank_high is placed.bias_sd is None
    assert placed.low < placed.rating < placed.high
    assert (placed.difference_low[:11] < placed.difference_high[:11]).all()
    assert placed.slope is None
    [finding] = placed.findings
    assert (finding.name, finding.values["case"]) == ("judge-only", "opponents")


def test_nor_where_hardly_any_opponent_is_met_twice():
    human, judged = setting(models=12, judged=MIN_REPEATED_BATTLES + 5)
    placed = place_by_judge(human, judged, "m11")
    assert placed.label == "judge only"
    assert placed.findings[0].values["case"] == "battles"
    assert placed.findings[0].values["least"] == MIN_REPEATED_BATTLES + placed.opponents


def test_without_overlap_the_strength_is_the_most_likely_one():
    human, judged = setting(models=5)
    placed = place_by_judge(human, judged, "m04")
    log = judged.log()
    won = np.where(log.kind == Kind.WIN_A, 1.0, 0.0)

    def slope(rating):
        return (won - expit((rating - human.rating[log.b]) / UNIT)).sum()

    assert placed.rating == pytest.approx(brentq(slope, 0.0, 3000.0), abs=1e-4)


def test_the_conditional_interval_leaves_out_each_prompt():
    """The variance of the most likely strength, with each prompt left out to first order, and nothing else."""
    human, judged = setting(models=5, prompts=30)
    still = replace(
        human,
        uncertainty=replace(human.uncertainty, covariances=(np.zeros((5, 5)),), dof=np.full(5, np.inf)),
    )
    placed = place_by_judge(still, judged, "m04")
    log = judged.log()
    chance = expit((placed.rating - human.rating[log.b]) / UNIT)
    residual, information = (log.kind == Kind.WIN_A) - chance, chance * (1.0 - chance)
    shifts, shares = [], []
    for prompt in np.unique(log.prompt):
        inside = log.prompt == prompt
        shifts.append(residual[inside].sum() / information[~inside].sum())
        shares.append(information[inside].sum() / information.sum())
    error = UNIT * np.sqrt(np.sum(np.square(shifts)) * (len(shifts) - 1) / len(shifts))
    dof = 1.0 / np.sum(np.square(shares)) - 1.0
    assert placed.high - placed.rating == pytest.approx(error * t.ppf(0.975, dof), rel=1e-6)
    assert placed.difference_high[:4] - placed.difference[:4] == pytest.approx(placed.high - placed.rating)


def test_a_fit_that_is_stopped_early_is_still_a_placement(monkeypatch):
    human, judged = setting(models=8)
    monkeypatch.setattr("tiltyard.core.ratings.judge_placement._STEP_LIMIT", 1)
    early = place_by_judge(human, judged, "m07")
    monkeypatch.undo()
    assert early.rating == pytest.approx(place_by_judge(human, judged, "m07").rating, abs=30)


def test_sides_do_not_matter():
    human, judged = setting()
    log = judged.log()
    kind = np.where(log.kind == Kind.WIN_A, Kind.WIN_B, Kind.WIN_A).astype(np.uint8)
    turned = Table.from_codes(judged.models, replace(log, a=log.b, b=log.a, kind=kind))
    one, other = place_by_judge(human, judged, "m07"), place_by_judge(human, turned, "m07")
    assert other.rating == pytest.approx(one.rating)
    assert other.difference_low[:7] == pytest.approx(one.difference_low[:7])


def test_the_judges_battles_between_human_rated_models_tell_of_its_bias():
    human, judged = setting(models=8)
    rng = np.random.default_rng(9)
    a = rng.integers(0, 7, 2000)
    b = (a + rng.integers(1, 7, 2000)) % 7
    chance = expit((human.rating[a] - human.rating[b]) / UNIT)
    between = battles_table(judged.models, a, b, (rng.random(2000) < chance).astype(float), np.arange(2000))
    alone = place_by_judge(human, judged, "m07")
    more = place_by_judge(human, judged.merge(between), "m07")
    assert more.upper_bias_sd < 0.6 * alone.upper_bias_sd
    assert more.high - more.low < alone.high - alone.low
    assert more.rating == pytest.approx(alone.rating, abs=15)


def test_judged_battles_that_do_not_lead_to_the_new_model_are_left_out():
    human, judged = setting(models=10, opponents=6)
    apart = battles_table(judged.models, [7] * 40, [8] * 40, [1.0, 0.0] * 20, range(40))
    one = place_by_judge(human, judged, "m09")
    other = place_by_judge(human, judged.merge(apart), "m09")
    assert (other.opponents, other.battles) == (one.opponents, one.battles) == (6, 300)
    assert other.rating == pytest.approx(one.rating)


def test_opponents_without_a_human_rating_and_weights_of_zero_do_not_count():
    human, judged = setting(models=8)
    stranger = battles_table(["m07", "z"], [0] * 30, [1] * 30, [1.0] * 30, range(30))
    void = battles_table(judged.models, [7] * 50, [0] * 50, [1.0] * 50, range(50), np.zeros(50))
    one = place_by_judge(human, judged, "m07")
    other = place_by_judge(human, judged.merge(stranger).merge(void), "m07")
    assert other.rating == pytest.approx(one.rating)
    assert other.battles == one.battles


def test_two_groups_of_human_ratings_do_not_mix():
    names = ("a", "b", "c", "d", "new")
    rows = [
        Battle(model_a=x, model_b=y, winner=winner, question_id=f"q{k}")
        for k in range(30)
        for x, y, winner in (
            ("a", "b", Outcome.MODEL_A if k % 3 else Outcome.MODEL_B),
            ("c", "d", Outcome.MODEL_A if k % 2 else Outcome.MODEL_B),
        )
    ]
    human = BradleyTerry()(Table.from_battles(rows))
    judged = battles_table(names, [4] * 40, [0, 0, 1, 2] * 10, [1.0, 0.0, 1.0, 1.0] * 10, range(40))
    placed = place_by_judge(human, judged, "new")
    assert placed.group == human.group[0]
    assert placed.opponents == 2
    assert placed.battles == 30
    assert np.isnan(placed.difference[2:]).all()


@pytest.mark.parametrize(("score", "case"), [(1.0, "won"), (0.0, "lost")])
def test_a_model_that_only_won_or_lost_has_no_rating(score, case):
    human, _ = setting(models=8)
    judged = battles_table(human.models, [7] * 30, list(range(6)) * 5, [score] * 30, range(30))
    placed = place_by_judge(human, judged, "m07")
    assert np.isnan([placed.rating, placed.low, placed.high]).all()
    assert placed.group == -1
    assert placed.findings[0].values["case"] == case


def test_a_model_that_met_nobody_whom_people_rated_has_no_rating():
    human, _ = setting(models=8)
    judged = battles_table(["m07", "z"], [0] * 30, [1] * 30, [1.0, 0.0] * 15)
    assert place_by_judge(human, judged, "m07").findings[0].values["case"] == "opponents"


def test_battles_without_a_prompt_are_their_own_clusters():
    human, judged = setting(models=8)
    log = judged.log()
    bare = Table.from_codes(judged.models, replace(log, prompt=None))
    own = Table.from_codes(judged.models, replace(log, prompt=np.arange(len(log), dtype=np.uint64) + 5))
    assert place_by_judge(human, bare, "m07").difference_low[:7] == pytest.approx(
        place_by_judge(human, own, "m07").difference_low[:7]
    )


def test_one_judged_prompt_gives_no_interval():
    human, judged = setting(models=8, prompts=60)
    log = judged.log()
    one = Table.from_codes(judged.models, replace(log, prompt=np.full(len(log), 7, dtype=np.uint64)))
    placed = place_by_judge(human, one, "m07")
    assert placed.rating > 0.0
    assert np.isnan([placed.low, placed.high]).all()
    assert [finding.name for finding in placed.findings] == ["placed-by-judge", "interval-withheld"]
    assert (placed.rank_low, placed.rank_high) == (1, 8)


def test_only_bradley_terry_with_intervals_can_be_placed_among():
    human, judged = setting(models=8)
    for method in (Elo(), BradleyTerry(interval="none"), BradleyTerry(ties="davidson")):
        with pytest.raises(BadOption, match="a placement needs"):
            place_by_judge(replace(human, method=method, uncertainty=None), judged, "m07")


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_a_judge_of_another_sharpness_puts_the_best_model_where_people_would(slope):
    placed = [
        place_by_judge(*setting(own=1.6, judged=400, between=1500, slope=slope, seed=seed), "m07")
        for seed in range(5)
    ]
    assert np.mean([one.slope for one in placed]) == pytest.approx(slope, rel=0.2)
    assert all(one.low < 1500 + 1.6 * UNIT < one.high for one in placed)
    assert np.mean([one.rating for one in placed]) == pytest.approx(1500 + 1.6 * UNIT, abs=50)
    assert all([finding.name for finding in one.findings] == ["placed-by-judge"] for one in placed)


def test_few_judged_battles_among_rated_models_leave_the_slope_open():
    few = place_by_judge(*setting(own=1.6, judged=60), "m07")
    many = place_by_judge(*setting(own=1.6, judged=60, between=1500), "m07")
    assert [finding.name for finding in few.findings] == ["placed-by-judge", "judge-slope-unknown"]
    assert [finding.name for finding in many.findings] == ["placed-by-judge"]
    assert few.high - few.low > 1.2 * (many.high - many.low)


def test_a_judge_that_does_not_follow_people_places_nobody():
    placed = place_by_judge(*setting(slope=-0.5, between=1500), "m07")
    assert (placed.group, placed.findings[0].name) == (-1, "not-placed")
    assert placed.findings[0].values["case"] == "slope"


@pytest.mark.slow
@pytest.mark.parametrize("between", [0, 300])
@pytest.mark.parametrize("slope", [0.5, 1.0, 1.8])
@pytest.mark.parametrize(("place", "own"), [("best", 1.4), ("middle", 0.0), ("worst", -1.4)])
def test_a_new_model_is_placed_whatever_the_sharpness_of_the_judge(place, own, slope, between):
    held, widths, worlds = [], [], 300
    for seed in range(worlds):
        human, judged = setting(
            models=11, seed=seed, bias=0.15, judged=100, own=own, prompts=150, slope=slope, between=between
        )
        placed = place_by_judge(human, judged, "m10")
        held.append(placed.low <= 1500.0 + own * UNIT <= placed.high)
        widths.append((placed.high - placed.low) / 2.0)
    print(
        f"{place} model, slope {slope}, {between} between: held {np.mean(held):.1%}, ±{np.nanmedian(widths):.0f}"
    )
    assert np.mean(held) >= 0.93 - 2.0 * np.sqrt(0.05 * 0.95 / worlds)
