import math
import re
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.stats import t

from support.worlds import battles, counted, drawn, table, told
from tiltyard.core.battles import Kind, Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.comparison import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    compare_models,
    decide,
    paired_difference,
    prompts_needed,
)
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.errors import BadOption, CannotRate


def test_the_difference_and_its_interval_come_from_the_ratings():
    world = table(drawn(4, 400, 2, prompts=40))
    found = compare_models(world, "ab", "ad", BradleyTerry(level=0.9))
    result = BradleyTerry()(world)
    contrast = np.array([0.0, 1.0, 0.0, -1.0])
    difference, error = (
        contrast @ result.rating,
        math.sqrt(contrast @ result.uncertainty.covariances[0] @ contrast),
    )
    dof = min(result.uncertainty.dof[1], result.uncertainty.dof[3])
    assert 10.0 < dof < 39.0
    half = t.ppf(0.95, dof) * error
    assert found.difference == pytest.approx(difference)
    assert (found.low, found.high) == pytest.approx((difference - half, difference + half))
    ranks = rank_models(result, level=0.9)
    assert found.settled == (ranks.above[1, 3] or ranks.above[3, 1])
    assert found.expected_score == pytest.approx(1.0 / (1.0 + 10.0 ** (-difference / 400.0)))
    assert (found.level, found.scope) == (0.9, "prompts like these")


def test_turning_it_round_turns_the_signs():
    world = table(drawn(4, 400, 2))
    one, other = compare_models(world, "aa", "ac"), compare_models(world, "ac", "aa")
    assert one.difference == pytest.approx(-other.difference)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.settled == other.settled
    assert (one.wins, one.losses, one.ties) == (other.losses, other.wins, other.ties)


def test_direct_battles_and_prompts_are_counted_one_by_one():
    codes = drawn(3, 300, 4, prompts=20, judged=True)
    codes.kind[::25] = Kind.BOTH_BAD
    codes.prompt[:10] = 0
    found = compare_models(table(codes), "aa", "ac")
    tally, margins = defaultdict(int), defaultdict(float)
    for row in range(300):
        pair = (int(codes.a[row]), int(codes.b[row]))
        if pair not in ((0, 2), (2, 0)):
            continue
        score = Scoring().by_kind()[codes.kind[row]]
        score = score if pair == (0, 2) else 1.0 - score
        kind = codes.kind[row]
        if kind == Kind.BOTH_BAD:
            tally["both_bad"] += 1
            continue
        tied = kind in (Kind.TIE, Kind.INCONSISTENT)
        tally["ties" if tied else "wins" if score > 0.5 else "losses"] += 1
        if codes.prompt[row]:
            margins[codes.prompt[row]] += score - 0.5
    assert (found.wins, found.losses) == (tally["wins"], tally["losses"])
    assert (found.ties, found.both_bad) == (tally["ties"], tally["both_bad"])
    assert found.prompts_ahead == sum(margin > 0 for margin in margins.values())
    assert found.prompts_behind == sum(margin < 0 for margin in margins.values())


def test_a_both_bad_that_counts_as_a_tie_is_among_the_ties():
    world = told("a>b*11 b>a*5 a=b a!b*30 b!a*25 a!c*4 a>c c>a")
    found = compare_models(world, "a", "b", BradleyTerry(both_bad="tie"))
    assert (found.wins, found.losses, found.ties, found.both_bad) == (11, 5, 56, 55)


def test_prompts_are_unknown_where_the_log_names_none():
    for world in (told("a>b*3 b>a"), counted("a>b*3 b>a")):
        found = compare_models(world, "a", "b")
        assert (found.prompts_ahead, found.prompts_behind) == (None, None)


def test_what_few_prompts_or_no_spread_decide_is_not_compared():
    world = told("a>b*20 b>a*10", question_id=[f"q{k % 3}" for k in range(30)])
    with pytest.raises(CannotRate, match="few prompts"):
        compare_models(world, "a", "b")
    with pytest.raises(CannotRate, match="no interval"):
        compare_models(told("a=b*40"), "a", "b")


def test_a_comparison_reads_as_settled_or_open_and_is_shown_so():
    found = compare_models(told("a>b*400 b>a*100"), "b", "a")
    assert found.settled
    assert re.match(r"a is settled above b.* 241 .* 203 to 279", found.sentence)
    shown = []
    found._repr_pretty_(SimpleNamespace(text=shown.append), cycle=False)
    assert shown == [found.sentence]
    found = compare_models(told("a>b*6 b>a*5"), "a", "b")
    assert not found.settled
    assert re.search(r"not settled: a .* 32 points", found.sentence)


