"""Reading what the judges said: filters, texts, hostile text, broken folders."""

import json
import re
from dataclasses import replace

import pytest

from support.command import run as command
from support.judged_runs import failed, judged_of, made_run, written
from tiltyard.core.judging.conversation import ContentPart, Message, ToolCall
from tiltyard.core.judging.judged_question import reparse
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.reconciliation import group_verdicts
from tiltyard.errors import BadOption, BrokenArtifact, UnreadableFile
from tiltyard.report.match_text import context_of, match_document, match_lines
from tiltyard.runs.match_reader import MatchFilter, read_matches
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.tournament_files import write_draft_manifest

JUDGES = ("judge-one", "judge-two")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def judged():
    return made_run(prompts=10, judges=JUDGES, checks=3)


@pytest.fixture(scope="module")
def folder(judged, tmp_path_factory):
    return written(tmp_path_factory.mktemp("read"), judged)


def groups_of(judged, dimension=None):
    return [
        group
        for name in judged.dimensions
        if dimension in (None, name)
        for group in group_verdicts(judged.judged(name))
    ]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, lambda group: group.purpose is QuestionPurpose.MATCH),
        ({"flips": True}, lambda group: group.flips()),
        ({"flips": True, "judge": "judge-two"}, lambda group: group.flips("judge-two")),
        ({"disagreements": True}, lambda group: group.disputed),
        ({"failed_checks": True}, lambda group: group.failed),
        ({"no_verdict": True}, lambda group: group.lacks()),
        ({"flips": True, "failed_checks": True}, lambda group: group.flips() or group.failed),
        (
            {"pair": ("cedar", "ash")},
            lambda group: (group.model_a, group.model_b) == ("ash", "cedar") and group.results != {},
        ),
        ({"prompt_id": "p00004"}, lambda group: group.prompt_id == "p00004" and group.results != {}),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_what_fits_is_read_in_order(wanted, fits, folder, judged):
    for dimension in (None, "calibration"):
        found = [match.group for match in read_matches(folder, MatchFilter(dimension=dimension, **wanted))]
        assert found == [group for group in groups_of(judged, dimension) if fits(group)]
        assert found


def test_checks_of_one_judge_are_read_alone(folder, judged):
    found = list(read_matches(folder, MatchFilter(failed_checks=True, judge="judge-one")))
    assert {match.group.judged[0].question.judge for match in found} == {"judge-one"}
    assert len(found) < len(list(read_matches(folder, MatchFilter(failed_checks=True))))


def test_a_document_has_everything(folder, judged):
    answers = {(one.model, one.prompt_id): one.response for one in judged.answers}
    for match in read_matches(folder, MatchFilter()):
        document = match_document(match)
        group = match.group
        assert json.loads(json.dumps(document)) == document
        assert document["response_a"] == answers[group.model_a, group.prompt_id]
        assert document["response_b"] == answers[group.model_b, group.prompt_id]
        assert document["prompt"] == f"Question {int(group.prompt_id[1:])}?"
        assert document["flip"] is group.flips()
        assert list(document["results"]) == list(JUDGES)
        assert [one["reasoning"] for one in document["verdicts"]] == [
            one.verdict.reasoning if one.verdict else None for one in group.judged
        ]


def test_lines_say_who_stood_where(folder, judged):
    verdicts = (folder / "questions" / "factuality.jsonl").read_text().splitlines()
    sentences = set()
    for match in read_matches(folder, MatchFilter(dimension="factuality")):
        text = "\n".join(match_lines(match, 1))
        assert json.loads(verdicts[match.line - 1])["question_id"] == match.group.judged[0].question.id
        for one in match.group.judged:
            assert f"{one.question.judge}, A is {one.question.first}, B is {one.question.second}: " in text
        sentences.update(re.findall(r"^   judge-\w+: (.*)$", text, re.MULTILINE))
        only = "\n".join(match_lines(match, 1, "judge-two"))
        assert "judge-one" not in only
    kinds = {re.sub(r"ash|birch|cedar|<b>dill", "M", line) for line in sentences}
    assert {kind[:6] for kind in kinds} == {"M won ", "a lean", "a tie ", "a flip", "no res"}


def test_checks_say_what_was_expected(tmp_path):
    judged = made_run(prompts=6, checks=4)
    long = [replace(one, response=f"{one.model}: " + "a b c d e f g " * 9) for one in judged.answers]
    folder = written(tmp_path, replace(judged, answers=long))
    found = list(read_matches(folder, MatchFilter(failed_checks=True, no_verdict=True)))
    texts = {match.group.purpose: "\n".join(match_lines(match, 1)) for match in found if match.group.failed}
    assert re.search("an identical pair.* Failed", texts[QuestionPurpose.IDENTICAL])
    for purpose in (QuestionPurpose.TRUNCATED, QuestionPurpose.GARBAGE):
        assert f", {purpose.value} copy (" in texts[purpose]
        assert "is better. Failed" in texts[purpose]
        assert "as above: " in texts[purpose]
    assert "first time" in texts[QuestionPurpose.REPEAT]


