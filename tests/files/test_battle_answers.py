"""The answers inside battle files: found where they are, passed over where they are not one prompt's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import BadBattle, UnreadableFile
from tiltyard.files.answers import battle_answers

FIXTURES = Path(__file__).parent / "fixtures"


def found(path, **options):
    return [(one.prompt_id, one.prompt, one.model, one.response) for one in battle_answers(path, **options)]


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


OWN = {"model_a": "oak", "model_b": "elm", "winner": "model_a", "question_id": "q1"}


def test_our_own_files(tmp_path):
    path = write(
        tmp_path / "battles.jsonl",
        {**OWN, "prompt": "Why?", "response_a": "Because.", "response_b": "", "category": "deep"},
        {**OWN, "question_id": 2, "prompt": "How?", "response_a": "So.", "response_b": "Thus."},
        # No prompt, no responses, no name of the prompt.
        {**OWN, "response_a": "x", "response_b": "y"},
        {**OWN, "prompt": "Why?"},
        {**OWN, "prompt": "Why?", "response_a": "x", "response_b": None},
        {**OWN, "question_id": None, "prompt": "Why?", "response_a": "x", "response_b": "y"},
        {**OWN, "prompt": "  ", "response_a": "x", "response_b": "y"},
    )
    assert found(path) == [
        ("q1", "Why?", "oak", "Because."),
        ("q1", "Why?", "elm", ""),
        ("2", "How?", "oak", "So."),
        ("2", "How?", "elm", "Thus."),
    ]
    assert next(battle_answers(path)).category == "deep"


def test_conversations_of_an_arena():
    rows = found(FIXTURES / "lmarena_100k.jsonl")
    assert rows[:2] == [
        ("c0ffee01", "Write a loop.", "oak-7b", "```python\n# not a header\n```\nDone."),
        ("c0ffee01", "Write a loop.", "elm-13b", "## Loop\n1. start\n2. stop"),
    ]
    answers = list(battle_answers(FIXTURES / "lmarena_100k.jsonl"))
    assert (answers[0].category, answers[0].language) == ("code", "English")
    assert len(rows) % 2 == 0


def test_an_arena_of_blocks_and_the_oldest_set():
    assert all(prompt and response for _, prompt, _, response in found(FIXTURES / "lmarena_140k.jsonl"))
    rows = found(FIXTURES / "lmarena_55k.csv")
    assert rows[0] == ("1001", "Name three trees.", "oak-7b", "# Trees\n- oak\n- elm\n- **ash**")
    # A conversation of two turns is not one prompt.
    assert "1002" not in {row[0] for row in rows}


def test_conversations_of_several_turns_are_passed_over(tmp_path):
    turns = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Two"},
        {"role": "assistant", "content": "2"},
    ]
    arena = {"judge_hash": "h", "tstamp": 1.0}
    short = {"conversation_a": turns[:2], "conversation_b": turns[:2]}
    path = write(
        tmp_path / "battles.jsonl",
        {**OWN, **arena, "conversation_a": turns, "conversation_b": turns},
        {**OWN, **arena, "question_id": "q2", **short},
        {**OWN, **arena, "question_id": "q3", "conversation_a": "[{", "conversation_b": 7},
        {**OWN, **arena, "question_id": "q4", "conversation_a": [{"role": "user"}], "conversation_b": []},
    )
    assert [row[0] for row in found(path)] == ["q2", "q2"]


def test_files_without_answers_hold_none():
    for name in ("own.jsonl", "mt_bench.jsonl", "judgearena.jsonl", "fastchat_battles.json"):
        assert found(FIXTURES / name) == []


def test_a_wrong_row_is_named_with_its_line(tmp_path):
    text = (FIXTURES / "lmarena_55k.csv").read_text().splitlines()
    text[1] = text[1].replace("1,0,0", "1,1,0")
    (tmp_path / "battles.csv").write_text("\n".join(text))
    with pytest.raises(BadBattle, match="exactly"):
        found(tmp_path / "battles.csv")
    path = write(tmp_path / "battles.jsonl", OWN, {**OWN, "model_b": None, "prompt": "?"})
    assert found(path) == []
    both = {"prompt": "?", "response_a": "x", "response_b": "y"}
    rows = [{**OWN, **both}, {key: value for key, value in {**OWN, **both}.items() if key != "model_b"}]
    with pytest.raises(UnreadableFile, match="line 2: model"):
        found(write(path, *rows))


def test_the_format_may_be_stated(tmp_path):
    path = write(tmp_path / "x.jsonl", {**OWN, "prompt": "p", "response_a": "1", "response_b": "2"})
    assert len(found(path, format="tiltyard-jsonl")) == 2


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner)
    ),
    max_leaves=6,
)


@given(prompt=ODD, a=ODD, b=ODD, conversation=ODD)
def test_whatever_a_record_holds_it_is_read_or_passed_over(tmp_path_factory, prompt, a, b, conversation):
    row = {**OWN, "prompt": prompt, "response_a": a, "response_b": b, "conversation_a": conversation}
    path = write(tmp_path_factory.mktemp("odd") / "battles.jsonl", row)
    for answer in battle_answers(path):
        assert isinstance(answer.prompt, str)
        assert isinstance(answer.response, str)