def test_an_order_is_settled_only_if_all_pairs_hold_at_once():
    """One pair alone is above zero; among 28 pairs it is not settled, and the sentence says why."""
    others = " ".join(f"{name}>a*50 a>{name}*50" for name in "cdefgh")
    found = compare_models(told(f"a>b*60 b>a*40 {others}"), "b", "a")
    assert found.high < 0.0
    assert not found.settled
    assert "at once" in found.sentence
    assert compare_models(told("a>b*60 b>a*40"), "b", "a").settled


def test_a_clone_with_the_same_battles_is_not_compared():
    """Rows entered under two names: the two never met, and move together whichever prompt is left out."""
    prompts = [f"q{k % 26}" for k in range(91)]
    shared = battles("c>d*20 d>c*15 a>c*20 c>a*15 a>d*9 d>a*12", question_id=prompts)
    clones = [replace(row, model_a="b") for row in shared if row.model_a == "a"]
    clones += [replace(row, model_b="b") for row in shared if row.model_b == "a"]
    world = Table.from_battles([*shared, *clones])
    with pytest.raises(CannotRate, match="both names"):
        compare_models(world, "a", "b")
    found = compare_models(world, "a", "c")
    assert found.low < found.difference < found.high


@pytest.mark.parametrize(
    ("pair", "error", "problem"),
    [
        (("a", "z"), BadOption, "'z'"),
        (("a", "a"), BadOption, "different"),
        (("a", "c"), CannotRate, "never met"),
        (("e", "a"), CannotRate, "e won"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_its_reason(pair, error, problem):
    with pytest.raises(error, match=problem):
        compare_models(told("a>b*2 b>a c=d e>a"), *pair)


@pytest.mark.parametrize(
    "method", [BradleyTerry(interval="none"), BradleyTerry(interval="bootstrap", n_bootstraps=2, seed=0)]
)
def test_without_an_interval_nothing_is_compared(method):
    with pytest.raises(CannotRate, match="cannot be compared"):
        compare_models(told("a>b b>a"), "a", "b", method)


def test_a_comparison_as_plain_values():
    found = compare_models(told("a>b*9 b>a*6"), "a", "b")
    plain = found.to_dict()
    assert plain["difference"] == found.difference
    assert plain["sentence"] == found.sentence
    assert plain["findings"] == [finding.to_dict() for finding in found.findings]
    assert set(plain) >= {"model_a", "model_b", "low", "high", "level", "scope", "settled", "wins"}


# Paired differences: intervals that hold for one look, and for all looks.


def decided(values, reach, margin):
    found = paired_difference(np.asarray(values, dtype=float), reach)
    return decide(found.low, found.high, margin)


def test_it_is_the_t_interval_of_the_prompts_and_two_imaginary_ones():
    values = np.array([1.0, 0.0, 0.0, 1.0, -1.0, 1.0])
    found = paired_difference(values, 1.0, level=0.9)
    both = np.append(values, [1.0, -1.0])
    low, high = stats.t.interval(0.9, len(both) - 1, both.mean(), stats.sem(both))
    assert (found.prompts, found.mean, found.level) == (6, pytest.approx(1 / 3), 0.9)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_prompts_that_all_agree_are_not_certain():
    """Five answers that are all right on both sides do not show that the models are the same."""
    assert decided(np.zeros(5), 1.0, 0.05) is ABDecision.UNDECIDED
    assert decided(np.zeros(400), 1.0, 0.05) is ABDecision.SAME


@pytest.mark.parametrize(("values", "reach"), [([], 1.0), ([0.0, 0.0], 0.0)])
def test_nothing_is_said_of_nothing(values, reach):
    found = paired_difference(np.array(values), reach)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert prompts_needed(found, 0.1) is None


def test_decisions():
    assert decide(0.1, 0.3, None) is ABDecision.BETTER
    assert decide(-0.3, -0.1, None) is ABDecision.WORSE
    assert decide(-0.1, 0.1, None) is ABDecision.UNDECIDED
    assert decide(-0.1, 0.1, 0.2) is ABDecision.SAME
    # Surely better or worse, but by less than matters.
    assert decide(0.01, 0.02, 0.2) is ABDecision.SAME
    assert decide(-0.139, -0.0253, 0.3) is ABDecision.SAME
    assert decide(-0.139, -0.0253, 0.1) is ABDecision.WORSE
    assert decide(0.1, 0.3, 0.2) is ABDecision.BETTER
    assert decide(-0.2, 0.2, 0.2) is ABDecision.SAME


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_level_is_a_probability(level):
    with pytest.raises(BadOption, match="between 0 and 1"):
        paired_difference(np.zeros(3), 1.0, level=level)


@pytest.mark.parametrize("planned", [None, 200])
def test_so_many_prompts_as_are_said_would_decide(planned):
    rng = np.random.default_rng(1)
    some = rng.choice([-0.5, 0.0, 0.5], 60, p=[0.3, 0.2, 0.5])
    needed = prompts_needed(paired_difference(some, 0.5, planned=planned), planned=planned)
    ahead = paired_difference(np.resize(some, needed), 0.5, planned=planned)
    assert ahead.low > -0.03
    # A difference that is nearly nothing needs more prompts than anybody has, unless it may count as the same.
    level = paired_difference(np.tile([-0.5, 0.5, 0.5, -0.5, 1e-9], 20), 0.5, planned=planned)
    assert prompts_needed(level, planned=planned) is None
    assert prompts_needed(level, 0.05, planned=planned) > 100


def test_a_sequence_says_nothing_at_first_and_overflows_never():
    wins = np.full(MIN_SEQUENCE_PROMPTS, 0.5)
    assert paired_difference(wins[:-1], 0.5, planned=200).high == math.inf
    assert paired_difference(wins, 0.5, planned=200).low > 0.0
    assert math.isfinite(paired_difference(wins, 0.5, level=1 - 1e-15, planned=10**9).high)


def worlds(gap, count, prompts, seed):
    """Leads in worlds with effects of prompts and a fifth of ties; ``gap`` in logits."""
    rng = np.random.default_rng(seed)
    chance = 1.0 / (1.0 + np.exp(-gap - rng.normal(0.0, 0.5, (count, prompts))))
    lead = np.where(rng.random((count, prompts)) < chance, 0.5, -0.5)
    return np.where(rng.random((count, prompts)) < 0.2, 0.0, lead)


def first_decisions(leads, planned=200):
    """The decision at which each world stops, and after how many prompts; a look at every tenth."""
    for one in leads:
        for n in range(MIN_SEQUENCE_PROMPTS, len(one) + 1, 10):
            found = paired_difference(one[:n], 0.5, planned=planned)
            decision = decide(found.low, found.high, None)
            if decision is not ABDecision.UNDECIDED:
                break
        yield decision, n


@pytest.mark.no_cover
def test_equal_models_are_rarely_told_apart_however_often_one_looks():
    """At most 13 of 150, where 5 % are allowed; an interval for one look is wrong in many more."""
    leads = worlds(0.0, 150, 600, seed=3)
    told = [decision for decision, _ in first_decisions(leads) if decision is not ABDecision.UNDECIDED]
    assert len(told) <= 13
    peeked = [
        decision
        for decision, _ in first_decisions(leads, planned=None)
        if decision is not ABDecision.UNDECIDED
    ]
    assert len(peeked) >= 25


@pytest.mark.no_cover
def test_it_takes_few_more_prompts_than_a_test_of_fixed_size():
    """With 80 % power at 80 points, by the variance that the worlds have."""
    leads = worlds(80 * math.log(10) / 400, 60, 1200, seed=4)
    ended = list(first_decisions(leads))
    assert all(decision is not ABDecision.WORSE for decision, _ in ended)
    fixed = 7.849 * leads.var() / leads.mean() ** 2
    assert np.median([n for _, n in ended]) <= 1.25 * fixed


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("p", "q", "same", "n"),
    [(0.5, 0.5, 0.0, 10), (0.9, 0.95, 0.5, 100), (0.97, 0.99, 0.8, 100), (0.7, 0.7, 0.9, 10)],
)
def test_intervals_of_scores_hold_the_truth(p, q, same, n):
    """Successes and failures of two models that often agree."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        first = rng.random(n) < p
        second = np.where(rng.random(n) < same, first, rng.random(n) < q)
        found = paired_difference(second.astype(float) - first, 1.0)
        held += found.low <= (1.0 - same) * (q - p) <= found.high
    assert held / 300 >= 0.92