def test_conversations_and_steps_are_shown_once_where_shared(tmp_path):
    judged = made_run(prompts=2, checks=1)

    def talk(answer):
        asked = [("user", "Hello."), ("assistant", "Good day. " * 800), ("user", answer.prompt)]
        look = Message("assistant", tool_calls=(ToolCall("look", f'{{"for": "{answer.model}"}}'),))
        messages = tuple(Message(role, (ContentPart(text),)) for role, text in asked)
        return replace(answer, system="Be brief.", messages=messages, trace=(look,))

    folder = written(tmp_path, replace(judged, answers=[talk(one) for one in judged.answers]))
    match = next(read_matches(folder, MatchFilter(pair=("ash", "birch"))))
    text = "\n".join(match_lines(match, 1))
    assert text.count("Be brief.") == 1
    assert text.index("System prompt\n") < text.index("Earlier message 1: user") < text.index("\nPrompt\n")
    assert "4,000 of 8,000 characters" in text
    for model in ("ash", "birch"):
        assert f'{model}, step 1: tool call\n    look {{"for": "{model}"}}' in text
    document = match_document(match)
    assert [one["label"] for one in document["context_a"]] == [
        *("System prompt", "Earlier message 1: user", "Earlier message 2: assistant", "Step 1: tool call")
    ]
    assert document["context_a"][2]["length"] == 8_000
    assert failed(verify_run(folder)) == []


def test_long_conversations_and_steps_are_folded():
    said = [Message("user", (ContentPart(f"message {k}"),)) for k in range(50)]
    steps = [Message("assistant", (ContentPart(f"{k}" + "x" * 5_000),)) for k in range(120)]
    answer = replace(made_run(prompts=1).answers[0], messages=tuple(said), trace=tuple(steps))
    texts = context_of(answer)
    assert texts[0].text.startswith("9 messages")
    assert texts[1].text == "message 9"
    assert sum(len(one.text) for one in texts) < 30_000
    notes = [one.text for one in texts if one.label == "Steps"]
    assert len(notes) == 1
    assert re.match(r"Steps \d+ to \d+ .*\d+ characters", notes[0])
    assert any("left out here]" in one.text for one in texts)
    assert context_of(replace(answer, messages=(), trace=())) == []


def test_hostile_text_cannot_steer_a_terminal(tmp_path):
    odd = "".join(map(chr, (0, 7, 9, 13, 27, 0x9B, 0x202E, 0x2066))) + "\x1b[2J\r\nnext"

    def fate(question):
        one = judged_of(question)
        said = {"reasoning": odd, "verdict": "A>B", "both_bad": False}
        return reparse(replace(one, reply=replace(one.reply, text=json.dumps(said)))) if one.verdict else one

    judged = made_run(prompts=3, models=("a\x1b[31m", "b\u202e"), judges=("j\x07",), fate=fate)
    answers = [replace(one, response=odd + "x" * 9_000) for one in judged.answers]
    folder = written(tmp_path, replace(judged, answers=answers))
    for wanted in ((), ("--failed-checks", "--no-verdict"), ("--json",)):
        ran = command("read", folder, *wanted)
        assert ran.code == 0
        assert not CONTROL.search(ran.out)
    shown = command("read", folder, "--limit", "1").out
    assert "\\x1b[2J\n    next" in shown
    assert "4,000 of 9,0" in shown
    assert "in answers.jsonl" in shown


def test_the_command_shows_a_few_and_says_that_there_are_more(folder):
    ran = command("read", folder, "--limit", "2")
    assert ran.code == 0
    assert re.findall(r"^\d+\. \S+ · ", ran.out, re.MULTILINE) == ["1. p00000 · ", "2. p00000 · "]
    assert "--limit" in ran.err
    ran = command("read", folder, "--json", "--flips", "--limit", "1000")
    assert ran.err == ""
    assert all(json.loads(line)["flip"] for line in ran.out.splitlines())
    options = "--pair ash cedar --judge judge-one --disagreements --prompt p00009"
    assert command("read", folder, *options.split()).code == 0


def test_pages_are_turned_where_somebody_can(folder, monkeypatch):
    shown = []
    monkeypatch.setattr("pydoc.pager", shown.append)
    monkeypatch.setattr("tiltyard.cli.run_folders.sys", Terminals())
    command("read", folder, "--limit", "1")
    assert shown[0].startswith("1. p00000 · factuality · ")


class Terminals:
    """Standard input and output of somebody at a terminal."""

    def __init__(self):
        self.stdin = self.stdout = self

    def isatty(self):
        return True


def test_nothing_fits_is_said(tmp_path):
    ran = command("read", written(tmp_path, made_run(prompts=2, checks=0)), "--failed-checks")
    assert (ran.code, ran.out) == (0, "Nothing fits.\n")


@pytest.mark.parametrize(
    "wanted",
    [{"dimension": "x"}, {"judge": "x"}, {"pair": ("ash", "x")}, {"prompt_id": "x"}],
    ids=str,
)
def test_unknown_names_are_refused(wanted, folder):
    with pytest.raises(BadOption, match="x"):
        read_matches(folder, MatchFilter(**wanted))


def test_only_finished_tournaments_are_read(run, tmp_path, judged):
    with pytest.raises(BrokenArtifact, match=r"no manifest\.json"):
        read_matches(tmp_path / "none", MatchFilter())
    draft = tmp_path / "draft"
    write_draft_manifest(draft, judged)
    with pytest.raises(BrokenArtifact, match="did not finish"):
        read_matches(draft, MatchFilter())
    (run / "answers.jsonl").unlink()
    with pytest.raises(UnreadableFile, match=r"answers\.jsonl"):
        read_matches(run, MatchFilter())


def test_a_judged_answer_must_be_there(run):
    lines = (run / "answers.jsonl").read_text().splitlines(keepends=True)
    (run / "answers.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(UnreadableFile, match="p00000"):
        list(read_matches(run, MatchFilter()))
    manifest = json.loads((run / "manifest.json").read_text()) | {"kind": "other"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadOption, match="tournament"):
        read_matches(run, MatchFilter())
