"""Win rates against a baseline: by hand, by an independent oracle, and in hostile worlds."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import t as student

from tiltyard.core.battles import Battle, CodedBattles, Kind, Outcome, Table
from tiltyard.core.battles.battle import JUDGMENT_WEIGHT
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.board.win_rates import (
    LENGTHS,
    BaselineChoice,
    baseline_findings,
    baseline_win_rates,
    find_baseline,
)
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2

A, B, TIE, BAD = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE, Outcome.BOTH_BAD


def battle(a, b, winner, prompt=None, **more):
    return Battle(model_a=a, model_b=b, winner=winner, question_id=prompt, **more)


def rates(battles, method=None, rule="battles"):
    table = Table.from_battles(battles)
    return baseline_win_rates(table, "base", rule, method or BradleyTerry())


def only(battles, method=None, rule="battles"):
    (row,) = rates(battles, method, rule).rows
    return row


def codes(score, *, prompts=None, lengths=None, weight=None):
    """Battles of model ``new`` (side B) with ``base`` (side A): the score is that of ``new``."""
    n = len(score)
    keys = hash_texts([f"q{k}" for k in (range(n) if prompts is None else prompts)])
    columns, names = [], []
    if lengths is not None:
        columns, names = list(np.asarray(lengths, dtype=float).T), list(LENGTHS)
    if weight is not None:
        columns.append(np.asarray(weight, dtype=float))
        names.append(JUDGMENT_WEIGHT)
    log = CodedBattles(
        np.zeros(n, dtype=np.uint16),
        np.ones(n, dtype=np.uint16),
        np.full(n, Kind.TIE, dtype=np.uint8),
        keys,
        pref=1.0 - np.asarray(score, dtype=float),
        covariates=np.stack(columns, axis=1) if columns else None,
    )
    return Table.from_codes(("base", "new"), log, covariates=names)


def row_of(table, rule="alpaca-eval", method=None):
    (row,) = baseline_win_rates(table, "base", rule, method or BradleyTerry()).rows
    return row


def fit_logistic(x, y):
    """Coefficients of a logistic regression by Newton's method."""
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = expit(x @ beta)
        beta = beta + np.linalg.solve((x * (p * (1.0 - p))[:, None]).T @ x, x.T @ (y - p))
    return beta


def test_by_hand():
    """Both sides count, ties are halves, a model with itself and both_bad are no evidence."""
    found = rates(
        [
            *(battle("new", "base", A, f"q{k}") for k in range(5)),
            *(battle("base", "new", A, f"q{k}") for k in range(5, 7)),
            battle("base", "new", B, "q7"),
            *(battle("base", "new", TIE, f"q{k}") for k in (8, 9)),
            battle("base", "base", A, "q10"),
            battle("base", "new", BAD, "q11"),
            battle("new", "other", B, "q12"),
        ]
    )
    new, other = found.rows
    assert (new.model, new.battles, new.prompts) == ("new", 10, 10)
    assert new.win_rate == pytest.approx((5 + 1 + 2 / 2) / 10)
    assert new.win_rate_low < new.win_rate < new.win_rate_high
    assert (other.model, other.win_rate, other.win_rate_low, other.battles) == ("other", None, None, 0)
    assert len(other.notes) == 1
    assert (found.baseline, found.level, found.scope) == ("base", 0.95, "prompts like these")
    assert not found.has_lengths
    assert found.to_columns()["win_rate"] == [new.win_rate, None]


def test_the_rules_of_the_board_hold():
    battles = [battle("new", "base", A if k % 3 else BAD, f"q{k}") for k in range(12)]
    battles += [battle("new", "base", B, f"q{k}") for k in range(12, 20)]
    assert only(battles).win_rate == pytest.approx(8 / 16)
    assert only(battles, BradleyTerry(both_bad="tie")).win_rate == pytest.approx((8 + 4 / 2) / 20)
    assert only(battles, Elo()).win_rate == only(battles, Glicko2()).win_rate == pytest.approx(8 / 16)
    soft = [battle("new", "base", A, f"q{k}", pref=0.75) for k in range(9)]
    assert only(soft).win_rate == 1.0
    assert only(soft, Elo(soft=True)).win_rate == pytest.approx(0.75)


