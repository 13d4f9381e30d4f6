"""Two orders make one result, several judges one panel's; both can stand as battles."""

from __future__ import annotations

import itertools
import statistics

from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.judging import (
    MatchResult,
    Verdict,
    VerdictStep,
    panel_result,
    reconcile,
)

A, B, TIE = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE
MIRROR = {A: B, B: A, TIE: TIE}
SAID = [Verdict(step, both_bad, "") for step in VerdictStep for both_bad in (False, True)]
PAIRS = list(itertools.product(SAID, SAID))


def mirrored(result: MatchResult) -> MatchResult:
    return MatchResult(MIRROR[result.outcome], result.label, 1 - result.pref, result.both_bad)


def is_a_battle(result: MatchResult) -> None:
    row = {"model_a": "x", "model_b": "y", "winner": result.outcome.value, "label": result.label.value}
    Battle.from_dict(row | {"pref": result.pref})


def in_words(a_first: Verdict, b_first: Verdict) -> tuple[str, str]:
    """The rules as the issue tells them, by the spelling of the steps."""
    winners = {
        {"A>": "model_a", "A=": "tie", "B>": "model_b"}[a_first.step[:2]],
        {"A>": "model_b", "A=": "tie", "B>": "model_a"}[b_first.step[:2]],
    }
    if len(winners) == 1:
        (winner,) = winners
        return winner, "tie" if winner == "tie" else "win"
    if "tie" in winners:
        (winner,) = winners - {"tie"}
        return winner, "lean"
    return "tie", "inconsistent"


def test_all_hundred_pairs_of_verdicts_reconcile_by_the_written_rules():
    steps = list(VerdictStep)
    for a_first, b_first in PAIRS:
        result = reconcile(a_first, b_first)
        assert (result.outcome.value, result.label.value) == in_words(a_first, b_first)
        assert result.both_bad == (a_first.both_bad and b_first.both_bad)
        for_a = 4 - steps.index(a_first.step) + steps.index(b_first.step)
        assert result.pref == for_a / 8
        is_a_battle(result)
        assert reconcile(b_first, a_first) == mirrored(result)


RESULTS = sorted({reconcile(*pair) for pair in PAIRS}, key=repr)


def panel_in_words(results: list[MatchResult]) -> tuple[str, str]:
    n = len(results)
    for_a = [r for r in results if r.outcome is A]
    for_b = [r for r in results if r.outcome is B]
    for name, side in (("model_a", for_a), ("model_b", for_b)):
        if len(side) > n / 2:
            firm = [r for r in side if r.label is Label.WIN]
            return name, "win" if len(firm) > n / 2 else "lean"
    for label in ("tie", "inconsistent"):
        if len([r for r in results if r.label == label]) > n / 2:
            return "tie", label
    if len(for_a) != len(for_b):
        return ("model_a" if len(for_a) > len(for_b) else "model_b"), "lean"
    return "tie", "inconsistent"


def test_every_panel_of_three_follows_the_written_rules_and_is_a_battle():
    for results in itertools.combinations_with_replacement(RESULTS, 3):
        found = panel_result(results, 3)
        assert (found.outcome.value, found.label.value) == panel_in_words(results)
        is_a_battle(found)


@given(st.lists(st.sampled_from(RESULTS), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_panels_of_any_size_follow_the_rules_in_any_order_and_mirrored(results, random):
    found = panel_result(results, 1)
    assert (found.outcome.value, found.label.value) == panel_in_words(results)
    assert found.both_bad == (sum(result.both_bad for result in results) > len(results) / 2)
    assert panel_result(random.sample(results, len(results)), 1) == found
    assert panel_result([mirrored(result) for result in results], 1) == mirrored(found)
    is_a_battle(found)
    median = statistics.median(result.pref for result in results)
    low = {A: 0.5}.get(found.outcome, 0.0)
    high = {B: 0.5}.get(found.outcome, 1.0)
    assert found.pref == min(max(median, low), high)


@given(st.lists(st.sampled_from(RESULTS), max_size=5), st.integers(-1, 6))
def test_a_panel_below_its_quorum_has_no_result(results, quorum):
    assert (panel_result(results, quorum) is None) == (len(results) < max(1, quorum))


def test_a_panel_of_one_is_its_judge_and_a_preference_fits_the_outcome():
    for result in RESULTS:
        assert panel_result([result], 1) == result
    against = [
        MatchResult(A, Label.LEAN, 0.625),
        MatchResult(TIE, Label.TIE, 0.25),
        MatchResult(TIE, Label.INCONSISTENT, 0.125),
    ]
    assert panel_result(against, 2) == MatchResult(A, Label.LEAN, 0.5)
    assert panel_result([MatchResult(TIE, Label.TIE, 0.9)], 1) == MatchResult(TIE, Label.TIE, 0.75)
