"""Canaries and repeats: chosen by name, the same on every run, and spoilt so that a judge can see it."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tiltyard.core.judging.canaries import CheckCounts, check_questions, question_texts
from tiltyard.core.judging.match_design import match_questions
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import Question, QuestionPurpose, QuestionTexts

LONG = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all."
CHINESE = (
    "敏捷的棕色狐狸跳过了懒狗而那只狗一点也不介意它只是继续睡觉直到太阳下山为止然后它才慢慢地站起来回家去了"
)
MODELS = ("alpha", "beta", "gamma")
MATCHES = [
    Match("factuality", f"p{n}", a, b)
    for n in range(6)
    for k, a in enumerate(MODELS)
    for b in MODELS[k + 1 :]
]
RESPONSES = {(model, f"p{n}"): f"{model} {n}: {LONG}" for model in MODELS for n in range(6)}
DEFAULTS = CheckCounts()
SPOILT = (QuestionPurpose.TRUNCATED, QuestionPurpose.GARBAGE)


def made(checks=DEFAULTS, judges=("one", "two"), matches=MATCHES, responses=RESPONSES):
    return check_questions(matches, responses, judges, checks)


def shown(question: Question, responses=RESPONSES) -> QuestionTexts:
    first, second = (responses[model, question.prompt_id] for model in (question.first, question.second))
    return question_texts(question, QuestionTexts("prompt", first, second, gold="gold"))


def test_every_judge_is_asked_both_orders_of_a_match() -> None:
    asked = [
        (one.judge, one.first, one.second, one.order) for one in match_questions(MATCHES[0], ["one", "two"])
    ]
    assert asked == [
        ("one", "alpha", "beta", 0),
        ("one", "beta", "alpha", 1),
        ("two", "alpha", "beta", 0),
        ("two", "beta", "alpha", 1),
    ]


def test_every_judge_gets_as_many_of_each_kind_as_wanted() -> None:
    found = Counter((one.judge, one.purpose) for one in made(CheckCounts(1, 2, 3, 4)))
    wanted = {
        QuestionPurpose.IDENTICAL: 1,
        QuestionPurpose.TRUNCATED: 2,
        QuestionPurpose.GARBAGE: 3,
        QuestionPurpose.REPEAT: 4,
    }
    assert found == {(judge, purpose): count for judge in ("one", "two") for purpose, count in wanted.items()}
    assert made(CheckCounts(0, 0, 0, 0)) == []
    assert made(matches=[]) == []


@given(st.permutations(MATCHES))
def test_what_is_chosen_does_not_depend_on_the_order_of_the_matches(matches) -> None:
    assert made(matches=matches) == made()


@pytest.mark.parametrize("purpose", [QuestionPurpose.IDENTICAL, *SPOILT])
def test_the_spoilt_copy_stands_in_either_slot(purpose: QuestionPurpose) -> None:
    slots = Counter(one.spoilt for one in made(CheckCounts(4, 4, 4, 4)) if one.purpose is purpose)
    assert slots == {0: 4, 1: 4}


def test_repeats_ask_a_question_of_a_match_anew_in_either_order() -> None:
    repeats = [one for one in made() if one.purpose is QuestionPurpose.REPEAT]
    plain = {
        (one.judge, one.prompt_id, one.first, one.second)
        for match in MATCHES
        for one in match_questions(match, ["one", "two"])
    }
    assert {(one.judge, one.prompt_id, one.first, one.second) for one in repeats} <= plain
    assert {one.replicate for one in repeats} == {1}
    assert {one.order for one in repeats} == {0, 1}
    assert all(shown(one).first == RESPONSES[one.first, one.prompt_id] for one in repeats)


def test_identical_shows_the_same_twice() -> None:
    for question in made():
        texts = shown(question)
        if question.purpose is QuestionPurpose.IDENTICAL:
            assert texts.first == texts.second == RESPONSES[question.first, question.prompt_id]
        elif question.purpose in SPOILT:
            assert question.first == question.second
            assert (texts.first, texts.second)[1 - question.spoilt] == RESPONSES[
                question.first, question.prompt_id
            ]
            assert texts.first != texts.second
        assert (texts.prompt, texts.gold) == ("prompt", "gold")


@given(
    st.text(max_size=300)
    | st.sampled_from([LONG, CHINESE, "x" * 90, "ha " * 40, "a b " * 20, " " * 900 + LONG])
)
def test_whatever_is_drawn_to_be_spoilt_can_be_told_from_the_response(text) -> None:
    match = Match("overall", "p", "alpha", "beta")
    responses = {("alpha", "p"): text, ("beta", "p"): "short"}
    drawn = made(matches=[match], responses=responses)
    for question in drawn:
        if question.purpose in SPOILT:
            texts = shown(question, responses)
            assert question.first == "alpha"
            assert texts.first.split() != texts.second.split()
            assert texts.first.strip()
            assert texts.second.strip()
    kinds = {question.purpose for question in drawn}
    assert (QuestionPurpose.TRUNCATED in kinds) == (len(text.strip()) >= 40)


@pytest.mark.parametrize("text", ["x" * 90, "ha " * 40, "short"])
def test_what_no_shuffling_changes_is_not_shuffled(text: str) -> None:
    match = Match("overall", "p", "alpha", "beta")
    drawn = made(matches=[match], responses={("alpha", "p"): text, ("beta", "p"): text})
    assert QuestionPurpose.GARBAGE not in {question.purpose for question in drawn}


def test_another_response_is_spoilt_in_place_of_one_that_cannot_be() -> None:
    responses = {place: text if place[0] == "gamma" else "short" for place, text in RESPONSES.items()}
    spoilt = made(CheckCounts(0, 6, 6, 0), ["one"], responses=responses)
    assert {one.first for one in spoilt} == {"gamma"}
    assert len(spoilt) == 12


@given(st.text(min_size=1, max_size=300))
def test_garbage_has_the_same_words_and_a_cut_is_a_beginning(text) -> None:
    assume(text.strip())
    garbage = Question("one", "overall", "p", "alpha", "alpha", QuestionPurpose.GARBAGE, spoilt=1)
    cut = Question("one", "overall", "p", "alpha", "alpha", QuestionPurpose.TRUNCATED, spoilt=0)
    copy = question_texts(garbage, QuestionTexts("", text, text)).second
    assert Counter("".join(copy.split())) == Counter("".join(text.split()))
    kept = question_texts(cut, QuestionTexts("", text, text)).first
    assert text.strip().startswith(kept)
    assert len(kept) <= max(1, len(text.strip()) * 0.4)


def test_a_text_without_blanks_becomes_garbage_too() -> None:
    garbage = Question("one", "overall", "p", "alpha", "alpha", QuestionPurpose.GARBAGE, spoilt=0)
    copy = question_texts(garbage, QuestionTexts("", CHINESE, CHINESE)).first
    assert sorted(copy) == sorted(CHINESE)
    assert sum(a == b for a, b in zip(copy, CHINESE, strict=True)) < len(CHINESE) / 2
