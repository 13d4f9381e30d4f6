"""``tiltyard plan --questions`` prints the exact requests, and nothing is sent; ``--prices`` what is known of models."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from support.arranged import Arranged
from support.command import run
from tiltyard.core.judging.question import ChatPrompt, Question, QuestionPurpose
from tiltyard.judges.requests import request_key
from tiltyard.report.tournament_tables import SentQuestion, question_lines

HEADS = re.compile(r"^Question \d+: recorded-judge, (\w+), prompt ", re.MULTILINE)


@pytest.fixture
def arranged(tmp_path):
    assert run("init", tmp_path).code == 0
    return Arranged(tmp_path)


def text_of(lines, title):
    """The indented text below a title."""
    start = next(k for k, line in enumerate(lines) if line.startswith(title)) + 1
    found = []
    for line in lines[start:]:
        if line and not line.startswith("    "):
            break
        found.append(line[4:])
    return "\n".join(found[:-1])


def test_one_question_of_each_dimension_is_printed(arranged):
    for options in (
        ("tournament.yaml", "--questions"),
        ("tournament.yaml", "--questions", "--mode", "pilot"),
        ("--questions", "tournament.yaml"),
        ("--questions", "--config", "tournament.yaml"),
    ):
        ran = arranged.done("plan", *options)
        assert HEADS.findall(ran.out) == ["factuality", "calibration", "clinical_utility"]
        assert "54 questions are" in ran.err
        assert "questions" in ran.out.splitlines()[0]


def test_the_first_questions_are_printed(arranged):
    assert len(HEADS.findall(arranged.done("plan", "tournament.yaml", "--questions", "5").out)) == 5
    assert len(HEADS.findall(arranged.done("plan", "tournament.yaml", "--questions", "5000").out)) == 54


def test_what_is_printed_is_what_would_be_sent(arranged):
    printed = arranged.done("plan", "tournament.yaml", "--questions", "1").out.splitlines()
    arranged.done("plan", "tournament.yaml", "--questions", "q.jsonl")
    planned = json.loads((arranged.folder / "q.jsonl").read_text().splitlines()[0])
    body = json.loads(text_of(printed, "Request, with these texts left out"))
    assert (body["system"], body["user"]) == ("(system text above)", "(user text above)")
    body |= {"system": text_of(printed, "System ("), "user": text_of(printed, "User (")}
    _, provider, address, form = re.match(
        r"(To) (\w+) at (.*); reply form (\w+)$", next(line for line in printed if line.startswith("To "))
    ).groups()
    assert form == "schema"
    asked = SimpleNamespace(name=provider, address=address, adapter_version=1)
    assert request_key(asked, body, 0)[0] == planned["request_key"]


def test_hostile_text_and_nested_texts():
    question = Question("j\x1b", "d", "p", "x\u202e", "x", QuestionPurpose.GARBAGE, spoilt=0)
    ask = ChatPrompt("sys\x07\nline", "user\x1b[2J", 9)
    body = {
        "system": [{"text": "sys\x07\nline"}],
        "messages": [{"content": "user\x1b[2J"}],
        "n": 1,
        "odd": "\x1b",
        "image": "data:" + "A" * 9_000,
    }
    text = "\n".join(question_lines(SentQuestion(question, ask, "anthropic", "", body), 3))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    assert "Question 3: j\\x1b," in text
    assert "no address" in text
    assert f'"image": "data:{"A" * 55}\\u2026 (9,005 characters)"' in text
    assert text.count("(system text above)") == text.count("(user text above)") == 1
    assert "    sys\\x07\n    line\n" in text


def test_a_file_that_cannot_be_written_is_an_error(arranged):
    ran = arranged.call("plan", "tournament.yaml", "--questions", "no/such/folder/q.jsonl")
    assert ran.code == 2
    assert "no/such/folder" in ran.err


# ``tiltyard plan --prices``.


def shown(*words):
    ran = run("plan", "--prices", *words)
    assert ran.code == 0, ran.err
    return ran.out


def test_all_models_and_those_of_a_name():
    assert "claude-opus-5-5" in shown()
    some = shown("GPT-6-")
    assert "gpt-6-luna" in some
    assert "claude" not in some
    assert "2026-11-16" in some


def test_one_model_with_its_sources():
    text = shown("claude-opus-5")
    assert "claude-opus-5-5" not in text
    assert "low, medium, high, xhigh, max" in text
    assert (
        "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-adaptive-thinking.html" in text
    )
    assert "2027-01-14; the provider" in shown("gpt-4o-mini")
    assert "generativelanguage" in shown("gemini-3.1-pro-preview")


def test_own_models_come_first(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        "entrants: [{entrant_id: a}, {entrant_id: b}]\nprompts: {bank_path: p}\nanswers: a\n"
        "rubrics: {factuality: }\nprices: {mine: {input: 1, output: 2}}\n"
    )
    found = json.loads(shown("--config", path, "--json"))["models"]
    assert (found[0]["model"], found[0]["output"], found[0]["thinks"]) == ("mine", 2.0, None)
    assert len(found) > 50
    assert "any" in shown("mine", "--config", path)


def test_an_unknown_model_can_be_used_all_the_same():
    ran = run("plan", "--prices", "no-such-model")
    assert ran.code == 2
    assert "it can be used all the same" in ran.err
