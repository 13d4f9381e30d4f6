"""Conversations on the vote page: shared parts once, turns side by side, nothing of it markup, nothing unbounded."""

import base64
import json

import pytest

from support.media_files import marked_png, png
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.stored_conversations import (
    CONVERSATION,
    conversation_bytes,
    conversation_image,
    read_conversation,
    response_text,
)
from tiltyard.errors import NotFound, StoreFault
from tiltyard.files.answer import Answer
from tiltyard.web.pages.matchup_view import (
    ConversationTurn,
    MessageFiles,
    build_conversation_view,
    build_single_turn,
)

HOSTILE = "</pre><script>alert(1)</script>\u202e <b>bold</b>"


def stored(*messages, trace=None, response=None):
    """A response as an import stores it and a page reads it."""
    row = {"prompt_id": "p", "model": "m", "messages": [dict(one) for one in messages]}
    if trace is not None:
        row["trace"] = trace
    if response is not None:
        row["response"] = response
    data = conversation_bytes(Answer.from_dict(row, "here"))
    return read_conversation(ResponseContent(CONVERSATION, data))


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def view(*sides):
    addresses = [lambda number, side=side: f"/{side}?image={number}" for side in "ab"]
    return build_conversation_view(sides, addresses, language=None, say=str)


def talk(first, second, *, system="Be brief.", steps=()):
    return stored(
        said("system", system),
        said("user", "One?"),
        said("assistant", first),
        said("user", "Two?"),
        *steps,
        said("assistant", second),
    )


def test_an_answer_of_a_prompt_and_a_response_is_only_a_text():
    row = {"prompt_id": "p", "prompt": "One?", "model": "m", "response": "Yes."}
    assert conversation_bytes(Answer.from_dict(row, "here")) is None
    plain = read_conversation(ResponseContent("text/plain; charset=utf-8", b"Yes."))
    assert view(plain, plain) is None
    assert response_text(ResponseContent("text/plain; charset=utf-8", b"Yes.\xff")) == "Yes.\ufffd"


def test_what_both_share_is_shown_once_and_each_side_has_its_own_turns():
    shown = view(talk("*First* of a", "Last of a"), talk("First of b", "Last of b"))
    assert shown.system.text == "Be brief."
    assert [(one.role, one.text) for one in shown.earlier] == [("user", "One?")]
    for turns, answer in zip(shown.turns, ("<em>First</em> of a", "First of b"), strict=True):
        assert [turn.steps for turn in turns] == [(), ()]
        assert answer in turns[0].answer
        assert "Two?" in turns[1].asked
        assert turns[1].answer is None, "the response itself stands there"


def test_turns_stand_in_the_same_rows():
    """Three turns of one side beside one of the other: the last rows are the responses."""
    long = stored(
        said("user", "One?"),
        said("assistant", "a1"),
        said("user", "Two?"),
        said("assistant", "**a2**"),
        said("user", "Three?"),
        said("assistant", "a3"),
    )
    shown = view(long, stored(said("user", "Three?"), said("assistant", "b3"), trace=[said("tool", "x")]))
    first, second = shown.turns
    assert [bool(turn.asked) for turn in first] == [True, True, True]
    assert "<strong>a2</strong>" in first[1].answer
    assert second[:2] == (ConversationTurn(), ConversationTurn())
    assert [one.role for one in second[2].steps] == ["tool"]


def test_calls_of_tools_and_their_results_are_steps():
    steps = (
        said("assistant", None, tool_calls=[{"name": "search", "arguments": '{"q": "x"}'}]),
        said("tool", HOSTILE, name="search"),
    )
    shown = view(talk("Same", "Last", steps=steps), talk("Same", "Other"))
    assert [one.role for one in shown.earlier] == ["user", "assistant"]
    found = [(one.role, one.tool) for one in shown.turns[0][-1].steps]
    assert found == [("call", None), ("tool", "search")]
    text = str(shown.turns[0][-1].steps[1].text)
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in text
    assert "\u202e" not in text
    assert shown.turns[1][-1].steps == ()


def test_system_prompts_that_differ_are_not_shown():
    shown = view(talk("x", "a", system="Be a pirate."), talk("x", "b", system="Be a poet."))
    assert shown.system is None
    assert shown.systems_differ


def test_a_trace_without_end_is_cut_and_says_so():
    steps = [said("assistant", "s" * 1000) for _ in range(500)]
    shown = view(talk("x", "a", steps=steps), talk("x", "b"))
    turn = shown.turns[0][-1]
    assert len(turn.steps) == 60
    assert turn.left_out == 440
    shown = view(talk("x", "a", steps=[said("tool", "")] * 500), talk("x", "b"))
    assert len(shown.turns[0][-1].steps) == 200


