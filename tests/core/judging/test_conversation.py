"""Conversations are divided into what was asked, the steps, and the response."""

from __future__ import annotations

import pytest

from tiltyard.core.judging.conversation import (
    ContentPart,
    Message,
    SplitConversation,
    ToolCall,
    split_conversation,
)


def said(role: str, *texts: str, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(role, tuple(map(ContentPart, texts)), calls)


SYSTEM, USER, REPLY = said("system", "Be brief."), said("user", "Why?"), said("assistant", "So.")
CALL = said("assistant", calls=(ToolCall("look"),))
TOOL = said("tool", "seen")


def test_the_text_of_a_message_is_its_text_parts() -> None:
    message = Message("user", (ContentPart("a"), ContentPart(kind="image", url="x.png"), ContentPart("b")))
    assert (message.text, message.only_text) == ("a\nb", False)
    assert (said("user", "a").only_text, CALL.only_text) == (True, False)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], SplitConversation(None, (), (), None)),
        ([SYSTEM, USER], SplitConversation("Be brief.", (USER,), (), None)),
        ([USER, REPLY], SplitConversation(None, (USER,), (), "So.")),
        ([SYSTEM, SYSTEM, USER, REPLY], SplitConversation("Be brief.\n\nBe brief.", (USER,), (), "So.")),
        ([USER, REPLY, USER, REPLY], SplitConversation(None, (USER, REPLY, USER), (), "So.")),
        ([USER, CALL, TOOL, REPLY], SplitConversation(None, (USER,), (CALL, TOOL), "So.")),
        ([USER, REPLY, TOOL], SplitConversation(None, (USER,), (TOOL,), "So.")),
        ([USER, REPLY, CALL], SplitConversation(None, (USER,), (REPLY, CALL), None)),
        ([REPLY], SplitConversation(None, (), (), "So.")),
    ],
)
def test_a_conversation_is_divided_after_the_last_message_of_the_user(
    messages: list[Message], expected: SplitConversation
) -> None:
    assert split_conversation(messages) == expected


def test_a_response_that_calls_tools_is_a_step_too() -> None:
    both = said("assistant", "Done.", calls=(ToolCall("submit"),))
    assert split_conversation([USER, both, TOOL]) == SplitConversation(None, (USER,), (both, TOOL), "Done.")


def test_what_was_asked_can_be_given() -> None:
    """Later messages of the user are steps of an agent."""
    split = split_conversation([USER, REPLY, SYSTEM, USER, REPLY], 1)
    assert split == SplitConversation("Be brief.", (USER,), (REPLY, USER), "So.")
