"""Streams of OpenAI's protocol, and of the many servers that follow it in their own ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiltyard.judges.providers.faults import error_in_reply, unreadable_reply
from tiltyard.judges.providers.openai_usage import parse_usage
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.providers.server_events import ServerEvent
from tiltyard.judges.providers.stream_readers import StreamReader
from tiltyard.judges.providers.streams import StreamStop

__all__ = ["OpenAIStream"]

_DONE = b"[DONE]"
#: Any other reason is the end of an answer.
_STOPS: Mapping[str, StreamStop] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
    "safety": "refused",
    "sensitive": "refused",
}
#: Reasons of servers that gave up: what came before is not an answer.
_FAILURES = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})


class OpenAIStream(StreamReader):
    """Reads chunks of a chat completion."""

    def _event(self, event: ServerEvent) -> None:
        if event.data.strip() == _DONE:
            self.finished = True
            return
        document = self._document(event)
        if event.name == "error":
            raise error_in_reply(self.where, document.get("error", document))
        self._chunk(document, "delta")

    def _reply(self, reply: Body) -> None:
        """A server that does not stream: the whole reply at once."""
        self._chunk(reply, "message")
        if self.stop is None and not reply.get("choices"):
            raise unreadable_reply(self.where, "the reply is not a chat completion", billable=True)
        self.finished = True

    def _chunk(self, document: Body, part: str) -> None:
        choices = document.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        choice = choice if isinstance(choice, dict) else {}
        error = document.get("error") or choice.get("error")
        if error:
            raise error_in_reply(self.where, error)
        self._usage(document)
        message = choice.get(part)
        if isinstance(message, dict):
            self._message(message)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._stopped(reason)

    def _message(self, message: Body) -> None:
        # Some servers send the same text in both fields.
        self._think(message.get("reasoning_content") or message.get("reasoning"))
        content = message.get("content")
        if isinstance(content, list):
            self._parts(content)
        else:
            self._add(content)
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._add(refusal)
            self.stop = "refused"

    def _parts(self, parts: list[Any]) -> None:
        """Mistral's form of content: a list of texts and thoughts."""
        for part in parts:
            if not isinstance(part, dict):
                continue
            self._add(part.get("text"))
            thoughts = part.get("thinking")
            for thought in thoughts if isinstance(thoughts, list) else [thoughts]:
                self._think(thought.get("text") if isinstance(thought, dict) else thought)

    def _usage(self, document: Body) -> None:
        extra = document.get("x_groq")
        stated = document.get("usage") or (extra.get("usage") if isinstance(extra, dict) else None)
        if stated:
            # Some servers state it in every chunk: the last one counts.
            self.usage = parse_usage(stated) or self.usage

    def _stopped(self, reason: str) -> None:
        kind = reason.lower()
        if kind in _FAILURES:
            raise unreadable_reply(self.where, f"the server ended the stream with {reason!r}", billable=True)
        if self.stop != "refused":
            self.stop = _STOPS.get(kind, "end")