def test_no_prompt_weighs_more_than_its_limit_unless_the_rule_is_published():
    battles = [battle("new", "base", A, "big") for _ in range(80)]
    battles += [battle("new", "base", B, f"q{k}") for k in range(20)]
    assert only(battles).win_rate == pytest.approx(0.1, abs=0.01)
    assert only(battles, BradleyTerry(max_share=None)).win_rate == pytest.approx(0.8)
    assert only(battles, rule="alpaca-eval").win_rate == pytest.approx(0.8)


def naive(score, weight, prompt, level=0.95):
    """The interval by a loop: leave each prompt out of a weighted mean, on the logit scale, to first order."""

    def spread(score, weight, prompt):
        p = weight @ score / weight.sum()
        shifts = []
        for name in set(prompt):
            mine = prompt == name
            pull = weight[mine] @ (score[mine] - p)
            shifts.append(pull / ((weight.sum() - weight[mine].sum()) * p * (1 - p)))
        n = len(shifts)
        return logit(p), np.sqrt((n - 1) / n * np.sum(np.square(shifts)))

    sums = np.array([weight[prompt == name].sum() for name in dict.fromkeys(prompt)])
    typical = sums @ sums / sums.sum()
    plain = spread(score, weight, prompt)
    more = spread(np.append(score, 0.5), np.append(weight, typical), np.append(prompt, "coin"))
    # Prompts are even here, so their number decides the degrees of freedom.
    t = student.ppf((1 + level) / 2, len(sums) - 1)
    ends = [theta + sign * t * se for theta, se in (plain, more) for sign in (-1, 1)]
    return expit(min(ends)), expit(max(ends))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_leaves_each_prompt_out(level):
    rng = np.random.default_rng(4)
    score, prompt = rng.choice([0.0, 0.5, 1.0], 90, p=[0.6, 0.2, 0.2]), np.repeat(np.arange(30), 3)
    found = row_of(codes(score, prompts=prompt), method=BradleyTerry(level=level))
    low, high = naive(score, np.ones(90), prompt.astype(str), level)
    assert (found.win_rate_low, found.win_rate_high) == pytest.approx((low, high))
    assert found.prompts == 30


def test_a_weight_is_not_a_number_of_battles():
    """Three times the weight everywhere changes nothing; duplicates of every judgment do not either."""
    rng = np.random.default_rng(7)
    score = rng.choice([0.0, 1.0], 40)
    once = row_of(codes(score, weight=np.ones(40)), "arena-hard")
    thrice = row_of(codes(score, weight=np.full(40, 3.0)), "arena-hard")
    twice = row_of(
        codes(np.tile(score, 2), prompts=np.tile(np.arange(40), 2), weight=np.ones(80)), "arena-hard"
    )
    for other in (thrice, twice):
        for name in ("win_rate", "win_rate_low", "win_rate_high", "prompts"):
            assert getattr(other, name) == pytest.approx(getattr(once, name))
    assert (once.battles, twice.battles) == (40, 80)


def test_voters_are_clusters_too():
    """A voter of strong opinions makes the interval wider than prompts alone do."""
    rng = np.random.default_rng(3)
    leaning = rng.random(12)
    battles = [
        battle("new", "base", A if rng.random() < leaning[k % 12] else B, f"q{k}", voter=f"v{k % 12}")
        for k in range(240)
    ]
    both = rates(battles)
    alone = only([battle(x.model_a, x.model_b, x.winner, x.question_id) for x in battles])
    assert both.scope.startswith("prompts and voters")
    assert both.rows[0].win_rate_high - both.rows[0].win_rate_low > 1.2 * (
        alone.win_rate_high - alone.win_rate_low
    )


@pytest.mark.parametrize("prompts", [1, 2, 3])
def test_few_prompts_give_no_interval(prompts):
    """Another model with more prompts does not change that."""
    battles = [battle("new", "base", (A, B, A)[k % 3], f"q{k % prompts}") for k in range(30)]
    battles += [battle("other", "base", A if k % 2 else B, f"q{k}") for k in range(30)]
    row = next(row for row in rates(battles).rows if row.model == "new")
    assert row.win_rate == pytest.approx(2 / 3)
    assert row.win_rate_low is row.win_rate_high is None
    assert "no interval" in row.notes[0]
    won = [battle("new", "base", A, f"q{k}") for k in range(prompts)]
    won += [battle("other", "base", A, f"q{k}") for k in range(30)]
    row = next(row for row in rates(won).rows if row.model == "new")
    assert (row.win_rate, row.win_rate_low) == (1.0, None)


