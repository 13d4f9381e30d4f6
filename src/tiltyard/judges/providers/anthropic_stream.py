"""Streams of Anthropic's protocol."""

from __future__ import annotations

from collections.abc import Mapping

from tiltyard.judges.providers.faults import error_in_reply, unreadable_reply
from tiltyard.judges.providers.json_bodies import parse_token_count
from tiltyard.judges.providers.provider import Body, Usage
from tiltyard.judges.providers.server_events import ServerEvent
from tiltyard.judges.providers.stream_readers import StreamReader
from tiltyard.judges.providers.streams import StreamStop

__all__ = ["AnthropicStream"]

#: Any other reason is the end of an answer.
_STOPS: Mapping[str, StreamStop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicStream(StreamReader):
    """Reads events of a message."""

    def __init__(self, where: str, *, thinking_open: bool = False) -> None:
        super().__init__(where, thinking_open=thinking_open)
        #: Counts so far; later ones replace earlier ones.
        self._counts: dict[str, int] = {}

    def _event(self, event: ServerEvent) -> None:
        document = self._document(event)
        kind = document.get("type") or event.name
        if kind == "error":
            raise error_in_reply(self.where, document.get("error", document))
        if kind == "message_start":
            # Its count of output is that of the first token.
            stated = _mapping(_mapping(document.get("message")).get("usage"))
            self._counted({**stated, "output_tokens": None})
        elif kind == "content_block_start":
            self._content(_mapping(document.get("content_block")))
        elif kind == "content_block_delta":
            self._content(_mapping(document.get("delta")))
        elif kind == "message_delta":
            self._counted(document.get("usage"))
            self._stopped(_mapping(document.get("delta")).get("stop_reason"))
        elif kind == "message_stop":
            self.finished = True

    def _reply(self, reply: Body) -> None:
        """A server that does not stream: the whole reply at once."""
        if reply.get("type") == "error" or "error" in reply:
            raise error_in_reply(self.where, reply.get("error", reply))
        blocks = reply.get("content")
        if not isinstance(blocks, list):
            raise unreadable_reply(self.where, "the reply is not a message", billable=True)
        for block in blocks:
            self._content(_mapping(block))
        self._counted(reply.get("usage"))
        self._stopped(reply.get("stop_reason"))
        self.finished = True

    def _content(self, part: Body) -> None:
        """A block or a part of one: those of other types have neither field."""
        self._add(part.get("text"))
        self._think(part.get("thinking"))

    def _counted(self, stated: object) -> None:
        for name in _COUNTS:
            count = parse_token_count(_mapping(stated).get(name))
            if count is not None:
                self._counts[name] = count
        given, made, written, read = (self._counts.get(name) for name in _COUNTS)
        if given is not None and made is not None:
            self.usage = Usage(given, made, written or 0, read or 0)

    def _stopped(self, reason: object) -> None:
        if isinstance(reason, str):
            self.stop = _STOPS.get(reason, "end")


def _mapping(value: object) -> Body:
    return value if isinstance(value, dict) else {}
