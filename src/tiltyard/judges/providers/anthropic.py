"""Anthropic: Messages, Message Batches, prompt caching."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tiltyard.core.judging.question import TOOL_NAME, ChatPrompt
from tiltyard.core.judging.verdict import Reply, VerdictForm
from tiltyard.errors import BadOption
from tiltyard.judges.providers.anthropic_stream import AnthropicStream
from tiltyard.judges.providers.base_urls import checked_base_url
from tiltyard.judges.providers.endpoints import Endpoint
from tiltyard.judges.providers.faults import parse_error_document, unreadable_reply
from tiltyard.judges.providers.http_client import HttpClient
from tiltyard.judges.providers.json_bodies import (
    encode_body,
    parse_time,
    parse_token_count,
    repair_surrogates,
)
from tiltyard.judges.providers.provider import BatchEntry, BatchItem, BatchStatus, Body, Capabilities, Usage
from tiltyard.judges.providers.request_options import VERDICT_TOOL, checked_options
from tiltyard.judges.providers.silence_watch import StreamDeadline
from tiltyard.judges.providers.stream_readers import read_stream
from tiltyard.judges.providers.streams import ChatRequest, StreamEnd, StreamPiece, StreamTimeouts
from tiltyard.settings.endpoint_routes import EndpointRoute

__all__ = ["Anthropic"]

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


class Anthropic:
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

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        timeout_seconds: float,
        route: EndpointRoute | None = None,
    ) -> None:
        endpoint = Endpoint(self.name, checked_base_url(base_url, self.name), route or EndpointRoute())
        own = endpoint.is_at("anthropic.com")
        self._path = endpoint.route.path or "/v1/messages"
        keyless = "no API key: set ANTHROPIC_API_KEY, or the variable that api_key_env names"
        self._wire = HttpClient(
            endpoint,
            endpoint.credentials(api_key, "x-api-key"),
            timeout_seconds,
            headers={"anthropic-version": _API_VERSION},
            keyless=keyless if own and not endpoint.has_credentials(api_key) else None,
        )

    @property
    def base_url(self) -> str:
        return self._wire.endpoint.base_url

    @property
    def address(self) -> str:
        return self._wire.endpoint.address

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
        )
        return reply, _usage(body.get("usage"))

    async def complete(self, body: Body) -> Body:
        return await self._wire.post(
            self._path, encode_body(body), billable=True, model=body.get("model", "")
        )

    def stream(
        self, body: Body, timeouts: StreamTimeouts, *, thinking_open: bool = False
    ) -> AsyncGenerator[StreamPiece | StreamEnd]:
        deadline = StreamDeadline(timeouts, asyncio.get_running_loop().time())
        events = self._wire.events(self._path, encode_body(body), deadline, model=body.get("model", ""))
        reader = AnthropicStream(self._wire.where, thinking_open=thinking_open)
        return read_stream(events, reader, deadline)

    async def count_tokens(self, body: Body) -> int:
        kept = ("model", "system", "messages", "tools", "tool_choice", "thinking", "output_config")
        asked = {key: body[key] for key in kept if key in body}
        answer = await self._wire.post(f"{self._path}/count_tokens", encode_body(asked))
        count = parse_token_count(answer.get("input_tokens"))
        if count is None:
            raise unreadable_reply(self._wire.where, "the reply has no input_tokens", billable=False)
        return count

    async def prewarm(self, body: Body) -> Body:
        return await self._wire.post(self._path, encode_body(_prefix_only(body)), billable=True)

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

    async def aclose(self) -> None:
        await self._wire.close()

    def _status(self, document: object, *, billable: bool = False) -> BatchStatus:
        try:
            return _batch_status(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable_reply(self._wire.where, f"not a batch ({error!r})", billable=billable) from None

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


def _prefix_only(body: Body) -> Body:
    """The same request with ``max_tokens`` 0 and without fields that this excludes: tool choice, format, thinking."""
    kept = {key: value for key, value in body.items() if key not in {"tool_choice", "thinking", "stream"}}
    output = {key: value for key, value in body.get("output_config", {}).items() if key != "format"}
    kept.pop("output_config", None)
    return kept | ({"output_config": output} if output else {}) | {"max_tokens": 0}


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


def _batch_status(document: Any) -> BatchStatus:
    counts = document.get("request_counts") or {}
    known = [count for count in map(parse_token_count, counts.values()) if count is not None]
    return BatchStatus(
        id=str(document["id"]),
        created_at=parse_time(document["created_at"]),
        ended=document["processing_status"] == "ended",
        size=sum(known) if known else None,
    )


def _user_content(ask: ChatPrompt) -> str | list[Body]:
    """The text alone, or the text and its images."""
    if not ask.images:
        return ask.user
    return [{"type": "text", "text": ask.user}, *map(_image, ask.images)]


def _image(url: str) -> Body:
    """An image, given as a ``data:`` URL with base64."""
    media, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
