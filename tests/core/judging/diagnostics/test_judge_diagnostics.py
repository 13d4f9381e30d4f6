import json
import math
import random
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_worlds import observed, shown, worlds
from support.naive_diagnostics import naive
from tiltyard.core.battles.outcome import JUDGE_LABELS, Label
from tiltyard.core.judging.diagnostics import VerdictObserver, list_judge_findings
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, Verdict, VerdictStep
from tiltyard.errors import BadOption

FAMILIES = st.sampled_from([{}, {"j": "acme"}, {"j": "acme", "k": "bolt"}, {"j": "bolt", "k": "bolt"}])


def shares_of(diagnostics):
    names = [field.name for field in fields(diagnostics)]
    return {name: getattr(diagnostics, name) for name in names[names.index("flips") :]}


@given(worlds(), FAMILIES)
def test_every_share_equals_that_of_the_naive_twin(world, families):
    for one in observed(world, **families):
        expected, labels = naive(world, one.judge, one.dimension, families)
        assert shares_of(one) == expected
        assert one.labels == {label: labels[label] for label in JUDGE_LABELS}


@given(worlds(), FAMILIES, st.randoms(use_true_random=False))
def test_the_order_in_which_questions_are_shown_does_not_matter(world, families, rng):
    mixed = rng.sample(world, len(world))
    assert observed(world, **families) == observed(mixed, **families)


@given(worlds(), FAMILIES)
def test_names_of_models_do_not_matter(world, families):
    names = dict(zip("abcd", ["zed", "ypsilon", "x", "w"], strict=True))
    renamed = [
        (
            Question(
                q.judge,
                q.dimension,
                q.prompt_id,
                names[q.first],
                names[q.second],
                q.purpose,
                q.replicate,
                q.spoilt,
            ),
            *rest,
        )
        for q, *rest in world
    ]
    assert observed(world, **families) == observed(renamed, **families)


@given(worlds(), FAMILIES)
def test_the_document_is_plain_finite_json_and_findings_can_be_drawn(world, families):
    found = observed(world, **families)
    for one in found:
        document = one.to_dict()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        assert document["questions"] == sum(document["states"].values())
        for share in shares_of(one).values():
            assert share is None or share.low <= share.value <= share.high
    for finding in list_judge_findings(found):
        assert finding.text.endswith(".")
        assert finding.advice.endswith(".")


@given(worlds())
def test_swapping_the_slots_of_everything_mirrors_the_slot_preference_alone(world):
    mirror = dict(zip(VerdictStep, reversed(VerdictStep), strict=True))
    turned = [
        (question, state, verdict and Verdict(mirror[verdict.step], verdict.both_bad, ""), traits)
        for question, state, verdict, traits in world
    ]
    for one, other in zip(observed(world), observed(turned), strict=True):
        assert (one.flips, one.inconsistent, one.labels) == (other.flips, other.inconsistent, other.labels)
        assert (one.first_slot is None) == (other.first_slot is None)
        if one.first_slot is not None:
            assert math.isclose(one.first_slot.value, 1.0 - other.first_slot.value, abs_tol=1e-12)
            assert math.isclose(one.first_slot.low, 1.0 - other.first_slot.high, abs_tol=1e-12)


def test_a_judge_is_described_over_all_dimensions_first_and_judges_stand_by_name():
    world = [shown("A>B", judge=judge, dimension=dimension) for judge in "kj" for dimension in "yx"]
    found = [(one.judge, one.dimension) for one in observed(world)]
    assert found == [("j", None), ("j", "x"), ("j", "y"), ("k", None), ("k", "x"), ("k", "y")]


def test_failed_questions_are_counted_by_state_and_nothing_else_is_said():
    (one, _) = observed(
        [shown(None, prompt=str(k), state=state) for k, state in enumerate(QuestionState) if k]
    )
    assert one.states == {state: int(state is not QuestionState.OK) for state in QuestionState}
    assert all(share is None for share in shares_of(one).values())


def test_both_bad_twice_has_the_winner_that_both_orders_chose():
    world = [shown("A>B", both_bad=True), shown("B>A", first="c", second="a", both_bad=True)]
    one = observed(world, j="acme")[0]
    assert (one.labels[Label.WIN], one.both_bad) == (1, 1)
    assert one.own_family.value == 1.0
    assert one.to_dict()["both_bad"] == 1


def test_the_same_question_twice_is_an_error():
    with pytest.raises(BadOption, match="twice"):
        observed([shown("A>B"), shown("A>B")])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ((Question("j", "x", "p", "a", "b"), QuestionState.OK, None), "only|nothing else"),
        (
            (Question("j", "x", "p", "a", "b"), QuestionState.REFUSED, Verdict(VerdictStep.EVEN, False, "")),
            "is refused with",
        ),
        (
            (Question("j", "x", "p", "a", "a", QuestionPurpose.GARBAGE), QuestionState.LOST, None),
            "has spoilt None",
        ),
        (
            (Question("j", "x", "p", "a", "b", QuestionPurpose.REPEAT), QuestionState.LOST, None),
            "has replicate 0",
        ),
    ],
)
def test_what_cannot_be_is_refused(row, problem):
    with pytest.raises(BadOption, match=problem):
        VerdictObserver().add(*row)


def test_a_verdict_costs_few_bytes():
    observer = VerdictObserver()
    rng = random.Random(0)
    for prompt in range(200):
        for first, second in ("ab", "ba", "ac", "ca"):
            observer.add(
                *shown(rng.choice(list(VerdictStep)), prompt=str(prompt), first=first, second=second)
            )
    (rows,) = observer._rows.values()
    assert rows.buffer_info()[1] * rows.itemsize == 24 * 800
    assert observer.diagnostics() == observer.diagnostics()
    observer.add(*shown("A=B", prompt="later"))
