import math
import re
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t

from support.worlds import battles, counted, drawn, table, told
from tiltyard.core.battles import Kind, Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.comparison import compare_models
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.ranks import rank_models
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
