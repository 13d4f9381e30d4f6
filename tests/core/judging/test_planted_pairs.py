"""Spoilt answers: which are planted, what they show, and which judges they let pass."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.judged_rows import failed, judged_from, said
from support.sizes import sized
from tiltyard.core.judging.canaries import (
    KEPT_PLANTED_COUNT,
    PLANTED_COUNT,
    SPOILT_KINDS,
    CheckCounts,
    JudgeProof,
    check_questions,
    judge_proofs,
    missed_kinds,
    question_texts,
)
from tiltyard.core.judging.matches import Match, Prompt, draw_order, pilot_subset
from tiltyard.core.judging.question import Question, QuestionPurpose, QuestionTexts
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.core.ratings.paired_difference import decide, paired_difference
from tiltyard.runs.ab_lead import RESTS_ON_JUDGE, JudgeEvidence, points
from tiltyard.tournaments.ab_run import look_sizes

WORLDS = sized(200, 500)
ONLY_PLANTED = CheckCounts(0, 0, 0, 0, PLANTED_COUNT)


def long_text(model, k):
    return " ".join(f"{model}{k}w{j}" for j in range(12))


def world(prompts, text=long_text):
    matches = [Match("d", f"p{k}", "a", "b") for k in range(prompts)]
    return matches, {(model, f"p{k}"): text(model, k) for k in range(prompts) for model in "ab"}


def planted(prompts, checks=ONLY_PLANTED, text=long_text, judges=("j",)):
    matches, texts = world(prompts, text)
    found = check_questions(matches, texts, judges, checks, [f"p{k}" for k in range(prompts)])
    return [one for one in found if one.purpose in SPOILT_KINDS]


def kinds_of(questions):
    return Counter(one.purpose.value for one in questions)


ALL_KINDS = dict.fromkeys((kind.value for kind in SPOILT_KINDS), 4)


@pytest.mark.parametrize("prompts", [3, 8, 30, 200])
def test_four_of_each_kind_each_in_one_order_on_either_side(prompts):
    found = planted(prompts)
    assert kinds_of(found) == ALL_KINDS
    assert Counter(one.spoilt for one in found) == {0: 8, 1: 8}
    assert all(Counter(one.spoilt for one in found if one.purpose is kind)[0] == 2 for kind in SPOILT_KINDS)
    assert len({one.id for one in found}) == PLANTED_COUNT
    if prompts >= 8:
        assert len({(one.prompt_id, one.first) for one in found}) == PLANTED_COUNT


def test_every_judge_is_asked_the_same():
    found = planted(30, judges=("one", "two"))
    assert [one.judge for one in found] == ["one"] * 16 + ["two"] * 16
    assert [(one.prompt_id, one.purpose) for one in found[:16]] == [
        (one.prompt_id, one.purpose) for one in found[16:]
    ]


def test_the_spoilt_copy_is_what_its_name_says():
    _, texts = world(30)
    for one in planted(30):
        whole = texts[one.first, one.prompt_id]
        shown = question_texts(one, QuestionTexts("", whole, whole), texts)
        sides = shown.first, shown.second
        copy = sides[one.spoilt]
        assert sides[1 - one.spoilt] == whole
        assert {
            QuestionPurpose.EMPTY: copy == "",
            QuestionPurpose.TRUNCATED: whole.startswith(copy) and 0 < len(copy) < len(whole),
            QuestionPurpose.GARBAGE: copy != whole and sorted(copy.split()) == sorted(whole.split()),
            QuestionPurpose.SWAPPED: one.swapped != one.prompt_id
            and copy == texts.get((one.first, one.swapped)),
        }[one.purpose]
        assert (one.swapped is None) == (one.purpose is not QuestionPurpose.SWAPPED)


def test_few_prompts_and_short_answers_give_what_can_be_made():
    assert kinds_of(planted(1)) == {"empty": 2, "garbage": 2, "truncated": 2}
    assert kinds_of(planted(30, text=lambda _, k: f"{k}.")) == {"empty": 16}
    assert kinds_of(planted(30, text=lambda *_: "  ")) == {}
    # Answers to all prompts that have most words in common are not swapped.
    same = planted(30, text=lambda model, k: f"{long_text(model, 0)} {k}")
    assert kinds_of(same) == {"empty": 6, "garbage": 5, "truncated": 5}
    # A few long ones are enough for their share.
    some = planted(30, text=lambda model, k: long_text(model, k) if k % 5 == 0 else "No.")
    assert kinds_of(some) == ALL_KINDS


def test_beside_a_kept_proof_some_of_the_same_are_planted():
    few = planted(30, CheckCounts(0, 0, 0, 0, KEPT_PLANTED_COUNT))
    assert kinds_of(few) == dict.fromkeys(ALL_KINDS, 1)
    assert Counter(one.spoilt for one in few) == {0: 2, 1: 2}
    assert {one.id for one in few} <= {one.id for one in planted(30)}
    assert planted(30, CheckCounts(0, 0, 0, 0, 0)) == []


def test_canaries_count_and_are_not_asked_twice():
    whole = planted(30, CheckCounts())
    assert kinds_of(whole) == ALL_KINDS
    assert {one.id for one in planted(30, CheckCounts(planted=0))} <= {one.id for one in whole}


@given(st.integers(30, 80), st.integers(0, 40))
@settings(max_examples=sized(8, 30), deadline=None)
def test_more_prompts_plant_the_same(before, more):
    bank = [Prompt(f"q{k}", "") for k in range(150)]
    order = draw_order(bank, 3)
    asked = []
    for size in (before, before + more):
        names = [one.prompt_id for one in pilot_subset(bank, size, 3)]
        texts = {(model, name): long_text(model, name) for name in names for model in "ab"}
        matches = [Match("d", name, "a", "b") for name in names]
        asked.append(check_questions(matches, texts, ["j"], ONLY_PLANTED, order))
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        ((4, 4, 4, 4), True),
        ((3, 4, 3, 4), True),
        ((2, 4, 4, 4), False),
        ((3, 3, 3, 4), False),
        ((0, 4, 4, 4), False),
    ],
)
def test_fourteen_of_sixteen_and_three_of_each(found, holds):
    kinds = {kind.value: (count, 4) for kind, count in zip(SPOILT_KINDS, found, strict=True)}
    assert JudgeProof("j", "d", kinds).holds is holds
    assert bool(missed_kinds(kinds)) is not holds


def test_too_few_pairs_prove_nothing_and_two_misses_void_a_kept_proof():
    assert not JudgeProof("j", "d", {"empty": (6, 6)}).holds
    assert JudgeProof("j", "d", {"empty": (7, 7)}).holds
    assert not JudgeProof("j", "d", {"empty": (7, 8)}).holds
    one_each = dict.fromkeys(ALL_KINDS, (1, 1))
    assert not JudgeProof("j", "d", one_each).holds
    kept = JudgeProof("j", "d", one_each | {"empty": (0, 1)}, kept=True)
    assert kept.holds
    assert not JudgeProof("j", "d", {**kept.kinds, "garbage": (0, 1)}, kept=True).holds
    assert kept.not_made == ()
    assert JudgeProof("j", "d", {"empty": (16, 16)}).not_made == ("garbage", "swapped", "truncated")


def test_what_has_no_verdict_is_not_found():
    questions = planted(30)
    (proof,) = judge_proofs([failed(questions[0]), *(judged_from(one, found(one)) for one in questions[1:])])
    assert (proof.found, proof.asked) == (15, 16)
    assert judge_proofs([judged_from(Question("j", "d", "p", "a", "b"), said(VerdictStep.EVEN))]) == ()


def found(question):
    return said(VerdictStep.SECOND if question.spoilt == 0 else VerdictStep.FIRST)


def blind_to(blind):
    return lambda kind, better, _: 0 if kind in {blind, None} else better


#: What each judge says of a pair by the kind of its spoilt answer, if it has one, and by which answer is better.
JUDGES = {
    "ties": lambda *_: 0,
    "first": lambda *_: 1,
    "guesses a side": lambda _kind, _better, rng: 1 if rng.random() < 0.5 else -1,
    "guesses a step": lambda _kind, _better, rng: (1, 1, 0, -1, -1)[int(5 * rng.random())],
    "sharp": lambda _kind, better, rng: better if rng.random() < 0.97 else 0,
    **{f"blind to {kind.value}": blind_to(kind) for kind in SPOILT_KINDS},
    "coarse": blind_to(None),
}
STEPS = {1: VerdictStep.FIRST, 0: VerdictStep.EVEN, -1: VerdictStep.SECOND}
QUESTIONS = planted(30)


def proof_of(judge, rng):
    rows = [
        judged_from(one, said(STEPS[judge(one.purpose, 1 if one.spoilt else -1, rng)])) for one in QUESTIONS
    ]
    return judge_proofs(rows)


def says_same(judge, rng):
    """Whether a judge calls a broken second model the same or not worse, at any look."""
    proofs = proof_of(judge, rng)
    leads = np.array([(judge(None, -1, rng) - judge(None, 1, rng)) / 4 for _ in range(120)])
    for size in look_sizes(len(leads)):
        seen = leads[:size]
        if JudgeEvidence(proofs, size, int((seen == 0).sum())).doubt() is not None:
            continue
        lead = paired_difference(seen, 0.5, planned=500)
        if decide(points(lead.low), points(lead.high), 60.0) in RESTS_ON_JUDGE:
            return True
    return False


@pytest.mark.parametrize("name", JUDGES)
def test_no_judge_calls_a_broken_model_the_same(name):
    rng = np.random.default_rng(len(name))
    assert sum(says_same(JUDGES[name], rng) for _ in range(WORLDS)) <= WORLDS // 100


@pytest.mark.parametrize(
    ("name", "least", "most"), [("sharp", 0.96, 1.0), ("coarse", 1.0, 1.0), ("guesses a side", 0.0, 0.006)]
)
def test_honest_judges_pass_and_guessing_ones_do_not(name, least, most):
    rng = np.random.default_rng(1)
    passed = sum(proof_of(JUDGES[name], rng)[0].holds for _ in range(WORLDS)) / WORLDS
    assert least <= passed <= most


def test_many_ties_say_the_same_only_if_that_is_accepted():
    proofs = (JudgeProof("j", "d", dict.fromkeys(ALL_KINDS, (4, 4))),)
    assert JudgeEvidence(proofs, 100, 90).doubt() is None
    many = JudgeEvidence(proofs, 100, 91)
    assert many.doubt() is not None
    assert many.doubt(ties_are_same=True) is None
    assert JudgeEvidence((), 100, 0).doubt(ties_are_same=True) is not None
    # Where no answer differs, no judge is needed.
    assert JudgeEvidence((), 0, 0).doubt() is None