def test_a_transcript_has_everything_and_no_address_of_a_file():
    picture = {"type": "image_url", "image_url": {"url": "https://tracker.example/x.png"}}
    one = stored(
        said("system", "Be brief."),
        said("user", [{"type": "text", "text": "What is this?"}, picture]),
        said("assistant", "A tree."),
        said("user", "And this?"),
        said("assistant", None, tool_calls=[{"name": "look", "arguments": "{}"}]),
        said("assistant", "A house."),
    )
    row = {"system": one.context.system, "messages": [], "trace": [], "response": "x"}
    data = json.dumps(row).encode()
    assert response_text(ResponseContent(CONVERSATION, data)) == "System:\nBe brief.\n\nAssistant:\nx"
    assert "tracker" not in repr(one)
    assert one.images == {}


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"system":1,"messages":2,"trace":3,"response":4}']
)
def test_a_damaged_conversation_is_a_fault_and_no_text(data):
    with pytest.raises(StoreFault, match="damaged"):
        read_conversation(ResponseContent(CONVERSATION, data))


def picture(data=None, url=None):
    where = url or "data:image/png;base64," + base64.b64encode(data).decode()
    return {"type": "image_url", "image_url": {"url": where}}


def test_images_are_shown_where_they_were_and_others_say_why_not():
    red, blue = png(), marked_png()
    linked = picture(url="https://tracker.example/x.png")
    sides = [
        stored(
            said("user", ["Earlier", picture(red)]),
            said("assistant", "Seen."),
            said("user", ["And these?", picture(blue), linked, {"type": "input_audio"}]),
            said("assistant", reply),
        )
        for reply in ("One.", "Two.")
    ]
    shown = view(*sides)
    assert [step.files.images for step in shown.earlier] == [("/a?image=0",), ()]
    assert "[image]" in shown.earlier[0].text
    assert shown.prompt_files == MessageFiles(("/a?image=1",), (("linked", 1), ("other", 1)))
    assert view(talk("a", "b"), talk("c", "d")).prompt_files == MessageFiles()


def test_images_of_one_side_stand_in_its_turns():
    """Another picture in an earlier message, and in a step: neither is shared."""
    red, blue = png(), marked_png()
    sides = [
        stored(
            said("user", ["Earlier", picture(data)]),
            said("assistant", "Seen."),
            said("user", ["And this?", picture(red)]),
            said("tool", [picture(data)]),
            said("assistant", "One."),
        )
        for data in (red, blue)
    ]
    shown = view(*sides)
    assert shown.earlier == ()
    assert shown.prompt_files.images == ("/a?image=0",), "the same picture is stored once"
    assert [turns[0].asked_files.images for turns in shown.turns] == [("/a?image=0",), ("/b?image=0",)]
    assert shown.turns[1][1].steps[0].files.images == ("/b?image=0",)
    assert [turns[1].asked_files for turns in shown.turns] == [MessageFiles(), MessageFiles()]


def test_prompts_with_different_images_show_each_to_its_own_side():
    red, blue = png(), marked_png()
    sides = [stored(said("user", ["And this?", picture(one)]), said("assistant", "x")) for one in (red, blue)]
    shown = view(*sides)
    assert shown.prompt_files == MessageFiles()
    assert [turns[-1].asked_files.images for turns in shown.turns] == [("/a?image=0",), ("/b?image=0",)]
    assert all("And this?" in turns[-1].asked for turns in shown.turns)
    plain = read_conversation(ResponseContent("text/plain; charset=utf-8", b"Yes."))
    assert view(plain, sides[0]).prompt_files.images == ("/b?image=0",), "one side has no messages at all"


def test_everything_beside_one_response_for_operators():
    one = stored(
        said("system", "Be brief."),
        said("user", ["What?", picture(png())]),
        said("assistant", "So."),
    )
    turn = build_single_turn(one, lambda number: f"/x?image={number}")
    assert [(step.role, step.files.images) for step in turn.steps] == [
        ("system", ()),
        ("user", ("/x?image=0",)),
    ]
    plain = read_conversation(ResponseContent("text/plain; charset=utf-8", b"Yes."))
    assert build_single_turn(plain, str) is None


def test_an_image_is_read_by_its_number():
    data = conversation_bytes(
        Answer.from_dict(
            {
                "prompt_id": "p",
                "model": "m",
                "messages": [said("user", ["?", picture(png())])],
                "response": "x",
            },
            "here",
        )
    )
    content = ResponseContent(CONVERSATION, data)
    assert conversation_image(content, 0) == ResponseContent("image/png", png())
    for missing in (content, 1), (ResponseContent("text/plain; charset=utf-8", b"x"), 0):
        with pytest.raises(NotFound, match="no image"):
            conversation_image(*missing)
    for damaged in ({"h": "?"}, {"h": "AAAA"}, {"h": 3}, [1]):
        row = {"system": None, "messages": [], "trace": [], "response": "x", "images": damaged}
        with pytest.raises(StoreFault, match="damaged"):
            conversation_image(ResponseContent(CONVERSATION, json.dumps(row).encode()), 0)
