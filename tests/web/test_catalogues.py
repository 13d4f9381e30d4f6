"""Every catalogue says all that voters' and readers' pages say, with the same placeholders and all plurals."""

import gettext
import io
import re
from pathlib import Path

import pytest
from babel.messages.frontend import CommandLineInterface
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from support import ROOT
from tiltyard.web.pages.localization import localization_for

FOLDER = ROOT / "src/tiltyard/web/locale"
LANGUAGES = sorted(path.stem for path in FOLDER.glob("*.po"))
GAP = re.compile(r"%\((\w+)\)s|\{(\w+)[^}]*\}|(#\d)")
#: A count of each plural form of a language, in their order; the first forms may say the number in words.
COUNTS = {"fr": ((0, 1), (2, 11, 100)), "ar": ((0,), (1,), (2,), (3, 10, 103), (11, 99), (100, 102))}
#: Forms that name the number at least.
SPOKEN = {"fr": 1, "ar": 3}


def catalogue(data):
    return {(one.context, one.id): one for one in read_po(io.BytesIO(data)) if one.id}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the pages say now, as `just words` gathers it."""
    made = tmp_path_factory.mktemp("words") / "pages.pot"
    command = ["pybabel", "--quiet", "extract", "--mapping=babel.cfg", "--keyword=say", f"--output={made}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        CommandLineInterface().run(
            [*command, "--omit-header", "--ignore-dirs=.* frontend tests docs lab bench", "."]
        )
    return catalogue(made.read_bytes())


def gaps(text):
    return {"".join(found) for found in GAP.findall(text)}


def forms(message):
    return message.string if isinstance(message.string, tuple) else (message.string,)


def test_french_and_arabic_are_there():
    assert {"ar", "fr"} <= set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_is_whole(said, language):
    path = FOLDER / f"{language}.po"
    have = catalogue(path.read_bytes())
    lacking = sorted(
        str(key[1]) for key in said if key not in have or have[key].fuzzy or not all(forms(have[key]))
    )
    stale = sorted(str(key[1]) for key in have.keys() - said.keys())
    update = f"just words pages.pot && pybabel update --input-file pages.pot --locale {language} --no-wrap"
    wrong = (
        f"{path.relative_to(ROOT)} does not fit the pages. Run '{update} --ignore-obsolete "
        f"--no-fuzzy-matching --output-file {path.relative_to(ROOT)}', then translate what it lacks "
        "(docs/how-to/translate.md).\nLacking:\n  "
        + "\n  ".join(lacking)
        + "\nNo page says any more:\n  "
        + "\n  ".join(stale)
    )
    if lacking + stale:
        pytest.fail(wrong)


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_gaps_of_the_english_text(said, language):
    have = catalogue((FOLDER / f"{language}.po").read_bytes())
    for key, message in have.items():
        wanted = gaps(key[1] if isinstance(key[1], str) else key[1][1])
        for number, form in enumerate(forms(message)):
            missing = wanted - gaps(form)
            spoken = isinstance(key[1], tuple) and number < SPOKEN.get(language, 1)
            assert gaps(form) <= wanted, (form, wanted)
            assert not missing or (spoken and (len(missing) == 1 or not number)), (form, "lacks", missing)
            assert not set(form) & set('<"'), (form, "breaks an attribute")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_count_has_its_plural_form(language):
    read = read_po(io.BytesIO((FOLDER / f"{language}.po").read_bytes()))
    assert all(len(one.string) == read.num_plurals for one in read if isinstance(one.id, tuple))
    for one in read:
        if isinstance(one.id, tuple) and len(set(one.string)) == read.num_plurals:
            texts = localization_for(language).texts
            for form, counts in zip(one.string, COUNTS[language], strict=True):
                assert {texts.ngettext(*one.id, count) for count in counts} == {form}


def test_no_english_text_says_one_of_many():
    """Where a number stands before a plural, one is asked for its singular."""
    nouns = "votes|prompts|categories|models|responses|steps|messages|characters|seconds|evaluations|sessions"
    loose = re.compile(rf"(?<!of )%\((?!category|level)\w+\)s (?:more )?(?:{nouns})\b")
    made = {
        path.relative_to(ROOT).as_posix(): re.findall(r'_\("([^"]*)"', path.read_text())
        for path in (ROOT / "src/tiltyard/web/templates").rglob("*.html")
    }
    # Thresholds of the policy are never one.
    policy = (
        "Below %(n)s",
        "over at least %(n)s",
        "Not official",
        "every %(n)s",
        "No model has",
        "has %(n)s characters",
    )
    found = [text for texts in made.values() for text in texts if loose.search(text)]
    assert [text for text in found if not any(one in text for one in policy)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_signs_stay_beside_their_numbers(language):
    said = localization_for(language)
    mark = "\u200e" if said.direction == "rtl" else ""
    assert said.number(-3) == f"{mark}−3"
    assert said.number(3, sign=True) == f"{mark}+3"
    assert said.percent(0.5) == f"{mark}50\u202f%{mark}"


def test_a_catalogue_compiles_as_it_is_read():
    for language in LANGUAGES:
        compiled = io.BytesIO()
        write_mo(compiled, read_po(io.BytesIO((FOLDER / f"{language}.po").read_bytes()), locale=language))
        compiled.seek(0)
        assert gettext.GNUTranslations(compiled).info()["language"] == language
        assert Path(FOLDER, f"{language}.po").stat().st_size < 300_000
