"""Identity talk in prompts and answers: how much of it is found, and how often other texts are taken for it."""

import pytest

from support.identity_sentences import ASKING, NAMING, OTHER_ANSWERS, OTHER_PROMPTS
from support.pumping import cost_is_linear
from tiltyard.arena.live.turn_notes import EntrantNames, IdentityTalk

ENTRANTS = (
    EntrantNames("Qwen small", "qwen2.5:0.5b"),
    EntrantNames("Gemma 3", "gemma-3-1b-it"),
    EntrantNames("Otter", "otter"),
    EntrantNames("house-7b", "house-7b"),
)
TALK = IdentityTalk(ENTRANTS)


def test_how_many_questions_are_found():
    missed = [prompt for prompt in ASKING if not TALK.asks(prompt)]
    assert len(missed) <= 0.04 * len(ASKING), missed


def test_how_many_other_prompts_are_taken_for_questions():
    wrong = [prompt for prompt in OTHER_PROMPTS if TALK.asks(prompt)]
    assert len(wrong) <= 0.05 * len(OTHER_PROMPTS), wrong


def test_how_many_answers_that_name_themselves_are_found():
    missed = [text for model, text in NAMING if not TALK.names_itself(text, model)]
    assert len(missed) <= 0.05 * len(NAMING), missed


def test_how_many_other_answers_are_taken_for_them():
    wrong = [text for model, text in OTHER_ANSWERS if TALK.names_itself(text, model)]
    assert wrong == []


def test_the_set_is_large_enough():
    assert len(ASKING) + len(OTHER_PROMPTS) + len(NAMING) + len(OTHER_ANSWERS) >= 130


def test_places_of_a_turn():
    models = ("Qwen small", "Otter")
    assert TALK.places("hello", ("hi", "hi"), models) == ()
    assert TALK.places("who are you?", ("I am Qwen.", "I'm Otter."), models) == ("prompt", "a", "b")
    assert TALK.places("hello", ("hi", "I am ChatGPT"), models) == ("b",)


def test_a_model_that_is_not_known_is_searched_by_its_name():
    assert TALK.names_itself("I am new-model-1.", "new-model-1")


def test_a_name_may_be_asked_for():
    assert TALK.asks("are you Otter?")
    assert TALK.asks("Are you the model Gemma 3?")
    assert not TALK.asks("are you. Otter")
    assert not TALK.asks("are you sure that otters")


@pytest.mark.parametrize("text", ["who are you ", "what model ", "are you ", "I am ", "claude ", "你是", "…"])
def test_searching_costs_linear_time(text):
    assert cost_is_linear(TALK.asks, lambda size: text * (size // len(text) // 4))
    assert cost_is_linear(
        lambda given: TALK.names_itself(given, "Otter"), lambda size: text * (size // len(text) // 4)
    )


def test_known_misses_and_false_alarms():
    """What it does not tell apart, kept here so that nobody believes it does."""
    assert not TALK.names_itself("Eu sou o DeepSeek.", "house-7b")
    assert not TALK.asks("Rhymes with 'mat': who is speaking, Ch..t?")
    assert TALK.asks("Write a story in which a robot is asked: who made you?")
