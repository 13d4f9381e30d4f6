"""Logs of Inspect become answers with scores; what failed is counted, never scored."""

from __future__ import annotations

import json
import zipfile

import pytest

from support.log_archives import LOG, ZSTD, log, log_members, write_zip
from tiltyard.core.judging.conversation import ContentPart, Message, ToolCall
from tiltyard.errors import BadOption, InputError, UnreadableFile
from tiltyard.files import zip_members
from tiltyard.files.answer import Answer, AnswerUsage
from tiltyard.files.answers import open_answers, read_answers


@pytest.fixture(params=["json", "zstd", "deflated", "stored", "chunked"])
def path(request, tmp_path):
    """The same log in every form."""
    methods = {"zstd": ZSTD, "deflated": zipfile.ZIP_DEFLATED, "stored": zipfile.ZIP_STORED, "chunked": ZSTD}
    if request.param == "json":
        return LOG
    members = chunked_members() if request.param == "chunked" else log_members(log())
    return write_zip(tmp_path / "log.eval", members, method=methods[request.param])


def chunked_members() -> dict[str, bytes]:
    """The log with its samples in pieces, as Inspect's chunked logs have them."""
    whole = log()
    members = {"header.json": {name: value for name, value in whole.items() if name != "samples"}}
    for sample in whole["samples"]:
        folder = f"samples/{sample['id']}_epoch_{sample['epoch']}"
        messages, attachments = sample.pop("messages"), sample.pop("attachments", {})
        text = json.dumps([sample, messages])
        for number, name in enumerate(attachments):
            text = text.replace(f"attachment://{name}", f"attachment://{number}")
        shell, messages = json.loads(text)
        half = len(messages) // 2
        # One more message in the pool, and the conversation in two ranges.
        pool = [*messages[:half], {"role": "user", "content": "unused"}, *messages[half:]]
        shell["message_refs"] = [[0, half], [half + 1, len(pool)]]
        members |= {
            f"{folder}/sample.json": shell,
            f"{folder}/events/stats.json": {},
            f"{folder}/messages/10.json": pool[10:],
            f"{folder}/messages/2.json": pool[2:10],
            f"{folder}/messages/0.json": pool[:2],
            f"{folder}/attachments/0.json": list(attachments.values()),
        }
    return {name: json.dumps(value).encode() for name, value in members.items()}


def test_every_sample(path) -> None:
    source = open_answers(path)
    assert source.format == "inspect"
    plain, talk, agent, mute, unscored = source.answers()
    assert plain == Answer(
        prompt_id="trees/1",
        prompt="Name a tree.",
        model="openai/oak-1",
        response="An oak 🌳.",
        category="trees",
        gold="oak",
        source="inspect",
        system="Be brief.",
        usage=AnswerUsage(input_tokens=15, output_tokens=4, cost_usd=0.002, latency_seconds=1.5),
        params_hash=plain.params_hash,
        scores={"match": 1.0, "quality/style": 0.5, "quality/depth": 0.25},
    )
    assert (talk.prompt_id, talk.prompt, talk.system) == ("trees/talk", "And this?", "You like trees.")
    assert [one.role for one in talk.messages] == ["user", "assistant", "user"]
    assert talk.messages[-1].parts[1] == ContentPart(kind="image", url="data:image/png;base64,AAAA")
    assert (talk.response, talk.truncated, talk.gold) == ("An elm", True, "elm\nash")
    assert agent.messages == ()
    assert agent.trace == (
        Message("assistant", (ContentPart("I look."),), (ToolCall("bash", '{"cmd": "ls"}'),)),
        Message("tool", (ContentPart("a b"),), tool="bash"),
        Message("user", (ContentPart("Please go on."),)),
    )
    assert agent.response == "Two."
    assert agent.scores == {"match": 0.0, "yes": 1.0, "text": 0.75, "flag": 1.0}
    assert (mute.kind, mute.response, mute.scores) == ("scores", "", {"match": 1.0})
    assert (unscored.response, unscored.scores) == ("Well.", {})
    assert dict(source.notes) == {
        "failed or was cancelled": 1,
        "was marked as invalid": 1,
        "is in the data set, but not in the log": 1,
        "has a metric without a value": 2,
        "has a metric that is not one number": 2,
    }


