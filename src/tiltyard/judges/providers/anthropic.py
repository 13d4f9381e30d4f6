"""Anthropic: Messages, as a whole and as streams, Message Batches, prompt caching."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from tiltyard.core.judging.question import TOOL_NAME, ChatPrompt
from tiltyard.core.judging.verdict import Reply, VerdictForm
from tiltyard.errors import BadOption
from tiltyard.judges.providers.faults import error_in_reply, parse_error_document, unreadable_reply
from tiltyard.judges.providers.http_client import HttpProvider
from tiltyard.judges.providers.provider import (
    VERDICT_TOOL,
    BatchEntry,
    BatchItem,
    BatchStatus,
    Body,
    Capabilities,
    ChatRequest,
    StreamStop,
    Usage,
    checked_options,
    encode_body,
    parse_time,
    parse_token_count,
    repair_surrogates,
    served_model,
)
from tiltyard.judges.providers.stream_readers import ServerEvent, StreamReader

_OURS = ("model", "messages", "system", "max_tokens", "tools", "tool_choice", "stream")
#: The version of the API whose documents are written and read here.
_API_VERSION = "2023-06-01"
_STOPS = {
    "end_turn": "end",
    "tool_use": "end",
    "stop_sequence": "end",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
#: Stands for a message without text.
_NO_TEXT = "(no text)"
#: Errors of a batch item that are caused by the server, not by the request.
_SERVER_ERRORS = frozenset({"api_error", "overloaded_error", "rate_limit_error", "timeout_error"})
#: Any other reason is the end of an answer.
_STREAM_STOPS: Mapping[str, StreamStop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class Anthropic(HttpProvider):
    """Claude models, or any server that implements ``/v1/messages``."""

    name = "anthropic"
    adapter_version = 1
    capabilities = Capabilities(
        schema=True,
        tool=True,
        batch=True,
        prompt_cache=True,
        prewarm=True,
        count_tokens=True,
        batch_requests=100_000,
        batch_bytes=256_000_000,
    )
    call_path = "/v1/messages"
    key_header = "x-api-key"
    own_domain = "anthropic.com"
    own_headers = MappingProxyType({"anthropic-version": _API_VERSION})

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        extra, cache = checked_options(options, _OURS)
        body: Body = {"model": model, "max_tokens": ask.max_tokens}
        if ask.system:
            body["system"] = _system(ask.system, cache)
        body["messages"] = [{"role": "user", "content": _user_content(ask)}]
        if ask.form is VerdictForm.TOOL:
            body["tools"] = [VERDICT_TOOL | {"input_schema": dict(ask.schema or {})}]
            body["tool_choice"] = {"type": "tool", "name": TOOL_NAME}
        output = extra.pop("output_config", {})
        if not isinstance(output, Mapping) or "format" in output:
            raise BadOption("options: output_config.format cannot be set here; use form")
        if ask.form is VerdictForm.SCHEMA:
            output = {**output, "format": {"type": "json_schema", "schema": dict(ask.schema or {})}}
        return body | ({"output_config": dict(output)} if output else {}) | extra

    def chat_body(self, model: str, request: ChatRequest, options: Mapping[str, Any]) -> Body:
        """The exact request for a streamed answer."""
        extra, cache = checked_options(options, _OURS)
        body: Body = {"model": model, "max_tokens": request.max_tokens}
        if request.system:
            body["system"] = _system(request.system, cache)
        # The API refuses an empty message, and a model may have said nothing.
        body["messages"] = [
            {"role": turn.role, "content": turn.text if turn.text.strip() else _NO_TEXT}
            for turn in request.turns
        ]
        return body | {"stream": True} | extra

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        content = body.get("content")
        blocks = (
            [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
        )
        texts = [text for block in blocks if isinstance(text := _of(block, "text", "text"), str)]
        inputs = [data for block in blocks if isinstance(data := _of(block, "tool_use", "input"), Mapping)]
        stop = body.get("stop_reason")
        reply = Reply(
            text=repair_surrogates("".join(texts)) if texts else None,
            data=inputs[0] if inputs else None,
            stop=_STOPS.get(stop, "other") if isinstance(stop, str) else "other",
            model=served_model(body),
        )
        return reply, _usage(body.get("usage"))

    def stream_reader(self, *, thinking_open: bool) -> AnthropicStream:
        return AnthropicStream(self._wire.where, thinking_open=thinking_open)

    async def count_tokens(self, body: Body) -> int:
        kept = ("model", "system", "messages", "tools", "tool_choice", "thinking", "output_config")
        asked = {key: body[key] for key in kept if key in body}
        answer = await self._wire.post(f"{self._path}/count_tokens", encode_body(asked))
        count = parse_token_count(answer.get("input_tokens"))
        if count is None:
            raise unreadable_reply(self._wire.where, "the reply has no input_tokens", billable=False)
        return count

    async def prewarm(self, body: Body) -> Body:
        # The same request with ``max_tokens`` 0 and without fields that this excludes: tool choice, format, thinking.
        kept = {key: value for key, value in body.items() if key not in {"tool_choice", "thinking", "stream"}}
        output = {key: value for key, value in body.get("output_config", {}).items() if key != "format"}
        kept.pop("output_config", None)
        return await self._wire.post(
            self._path,
            encode_body(kept | ({"output_config": output} if output else {}) | {"max_tokens": 0}),
            billable=True,
        )

    async def submit_batch(self, items: Sequence[BatchItem], mark: str) -> str:  # noqa: ARG002  the API cannot store it
        requests = b",".join(encode_body({"custom_id": item.name, "params": item.body}) for item in items)
        asked = b'{"requests":[' + requests + b"]}"
        answer = await self._wire.post(f"{self._path}/batches", asked, billable=True, creates=True)
        return self._status(answer, billable=True).id

    async def poll(self, batch_id: str) -> BatchStatus:
        return self._status(await self._wire.get(f"{self._path}/batches/{quote(batch_id, safe='')}"))

    async def list_batches(self, since: datetime) -> AsyncGenerator[BatchStatus, None]:
        query: dict[str, object] = {"limit": 100}
        while True:
            page = await self._wire.get(f"{self._path}/batches", query)
            found = page.get("data")
            for document in found if isinstance(found, list) else []:
                status = self._status(document)
                if status.created_at < since:
                    return
                yield status
            last = page.get("last_id")
            if not page.get("has_more") or not found or last == query.get("after_id"):
                return
            query["after_id"] = last

    async def results(self, batch_id: str) -> AsyncGenerator[BatchEntry, None]:
        path = f"{self._path}/batches/{quote(batch_id, safe='')}/results"
        async with aclosing(self._wire.lines(path)) as lines:
            async for line in lines:
                yield self._entry(line)

    def _parse_batch(self, document: Any) -> BatchStatus:
        counts = document.get("request_counts") or {}
        known = [count for count in map(parse_token_count, counts.values()) if count is not None]
        return BatchStatus(
            id=str(document["id"]),
            created_at=parse_time(document["created_at"]),
            ended=document["processing_status"] == "ended",
            size=sum(known) if known else None,
        )

    def _entry(self, line: Body) -> BatchEntry:
        result = line.get("result")
        name, outcome = line.get("custom_id"), result.get("type") if isinstance(result, Mapping) else None
        if not isinstance(name, str) or not isinstance(result, Mapping) or not isinstance(outcome, str):
            raise unreadable_reply(self._wire.where, "a line of the results is not a result", billable=False)
        message = result.get("message")
        if outcome == "succeeded" and isinstance(message, dict):
            return BatchEntry(name, "succeeded", body=message)
        if outcome in {"expired", "canceled"}:
            return BatchEntry(name, outcome)
        failure = result.get("error")
        kind, text = parse_error_document(failure)
        retryable = kind in _SERVER_ERRORS
        return BatchEntry(name, "errored", error=f"{kind}: {text}", retryable=retryable, said=text)


def _system(text: str, cache: str | None) -> Any:
    if cache is None:
        return text
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": cache}}]


def _of(block: Mapping[str, Any], kind: str, field: str) -> Any:
    return block.get(field) if block.get("type") == kind else None


def _usage(stated: object) -> Usage | None:
    if not isinstance(stated, Mapping):
        return None
    given, made = (
        parse_token_count(stated.get("input_tokens")),
        parse_token_count(stated.get("output_tokens")),
    )
    if given is None or made is None:
        return None
    written = parse_token_count(stated.get("cache_creation_input_tokens")) or 0
    return Usage(given, made, written, parse_token_count(stated.get("cache_read_input_tokens")) or 0)


def _user_content(ask: ChatPrompt) -> str | list[Body]:
    """The text alone, or the text and its images."""
    if not ask.images:
        return ask.user
    content: list[Body] = [{"type": "text", "text": ask.user}]
    for url in ask.images:
        # A ``data:`` URL with base64.
        media, _, data = url.removeprefix("data:").partition(";base64,")
        content.append({"type": "image", "source": {"type": "base64", "media_type": media, "data": data}})
    return content


class AnthropicStream(StreamReader):
    """Reads events of a message."""

    def __init__(self, where: str, *, thinking_open: bool = False) -> None:
        super().__init__(where, thinking_open=thinking_open)
        #: Counts so far; later ones replace earlier ones.
        self._counts: dict[str, object] = {}

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
        for name, count in _mapping(stated).items():
            if parse_token_count(count) is not None:
                self._counts[name] = count
        self.usage = _usage(self._counts)

    def _stopped(self, reason: object) -> None:
        if isinstance(reason, str):
            self.stop = _STREAM_STOPS.get(reason, "end")


def _mapping(value: object) -> Body:
    return value if isinstance(value, dict) else {}


ADAPTER = Anthropic
