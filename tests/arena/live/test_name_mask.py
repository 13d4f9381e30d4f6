"""The mask of names: the same for everybody who answers, and stable while a text comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pumping import cost_is_linear
from tiltyard.arena.live.turn_notes import EntrantNames, NameMask, _normalised_places

MASK = NameMask((EntrantNames("Qwen small", "qwen2.5:0.5b"), EntrantNames("Otter", "otter")))
WORDS = st.sampled_from(
    [
        "I am ",
        "Claude",
        "Qwen2.5",
        " and ",
        "Otter",
        ". ",
        "\n\n",
        "é",
        "Ｇ",
        "模型",
        "。",
        "x" * 50,
        " ",
        "ß",
        "한",
        "\u200b",
    ]
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I am Claude, made by Anthropic.", "I am […], made by […]."),
        ("I'm Qwen2.5, by Alibaba Cloud!", "I'm […], by […]!"),
        ("I am a large language model, trained by Google.", "I am a large language model, trained by […]."),
        ("我是通义千问，由阿里云开发。", "我是[…]，由[…]开发。"),
        ("Ｃｌａｕｄｅ here", "[…] here"),
        ("Cl\u200baude here", "[…] here"),
        ("저는 클로드입니다.", "저는 […]입니다."),
        ("The model qwen2.5:0.5b answers.", "The model […] answers."),
        ("My name is Otter.", "My name is […]."),
        ("An otter swims. Search Google.", "An otter swims. Search Google."),
        ("Claude Monet painted.", "Claude Monet painted."),
        ("ChatGPT ChatGPT", "[…] […]"),
        ("", ""),
        ("nothing", "nothing"),
    ],
)
def test_names_are_masked_and_other_words_are_not(text, shown):
    assert MASK.mask(text) == shown


def test_while_a_text_comes_its_last_sentence_is_held_back():
    assert MASK.mask("Hello. I am Cla", complete=False) == "Hello."
    assert MASK.mask("Hello. I am Claude. And", complete=False) == "Hello. I am […]."
    assert MASK.mask("word " * 200 + "Clau", complete=False).startswith("word word")


@given(st.lists(WORDS, max_size=40).map("".join))
def test_what_was_shown_never_changes(text):
    whole = MASK.mask(text)
    shown = ""
    for end in range(len(text) + 1):
        now = MASK.mask(text[:end], complete=False)
        assert now.startswith(shown)
        shown = now
    assert whole.startswith(shown)


@given(st.text(max_size=40))
def test_every_character_of_a_normalised_text_has_its_place(text):
    normalised, places = _normalised_places(text)
    assert len(normalised) == len(places)
    assert list(places) == sorted(places)


@pytest.mark.parametrize("text", ["Claude ", "I am ", "x", "。", "é", ". "])
def test_masking_costs_linear_time(text):
    assert cost_is_linear(MASK.mask, lambda size: text * (size // len(text) // 4))