def test_without_prompts_battles_are_the_sample():
    found = rates([battle("new", "base", A if k % 4 else B) for k in range(40)])
    assert found.scope == "these prompts only"
    assert found.rows[0].prompts is None
    assert found.rows[0].win_rate_low < 0.75 < found.rows[0].win_rate_high


def test_without_intervals():
    found = rates([battle("new", "base", A, f"q{k}") for k in range(9)], BradleyTerry(interval="none"))
    assert (found.level, found.scope, found.rows[0].win_rate_low) == (None, None, None)
    table = codes([0, 1, 1, 0, 1], lengths=[[5, 6], [5, 9], [7, 3], [4, 8], [2, 1]])
    row = row_of(table, method=BradleyTerry(interval="none"))
    assert 0 < row.length_controlled < 1
    assert row.length_controlled_low is None


@pytest.mark.parametrize(("outcome", "rate"), [(A, 1.0), (B, 0.0), (TIE, 0.5)])
def test_the_same_outcome_every_time(outcome, rate):
    """Each prompt counts as one trial: 20 wins do not prove that the model always wins."""
    row = only([battle("new", "base", outcome, f"q{k}") for k in range(20)])
    assert row.win_rate == rate
    assert row.win_rate_high - row.win_rate_low > 0.15
    assert 0.0 <= row.win_rate_low <= rate <= row.win_rate_high <= 1.0


def test_length_control_by_an_independent_fit():
    rng = np.random.default_rng(5)
    lengths = rng.lognormal(6, 0.6, (300, 2)).round()
    longer = lengths[:, 1] - lengths[:, 0]
    z = np.tanh(longer / longer.std(ddof=1))
    score = (rng.random(300) < expit(-0.7 + 1.2 * z)).astype(float)
    row = row_of(codes(score, lengths=lengths))
    theta, phi = fit_logistic(np.stack([np.ones(300), z], axis=1), score)
    assert row.length_controlled == pytest.approx(expit(theta), abs=1e-9)
    assert row.length_controlled_low < row.length_controlled < row.length_controlled_high
    assert phi > 0.5
    # Plain standard errors are near those that leave out each prompt, where every prompt has one battle.
    x = np.stack([np.ones(300), z], axis=1)
    p = expit(x @ [theta, phi])
    se = np.sqrt(np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)[0, 0])
    half = (logit(row.length_controlled_high) - logit(row.length_controlled_low)) / 2
    assert half == pytest.approx(student.ppf(0.975, 299) * se, rel=0.1)