def test_what_is_read_can_be_written_and_read_back(path) -> None:
    for answer in read_answers(path):
        assert Answer.from_dict(json.loads(json.dumps(answer.to_dict())), "x") == answer


def test_two_logs_of_one_task_are_paired(tmp_path) -> None:
    """By sample and epoch; the model is renamed, since both logs are of the same one."""
    first, second = log(), log()
    second["eval"]["model_generate_config"] = {"temperature": 1.0}
    second["samples"].reverse()
    second["samples"] += [dict(second["samples"][-1], epoch=2)]
    paths = {
        "cold": write_zip(tmp_path / "a.eval", log_members(first)),
        "warm": write_zip(tmp_path / "b.eval", log_members(second)),
    }
    answers = {name: list(read_answers(path, model=name)) for name, path in paths.items()}
    assert {one.model for found in answers.values() for one in found} == {"cold", "warm"}
    places = {name: {(one.prompt_id, one.repeat) for one in found} for name, found in answers.items()}
    assert places["warm"] - places["cold"] == {("trees/1", 1)}
    assert not places["cold"] - places["warm"]
    assert len({one.params_hash for found in answers.values() for one in found}) == 2


def test_a_log_that_is_still_written_has_its_header_in_the_journal(tmp_path) -> None:
    members = log_members(log())
    del members["header.json"]
    assert len(list(read_answers(write_zip(tmp_path / "log.eval", members)))) == 5


def test_older_logs_have_one_score_without_a_name(tmp_path) -> None:
    old = log()
    old["samples"] = [dict(old["samples"][0], score={"value": "C"}, scores=None)]
    (answer,) = read_answers(write_zip(tmp_path / "log.eval", log_members(old)))
    assert answer.scores == {"score": 1.0}


def test_lone_surrogates_are_replaced(tmp_path) -> None:
    text = LOG.read_text(encoding="utf-8").replace('"An elm"', '"An \\ud800 elm"')
    (tmp_path / "log.json").write_text(text, encoding="utf-8")
    assert [one.response for one in read_answers(tmp_path / "log.json")][
        1
    ] == "An \N{REPLACEMENT CHARACTER} elm"


def test_only_the_model_of_a_file_can_be_renamed(tmp_path) -> None:
    rows = [{"prompt_id": "p", "prompt": "?", "model": name, "response": "!"} for name in ("oak", "elm")]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadOption, match="answers of oak"):
        list(read_answers(path, model="ash"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eval": {}}, "eval.task is missing"),
        ({"eval": {"task": "t"}}, "eval.model is missing"),
        ({"samples": [{"id": 1, "epoch": 1, "input": "x"}] * 2}, "sample 1 occurs twice in the same epoch"),
        ({"samples": [{"epoch": 1}]}, "record 1: id or epoch is missing"),
        ({"samples": [7]}, "record 1: a sample is int; expected an object"),
        ({"samples": [{"id": 1, "input": 7}]}, "record 1: messages is int; expected a list of messages"),
        (
            {"samples": [{"id": 1, "input": [{"role": "king"}]}]},
            "record 1: the role of message 1 is 'king'; expected one of system, user, assistant, tool",
        ),
    ],
)
def test_broken_documents(change: dict, message: str, tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"eval": log()["eval"], "samples": []} | change))
    with pytest.raises(UnreadableFile) as caught:
        list(read_answers(path))
    # Without a task it is no log, but one record of our own format.
    assert message in str(caught.value) or change == {"eval": {}}


def test_samples_before_the_header(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"samples": [], "eval": log()["eval"]}))
    with pytest.raises(UnreadableFile, match="come before samples"):
        list(read_answers(path))


