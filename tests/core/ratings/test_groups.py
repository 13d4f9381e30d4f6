"""Which models may be compared, and every finding: there when it must be, absent otherwise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from support.sizes import sized
from support.worlds import drawn, table, told
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import BradleyTerry, Elo, Finding, Glicko2, newton
from tiltyard.core.ratings.findings import MIN_BATTLES, MIN_PROMPTS, SAMPLE_VOTERS
from tiltyard.core.ratings.fit_check import check_fit, predict_ahead
from tiltyard.core.ratings.pairs import Scoring, score_pairs

EVEN = "a>b*30 b>a*30"
QUICK = {
    "bradley-terry": BradleyTerry(),
    "elo": Elo(n_permutations=2, n_bootstraps=2, n_orders=2),
    "glicko-2": Glicko2(),
}
every_method = pytest.mark.parametrize("method", QUICK.values(), ids=QUICK)


def findings(world, method=None):
    return {finding.name: finding for finding in (method or BradleyTerry())(world).findings}


def prompts(n, rows=60):
    return [f"q{k % n}" for k in range(rows)]


def voters(n, rows=60):
    return [f"v{k % n}" for k in range(rows)]


WITH_PROMPTS = {"question_id": prompts(MIN_PROMPTS)}

#: A table that has the finding, and its nearest neighbour that has not.
CASES = {
    "self-battles": (told(f"{EVEN} a>a"), told(f"{EVEN} a>b")),
    "unrated": (told(f"{EVEN} c!a"), told(f"{EVEN} c>a")),
    "few-battles": (told("a>b*15 b>a*14"), told("a>b*15 b>a*15")),
    "disconnected": (told(f"{EVEN} c>d d>c"), told(f"{EVEN} c>d d>c c=a")),
    "only-wins": (told(f"{EVEN} c>a c>b"), told(f"{EVEN} c>a b>c")),
    "only-loses": (told(f"{EVEN} c<a c<b"), told(f"{EVEN} c<a c=b")),
    "one-sided": (told(f"{EVEN} c>d d>c a>c"), told(f"{EVEN} c>d d>c a=c")),
    "no-prompts": (told(EVEN), told(EVEN, **WITH_PROMPTS)),
    "few-prompts": (told(EVEN, question_id=prompts(MIN_PROMPTS - 1)), told(EVEN, **WITH_PROMPTS)),
    "few-voters": (
        told(EVEN, **WITH_PROMPTS, voter=voters(SAMPLE_VOTERS - 1)),
        told(EVEN, **WITH_PROMPTS, voter=voters(SAMPLE_VOTERS)),
    ),
    "mixed-sources": (
        told(EVEN, source=["human", "judge"] * 30),
        told(EVEN, source=["human", None] * 30),
    ),
    "mixed-dimensions": (
        told(EVEN, dimension=["style", "truth"] * 30),
        told(EVEN, dimension=["style"] * 60),
    ),
}


@pytest.mark.parametrize(("name", "present", "absent"), [(k, *v) for k, v in CASES.items()], ids=CASES)
def test_a_finding_is_there_when_it_must_be_and_only_then(name, present, absent):
    assert name in findings(present)
    assert name not in findings(absent)


@every_method
@pytest.mark.parametrize("name", ["self-battles", "unrated", "few-battles", "disconnected"])
def test_every_method_reports_what_lies_in_the_battles(method, name):
    present, absent = CASES[name]
    assert name in findings(present, method)
    assert name not in findings(absent, method)


def test_failed_replicates_are_counted():
    method = BradleyTerry(interval="bootstrap", n_bootstraps=50)
    found = findings(told("a>b*30 b>a"), method)["failed-replicates"]
    assert "of 50 bootstrap replicates" in found.text
    assert "failed-replicates" not in findings(told(EVEN), method)


def test_a_fit_that_did_not_settle_says_so(monkeypatch):
    assert "not-converged" not in findings(told(EVEN))
    monkeypatch.setattr(newton, "_MAX_ITERATIONS", 1)
    assert "not-converged" in findings(told("a>b*30 b>a*10"))


def test_findings_say_who_and_what_to_do():
    won, one_sided, few = (CASES[name][0] for name in ("only-wins", "one-sided", "few-battles"))
    found = findings(won)["only-wins"]
    assert found == Finding("only-wins", {"models": ("c",), "more": 0})
    assert "--prior-sd" in found.advice
    assert findings(one_sided)["one-sided"].text.startswith("Between c, d")
    assert findings(few)["few-battles"].text.endswith("a (29), b (29).")
    assert MIN_BATTLES == 30


def test_one_sided_is_seen_between_two_sides_and_on_every_island():
    found = findings(told(f"{EVEN} a>c c>d"))
    assert "Between c and" in found["one-sided"].text
    assert found["only-loses"].text.startswith("d lost")
    found = findings(told(f"{EVEN} c=d*3 e=f*2 c>e"))
    assert "Between e, f" in found["one-sided"].text
    assert "disconnected" in found
    assert "one-sided" not in findings(told(f"{EVEN} c=d*3 e=f*2"))


# Groups


def test_groups_are_numbered_by_their_battles():
    result = BradleyTerry()(told("a=b*3 c=d*9 e=f*5"))
    assert result.group.tolist() == [2, 2, 0, 0, 1, 1]
    story = told("a=b a=g c=d*9 e=f*5")
    for method in (QUICK["elo"], QUICK["glicko-2"]):
        assert method(story).group.tolist() == [2, 2, 0, 0, 1, 1, 2]


def reachable(edges, m):
    """Who reaches whom along the edges, by squaring the relation."""
    reach = np.eye(m, dtype=bool)
    for i, j in edges:
        reach[i, j] = True
    for _ in range(m):
        reach = reach | (reach @ reach)
    return reach


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 6)), max_size=14))
def test_models_share_a_group_exactly_where_points_go_both_ways(battles):
    a, b, kind = np.array(battles, dtype=np.int64).reshape(-1, 3).T
    world = table(CodedBattles(a, b, kind.astype(np.uint8)), 6)
    edges, meetings = [], []
    for i, j, score in zip(a, b, Scoring().by_kind()[kind], strict=True):
        if i != j and not np.isnan(score):
            edges += [(i, j)] * int(score > 0) + [(j, i)] * int(score < 1)
            meetings += [(i, j), (j, i)]
    for method, relation in (
        (BradleyTerry(interval="none"), reachable(edges, 6)),
        (BradleyTerry(interval="none", prior_sd=100.0), reachable(meetings, 6)),
    ):
        group = method(world).group
        both = relation & relation.T
        np.testing.assert_array_equal(group >= 0, both.sum(axis=1) > 1)
        same = (group[:, None] == group[None, :]) & (group >= 0)[:, None]
        np.testing.assert_array_equal(same, both & (group >= 0)[:, None])
        used = [sum(group[i] == group[j] == g for i, j in meetings[::2]) for g in range(group.max() + 1)]
        assert used == sorted(used, reverse=True)


# Pairs and records


def test_pairs_sum_what_the_battles_say():
    codes = drawn(4, 200, 2, judged=True, weighted=True, soft=True)
    for scoring in (Scoring(), Scoring("drop"), Scoring(soft=True), Scoring(lean=1.0, inconsistent=0.2)):
        pairs = score_pairs(table(codes).counts, 4, scoring)
        y = scoring.of(codes)
        for i, j, weight, score in zip(pairs.i, pairs.j, pairs.weight, pairs.score, strict=True):
            there = (codes.a == i) & (codes.b == j) & ~np.isnan(y)
            back = (codes.a == j) & (codes.b == i) & ~np.isnan(y)
            w = codes.weight
            assert weight == pytest.approx(w[there | back].sum())
            assert score == pytest.approx(w[there] @ y[there] + w[back] @ (1.0 - y[back]))


def test_pairs_records_and_scores_worked_by_hand():
    pairs = score_pairs(told("a>b b>c*2 c>d").counts, 4, Scoring()).among(np.array([1, 2]))
    assert (pairs.n_models, pairs.i.tolist(), pairs.j.tolist(), pairs.weight.tolist()) == (2, [0], [1], [2.0])
    record = BradleyTerry()(told("a>b*3 a<b b=a*2 a!b a>a*9")).record
    assert (record.wins[0], record.losses[0], record.ties[0], record.both_bad[0]) == (3, 1, 2, 1)
    assert (record.wins[1], record.losses[1], record.ties[1], record.both_bad[1]) == (1, 3, 2, 1)
    assert record.battles.tolist() == [6, 6]
    codes = told("a>b a>b a!b a>a", pref=[0.5, None, 0.9, 0.9]).log()
    np.testing.assert_array_equal(Scoring(soft=True).of(codes), [0.5, 1.0, np.nan, np.nan])
    np.testing.assert_array_equal(Scoring().of(codes), [1.0, 1.0, np.nan, np.nan])


# The result


def test_order_is_by_group_then_rating_and_the_unrated_come_last():
    result = BradleyTerry()(told("b>a*3 a>b*2 c=d e>a f!e"))
    assert [result.models[k] for k in result.order()] == ["b", "a", "c", "d", "e", "f"]


def test_columns_are_plain_values_best_first():
    columns = BradleyTerry()(told("b>a*3 a>b*2 a=b c>a c!a")).to_columns()
    assert columns["model"] == ["b", "a", "c"]
    assert columns["rating"][2] is None
    assert columns["ci_low"][2] is None
    assert columns["rating"][0] == pytest.approx(1500.0 + 200.0 * math.log10(3.5 / 2.5))
    assert (columns["wins"], columns["losses"]) == ([3, 2, 1], [2, 4, 0])
    assert (columns["ties"], columns["both_bad"]) == ([1, 1, 0], [0, 1, 1])
    assert (columns["group"], columns["battles"]) == ([0, 0, -1], [6, 7, 1])
    assert "ci_low" not in BradleyTerry(interval="none")(told("a=b")).to_columns()
    assert all(len(column) == 3 for column in columns.values())


# What each kind of outcome counts


def test_an_outcome_and_its_mirror_count_one_together():
    scores = Scoring(lean=0.8).by_kind()
    assert (scores[Kind.WIN_A], scores[Kind.LEAN_A], scores[Kind.TIE]) == (1.0, 0.8, 0.5)
    assert scores[Kind.WIN_A] + scores[Kind.WIN_B] == scores[Kind.LEAN_A] + scores[Kind.LEAN_B] == 1.0


@pytest.mark.parametrize("scoring", [Scoring(inconsistent=None), Scoring(ties="drop", inconsistent=0.5)])
def test_what_is_left_out_counts_nothing(scoring):
    scores = scoring.by_kind()
    assert np.isnan(scores[Kind.INCONSISTENT])
    assert np.isnan(scores[Kind.TIE]) == (scoring.ties == "drop")
    assert np.isnan(scores[Kind.BOTH_BAD])


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
