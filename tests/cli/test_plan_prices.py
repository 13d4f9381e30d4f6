"""``tiltyard plan --prices``."""

import json

import pytest
from typer.testing import CliRunner

from tiltyard.cli.app import app
from tiltyard.errors import BadOption

run = CliRunner()


def shown(*words):
    return run.invoke(app, ["plan", "--prices", *words], catch_exceptions=False).output


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
    found = json.loads(shown("--config", str(path), "--json"))["models"]
    assert (found[0]["model"], found[0]["output"], found[0]["thinks"]) == ("mine", 2.0, None)
    assert len(found) > 50
    assert "any" in shown("mine", "--config", str(path))


def test_an_unknown_model_can_be_used_all_the_same():
    with pytest.raises(BadOption, match="it can be used all the same"):
        shown("no-such-model")