def test_length_control_does_not_depend_on_sides():
    rng = np.random.default_rng(6)
    rows = [(rng.random() < 0.4, *rng.integers(10, 900, 2).tolist()) for _ in range(60)]

    def table(swapped):
        a = np.array([k in swapped for k in range(60)], dtype=np.uint16)
        won = np.array([row[0] for row in rows])
        kind = np.where(won ^ (a == 0), Kind.WIN_A, Kind.WIN_B).astype(np.uint8)
        lengths = np.array(
            [(row[1], row[2]) if a[k] else (row[2], row[1]) for k, row in enumerate(rows)], float
        )
        log = CodedBattles(a, 1 - a, kind, hash_texts([str(k) for k in range(60)]), covariates=lengths)
        return Table.from_codes(("base", "new"), log, covariates=LENGTHS)

    one, other = row_of(table(range(60)), "battles"), row_of(table(range(0, 60, 7)), "battles")
    for name in ("win_rate", "length_controlled", "length_controlled_low", "length_controlled_high"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_lengths_that_control_nothing():
    equal = row_of(codes([0, 1, 1, 1, 0, 1], lengths=[[7, 7]] * 6))
    assert (equal.length_controlled, equal.length_controlled_low) == (equal.win_rate, equal.win_rate_low)
    assert equal.notes == ()
    for score, lengths, reason in (
        ([0, 1, 1, 1, 0, 1], [[7, 9]] * 6, "by the same amount"),
        ([1], [[7, 9]], "by the same amount"),
        ([1] * 6, [[k, 9] for k in range(6)], "one side won every battle"),
        ([0] * 6, [[k, 9] for k in range(6)], "one side won every battle"),
        ([0, 0, 0, 1, 1, 1], [[9 - k, 9] for k in range(6)], "separates wins from losses"),
        ([1, 1, 1, 0, 0, 0], [[9 - k, 9] for k in range(6)], "separates wins from losses"),
    ):
        row = row_of(codes(score, lengths=lengths))
        assert row.length_controlled is None
        assert any(reason in note for note in row.notes), reason


def test_missing_lengths_are_counted():
    rng = np.random.default_rng(2)
    lengths, score = rng.integers(10, 900, (60, 2)).astype(float), rng.choice([0.0, 1.0], 60)
    lengths[50:] = np.nan
    row = row_of(codes(score, lengths=lengths))
    first = row_of(codes(score[:50], lengths=lengths[:50]))
    assert row.length_controlled == pytest.approx(first.length_controlled)
    assert ["50 of 60" in note for note in row.notes] == [True]
    none = row_of(codes(score, lengths=np.full((60, 2), np.nan)))
    assert (none.length_controlled, none.notes) == (None, ())


@pytest.mark.parametrize(("longer", "noted"), [(5, True), (6, False), (54, False), (55, True)])
def test_lengths_that_hardly_overlap_are_said(longer, noted):
    rng = np.random.default_rng(2)
    lengths, score = np.full((60, 2), 300.0), rng.choice([0.0, 1.0], 60)
    lengths[:, 1] += np.where(np.arange(60) < longer, 1, -1) * rng.integers(10, 90, 60)
    row = row_of(codes(score, lengths=lengths))
    assert ["guesses" in note for note in row.notes] == [True] * noted


def test_the_difficulty_that_is_left_out():
    """alpaca_eval fits the difficulty of each instruction on many models; it hardly moves rates by itself."""
    rng = np.random.default_rng(8)
    models, prompts = 12, 300
    strength, gamma = np.linspace(-2, 1.5, models), rng.normal(1, 0.3, models)
    difficulty = rng.normal(0, 1, prompts)
    lengths = rng.lognormal(6, 0.5, (models, prompts, 2)).round()
    longer = lengths[..., 1] - lengths[..., 0]
    z = np.tanh(longer / longer.std(axis=1, ddof=1)[:, None])
    logits = strength[:, None] + 0.8 * z + gamma[:, None] * difficulty
    preference = expit(logits + rng.normal(0, 0.5, logits.shape))
    gaps = []
    for m in range(models):
        x = np.stack([np.ones(prompts), z[m], difficulty], axis=1)
        theta, _, slope = fit_logistic(x, preference[m])
        theirs = expit(theta + slope * difficulty).mean()
        ours = row_of(codes(preference[m], lengths=lengths[m]))
        gaps.append(abs(theirs - ours.length_controlled))
    assert max(gaps) < 0.015


def test_who_is_the_baseline():
    table = Table.from_battles([battle("base", "x", A, "q"), battle("base", "y", B, "q")])
    assert find_baseline(table, BaselineChoice("x", "alpaca-eval")) == "x"
    assert find_baseline(table, BaselineChoice(None, "alpaca-eval")) == "base"
    assert find_baseline(table, BaselineChoice(None, "arena-hard")) is None
    (finding,) = baseline_findings(table, BaselineChoice(None, "arena-hard"))
    assert finding.values["models"] == ("x", "y")
    assert baseline_findings(table, BaselineChoice(None, "alpaca-eval")) == ()
    assert baseline_findings(table, BaselineChoice("x", "arena-hard")) == ()


def test_a_baseline_that_is_not_in_this_table():
    found = baseline_win_rates(
        Table.from_battles([battle("x", "y", A, "q")]), "base", "battles", BradleyTerry()
    )
    assert [(row.win_rate, row.battles) for row in found.rows] == [(None, 0), (None, 0)]
