"""Stand-ins for providers that enforce what each of them documents: paths, headers, fields, and odd replies.

::

    with stand_in("azure-dated", key="secret") as server:
        server.url      # the root, without the path of the provider's base URL
        server.asked    # the requests so far
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from support.servers.endpoints import Refused
from support.servers.http_front import Front, Request
from support.servers.replies import Counted, anthropic_message, input_tokens, openai_completion, say

#: Fields of a request that stricter endpoints know.
_CHAT = {
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "tools",
    "tool_choice",
    "response_format",
    "reasoning_effort",
}
_MESSAGE = {
    "model",
    "messages",
    "system",
    "max_tokens",
    "tools",
    "tool_choice",
    "output_config",
    "thinking",
    "temperature",
}
_VLLM_CONTEXT_TOKENS = 6000


@dataclass
class StandIn:
    """A running stand-in."""

    kind: str
    key: str
    url: str = ""
    asked: list[Request] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def serve(self, request: Request) -> None:
        self.asked.append(request)
        quirk = QUIRKS[self.kind]
        try:
            quirk.locate(request)
            quirk.authorise(request, self.key)
            body = json.loads(request.body)
            quirk.check(request, body)
            reply = quirk.reply(body, len(self.asked))
        except Refused as refused:
            self.refused.append(refused)
            request.reply(quirk.error(refused), refused.status)
            return
        request.reply(reply)


@dataclass(frozen=True)
class Quirk:
    """What a provider documents."""

    path: str
    authorise: Callable[[Request, str], None]
    check: Callable[[Request, dict[str, Any]], None] = lambda _request, _body: None
    reply: Callable[[dict[str, Any], int], dict[str, Any]] = lambda body, _number: completion(body)
    error: Callable[[Refused], Any] = lambda refused: {
        "error": {"message": refused.message, "type": refused.kind, "param": None, "code": None}
    }

    def locate(self, request: Request) -> None:
        if request.method != "POST" or request.path != self.path:
            raise Refused(404, f"no such path: {request.path}")


def completion(body: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(body)
    said = say(whole)
    name = hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:24]
    return openai_completion(whole, said, Counted(input_tokens(whole), said.output), name)


def message(body: Mapping[str, Any], _number: int) -> dict[str, Any]:
    whole = dict(body)
    said = say(whole)
    return anthropic_message(whole, said, Counted(input_tokens(whole), said.output), "1")


# Who may ask.


def bearer(request: Request, key: str) -> None:
    if request.header("authorization") != f"bearer {key}":
        raise Refused(401, "Incorrect API key provided", "authentication_error")


def azure_key(request: Request, key: str) -> None:
    """A header ``Authorization`` would be read as a token of Entra ID, and refused."""
    if request.header("api-key") != key or request.header("authorization"):
        raise Refused(401, "Access denied due to invalid subscription key or wrong API endpoint.")


def gemini_key(request: Request, key: str) -> None:
    if request.header("authorization") != f"bearer {key}":
        raise Refused(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT")


def anthropic_key(request: Request, key: str) -> None:
    if request.header("x-api-key") != key or request.header("authorization"):
        raise Refused(401, "invalid x-api-key", "authentication_error")


def gateway_key(request: Request, key: str) -> None:
    query = parse_qs(request.query)
    if request.header("x-gateway-key") != key or query.get("subscription") != [key]:
        raise Refused(401, f"who are you? {request.raw_head.decode()}")
    if request.header("authorization"):
        raise Refused(400, "Authorization is for the model behind the gateway")


# What may be asked.


def renamed_limit(_request: Request, body: dict[str, Any]) -> None:
    if "max_tokens" in body:
        raise Refused(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )


def dated(request: Request, _body: dict[str, Any]) -> None:
    if parse_qs(request.query).get("api-version") != ["2024-10-21"]:
        raise Refused(404, "Resource not found")


def only(fields: set[str]) -> Callable[[Request, dict[str, Any]], None]:
    def check(_request: Request, body: dict[str, Any]) -> None:
        unknown = sorted(set(body) - fields)
        if unknown:
            raise Refused(
                400, f'Invalid JSON payload received. Unknown name "{unknown[0]}": Cannot find field.'
            )

    return check


def versioned(request: Request, body: dict[str, Any]) -> None:
    if request.header("anthropic-version") != "2023-06-01":
        raise Refused(400, "anthropic-version: header is required")
    if "max_tokens" not in body:
        raise Refused(400, "max_tokens: Field required")
    unknown = sorted(set(body) - _MESSAGE)
    if unknown:
        raise Refused(400, f"{unknown[0]}: Extra inputs are not permitted")


def short_context(_request: Request, body: dict[str, Any]) -> None:
    given, limit = input_tokens(body), body["max_tokens"]
    if given + limit > _VLLM_CONTEXT_TOKENS:
        raise Refused(
            400,
            f"This model's maximum context length is {_VLLM_CONTEXT_TOKENS} tokens. However, you requested {limit} "
            f"output tokens and your prompt contains at least {given} input tokens, for a total of at least "
            f"{given + limit} tokens.",
            "BadRequestError",
        )


def known_model(_request: Request, body: dict[str, Any]) -> None:
    if ":" not in body["model"]:
        raise Refused(404, f'model "{body["model"]}" not found, try pulling it first', "api_error")


def routed(request: Request, _body: dict[str, Any]) -> None:
    if request.header("x-route") != "judges" or parse_qs(request.query).get("region") != ["eu west"]:
        raise Refused(400, "no route")


# What is replied.


def filtered(body: dict[str, Any], _number: int) -> dict[str, Any]:
    reply = completion(body)
    verdicts = {"hate": {"filtered": False, "severity": "safe"}}
    reply["choices"][0]["content_filter_results"] = verdicts
    return reply | {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": verdicts}]}


def thoughtful(body: dict[str, Any], _number: int) -> dict[str, Any]:
    """Thoughts are counted in the total only."""
    reply = completion(body)
    reply["usage"]["total_tokens"] += 500
    return reply


def unsteady(body: dict[str, Any], number: int) -> dict[str, Any]:
    """The first two replies are errors of the model behind, with status 200."""
    broken = {"code": 502, "message": "Provider returned error", "metadata": {"provider_name": "Elsewhere"}}
    if number == 1:
        return {"error": broken, "user_id": "u"}
    reply = completion(body) | {"provider": "Elsewhere"}
    choice = reply["choices"][0]
    choice["native_finish_reason"] = "completed"
    choice["message"] |= {"reasoning": "VERDICT: A>B? No.", "reasoning_details": []}
    if number == 2:
        choice |= {"error": broken, "finish_reason": "error"}
        choice["message"]["content"] = ""
    return reply


def reasoned(body: dict[str, Any], _number: int) -> dict[str, Any]:
    reply = completion(body)
    reply["choices"][0]["message"]["reasoning_content"] = "VERDICT: B>A? No."
    return reply


def plain_error(refused: Refused) -> Any:
    """As vLLM writes them: without ``error`` around, or as text alone."""
    if refused.status == 401:
        return {"error": "Unauthorized"}
    return {"object": "error", "message": refused.message, "type": refused.kind, "param": None, "code": 400}


def listed_error(refused: Refused) -> Any:
    return [{"error": {"code": refused.status, "message": refused.message, "status": refused.kind}}]


def anthropic_error(refused: Refused) -> Any:
    return {"type": "error", "error": {"type": refused.kind, "message": refused.message}}


QUIRKS: dict[str, Quirk] = {
    "OpenAI": Quirk("/v1/chat/completions", bearer, renamed_limit),
    "Anthropic": Quirk("/v1/messages", anthropic_key, versioned, message, anthropic_error),
    "Azure OpenAI": Quirk("/openai/v1/chat/completions", azure_key, renamed_limit, filtered),
    "Azure OpenAI with a dated API version": Quirk(
        "/openai/deployments/my-deployment/chat/completions", azure_key, dated, filtered
    ),
    "Gemini": Quirk("/v1beta/openai/chat/completions", gemini_key, only(_CHAT), thoughtful, listed_error),
    "Amazon Bedrock": Quirk("/openai/v1/chat/completions", bearer, only(_CHAT)),
    "Claude on Amazon Bedrock": Quirk("/anthropic/v1/messages", bearer, versioned, message, anthropic_error),
    "OpenRouter": Quirk("/api/v1/chat/completions", bearer, reply=unsteady),
    "vLLM": Quirk("/v1/chat/completions", bearer, short_context, reasoned, plain_error),
    "Ollama": Quirk("/v1/chat/completions", lambda _request, _key: None, known_model),
    "LiteLLM": Quirk("/v1/chat/completions", bearer),
    "Another gateway": Quirk("/team/judges:chat", gateway_key, routed),
}


@contextmanager
def stand_in(kind: str, key: str) -> Iterator[StandIn]:
    """Run a stand-in in a thread. Keys are compared in lower case."""
    server = StandIn(kind, key.lower())
    loop = asyncio.new_event_loop()
    fronts: set[Front] = set()
    listening = loop.run_until_complete(
        loop.create_server(lambda: Front(server.serve, fronts), "127.0.0.1", 0)
    )
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        for front in list(fronts):
            front.cut()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
