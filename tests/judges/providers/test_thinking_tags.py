"""Thinking between tags, and characters in two halves, wherever the text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.judges.providers.stream_readers import SurrogateJoiner, ThinkingTags


def split(pieces):
    tags, text, thinking = ThinkingTags(), "", ""
    for piece in [*map(tags.split, pieces), tags.rest()]:
        text, thinking = text + piece[0], thinking + piece[1]
    return text, thinking


@pytest.mark.parametrize(
    ("whole", "text", "thinking"),
    [
        ("<think>Hm.</think>\n\nYes", "Yes", "Hm."),
        ("\n<think>\nHm </thin </think>Yes </think>", "Yes </think>", "\nHm </thin "),
        ("[THINK]Hm[/THINK]Yes", "Yes", "Hm"),
        ("<think>Hm", "", "Hm"),
        ("<think>Hm</thi", "", "Hm</thi"),
        ("Use <think> here", "Use <think> here", ""),
        ("<thin", "<thin", ""),
        ("<thinner> is no tag", "<thinner> is no tag", ""),
        ("  Yes", "  Yes", ""),
        ("<think></think>", "", ""),
        ("<think>a</think><think>b", "<think>b", "a"),
        ("   ", "   ", ""),
        ("", "", ""),
    ],
)
@given(st.lists(st.integers(0, 40)))
def test_thinking_between_tags(whole, text, thinking, cuts):
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    assert split([whole[start:end] for start, end in pairwise(places)]) == (
        text,
        thinking,
    )


@given(st.lists(st.integers(0, 40)))
def test_thinking_that_was_opened_in_the_prompt(cuts):
    whole = "Hm, <think> so.</think>\n\nYes"
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    tags = ThinkingTags(opened=True)
    pieces = [tags.split(whole[start:end]) for start, end in pairwise(places)]
    assert "".join(text for text, _ in pieces) == "Yes"
    assert "".join(thinking for _, thinking in pieces) == "Hm, <think> so."
    assert tags.rest() == ("", "")


def test_many_blanks_are_not_held_back():
    assert ThinkingTags().split(" " * 1000)[0] == " " * 1000


@given(st.text(st.sampled_from("ab👋é"), max_size=8), st.integers(0, 20))
def test_halves_are_joined_wherever_they_are_cut(text, at):
    units = text.encode("utf-16-le", "surrogatepass")
    halves = [units[: 2 * at], units[2 * at :]]
    joiner = SurrogateJoiner()
    assert (
        "".join(joiner.join(half.decode("utf-16-le", "surrogatepass")) for half in halves) + joiner.rest()
        == text
    )