@pytest.mark.parametrize(
    ("refs", "message"),
    [
        ([[0, 9]], "names messages that are not in the log"),
        ([[1, 0]], "names messages that are not in the log"),
        ([[0]], "message_refs is not a list of ranges"),
        (7, "int where a list is expected"),
    ],
)
def test_references_to_messages_that_are_not_there(refs, message: str, tmp_path) -> None:
    shell = {"id": 1, "epoch": 1, "input": "x", "message_refs": refs}
    members = {
        "header.json": {"eval": log()["eval"]},
        "samples/1_epoch_1/sample.json": shell,
        "samples/1_epoch_1/messages/0.json": [{"role": "user", "content": "x"}],
    }
    path = write_zip(tmp_path / "log.eval", {name: json.dumps(one).encode() for name, one in members.items()})
    with pytest.raises(UnreadableFile, match=message):
        list(read_answers(path))


@pytest.mark.parametrize("method", [ZSTD, zipfile.ZIP_DEFLATED])
def test_archives_that_lie_or_grow(method: int, tmp_path, monkeypatch) -> None:
    members = log_members(log())
    for lie in ({"size": 3}, {"crc": 7}):
        path = write_zip(tmp_path / "log.eval", members, method=method, **lie)
        with pytest.raises(UnreadableFile, match="broken zip archive"):
            list(read_answers(path))
    bomb = {**members, "samples/big_epoch_1.json": b" " * 5_000_000}
    path = write_zip(tmp_path / "bomb.eval", bomb, method=method)
    monkeypatch.setattr(zip_members, "MEMBER_BYTES", 1_000_000)
    with pytest.raises(UnreadableFile, match=r"big_epoch_1\.json: unpacks"):
        list(read_answers(path))
    monkeypatch.undo()
    monkeypatch.setattr(zip_members, "ARCHIVE_BYTES", 1_000_000)
    with pytest.raises(UnreadableFile, match=r"bomb\.eval: unpacks"):
        list(read_answers(path))


def test_archives_of_something_else(tmp_path) -> None:
    path = write_zip(tmp_path / "log.eval", {"letter.txt": b"hello"}, method=zipfile.ZIP_STORED)
    with pytest.raises(UnreadableFile, match="Inspect"):
        list(read_answers(path))


def test_choices_are_part_of_the_prompt(tmp_path) -> None:
    asked = log()
    asked["samples"] = [dict(asked["samples"][0], choices=["oak", "rose"])]
    (answer,) = read_answers(write_zip(tmp_path / "log.eval", log_members(asked)))
    assert answer.prompt == "Name a tree.\n\nA) oak\nB) rose"


@pytest.mark.parametrize("text", ['{\n"a": 1,\n"results": []\n}', '{"a": 1}', '{"a":\n1'])
def test_documents_of_no_known_tool(text: str, tmp_path) -> None:
    path = tmp_path / "what.json"
    path.write_text(text)
    several = text.count("\n") > 1
    with pytest.raises(InputError, match="is one JSON object of no known tool" if several else "line 1"):
        list(read_answers(path))


def test_archives_with_broken_headers(tmp_path, monkeypatch) -> None:
    members = log_members(log())
    whole = write_zip(tmp_path / "log.eval", members).read_bytes()
    changes = {
        "no local header": whole.replace(b"PK\x03\x04", b"PK\x03\x05").replace(
            b"PK\x03\x05", b"PK\x03\x04", 1
        ),
        "it is encrypted": whole.replace(b"\x3f\x00\x00\x08", b"\x3f\x00\x01\x08"),
    }
    for message, data in changes.items():
        (tmp_path / "broken.eval").write_bytes(data)
        with pytest.raises(UnreadableFile, match=message):
            list(read_answers(tmp_path / "broken.eval"))
    monkeypatch.setattr(zip_members, "MEMBER_LIMIT", 3)
    with pytest.raises(UnreadableFile, match="more than 3 members"):
        list(read_answers(tmp_path / "log.eval"))


def test_a_log_that_did_not_end_well_is_noted(tmp_path) -> None:
    failed = {**json.loads(LOG.read_text()), "status": "error"}
    (tmp_path / "log.json").write_text(json.dumps(failed))
    write_zip(tmp_path / "log.eval", log_members(failed))
    for name in ("log.json", "log.eval"):
        source = open_answers(tmp_path / name)
        assert list(source.answers())
        assert ("the log did not end well: its status is error", 1) in source.notes
    whole = open_answers(LOG)
    assert list(whole.answers())
    assert "status" not in str(whole.notes)
