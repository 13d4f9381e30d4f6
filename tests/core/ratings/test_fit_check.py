import math

import numpy as np
import pytest
from scipy.stats import chi2

from support.sizes import sized
from support.worlds import drawn, table, told
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.fit_check import check_fit, predict_ahead
from tiltyard.core.ratings.scoring import Scoring

RING = "a>b*30 b>a*2 b>c*30 c>b*2 c>a*30 a>c*2"


def names_of(check):
    return {finding.name for finding in check.findings}


def test_residuals_are_those_of_each_pair():
    codes = drawn(4, 400, 1)
    world = table(codes)
    rating = BradleyTerry(interval="none")(world).rating
    y = Scoring().of(codes)
    expected = 1.0 / (1.0 + 10.0 ** ((rating[codes.b] - rating[codes.a]) / 400.0))
    left = 1.0 - (codes.kind == Kind.TIE).sum() / (4.0 * expected @ (1.0 - expected))
    check = check_fit(world)
    assert len(check.residuals) == 6
    total = 0.0
    for residual in check.residuals:
        i, j = world.models.index(residual.model_a), world.models.index(residual.model_b)
        there, back = (codes.a == i) & (codes.b == j), (codes.a == j) & (codes.b == i)
        n, score = there.sum() + back.sum(), y[there].sum() + (1.0 - y[back]).sum()
        s = 1.0 / (1.0 + 10.0 ** ((rating[j] - rating[i]) / 400.0))
        z = (score - n * s) / math.sqrt(n * s * (1.0 - s) * left)
        assert (residual.battles, residual.observed) == pytest.approx((n, score / n))
        assert (residual.expected, residual.z) == pytest.approx((s, z))
        total += z * z
    assert check.dispersion == pytest.approx(total / 3)
    assert check.p_value == pytest.approx(chi2.sf(total, 3))
    sizes = [abs(residual.z) for residual in check.residuals]
    assert sizes == sorted(sizes, reverse=True)


