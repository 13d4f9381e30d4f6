"""OpenAI: chat completions, as a whole and as streams, and batches; ``base_url`` selects a compatible server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tiltyard.core.judging.question import TOOL_NAME, ChatPrompt
from tiltyard.core.judging.verdict import Reply, VerdictForm
from tiltyard.errors import BadOption, ProviderFault
from tiltyard.judges.providers.faults import (
    error_in_reply,
    is_retryable,
    parse_error_document,
    unreadable_reply,
)
from tiltyard.judges.providers.http_client import HttpProvider
from tiltyard.judges.providers.provider import (
    LIMIT_FIELDS,
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
    parse_body,
    parse_time,
    parse_token_count,
    repair_surrogates,
    served_model,
)
from tiltyard.judges.providers.stream_readers import ServerEvent, StreamReader

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
_DONE = b"[DONE]"
#: Any other reason is the end of an answer.
_STREAM_STOPS: Mapping[str, StreamStop] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refused",
    "safety": "refused",
    "sensitive": "refused",
}
#: Reasons of servers that gave up: what came before is not an answer.
_FAILURES = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})


class OpenAI(HttpProvider):
    """OpenAI models, and compatible servers such as vLLM, llama.cpp, Ollama or OpenRouter."""

    name = "openai"
    adapter_version = 1
    capabilities = Capabilities(
        schema=True, tool=True, batch=True, batch_requests=50_000, batch_bytes=200_000_000
    )
    call_path = "/chat/completions"
    key_header = "Authorization"
    own_domain = "openai.com"

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
        # OpenAI's newer models accept only the new name of the limit, most other servers only the old one.
        usual = "max_completion_tokens" if self.is_at_home else "max_tokens"
        limit = extra.pop("max_tokens_field", usual)
        if limit not in LIMIT_FIELDS:
            raise BadOption(f"options: max_tokens_field is {limit!r}; expected {' or '.join(LIMIT_FIELDS)}")
        return extra, str(limit)

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        choice = _first(body.get("choices"))
        message = choice.get("message")
        message = message if isinstance(message, Mapping) else {}
        finish = choice.get("finish_reason")
        stop = _STOPS.get(finish, "other") if isinstance(finish, str) else "other"
        refusal, usage, model = message.get("refusal"), _usage_of(body.get("usage")), served_model(body)
        if isinstance(refusal, str) and refusal:
            return Reply(repair_surrogates(refusal), stop="refusal", model=model), usage
        text, data = _content(message.get("content")), None
        arguments = _first(message.get("tool_calls")).get("function")
        if isinstance(arguments, Mapping):
            text, data = _arguments(arguments.get("arguments"), text)
        return Reply(text, data, stop, model), usage

    def _stated_error(self, reply: Body) -> object:
        choice = _first(reply.get("choices"))
        return choice.get("error") if choice else reply.get("error")

    def stream_reader(self, *, thinking_open: bool) -> OpenAIStream:
        return OpenAIStream(self._wire.where, thinking_open=thinking_open)

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

    async def _batch(self, batch_id: str) -> Body:
        return await self._wire.get(f"/batches/{quote(batch_id, safe='')}")

    def _parse_batch(self, document: Any) -> BatchStatus:
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


def _user_content(ask: ChatPrompt) -> str | list[Body]:
    """The text alone, or the text and its images."""
    if not ask.images:
        return ask.user
    images: list[Body] = [{"type": "image_url", "image_url": {"url": url}} for url in ask.images]
    return [{"type": "text", "text": ask.user}, *images]


def _usage_of(stated: object) -> Usage | None:
    """The usage of a reply; ``None`` if it is not stated."""
    if not isinstance(stated, Mapping):
        return None
    given, made = (
        parse_token_count(stated.get("prompt_tokens")),
        parse_token_count(stated.get("completion_tokens")),
    )
    if given is None or made is None:
        return None
    # Some endpoints (such as for Gemini) count thinking tokens only in the total, and bill them as output.
    made = max(made, (parse_token_count(stated.get("total_tokens")) or 0) - given)
    details = stated.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    read = min(parse_token_count(details.get("cached_tokens")) or 0, given)
    written = min(parse_token_count(details.get("cache_write_tokens")) or 0, given - read)
    return Usage(given - read - written, made, written, read)


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
        choice = _first(document.get("choices"))
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
            self.usage = _usage_of(stated) or self.usage

    def _stopped(self, reason: str) -> None:
        kind = reason.lower()
        if kind in _FAILURES:
            raise unreadable_reply(self.where, f"the server ended the stream with {reason!r}", billable=True)
        if self.stop != "refused":
            self.stop = _STREAM_STOPS.get(kind, "end")


ADAPTER = OpenAI
