"""Voters' and readers' pages speak the language of a catalogue if there is one; numbers and times follow it."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from babel import Locale

from tiltyard.web.assets import load_assets
from tiltyard.web.pages import layout, localization
from tiltyard.web.pages.localization import Localization, languages, localization_for

TEMPLATES = Path(__file__).parents[2] / "src/tiltyard/web/templates"
#: Words that are the same in every language, or no words.
SAME = {
    *("Tiltyard", "CSV", "JSON", "JSONL", "Lines", "Parquet", "SHA-256", "UTC", "A", "B", "RD"),
    *"WLTNURX",
}


def _bare(template):
    """The words of a template that are not marked for translation."""
    text = re.sub(r"{#.*?#}", "", template, flags=re.DOTALL)
    text = re.sub(r"{%\s*block body_class\s*%}.*?{%\s*endblock\s*%}", "", text, flags=re.DOTALL)
    text = re.sub(r"{%-?\s*call.*?endcall\s*-?%}", "", text, flags=re.DOTALL)
    text = re.sub(r"{%.*?%}|{{.*?}}", " ", text, flags=re.DOTALL)
    attributes = re.findall(r'(?:aria-label|title|alt|placeholder)="([^"]*)"', text)
    text = re.sub(r"<(style|script|code|kbd|samp|svg).*?</\1>", " ", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", "\n", text)
    words = re.findall(r"[^\W\d_][\w’'-]*", " ".join([*attributes, re.sub(r"&\w+;", " ", text)]))
    return [word for word in words if word not in SAME]


def test_voters_and_readers_templates_say_nothing_that_cannot_be_translated():
    paths = {path.relative_to(TEMPLATES).as_posix(): path for path in TEMPLATES.rglob("*.html")}
    assert len(paths) > 60
    bare = {name: _bare(path.read_text()) for name, path in paths.items() if not name.startswith("operator/")}
    assert {name: words for name, words in bare.items() if words} == {}


def test_no_operators_template_is_marked_for_translation():
    for path in (TEMPLATES / "operator").iterdir():
        assert re.findall(r"(?<![\w.])(?:_|n?gettext|pgettext)\(", path.read_text()) == [], path.name


@pytest.mark.parametrize(
    "accepted",
    [None, "", "de-CH, pt;q=0.5", "xx;;;;,,,", "*", "en-GB", "e" * 10_000, "\x00"],
)
def test_a_browser_gets_english_if_its_language_has_no_catalogue(accepted):
    assert localization_for(accepted).language == "en"


@pytest.fixture
def german(tmp_path, monkeypatch):
    """A catalogue in German beside English."""
    (tmp_path / "de.po").write_text('msgid "All arenas"\nmsgstr "Alle Arenen"\n', "utf-8")
    monkeypatch.setattr(localization, "_folder", lambda: tmp_path)
    for cached in (languages, localization._read):
        cached.cache_clear()
    yield
    for cached in (languages, localization._read):
        cached.cache_clear()


def test_a_catalogue_is_all_that_a_language_needs(german):
    assert languages() == ("de", "en")
    assert localization_for("de-CH, en;q=0.5").texts.gettext("All arenas") == "Alle Arenen"
    assert localization_for("fr, en;q=0.5").language == "en"


def test_readers_pages_are_translated_and_operators_are_not(german, monkeypatch):
    settings = SimpleNamespace(shard=0)
    context = SimpleNamespace(
        matchup_ids=SimpleNamespace(format=str), registry=SimpleNamespace(settings=settings)
    )
    monkeypatch.setattr(layout, "context_of", lambda _: context)
    request = layout.Request(
        {"type": "http", "query_string": b"", "headers": [(b"accept-language", b"de")], "raw_path": b"/"}
    )
    pages = layout.PageTemplates(load_assets())
    problem = {"title": "Page not found", "detail": "<b>", "again": False, "errors": None, "instance": "x"}
    page = pages.render("problem.html", request, status=404, **problem)
    assert '<html lang="de"' in page
    assert "Alle Arenen" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    page = pages.render("operator/sign_in_code.html", request, trouble=None, next="")
    assert '<html lang="en"' in page


def made(language):
    locale = Locale.parse(language)
    symbols = locale.number_symbols["latn"]
    texts = localization.gettext.NullTranslations()
    return Localization(language, texts, locale, symbols["decimal"], symbols["group"])


@pytest.mark.parametrize(
    ("language", "value", "digits", "said"),
    [
        ("en", 1234567.891, 1, "1,234,567.9"),
        ("de", 1234567.891, 1, "1.234.567,9"),
        ("en", -12.34, 1, "−12.3"),
        ("en", -0.04, 1, "0.0"),
        ("en", None, 0, "–"),
    ],
)
def test_numbers_are_written_as_the_language_does(language, value, digits, said):
    assert made(language).number(value, digits) == said


def test_signs_percentages_and_moments():
    english = made("en")
    assert english.number(3.21, 1, sign=True) == "+3.2"
    assert english.number(0.01, 1, sign=True) == "0.0"
    assert english.percent(0.875) == "88\u202f%"
    assert english.percent(None) == english.moment(None) == "–"
    assert english.moment("2026-03-01T12:30:00+02:00").endswith("UTC")
    assert "10:30" in english.moment("2026-03-01T12:30:00+02:00")
    assert (english.direction, made("ar").direction) == ("ltr", "rtl")


@pytest.mark.parametrize("language", ["eo", "de", "ru", "ar", "he", "hi", "zh"])
def test_charts_write_numbers_and_months_as_the_language_does(language):
    localization = made(language)
    told = localization.chart_locale()
    assert told["number"]["decimal"] == localization.point
    sizes = [len(told["time"][part]) for part in ("days", "shortDays", "months", "shortMonths")]
    assert sizes == [7, 7, 12, 12]
    assert told["time"]["days"][0] == localization.locale.days["format"]["wide"][6]
    assert made("en").chart_locale() is None
