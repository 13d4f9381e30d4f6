"""Prompts that differ only in how they are written down are one prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.live.prompt_texts import free_prompt_name, hash_prompt, normalize_prompt


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("  What is\n\tthis? ", "what is this"),
        ("WHAT IS THIS", "what is this"),
        ("“What is this?!”", "what is this"),
        ("Ｗｈａｔ is this", "what is this"),
        ("Straße", "strasse"),
        ("what's 2+2?", "what's 2+2"),
        ("???", "???"),
        ("... !", "... !"),
        ("", ""),
        ("  ", ""),
        ("c++", "c++"),
    ],
)
def test_what_is_left_of_a_prompt(text, same):
    assert normalize_prompt(text) == same


def test_other_words_are_another_prompt():
    assert hash_prompt("What is this?") == hash_prompt("what is this")
    assert hash_prompt("What is this?") != hash_prompt("What was this?")
    assert len(hash_prompt("\ud800")) == 32
    assert free_prompt_name(17) == "live-17"


@given(st.text())
def test_a_normalised_prompt_stays_as_it_is(text):
    once = normalize_prompt(text)
    assert normalize_prompt(once) == once
