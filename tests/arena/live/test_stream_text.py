"""Texts that arrive in pieces: half characters, control characters, limits, and where they may be cut."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.live.generation import StreamText, whole_character_length


def _joined(*pieces: str, limit: int = 10_000) -> str:
    text = StreamText(limit)
    for piece in pieces:
        text.add(piece)
    text.close()
    return text.text


def test_pieces_are_joined() -> None:
    assert _joined("Grüße", "", ", 世界") == "Grüße, 世界"


def test_characters_that_no_text_has_are_dropped() -> None:
    assert _joined("a\0b\x1b[31mc\n\td\x7f") == "ab[31mc\n\td"


def test_the_limit_holds() -> None:
    text = StreamText(5)
    text.add("abc")
    assert not text.is_full
    text.add("defg")
    assert (text.text, text.is_full) == ("abcde", True)


@given(st.lists(st.text(max_size=8), max_size=8))
def test_any_text_can_be_stored(pieces: list[str]) -> None:
    assert "\0" not in _joined(*pieces)


def test_accents_and_joined_emoji_are_not_cut() -> None:
    accent = unicodedata.normalize("NFD", "café!")
    assert whole_character_length(accent, 4) == 3
    assert whole_character_length(accent, 5) == 5
    family = "x👩\u200d👧\u200d👦y"
    assert [whole_character_length(family, n) for n in range(8)] == [0, 1, 1, 1, 1, 1, 6, 7]
    assert whole_character_length("👍🏽", 1) == 0


@given(st.text(), st.integers(0, 50))
def test_a_cut_is_near_and_never_longer(text: str, length: int) -> None:
    found = whole_character_length(text, length)
    assert 0 <= found <= min(length, len(text))
    assert found >= min(length, len(text)) - 16


def test_a_long_chain_of_marks_is_cut_somewhere() -> None:
    assert whole_character_length("a" + "\u0301" * 100, 50) == 50
