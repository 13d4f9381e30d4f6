"""The language of a prompt: how often it is right, wrong and unknown, and at what cost."""

import pytest

from support.language_prompts import PROMPTS
from support.pumping import cost_is_linear
from tiltyard.core.live.prompt_texts import UNKNOWN_LANGUAGE, detect_language


def test_short_prompts_are_mostly_recognised_and_never_wrongly():
    found = [(language, detect_language(text), text) for language, text in PROMPTS]
    wrong = [one for one in found if one[1] not in (one[0], UNKNOWN_LANGUAGE)]
    written = [one for one in found if one[0] != UNKNOWN_LANGUAGE]
    right = sum(language == said for language, said, _ in written)
    assert wrong == []
    assert len(written) >= 140
    assert right >= 0.9 * len(written)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "unknown"),
        ("   ", "unknown"),
        ("Explain this code:\n```\nfür die Liste der Werte\n```", "en"),
        ("What does https://de.example.org/und/die/der say?", "en"),
        ("die and die and die", "unknown"),
        ("Straße gefunden", "de"),
        ("Hello", "unknown"),
        ("漢字", "zh"),
        ("漢字とかな", "ja"),
        ("カタカナ", "ja"),
        ("the где", "unknown"),
        ("کیا یہ ٹھیک ہے", "ur"),
        ("ⴰⵎⴰⵣⵉⵖ", "unknown"),
        ("for (int i = 0; i < n; i++) { sum += i; }", "unknown"),
        ("ქართული ენა", "ka"),
        ("what’s the time", "en"),
    ],
)
def test_special_texts(text, language):
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["the ", "é", "漢", "`", "://", "a'", "'"])
def test_the_cost_is_linear(text):
    assert cost_is_linear(detect_language, lambda size: text * (size // len(text)))
