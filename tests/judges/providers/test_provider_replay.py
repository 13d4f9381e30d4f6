"""Replay: a judge that repeats what a file says, offline and for nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from support.asking import run
from tiltyard.core.judging.question import QuestionTexts, Rubric, build_chat_prompt, question_nonce
from tiltyard.core.judging.verdict import QuestionState, Reply, VerdictForm, read_reply
from tiltyard.errors import BadOption, ProviderFault, UnreadableFile
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.providers.provider import Usage

RUBRIC = Rubric("factuality", "v1", "Which is truer?")
#: The prompt holds a hash of its own: the question's nonce comes first.
SHOWN = QuestionTexts("What has the MD5 d41d8cd98f00b204e9800998ecf8427e?", "nothing", "everything")
VERDICT = {"reasoning": "It is empty.", "verdict": "A>>B", "both_bad": False}


@pytest.fixture
def recorded(tmp_path):
    def write(*rows, text=None):
        path = tmp_path / "replies.jsonl"
        path.write_text(text if text is not None else "\n".join(json.dumps(row) for row in rows) + "\n")
        return str(path)

    return write


def row(**reply):
    return {"nonce": question_nonce(SHOWN, RUBRIC), "reply": reply}


@pytest.mark.parametrize("form", VerdictForm)
def test_a_question_finds_its_reply_by_its_nonce(recorded, form):
    texts = {
        VerdictForm.TEXT: {"text": "So.\nVERDICT: A>>B"},
        VerdictForm.SCHEMA: {"text": json.dumps(VERDICT)},
        VerdictForm.TOOL: {"data": VERDICT},
    }
    provider = open_provider("replay", recorded(row(**texts[form])), None)
    body = provider.body("any", build_chat_prompt(SHOWN, RUBRIC, form, 100), {"temperature": 0})
    reply, usage = provider.read(run(provider.complete(body)))
    assert usage is None
    assert read_reply(reply, form).state is QuestionState.OK


def test_usage_and_stop_are_kept_where_they_are_stated(recorded):
    provider = open_provider("replay", recorded(row(text="x")), None)
    assert provider.read({"text": "x", "stop": "length", "usage": {"input": 3, "output": 4}}) == (
        Reply("x", None, "length"),
        Usage(3, 4),
    )
    assert provider.read({"text": "x", "usage": {"input": "many"}}) == (Reply("x"), None)
    assert provider.read({"text": 3, "stop": "strange"})[0] == Reply(None, None, "other")


def test_an_unknown_question_says_what_to_do(recorded):
    provider = open_provider("replay", recorded(row(text="x")), None)
    other = QuestionTexts("Another?", "a", "b")
    for body in (
        provider.body("m", build_chat_prompt(other, RUBRIC, VerdictForm.TEXT, 9), {}),
        {"user": "no nonce"},
        {},
    ):
        with pytest.raises(ProviderFault, match="no recorded reply") as caught:
            run(provider.complete(body))
        assert not caught.value.retryable
        assert not caught.value.billed


def test_the_address_is_the_content(recorded, tmp_path):
    first = open_provider("replay", recorded(row(text="x")), None).base_url
    assert open_provider("replay", recorded(row(text="x")), None).base_url == first
    assert open_provider("replay", recorded(row(text="y")), None).base_url != first
    assert str(tmp_path) not in first


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"nonce": "x", "reply": {}}',
        '{"nonce": 3, "reply": {}}',
        '{"reply": {}}',
        '{"nonce": "%s", "reply": "x"}' % ("a" * 32),
    ],
)
def test_a_broken_file_names_its_line(recorded, text):
    with pytest.raises(UnreadableFile, match="line 2"):
        open_provider("replay", recorded(text=f"\n{text}\n"), None)


def test_there_are_no_batches_and_nothing_to_count(recorded):
    provider = open_provider("replay", recorded(row(text="x")), None)
    assert not provider.capabilities.batch

    async def go():
        for call in (
            provider.count_tokens({}),
            provider.prewarm({}),
            provider.submit_batch([], "m"),
            provider.poll("b"),
        ):
            with pytest.raises(ProviderFault):
                await call
        for listed in (lambda: provider.results("b"), lambda: provider.list_batches(datetime.now(UTC))):
            with pytest.raises(ProviderFault):
                listed()
        await provider.aclose()

    run(go())


def test_our_own_fields_are_not_options(recorded):
    with pytest.raises(BadOption):
        open_provider("replay", recorded(row(text="x")), None).body(
            "m", build_chat_prompt(SHOWN, RUBRIC, VerdictForm.TEXT, 9), {"user": "x"}
        )
