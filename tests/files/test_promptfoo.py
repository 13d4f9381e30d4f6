"""Results of promptfoo become answers; errors are missing answers, failed assertions are scores."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from support.format_samples import FIXTURES, as_json_lines
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.files.answers import open_answers, read_answers

PATH = FIXTURES / "answers/promptfoo.json"
ROWS = json.loads(PATH.read_text(encoding="utf-8"))["results"]["results"]


@pytest.fixture(params=["document", "lines", "old"])
def path(request, tmp_path):
    if request.param == "document":
        return PATH
    if request.param == "lines":
        return as_json_lines(ROWS, tmp_path / "output.jsonl")
    (tmp_path / "output.json").write_text(json.dumps({"results": {"version": 2, "results": ROWS}}))
    return tmp_path / "output.json"


def test_every_result(path) -> None:
    source = open_answers(path)
    assert source.format == "promptfoo"
    oak, elm, river, empty, ungraded = source.answers()
    assert oak == Answer(
        prompt_id=oak.prompt_id,
        prompt="Name a tree.",
        model="openai:oak-1",
        response="An oak 🌳.",
        source="promptfoo",
        usage=AnswerUsage(input_tokens=5, output_tokens=4, cost_usd=0.001, latency_seconds=1.5),
        scores={"score": 1.0, "success": 1.0, "kind": 0.5},
    )
    assert (elm.model, elm.prompt, elm.system, elm.messages) == ("elm", "Name a tree.", "Be brief.", ())
    assert (elm.prompt_id, elm.response, elm.usage) == (oak.prompt_id, '{"tree": "elm"}', None)
    assert elm.scores == {"score": 0.0, "success": 0.0}
    assert (river.response, river.scores) == ("The Rhine.", {})
    assert (empty.prompt_id, empty.repeat, empty.kind) == (oak.prompt_id, 1, "scores")
    # The same variables with other assertions are another test.
    assert (ungraded.prompt_id, ungraded.repeat, ungraded.scores) == (f"{oak.prompt_id}-2", 0, {})
    assert dict(source.notes) == {"failed or was cancelled": 1, "has a metric without a value": 1}


def test_edited_and_reordered_tests_are_paired(tmp_path) -> None:
    edited = [dict(row, testIdx=row["testIdx"] + 4) for row in ROWS[2:3]] + ROWS[:1]
    path = as_json_lines(edited, tmp_path / "output.jsonl")
    ours = {one.prompt: one.prompt_id for one in read_answers(path)}
    theirs = {one.prompt: one.prompt_id for one in read_answers(PATH) if not one.repeat and one.scores != {}}
    assert ours["Name a tree."] == theirs["Name a tree."]


def test_one_provider_with_two_prompts(tmp_path) -> None:
    rows = [ROWS[0], dict(ROWS[0], promptIdx=4), dict(ROWS[1], promptIdx=2)]
    models = [one.model for one in read_answers(as_json_lines(rows, tmp_path / "output.jsonl"))]
    assert models == ["openai:oak-1, prompt 1", "openai:oak-1, prompt 2", "elm"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"testIdx": None}, "line 1: testIdx is 'None'; expected a number"),
        ({"provider": {}}, "line 1: provider is missing"),
    ],
)
def test_broken_results(change: dict, message: str, tmp_path) -> None:
    path = as_json_lines([ROWS[0] | change], tmp_path / "output.jsonl")
    with pytest.raises(UnreadableFile, match=message):
        list(read_answers(path))


def test_the_same_result_twice(tmp_path) -> None:
    path = as_json_lines([ROWS[0], ROWS[0]], tmp_path / "output.jsonl")
    with pytest.raises(UnreadableFile, match=r"line 2.*test 0 occurs"):
        list(read_answers(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"results": {"version": 3}}', "no results.results"),
        ('{"results": {"version": 3, "results": [7]}}', "record 1: a result is int"),
        (
            '{"results": {"version": 2, "results": [{"provider": "x"}]}}',
            "as in results of promptfoo since 2024",
        ),
    ],
)
def test_broken_documents(text: str, message: str, tmp_path) -> None:
    path = tmp_path / "output.json"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match=message):
        list(read_answers(path))


def test_results_in_other_shapes(tmp_path) -> None:
    """An empty output that nothing scored, a prompt that is no chat, no variables."""
    plain = {"provider": "oak", "promptIdx": 0, "success": True, "score": None, "failureReason": 0}
    rows = [
        plain | {"testIdx": 0, "testCase": {}, "prompt": {"raw": "[not a chat"}, "response": {"output": "a"}},
        plain | {"testIdx": 1, "testCase": {}, "prompt": {"raw": "[1, 2]"}, "response": {"output": "b"}},
        plain
        | {
            "testIdx": 2,
            "testCase": {},
            "prompt": {"raw": "?"},
            "response": {"output": ""},
            "gradingResult": {"reason": "No assertions"},
        },
    ]
    path = tmp_path / "output.json"
    path.write_text(json.dumps({"results": {"timestamp": "now", "results": rows}}))
    source = open_answers(path)
    first, second = source.answers()
    assert (first.prompt, second.prompt, first.scores) == ("[not a chat", "[1, 2]", {"success": 1.0})
    assert first.prompt_id != second.prompt_id
    assert dict(source.notes) == {"has a metric without a value": 2, "has neither a response nor a score": 1}


def test_what_version_0_121_20_wrote() -> None:
    """Two prompts for a provider, a local one, one that nobody reaches; a test twice, and one without assertions."""
    source = open_answers(FIXTURES / "tools/promptfoo-0.121.20.json")
    answers = {(one.model, one.prompt_id, one.repeat): one for one in source.answers()}
    assert source.format == "promptfoo"
    assert [count for _, count in source.notes] == [3]
    assert Counter(model for model, _, _ in answers) == {"oak, prompt 1": 3, "oak, prompt 2": 3, "echo": 1}
    (checked, first), (again, second) = (
        (key, one) for key, one in answers.items() if key[0] == "oak, prompt 2" and one.scores
    )
    assert (checked[1], checked[2], again[2]) == (again[1], 0, 1)
    assert (first.prompt, first.system, first.response) == ("12 + 30?", "Be brief.", "42")
    assert first.scores == {"len": 0.2, "score": pytest.approx(2.2 / 3), "success": 1.0}
    # The server's model has no price, for which promptfoo writes 0; what it runs by itself costs nothing.
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.cost_usd) == (12, None)
    echoed = next(one for one in answers.values() if one.model == "echo")
    assert echoed.usage is not None
    assert echoed.usage.cost_usd == 0.0
    assert second.scores == first.scores
