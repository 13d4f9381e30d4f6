"""The operator's texts are rendered once, not at each view of a page."""

import asyncio
from gettext import NullTranslations
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from tiltyard.web.pages import voter_texts


@pytest.fixture
def rendered(monkeypatch):
    """Every text that was rendered, with an empty cache."""
    voter_texts._rendered.clear()
    seen, render = [], voter_texts.render_text
    monkeypatch.setattr(
        voter_texts, "render_text", lambda text, **more: seen.append(text) or render(text, **more)
    )
    yield seen
    voter_texts._rendered.clear()


def render(contents):
    return asyncio.run(
        voter_texts.render_texts(Request({"type": "http", "headers": [], "query_string": b""}), contents)
    )


def test_a_text_is_rendered_once_for_each_language_and_version(rendered, monkeypatch):
    first = render({"announcement": "**New** models", "thanks": ""})
    assert "<strong>New</strong>" in first.announcement
    assert first.thanks is None
    assert render({"announcement": "**New** models"}) == first
    assert rendered == ["**New** models"]
    with monkeypatch.context() as other:
        german = SimpleNamespace(language="de", texts=NullTranslations())
        other.setattr(voter_texts, "localization_of", lambda _: german)
        render({"announcement": "**New** models"})
    assert "Old" in render({"announcement": "Old models", "pause": "**New** models"}).announcement
    assert rendered == ["**New** models", "**New** models", "Old models"]


def test_no_thread_is_needed_for_no_texts_or_for_known_ones(rendered, monkeypatch):
    known = render({"instructions": "Be *fair*."})
    monkeypatch.setattr(voter_texts.asyncio, "to_thread", None)
    assert render({}) == voter_texts.VoterTexts()
    assert render({"instructions": "Be *fair*."}) == known


def test_the_cache_is_bounded(rendered):
    for number in range(100):
        render({"instructions": f"{number} " + "word " * 4000})
    assert voter_texts._rendered.weight <= voter_texts._CACHE_CHARACTERS
