"""Every word of the pages is in one catalogue, and pages speak the language of another if there is one."""

import io
import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.pofile import read_po

from tiltyard.web.pages import localization
from tiltyard.web.pages.localization import Localization, languages, localization_for
from tiltyard.web.pages.pseudo_languages import PSEUDO_LANGUAGES, translate_all

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src/tiltyard/web"
#: Words that are the same in every language, or no words.
SAME = {
    "Tiltyard",
    "CSV",
    "JSON",
    "JSONL",
    "Lines",
    "Parquet",
    "SHA-256",
    "UTC",
    "A",
    "B",
    "RD",
    "W",
    "L",
    "T",
    "N",
    "U",
    "R",
    "X",
}


def extracted():
    with (ROOT / "babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)
    found = extract_from_dir(
        str(ROOT),
        methods,
        options,
        keywords={"_": None, "gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2), "say": None},
    )
    return {message for _, _, message, _, _ in found}


def test_the_catalogue_has_every_word_and_no_other():
    catalogue = read_po(io.BytesIO((WEB / "locale/en.po").read_bytes()))
    known = {message.id for message in catalogue if message.id}
    assert known == extracted(), "run `just words`"


def _bare(template):
    """What a template says without asking the catalogue."""
    text = re.sub(r"{#.*?#}", "", template, flags=re.DOTALL)
    text = re.sub(r"{%\s*block body_class\s*%}.*?{%\s*endblock\s*%}", "", text, flags=re.DOTALL)
    text = re.sub(r"{%-?\s*call.*?endcall\s*-?%}", "", text, flags=re.DOTALL)
    text = re.sub(r"{%\s*trans.*?endtrans\s*%}", "", text, flags=re.DOTALL)
    text = re.sub(r"{%.*?%}|{{.*?}}", " ", text, flags=re.DOTALL)
    attributes = re.findall(r'(?:aria-label|title|alt|placeholder)="([^"]*)"', text)
    text = re.sub(r"<(style|script|code|kbd|samp|svg).*?</\1>", " ", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", "\n", text)
    words = re.findall(r"[^\W\d_][\w’'-]*", " ".join([*attributes, re.sub(r"&\w+;", " ", text)]))
    return [word for word in words if word not in SAME]


@pytest.mark.parametrize(
    "path", sorted(p.relative_to(WEB / "templates").as_posix() for p in (WEB / "templates").rglob("*.html"))
)
def test_no_template_speaks_past_the_catalogue(path):
    assert _bare((WEB / "templates" / path).read_text()) == []


def test_a_browser_gets_its_language_or_english(monkeypatch):
    assert languages() == ("ar-XB", "en", "en-XA")
    for accepted in (
        None,
        "",
        "de-CH, fr;q=0.5",
        "ar-EG, ar",
        "xx;;;;,,,",
        "*",
        "en-GB",
        "e" * 10_000,
        "\x00",
    ):
        assert localization_for(accepted).language == "en"
    monkeypatch.setattr(localization, "languages", lambda: ["de", "en"])
    monkeypatch.setattr(localization, "_read", lambda language: language)
    assert localization_for("de-CH, en;q=0.5") == "de"
    assert localization_for("fr, en;q=0.5") == "en"


def made(language):
    from babel import Locale

    locale = Locale.parse(language)
    symbols = locale.number_symbols["latn"]
    return Localization(
        language, localization.gettext.NullTranslations(), locale, symbols["decimal"], symbols["group"]
    )


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


@pytest.mark.parametrize("language", PSEUDO_LANGUAGES)
def test_pseudo_languages_are_longer_and_keep_what_is_filled_in(language):
    texts = translate_all(catalogue("Start voting", ("%(num)s vote", "%(num)s votes")), language)
    assert texts["Start voting"].string == "⟦Štáárt vóótííñg⟧"
    forms = texts["%(num)s vote"].string
    assert set(forms) == {"⟦%(num)s vóótéé⟧", "⟦%(num)s vóótééš⟧"}
    assert len(forms) == texts.num_plurals


@pytest.mark.parametrize("language", PSEUDO_LANGUAGES)
def test_pseudo_languages_fill_in_all_that_english_does(language):
    english = read_po(io.BytesIO((WEB / "locale/en.po").read_bytes()))
    places = re.compile(r"%\(\w+\)[a-z]|{[^{}]*}")
    for message in translate_all(english, language):
        if message.id:
            ids, strings = ([x] if isinstance(x, str) else x for x in (message.id, message.string))
            wanted = {place for text in ids for place in places.findall(text)}
            assert {place for text in strings for place in places.findall(text)} == wanted


def catalogue(*texts):
    made = Catalog()
    for text in texts:
        made.add(text)
    return made


def test_signs_percentages_and_moments():
    english = made("en")
    assert english.number(3.21, 1, sign=True) == "+3.2"
    assert english.number(0.01, 1, sign=True) == "0.0"
    assert english.percent(0.875) == "88\u202f%"
    assert english.percent(None) == english.moment(None) == "–"
    assert english.moment("2026-03-01T12:30:00+02:00").endswith("UTC")
    assert "10:30" in english.moment("2026-03-01T12:30:00+02:00")
    assert (english.direction, made("ar").direction) == ("ltr", "rtl")


@pytest.mark.parametrize("language", ["eo", "de", "fr", "ru", "ar", "he", "fa", "hi", "zh", "ja", "ko", "th"])
def test_charts_write_numbers_and_months_as_the_language_does(language):
    localization = made(language)
    told = localization.chart_locale()
    assert told["number"]["decimal"] == localization.point
    assert [len(told["time"][part]) for part in ("days", "shortDays", "months", "shortMonths")] == [
        7,
        7,
        12,
        12,
    ]
    assert told["time"]["days"][0] == localization.locale.days["format"]["wide"][6]
    assert made("en").chart_locale() is None