def davidson_world(seed, spread, nu):
    """Battles drawn from Davidson's model: ties grow rare as strengths move apart."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, spread, 8)
    a = rng.integers(0, 8, 3000)
    b = (a + rng.integers(1, 8, 3000)) % 8
    u = (strength[a] - strength[b]) / 2.0
    win, loss = np.exp(u), np.exp(-u)
    drawn_at = rng.random(3000) * (win + loss + nu)
    kind = np.where(drawn_at < win, Kind.WIN_A, np.where(drawn_at < win + loss, Kind.WIN_B, Kind.TIE))
    return table(CodedBattles(a, b, kind.astype(np.uint8)), 8)


@pytest.mark.parametrize(("spread", "nu"), [(0.5, 0.0), (1.0, 0.0), (0.5, 1.0), (1.2, 1.0)])
def test_battles_of_the_model_itself_fit_it(spread, nu):
    checks = [check_fit(davidson_world(seed, spread, nu)) for seed in range(sized(8, 15))]
    assert np.mean([check.dispersion for check in checks]) == pytest.approx(1.0, abs=0.25)
    assert not any(names_of(check) for check in checks)


def test_a_ring_is_found_and_fits_poorly():
    check = check_fit(told(RING))
    assert [cycle.models for cycle in check.cycles] == [("a", "b", "c")]
    assert names_of(check) == {"poor-fit", "cycles"}
    assert "a > b > c > a" in next(f.text for f in check.findings if f.name == "cycles")


def test_many_rings_are_not_all_listed():
    m = 15
    i, j = np.array([(i, (i + k) % m) for i in range(m) for k in range(1, 8)]).repeat(20, 0).T
    check = check_fit(table(CodedBattles(i, j, np.zeros(len(i), np.uint8)), m))
    assert len(check.cycles) == 100


@pytest.mark.parametrize("story", ["a>b*3 b>a", "a>b", "a!b"])
def test_where_nothing_can_be_checked_there_is_no_verdict(story):
    check = check_fit(told(story))
    assert math.isnan(check.dispersion)
    assert math.isnan(check.p_value)
    assert check.findings == ()


def test_groups_are_checked_apart_and_battles_of_no_weight_not_at_all():
    check = check_fit(told("a>b*3 b>a*2 c>d*3 d>c a>e"), Scoring("drop"))
    assert {(r.model_a, r.model_b) for r in check.residuals} == {("a", "b"), ("c", "d")}
    check = check_fit(told("a>b b>a c>b b>c a=c", weight=[1, 1, 1, 1, 0]))
    assert len(check.residuals) == 2


def test_weights_count_in_the_score_and_squared_in_its_variance():
    """Every battle twice at half the weight has the same fit, and half the variance."""
    once = check_fit(told(RING))
    twice = check_fit(told(f"{RING} {RING}", weight=[0.5] * 192))
    for one, two in zip(once.residuals, twice.residuals, strict=True):
        assert (two.observed, two.expected) == pytest.approx((one.observed, one.expected))
        assert two.z == pytest.approx(one.z * math.sqrt(2.0))
    assert twice.dispersion == pytest.approx(2.0 * once.dispersion)
    light = check_fit(told(RING, weight=[0.1] * 96))
    assert light.dispersion == pytest.approx(once.dispersion)
    assert light.cycles == once.cycles


def test_limited_weights_are_those_of_the_fit_that_is_checked():
    codes = drawn(4, 600, 1, prompts=20)
    codes.prompt[:300] = 1
    codes.kind[:300] = Kind.WIN_A
    limited = BradleyTerry().limited(table(codes)).table
    rating = BradleyTerry(interval="none")(table(codes)).rating
    for residual in check_fit(limited).residuals:
        i, j = (limited.models.index(model) for model in (residual.model_a, residual.model_b))
        assert residual.expected == pytest.approx(1.0 / (1.0 + 10.0 ** ((rating[j] - rating[i]) / 400.0)))


# Prediction


def test_predictions_use_the_weights_of_battles():
    codes = drawn(4, 200, 5)
    weight = np.where(np.arange(200) % 2, 1.0, 0.0)
    without = predict_ahead(table(CodedBattles(codes.a, codes.b, codes.kind, weight=weight)), prior_sd=1.0)
    assert without.battles == predict_ahead(table(codes)).battles
    assert without.log_loss != pytest.approx(predict_ahead(table(codes), prior_sd=1.0).log_loss)
    same = predict_ahead(table(CodedBattles(codes.a, codes.b, codes.kind, weight=np.ones(200))), prior_sd=1.0)
    assert same.log_loss == pytest.approx(predict_ahead(table(codes), prior_sd=1.0).log_loss)


def test_every_battle_is_predicted_from_those_before_its_block():
    codes = drawn(4, 100, 5)
    found = predict_ahead(table(codes), prior_sd=1.0)
    y = Scoring().of(codes)
    losses, predicted = [], []
    for block in range(1, 20):
        seen = 5 * block
        past = CodedBattles(codes.a[:seen], codes.b[:seen], codes.kind[:seen])
        unit = 400.0 / math.log(10.0)
        rating = BradleyTerry(prior_sd=unit, interval="none")(table(past, 4)).rating
        theta = np.nan_to_num((rating - 1500.0) / unit)
        for row in range(seen, seen + 5):
            p = 1.0 / (1.0 + math.exp(theta[codes.b[row]] - theta[codes.a[row]]))
            losses.append(-(y[row] * math.log(p) + (1.0 - y[row]) * math.log(1.0 - p)))
            predicted.append(p)
    assert found.battles == 95
    assert found.log_loss == pytest.approx(np.mean(losses))
    assert found.coin == pytest.approx(math.log(2.0))
    assert sum(n for _, _, n in found.calibration) == 95
    for mean, score, n in found.calibration:
        tenth = [k for k, p in enumerate(predicted) if int(p * 10) == int(mean * 10)]
        assert len(tenth) == n
        assert mean == pytest.approx(np.mean([predicted[k] for k in tenth]))
        assert score == pytest.approx(np.mean([y[5 + k] for k in tenth]))


def test_too_few_battles_predict_nothing():
    assert predict_ahead(told("a>b*39")) is None
    assert predict_ahead(told("a>b*40")).battles == 38
