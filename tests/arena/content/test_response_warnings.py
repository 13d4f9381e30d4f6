"""Responses that are empty or look cut off are told, and never dropped."""

import base64
import hashlib
from dataclasses import replace

import pytest

from support.media_files import png
from tiltyard.arena.content.answer_import import SHOWN_WARNING_LIMIT, WarningFinder
from tiltyard.arena.content.answer_rows import CheckedAnswer, check_upload_rows
from tiltyard.arena.content.stored_conversations import CONVERSATION, conversation_bytes
from tiltyard.files.answer import Answer

LONG = "The river rises in the hills above the town, and from there it runs to the sea"


def checked_rows(row):
    return check_upload_rows([("line 1", Answer.from_dict(row, "line 1"))], lambda: None, most=1 << 20)


def answer(text, kind="text", **changed):
    return CheckedAnswer(
        where="line 1",
        model="m",
        prompt="p",
        text="?",
        text_sha256=hashlib.sha256(b"?").digest(),
        category=None,
        language=None,
        kind=kind,
        media_type="text/plain",
        data=text.encode(),
        **changed,
    )


def told(one):
    finder = WarningFinder()
    assert [*finder.watching([one])] == [one]
    assert finder.count == len(finder.first)
    return finder.first[0].about if finder.first else None


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("42", None),
        ("Yes", None),
        (f"{LONG}.", None),
        (LONG, "sentence"),
        (f"{LONG}, and", "sentence"),
        (f"- {LONG}", None),
        (f"| {LONG}", None),
        (f"# {LONG}", None),
        ("A haiku\non rain\nfalls", None),
        (
            "川は町の上の丘に源を発し、そこから海へと流れ、途中で三つの橋の下を通り、最後に港に着くのであるがその先は誰も知らない海である",
            None,
        ),
        ("```py\nprint(1)\n```", None),
        ("```py\nprint(1)", "fence"),
        ("Code:\n~~~\nx\n```\n", "fence"),
        ("````md\n```py\n```\n````", None),
        ("````md\n```py\n```\n", "fence"),
        ("`x` and ```y``` inline.", None),
    ],
)
def test_what_looks_cut_off(text, about):
    assert told(answer(text)) == about


def test_what_the_file_says_counts_whatever_the_text_looks_like():
    assert told(answer("Fine.", truncated=True)) == "limit"
    assert told(answer("\x00\x01", kind="audio")) is None


@pytest.mark.parametrize(
    ("stated", "truncated"),
    [
        ({"finish_reason": "length"}, True),
        ({"stop_reason": "max_tokens"}, True),
        ({"truncated": True}, True),
        ({"truncated": "true"}, True),
        ({"finish_reason": "stop"}, False),
        ({"finish_reason": None}, False),
        ({"finish_reason": ["length"]}, False),
        ({}, False),
    ],
)
def test_the_reasons_that_programs_write(stated, truncated):
    row = {"prompt_id": "p", "prompt": "?", "model": "m", "response": "r", **stated}
    (checked,) = checked_rows(row)
    assert checked.truncated == truncated


def test_all_are_counted_and_the_first_are_kept():
    finder = WarningFinder()
    for _ in range(SHOWN_WARNING_LIMIT + 5):
        finder.look(answer(""))
    assert (finder.count, len(finder.first)) == (SHOWN_WARNING_LIMIT + 5, SHOWN_WARNING_LIMIT)
    assert str(finder.first[0]) == "line 1: the response is empty: m on ?"


def conversation(question, reply):
    said = (("system", "Be brief."), ("user", question), ("assistant", reply))
    messages = [{"role": role, "content": content} for role, content in said]
    row = {"prompt_id": "p", "model": "m", "messages": messages}
    data = conversation_bytes(Answer.from_dict(row, "here"))
    return replace(answer(""), media_type=CONVERSATION, data=data)


def test_of_a_conversation_the_response_is_looked_at_and_its_files_are_missed():
    picture = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:,x"}},
    ]
    assert told(conversation(picture, "A tree.")) == "files"
    assert told(conversation(picture, LONG)) == "sentence"
    earlier = [{"type": "text", "text": "What is it?"}]
    assert told(conversation(earlier, "```py\nprint(1)")) == "fence"
    assert told(conversation(earlier, "A tree.")) is None
    kept = [{"type": "image", "url": "data:image/png;base64," + base64.b64encode(png()).decode()}]
    assert told(conversation([*earlier, *kept], "A tree.")) is None


def test_files_that_came_with_the_prompt_of_an_image_are_missed():
    messages = [{"role": "user", "content": [{"type": "text", "text": "Make it blue."}, {"type": "image"}]}]
    image = "data:image/png;base64," + base64.b64encode(png()).decode()
    row = {"prompt_id": "p", "model": "m", "kind": "image", "response": image, "messages": messages}
    (checked,) = checked_rows(row)
    assert told(checked) == "files"
