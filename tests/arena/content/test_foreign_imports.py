"""Files of other tools are imported as they are: the first response to each prompt, conversations with their roles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiltyard.arena.content.answer_rows import check_upload_rows, read_checked_answers, read_named_models
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.stored_conversations import read_conversation
from tiltyard.errors import InputError
from tiltyard.files.upload_reader import answer_rows

FIXTURES = Path(__file__).parents[2] / "files/fixtures/answers"


def test_an_inspect_log():
    answers = {one.prompt: one for one in read_checked_answers(FIXTURES / "inspect_log.json")}
    assert set(answers) == {"trees/1", "trees/talk", "trees/agent", "trees/unscored"}
    assert answers["trees/1"].text == "Name a tree."
    assert answers["trees/talk"].text == "And this?"
    talk = answers["trees/talk"].shown_text(1000)
    assert talk.startswith(
        "System:\nYou like trees.\n\nUser:\nHello.\n\nAssistant:\nGood day.\n\nUser:\nAnd this?"
    )
    agent = answers["trees/agent"]
    assert read_conversation(ResponseContent(agent.media_type, agent.data)).response == "Two."
    assert agent.shown_text(5_000).endswith("Assistant:\nTwo.")
    assert agent.shown_text(6) == agent.shown_text(5_000)[:6]
    assert read_named_models(FIXTURES / "inspect_log.json") == {"openai/oak-1": set()}


def test_only_the_first_response_to_a_prompt():
    found = list(read_checked_answers(FIXTURES / "elm-2/model_outputs.json"))
    assert [one.data.decode() for one in found] == ["An elm 🌳.", "tree"]


def test_scores_without_a_response_are_refused(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"prompt_id": "p", "prompt": "?", "model": "m", "kind": "scores"}))
    with pytest.raises(InputError, match="shows responses"):
        list(read_checked_answers(path))
    (row,) = check_upload_rows(answer_rows(path, most=10_000), lambda: None, most=10_000)
    assert row.problem == "the response is missing; an arena shows responses, not scores"
