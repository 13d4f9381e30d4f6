"""Samples of lm-evaluation-harness become answers, one for each document."""

from __future__ import annotations

import json
import shutil

import pytest

from support.format_samples import FIXTURES
from tiltyard.core.judging.conversation import ContentPart, Message
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answers import open_answers, read_answers

ARITH = FIXTURES / "answers/samples_arith_2026-08-01T10-00-00.123456.jsonl"
CHOICES = FIXTURES / "answers/samples_choices.jsonl"


def test_generated_text_with_two_filters() -> None:
    source = open_answers(ARITH)
    first, second = source.answers()
    assert source.format == "lm-eval"
    assert first == Answer(
        prompt_id="arith/0",
        prompt="Q: 1+1?\nA:",
        model="forest/oak-1",
        response="It is 2.",
        category="arith",
        gold="2",
        source="lm-eval",
        scores={"exact_match,strict-match": 1.0, "exact_match,flexible-extract": 0.0},
    )
    assert (second.response, second.scores["exact_match,flexible-extract"]) == ("Vielleicht fünf.", 1.0)
    assert source.notes == (("has more responses; only the first is read", 1),)


def test_choices_likelihoods_and_chats() -> None:
    source = open_answers(CHOICES)
    choice, word, chat = source.answers()
    assert (choice.prompt_id, choice.model, choice.category) == ("choices/0", "answers", "choices")
    assert (choice.response, choice.gold) == ("oak", "oak")
    assert choice.scores == {"acc": 1.0, "acc_norm": 0.0, "parts/first": 1.0}
    assert (word.kind, word.response, word.prompt, word.gold) == ("scores", "", "A tall", " elm")
    assert word.scores == {"acc": 1.0}
    assert (chat.prompt, chat.system, chat.response) == ("Chat?", "Be kind.", "Sure.")
    assert chat.messages == (
        Message("user", (ContentPart("One?"),)),
        Message("assistant", (ContentPart("Yes."),)),
        Message("user", (ContentPart("Chat?"),)),
    )
    assert (chat.gold, chat.scores) == ('["yes", "no"]', {})
    assert dict(source.notes) == {
        "has a metric without a value": 3,
        "has a metric that is not one number": 2,
        "has neither a response nor a score": 1,
    }


def test_two_runs_of_one_task_are_paired_by_document(tmp_path) -> None:
    for folder in ("cold", "warm"):
        (tmp_path / folder).mkdir()
        shutil.copy(ARITH, tmp_path / folder / f"samples_arith_2026-08-0{len(folder)}T10-00-00.5.jsonl")
    first, second = (list(read_answers(path)) for path in sorted(tmp_path.rglob("*.jsonl")))
    assert {one.model for one in first} == {"cold"}
    assert [one.prompt_id for one in first] == [one.prompt_id for one in second] == ["arith/0", "arith/1"]


def test_a_renamed_file_has_ids_by_content(tmp_path) -> None:
    path = tmp_path / "mine.jsonl"
    shutil.copy(ARITH, path)
    assert [one.prompt_id for one in read_answers(path, model="oak")] == ["aa11/0", "aa12/1"]


def test_a_broken_file_of_results_is_no_error(tmp_path) -> None:
    shutil.copy(ARITH, tmp_path)
    (tmp_path / ARITH.name.replace("samples_arith", "results").replace("jsonl", "json")).write_text("{")
    assert {one.model for one in read_answers(tmp_path / ARITH.name)} == {tmp_path.name}


def test_two_runs_in_one_file(tmp_path) -> None:
    path = tmp_path / "samples_arith.jsonl"
    path.write_text(ARITH.read_text() * 2)
    with pytest.raises(UnreadableFile, match=r"line 5.*'strict-match'"):
        list(read_answers(path))


def test_a_record_without_a_document(tmp_path) -> None:
    path = tmp_path / "samples_arith.jsonl"
    path.write_text(json.dumps({"doc_id": None, "resps": [], "filtered_resps": []}))
    with pytest.raises(UnreadableFile, match=r"line 1.*doc_id"):
        list(read_answers(path))


def sample(prompt: object, resps: object, **fields: object) -> dict:
    """A record with one request."""
    arguments = {"gen_args_0": {"arg_0": prompt}}
    return {"doc_id": 0, "arguments": arguments, "resps": resps, "filtered_resps": [], **fields}


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        (["not JSON"], "not JSON"),
        (['{"role": "user"}'], '{"role": "user"}'),
        ([{"role": "user", "content": "Why?"}], "Why?"),
        ({"text": "Why?"}, '{"text": "Why?"}'),
        (None, ""),
    ],
)
def test_prompts_in_other_shapes(prompt: object, asked: str, tmp_path) -> None:
    path = tmp_path / "samples_x.jsonl"
    path.write_text(json.dumps(sample(prompt, ["So."], target="")))
    (answer,) = read_answers(path)
    assert (answer.prompt, answer.response, answer.gold) == (asked, "So.", None)


@pytest.mark.parametrize(
    "resps",
    [
        [[["x", "True"]], [["-1", "True"]]],
        [[], [["-1", "True"]]],
        [[["1", "2", "3"]], [["-1", "True"]]],
        None,
    ],
)
def test_likelihoods_that_cannot_be_read_are_no_choice(resps: object, tmp_path) -> None:
    """The score counts; no choice is made up."""
    row = sample("A tree?", resps, metrics=["acc"], acc=0.0)
    row["arguments"]["gen_args_1"] = {"arg_0": "A tree?", "arg_1": " oak"}
    path = tmp_path / "samples_x.jsonl"
    path.write_text(json.dumps(row))
    (answer,) = read_answers(path)
    assert (answer.kind, answer.response, answer.scores) == ("scores", "", {"acc": 0.0})


def test_text_of_a_perplexity_task_that_is_no_number_is_a_response(tmp_path) -> None:
    path = tmp_path / "samples_x.jsonl"
    path.write_text(json.dumps(sample("Go on.", [["And so on."]], metrics=["word_perplexity"])))
    assert next(read_answers(path)).response == "And so on."


def test_what_version_0_4_13_wrote() -> None:
    """A chat with a system prompt; two repeats with two filters; choices of a model without a name."""
    files = sorted((FIXTURES / "tools/lm-eval-0.4.13/oak-1").glob("samples_*"))
    choices, filtered, chat = (list(read_answers(path)) for path in files)
    assert [len(one) for one in (choices, filtered, chat)] == [2, 2, 2]
    assert (chat[0].model, chat[0].prompt_id, chat[0].prompt) == ("oak-1", "sums/0", "27 + 82 = ?")
    assert (chat[0].system, chat[0].response, chat[0].gold) == ("Be brief.", "119", "109")
    assert chat[0].scores == {"exact_match": 0.0}
    assert filtered[0].scores == {"exact_match,strict": 0.0, "exact_match,majority": 0.0}
    assert (choices[0].response, choices[0].gold) == ("109", "109")
    assert choices[0].scores == {"acc": 1.0, "acc_norm": 1.0}
