"""The answers file, and what converts into it."""

from __future__ import annotations

import pytest
from format_samples import FIXTURES, as_json_lines
from hypothesis import given, settings
from hypothesis import strategies as st

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.answers import KINDS, Answer, drop_replaced_answers, read_answers, write_answers
from tiltyard.files.foreign_answers import arena_hard_answers, autoarena_answers, entrant_answers
from tiltyard.files.prompt_id import prompt_id

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_reading() -> None:
    first, second = read_answers(FIXTURES / "answers.jsonl")
    assert first == Answer(
        prompt_id="p1",
        prompt="Name a tree.",
        model="oak",
        response="An oak.",
        category="nature",
        language="en",
        gold="any tree",
        expected_behavior="answers",
        source="hand",
        extra={"tokens": 3},
    )
    assert (second.prompt_id, second.kind, second.gold) == ("2", "image", None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            Answer,
            prompt_id=text,
            prompt=text,
            model=text,
            response=text,
            kind=st.sampled_from(KINDS),
            category=st.none() | text,
            language=st.none() | text,
            gold=st.none() | text,
            expected_behavior=st.none() | text,
            source=st.none() | text,
            truncated=st.booleans(),
            extra=st.dictionaries(st.sampled_from(["x", "y"]), st.integers() | text, max_size=2),
        ),
        max_size=4,
    )
)
def test_round_trip(tmp_path_factory, answers: list[Answer]) -> None:
    path = tmp_path_factory.mktemp("answers") / "responses.jsonl.gz"
    write_answers(path, answers)
    assert list(read_answers(path)) == answers


def test_a_mark_of_truncation_may_be_spelled_as_text(tmp_path) -> None:
    path = tmp_path / "answers.csv"
    marks = ("true", "False", "1", "0", "")
    rows = [f"p{k},Why?,oak,So.,{mark}" for k, mark in enumerate(marks)]
    path.write_text("\n".join(["prompt_id,prompt,model,response,truncated", *rows]) + "\n")
    assert [one.truncated for one in read_answers(path)] == [True, False, True, False, False]


def test_whole_and_later_answers_replace_truncated_ones() -> None:
    def answer(model: str, response: str, *, truncated: bool) -> Answer:
        return Answer(prompt_id="p", prompt="Why?", model=model, response=response, truncated=truncated)

    whole_after = [answer("oak", "Be", truncated=True), answer("oak", "Because.", truncated=False)]
    whole_before = [answer("elm", "Because.", truncated=False), answer("elm", "Be", truncated=True)]
    never_whole = [answer("ash", "B", truncated=True), answer("ash", "Be", truncated=True)]
    # Two whole ones that differ are for whoever reads them to refuse.
    differing = [answer("yew", "Because.", truncated=False), answer("yew", "So.", truncated=False)]
    kept = list(drop_replaced_answers([*whole_after, *whole_before, *never_whole, *differing]))
    assert kept == [whole_after[1], whole_before[0], never_whole[1], *differing]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "smell"}, "line 1: kind is 'smell'; expected one of text, image, audio, app"),
        ({"response": None}, "line 1: response is missing; expected text"),
        ({"prompt": ["x"]}, "line 1: prompt is list; expected text"),
        ({"model": True}, "line 1: model is bool; expected text"),
        ({"truncated": "perhaps"}, "line 1: truncated is 'perhaps'; expected true or false"),
        ({"truncated": ["x"]}, """line 1: truncated is "['x']"; expected true or false"""),
    ],
)
def test_answers_that_are_wrong(change: dict, message: str, tmp_path) -> None:
    row = {"prompt_id": "p", "prompt": "q", "model": "m", "response": "r", **change}
    path = as_json_lines([row], tmp_path / "responses.jsonl")
    with pytest.raises(UnreadableFile) as caught:
        list(read_answers(path))
    assert str(caught.value) == f"{path}, {message}"


def test_answers_are_written_as_json_lines_only(tmp_path) -> None:
    with pytest.raises(BadOption, match=r"use one of \.jsonl, \.jsonl\.gz, \.jsonl\.zst"):
        write_answers(tmp_path / "responses.parquet", [])


def test_entrants_and_their_bank() -> None:
    first, second = entrant_answers(FIXTURES / "bank.jsonl", [FIXTURES / "responses_alpha.jsonl"])
    assert first == Answer(
        prompt_id="p1",
        prompt="Is aspirin an antibiotic?",
        model="alpha",
        response="No, it is not.",
        category="pharmacology",
        gold="No",
        expected_behavior="corrects",
        source="hand",
        extra={
            "tags": ["short"],
            "p_correct": None,
            "diagnostics": {"tokens": 5},
            "timestamp": "2026-01-01T00:00:00+00:00",
        },
    )
    assert (second.prompt, second.source, second.gold) == ("How are you?", None, None)


def test_a_bank_that_does_not_fit(tmp_path) -> None:
    bank = as_json_lines([{"prompt_id": "p9", "text": "?"}], tmp_path / "bank.jsonl")
    with pytest.raises(
        UnreadableFile, match=r"responses_alpha.jsonl, line 1: prompt 'p1' is not in .*bank.jsonl"
    ):
        list(entrant_answers(bank, [FIXTURES / "responses_alpha.jsonl"]))
    as_json_lines([{"prompt_id": 1, "text": "?"}, {"prompt_id": "1", "text": "?"}], bank)
    with pytest.raises(UnreadableFile, match=r"bank.jsonl, line 2: duplicate prompt '1'; rename one"):
        list(entrant_answers(bank, []))
    as_json_lines([{"text": "?"}], bank)
    with pytest.raises(UnreadableFile, match=r"bank.jsonl, line 1: prompt_id is missing"):
        list(entrant_answers(bank, []))


def test_arena_hard() -> None:
    answers = [FIXTURES / "arena_hard/model_answer/oak.jsonl"]
    first, second = arena_hard_answers(answers, FIXTURES / "arena_hard/question.jsonl")
    assert first == Answer(
        prompt_id="u1",
        prompt="Sort a list.",
        model="oak",
        response="Use sorted().",
        category="hard_prompt",
        source="arena-hard",
    )
    assert second.response == "A line."
    assert [answer.prompt for answer in arena_hard_answers(answers)] == ["Sort a list.", "Write a line."]


def test_older_arena_hard_answers(tmp_path) -> None:
    path = as_json_lines([{"question_id": "q", "model_id": "oak", "choices": []}], tmp_path / "oak.jsonl")
    with pytest.raises(UnreadableFile, match=r"oak.jsonl, line 1: messages is not a list of messages"):
        list(arena_hard_answers([path]))


def test_autoarena() -> None:
    path = FIXTURES / "autoarena_responses.csv"
    first, second = autoarena_answers(path)
    assert first == Answer(
        prompt_id=prompt_id("Name a tree."),
        prompt="Name a tree.",
        model="autoarena_responses",
        response="An oak.",
        source="autoarena",
    )
    assert second.prompt == "Name, slowly, a river."
    assert {answer.model for answer in autoarena_answers(path, model="oak")} == {"oak"}


def test_a_prompt_that_is_missing(tmp_path) -> None:
    path = tmp_path / "oak.csv"
    path.write_text("prompt,response\n,x\n")
    with pytest.raises(UnreadableFile, match=r"oak.csv, line 2: prompt_id is missing"):
        list(autoarena_answers(path))
