"""OpenAI: chat completions and batches; ``base_url`` selects a compatible server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tiltyard.core.judging.question import TOOL_NAME, ChatPrompt
from tiltyard.core.judging.verdict import Reply, VerdictForm
from tiltyard.errors import BadOption, ProviderFault
from tiltyard.judges.providers.base_urls import checked_base_url
from tiltyard.judges.providers.endpoints import Endpoint
from tiltyard.judges.providers.faults import (
    error_in_reply,
    is_retryable,
    parse_error_document,
    unreadable_reply,
)
from tiltyard.judges.providers.http_client import HttpClient
from tiltyard.judges.providers.json_bodies import (
    encode_body,
    parse_body,
    parse_time,
    parse_token_count,
    repair_surrogates,
)
from tiltyard.judges.providers.openai_stream import OpenAIStream
from tiltyard.judges.providers.openai_usage import parse_usage
from tiltyard.judges.providers.provider import BatchEntry, BatchItem, BatchStatus, Body, Capabilities, Usage
from tiltyard.judges.providers.request_options import VERDICT_TOOL, checked_options
from tiltyard.judges.providers.silence_watch import StreamDeadline
from tiltyard.judges.providers.stream_readers import read_stream
from tiltyard.judges.providers.streams import ChatRequest, StreamEnd, StreamPiece, StreamTimeouts
from tiltyard.judges.providers.token_limits import LIMIT_FIELDS
from tiltyard.settings.endpoint_routes import EndpointRoute

__all__ = ["OpenAI"]


_OURS = ("model", "messages", *LIMIT_FIELDS, "tools", "tool_choice", "response_format", "stream", "n")
_ENDPOINT = "/v1/chat/completions"
_STOPS = {
    "stop": "end",
    "tool_calls": "end",
    "function_call": "end",
    "length": "length",
    "content_filter": "refusal",
}
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_OUTCOMES = {"batch_expired": "expired", "batch_cancelled": "canceled"}
#: Key of our mark in a batch's metadata.
_MARK = "tiltyard"


class OpenAI:
    """OpenAI models, and compatible servers such as vLLM, llama.cpp, Ollama or OpenRouter."""

    name = "openai"
    adapter_version = 1
    capabilities = Capabilities(
        schema=True,
        tool=True,
        batch=True,
        prompt_cache=False,
        prewarm=False,
        count_tokens=False,
        batch_requests=50_000,
        batch_bytes=200_000_000,
    )

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        timeout_seconds: float,
        route: EndpointRoute | None = None,
    ) -> None:
        endpoint = Endpoint(self.name, checked_base_url(base_url, self.name), route or EndpointRoute())
        own = endpoint.is_at("openai.com")
        #: OpenAI's newer models accept only the new name of the limit, most other servers only the old one.
        self._limit = "max_completion_tokens" if own else "max_tokens"
        self._path = endpoint.route.path or "/chat/completions"
        keyless = "no API key: set OPENAI_API_KEY, or the variable that api_key_env names"
        self._wire = HttpClient(
            endpoint,
            endpoint.credentials(api_key, "Authorization"),
            timeout_seconds,
            keyless=keyless if own and not endpoint.has_credentials(api_key) else None,
        )

    @property
    def base_url(self) -> str:
        return self._wire.endpoint.base_url

    @property
    def address(self) -> str:
        return self._wire.endpoint.address

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        """The exact request. The option ``max_tokens_field`` is the field name of the token limit."""
        extra, limit = self._own_fields(options)
        body: Body = {"model": model, limit: ask.max_tokens}
        body["messages"] = [*_system(ask.system), {"role": "user", "content": _user_content(ask)}]
        schema = dict(ask.schema or {})
        if ask.form is VerdictForm.SCHEMA:
            asked = {"name": TOOL_NAME, "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": asked}
        if ask.form is VerdictForm.TOOL:
            function = VERDICT_TOOL | {"strict": True, "parameters": schema}
            body["tools"] = [{"type": "function", "function": function}]
            body["tool_choice"] = {"type": "function", "function": {"name": TOOL_NAME}}
        return body | extra

    def chat_body(self, model: str, request: ChatRequest, options: Mapping[str, Any]) -> Body:
        """The exact request for a streamed answer, which asks for the usage at its end."""
        extra, limit = self._own_fields(options)
        turns = [{"role": turn.role, "content": turn.text} for turn in request.turns]
        body: Body = {
            "model": model,
            limit: request.max_tokens,
            "messages": [*_system(request.system), *turns],
        }
        return body | {"stream": True, "stream_options": {"include_usage": True}} | extra

    def _own_fields(self, options: Mapping[str, Any]) -> tuple[Body, str]:
        """The user's own fields of a request, and the field name of the token limit."""
        extra, _ = checked_options(options, _OURS)
        limit = extra.pop("max_tokens_field", self._limit)
        if limit not in LIMIT_FIELDS:
            raise BadOption(f"options: max_tokens_field is {limit!r}; expected {' or '.join(LIMIT_FIELDS)}")
        return extra, str(limit)

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        choice = _first(body.get("choices"))
        message = choice.get("message")
        message = message if isinstance(message, Mapping) else {}
        finish = choice.get("finish_reason")
        stop = _STOPS.get(finish, "other") if isinstance(finish, str) else "other"
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            return Reply(repair_surrogates(refusal), stop="refusal"), parse_usage(body.get("usage"))
        text, data = _content(message.get("content")), None
        arguments = _first(message.get("tool_calls")).get("function")
        if isinstance(arguments, Mapping):
            text, data = _arguments(arguments.get("arguments"), text)
        return Reply(text, data, stop), parse_usage(body.get("usage"))

    async def complete(self, body: Body) -> Body:
        reply = await self._wire.post(
            self._path, encode_body(body), billable=True, model=body.get("model", "")
        )
        choice = _first(reply.get("choices"))
        error = choice.get("error") if choice else reply.get("error")
        if error and not self.read(reply)[0].text:
            raise error_in_reply(self._wire.where, error)
        return reply

    def stream(
        self, body: Body, timeouts: StreamTimeouts, *, thinking_open: bool = False
    ) -> AsyncGenerator[StreamPiece | StreamEnd]:
        deadline = StreamDeadline(timeouts, asyncio.get_running_loop().time())
        events = self._wire.events(self._path, encode_body(body), deadline, model=body.get("model", ""))
        reader = OpenAIStream(self._wire.where, thinking_open=thinking_open)
        return read_stream(events, reader, deadline)

    async def count_tokens(self, body: Body) -> int:
        raise ProviderFault(f"{self._wire.where}: has no endpoint to count tokens of {body.get('model')}")

    async def prewarm(self, body: Body) -> Body:
        raise ProviderFault(
            f"{self._wire.where}: caches prompts automatically; {body.get('model')} needs no prewarming"
        )

    async def submit_batch(self, items: Sequence[BatchItem], mark: str) -> str:
        lines = b"\n".join(
            encode_body({"custom_id": item.name, "method": "POST", "url": _ENDPOINT, "body": item.body})
            for item in items
        )
        uploaded = await self._wire.upload("/files", {"purpose": "batch"}, ("questions.jsonl", lines))
        if not isinstance(uploaded.get("id"), str):
            raise unreadable_reply(self._wire.where, "the reply to the upload has no id", billable=False)
        asked = {
            "input_file_id": uploaded["id"],
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": {_MARK: mark},
        }
        answer = await self._wire.post("/batches", encode_body(asked), billable=True, creates=True)
        return self._status(answer, billable=True).id

    async def poll(self, batch_id: str) -> BatchStatus:
        return self._status(await self._batch(batch_id))

    async def list_batches(self, since: datetime) -> AsyncGenerator[BatchStatus, None]:
        query: dict[str, object] = {"limit": 100}
        while True:
            page = await self._wire.get("/batches", query)
            found = page.get("data")
            status = None
            for document in found if isinstance(found, list) else []:
                status = self._status(document)
                # OpenAI rounds times down to whole seconds.
                if status.created_at < since.replace(microsecond=0):
                    return
                yield status
            if not page.get("has_more") or status is None or status.id == query.get("after"):
                return
            query["after"] = status.id

    async def results(self, batch_id: str) -> AsyncGenerator[BatchEntry, None]:
        batch = await self._batch(batch_id)
        if not self._status(batch).ended:
            raise ProviderFault(f"{self._wire.where}: batch {batch_id} has not ended; wait", retryable=True)
        for file in (batch.get("output_file_id"), batch.get("error_file_id")):
            if not isinstance(file, str) or not file:
                continue
            async with aclosing(self._wire.lines(f"/files/{quote(file, safe='')}/content")) as lines:
                async for line in lines:
                    yield self._entry(line)

    async def aclose(self) -> None:
        await self._wire.close()

    async def _batch(self, batch_id: str) -> Body:
        return await self._wire.get(f"/batches/{quote(batch_id, safe='')}")

    def _status(self, document: object, *, billable: bool = False) -> BatchStatus:
        try:
            return _batch_status(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable_reply(self._wire.where, f"not a batch ({error!r})", billable=billable) from None

    def _entry(self, line: Body) -> BatchEntry:
        name, response, error = line.get("custom_id"), line.get("response"), line.get("error")
        if not isinstance(name, str):
            raise unreadable_reply(self._wire.where, "a line of the results has no custom_id", billable=False)
        response = response if isinstance(response, Mapping) else {}
        status, body = response.get("status_code"), response.get("body")
        if status == 200 and isinstance(body, dict):
            return BatchEntry(name, "succeeded", body=body)
        kind, text = parse_error_document(error or body)
        if kind in _OUTCOMES:
            return BatchEntry(name, _OUTCOMES[kind], error=text)
        retryable = (
            is_retryable(status) if isinstance(status, int) else kind in {"server_error", "rate_limit"}
        )
        stated = f"status {status}, " if isinstance(status, int) else ""
        return BatchEntry(name, "errored", error=f"{stated}{kind}: {text}", retryable=retryable, said=text)


def _system(text: str | None) -> list[Body]:
    return [{"role": "system", "content": text}] if text else []


def _first(items: object) -> Mapping[str, Any]:
    first = items[0] if isinstance(items, list) and items else None
    return first if isinstance(first, Mapping) else {}


def _content(content: object) -> str | None:
    """The text, or the joined text parts."""
    if isinstance(content, str):
        return repair_surrogates(content)
    parts = (
        [part.get("text") for part in content if isinstance(part, Mapping)]
        if isinstance(content, list)
        else []
    )
    texts = [text for text in parts if isinstance(text, str)]
    return repair_surrogates("".join(texts)) if texts else None


def _arguments(arguments: object, text: str | None) -> tuple[str | None, Mapping[str, Any] | None]:
    """The tool input as an object; if it is not a JSON object, its raw text."""
    if not isinstance(arguments, str):
        return text, arguments if isinstance(arguments, Mapping) else None
    try:
        data = parse_body(arguments)
    except ValueError:
        data = None
    return (text, data) if isinstance(data, dict) else (text or repair_surrogates(arguments), None)


def _batch_status(document: Any) -> BatchStatus:
    status, errors = document["status"], (document.get("errors") or {}).get("data")
    metadata, counts = document.get("metadata") or {}, document.get("request_counts") or {}
    reason, mark = parse_error_document({"error": _first(errors)})[1], metadata.get(_MARK)
    return BatchStatus(
        id=str(document["id"]),
        created_at=parse_time(document["created_at"]),
        ended=status in _ENDED,
        size=parse_token_count(counts.get("total")) or None,
        mark=mark if isinstance(mark, str) else None,
        failed=(reason or "no reason given") if status == "failed" else None,
    )


def _user_content(ask: ChatPrompt) -> str | list[Body]:
    """The text alone, or the text and its images."""
    if not ask.images:
        return ask.user
    images: list[Body] = [{"type": "image_url", "image_url": {"url": url}} for url in ask.images]
    return [{"type": "text", "text": ask.user}, *images]
