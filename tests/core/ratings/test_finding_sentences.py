"""Findings are names with values; one table makes their sentences, in English and in any other language."""

import ast
import json
import math
import string
from pathlib import Path

import pytest

import tiltyard
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.finding_templates import FINDINGS
from tiltyard.core.ratings.sentences import ENGLISH, Language, Template, first_of, sentence, template_of
from tiltyard.errors import BadOption

SOURCE = Path(tiltyard.__file__).parent
#: A language with signs of its own that puts every text in brackets.
STRANGE = Language(lambda text: f"⟦{text}⟧", ",", ".")


def said(finding, part="text", language=STRANGE):
    template = template_of(FINDINGS, finding.name, finding.values)
    return sentence(getattr(template, part), template, finding.values, language)


def test_a_finding_says_its_values():
    finding = Finding("few-prompts", {"prompts": 7, "least": 20})
    assert "7 prompts" in finding.text
    assert "20 prompts" in finding.advice
    assert str(finding) == f"{finding.text} {finding.advice}"
    one = Finding("few-prompts", {"case": "one", "prompts": 1, "least": 20})
    assert "only one prompt" in one.text


def test_a_finding_of_a_document_keeps_what_it_was_published_with():
    assert Finding("new", {}, "Something new.", "Look.").text == "Something new."
    with pytest.raises(BadOption, match="new"):
        Finding("new")


def test_findings_are_plain_values_and_come_back():
    finding = Finding("few-battles", {"least": 30, **first_of("models", [{"model": "a", "battles": 3}])})
    plain = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
    assert plain["values"] == {"least": 30, "models": [{"model": "a", "battles": 3}], "more": 0}
    assert Finding.from_dict(plain) == finding
    assert len({Finding.from_dict(plain), finding}) == 1


def test_a_number_that_is_none_is_none_in_a_document():
    values = {"times": math.inf, "model_a": "a", "model_b": "b", "scored": 1.0, "expected": 0.5}
    finding = Finding("poor-fit", values)
    assert "inf times" in finding.text
    assert finding.to_dict()["values"]["times"] is None


def test_long_lists_are_counted_not_printed():
    assert first_of("models", list("abc"), most=2) == {"models": ("a", "b"), "more": 1}
    finding = Finding("unrated", first_of("models", list("abcdefgh")))
    assert finding.text.startswith("a, b, c, d, e and 3 more ")
    assert said(finding).startswith("⟦⟦a, b, c, d, e and 3 more⟧ ")
    joined = Finding("mixed-sources", {"sources": ("human", "llm-judge", "x")})
    assert "⟦⟦human and llm-judge⟧ and x⟧" in said(joined)


def test_numbers_take_the_signs_of_a_language_and_names_stay():
    finding = Finding("without-prompt", {"without": 1234, "battles": 5678, "share": 1234 / 5678})
    assert said(finding).startswith("⟦1.234 of 5.678 battles (22%)")
    finding = Finding("only-wins", first_of("models", ["50% %(x)s {y} 1,2"]))
    assert said(finding).startswith("⟦50% %(x)s {y} 1,2 won")


def test_items_have_sentences_of_their_own():
    model = {"model": "a", "answers": 2, "prompt": "p", "kind": "hidden"}
    finding = Finding("steering-answers", {"answers": 2, "models": [model], "more": 0})
    assert finding.text.endswith("hidden characters).")
    assert "⟦a 2 (to p: " in said(finding)
    values = {"share": 0.625, "low": 0.55, "high": 0.684, "trials": 240, "dimension": None}
    finding = Finding("flips-often", {"who": "j", "judge": "j", **values})
    assert "62 % [55, 68]" in finding.text


def gaps(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_text_of_the_table_is_filled_from_named_values():
    for key, template in FINDINGS.items():
        assert template.text.endswith("."), key
        assert template.advice.endswith("."), key
        for text in (template.text, template.advice, *template.items.values()):
            assert all(name.isidentifier() for name in gaps(text)), key


def made():
    """Names of the findings that the code makes."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        for call in ast.walk(ast.parse(text)) if "Finding(" in text else ():
            named = isinstance(call, ast.Call) and getattr(call.func, "id", None) == "Finding" and call.args
            if named and isinstance(call.args[0], ast.Constant):
                yield call.args[0].value


@pytest.mark.no_cover
def test_every_finding_in_the_code_has_a_template_and_every_template_a_finding():
    names = set(made())
    indirect = {"only-wins", "only-loses", "prefers-longer", "prefers-lists"}
    indirect |= {"refuses", "truncates", "unparseable"}
    assert names | indirect == {key.partition("/")[0] for key in FINDINGS}


def test_an_english_sentence_needs_no_language():
    template = Template("{n:,} of {list}")
    assert sentence(template.text, template, {"n": 1000, "list": ("a", "b")}) == "1,000 of a, b"
    assert (ENGLISH.say("x"), ENGLISH.point, ENGLISH.group) == ("x", ".", ",")


@pytest.mark.parametrize(
    "values", [{}, {"prompts": "many"}, {"prompts": {"of": 3}}, {"more": "x", "models": [1, None]}]
)
def test_values_that_do_not_fill_a_sentence_are_told(values):
    """As a damaged document may have them."""
    for name in sorted({name.partition("/")[0] for name in FINDINGS}):
        try:
            finding = Finding(name, values)
        except BadOption as error:
            assert name in str(error)  # noqa: PT017
        else:
            assert finding.text
