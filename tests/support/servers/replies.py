"""What the billed server answers: a pure function of the request; and how it counts and charges."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from support.servers.manners import likes, mannered, needed, served

STEPS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


@dataclass(frozen=True)
class Prices:
    """Picodollars per token ($3 and $15 per million unless told otherwise); a batch costs half."""

    input: int = 3_000_000
    output: int = 15_000_000

    def charge(self, usage: Counted, *, batch: bool) -> int:
        write = self.input * 2 if usage.ttl == "1h" else self.input * 5 // 4
        pico = (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_write * write
            + usage.cache_read * self.input // 10
        )
        return -(-pico // 2) if batch else pico


@dataclass(frozen=True)
class Counted:
    input: int
    output: int
    cache_write: int = 0
    cache_read: int = 0
    ttl: str = "5m"


@dataclass(frozen=True)
class Said:
    """A reply before it is put into either provider's words. ``stop``: end, length or refusal."""

    text: str
    data: dict[str, Any] | None
    stop: str
    output: int


def tokens(text: str) -> int:
    """One token for every four bytes, begun ones included: never more than bytes."""
    return (len(text.encode(errors="replace")) + 3) // 4


def parts(body: dict[str, Any]) -> tuple[str, str]:
    """System and user text of a request of either kind."""
    system = _plain(body.get("system", ""))
    users = []
    for message in body["messages"]:
        if message["role"] == "system":
            system += _plain(message["content"])
        else:
            users.append(_plain(message["content"]))
    return system, "".join(users)


def wanted_schema(body: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The asked form (schema, tool, text) and its schema."""
    if body.get("tools"):
        tool = body["tools"][0]
        return "tool", tool.get("input_schema") or tool["function"]["parameters"]
    asked = body.get("output_config", {}).get("format") or body.get("response_format", {}).get("json_schema")
    return ("schema", asked["schema"]) if asked else ("text", None)


def input_tokens(body: dict[str, Any]) -> int:
    system, user = parts(body)
    schema = wanted_schema(body)[1]
    return max(tokens(system) + tokens(user) + (tokens(json.dumps(schema)) if schema else 0), 1)


def say(body: dict[str, Any], *, refuse: float = 0, garble: float = 0) -> Said:
    """The model's answer: by hash of model and user text."""
    system, user = parts(body)
    digest = hashlib.sha256(f"{body['model']}\n{user}".encode(errors="replace")).digest()
    form, schema = wanted_schema(body)
    if digest[1] < refuse * 256:
        return Said("I cannot judge this.", None, "refusal", 6)
    if digest[2] < garble * 256:
        text, data = f"Both have merit. {digest.hex()[:8]}", None
    elif schema:
        data = _filled(schema, digest)
        liked = likes(body["model"], user)
        data |= {"verdict": liked} if liked and "verdict" in data else {}
        text = json.dumps(data)
    elif "VERDICT" in system:
        step = STEPS[digest[0] % 5]
        bad = " BOTH_BAD" if step == "A=B" and digest[3] < 64 else ""
        text, data = f"By hash {digest.hex()[:8]}.\n\nVERDICT: {step}{bad}", None
    else:
        text, data = f"An answer of its own: {digest.hex()}.", None
    if form != "tool":
        text = mannered(body["model"], text)
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    thought = needed(body["model"])
    if thought and thought + tokens(text) > limit:
        return Said("", None, "length", limit)
    if tokens(text) > limit:
        return Said(text[: 4 * limit], None, "length", limit)
    return Said(text, data if form == "tool" else None, "end", thought + tokens(text))


def anthropic_message(body: dict[str, Any], said: Said, counted: Counted, name: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": said.text}
    if said.data is not None:
        block = {
            "type": "tool_use",
            "id": f"toolu_{name}",
            "name": body["tools"][0]["name"],
            "input": said.data,
        }
    stops = {"end": "end_turn" if said.data is None else "tool_use", "length": "max_tokens"}
    return {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": served(body["model"], name),
        "content": [block] if said.text else [],
        "stop_reason": stops.get(said.stop, said.stop),
        "stop_sequence": None,
        "usage": {
            "input_tokens": counted.input,
            "output_tokens": counted.output,
            "cache_creation_input_tokens": counted.cache_write,
            "cache_read_input_tokens": counted.cache_read,
        },
    }


def openai_completion(body: dict[str, Any], said: Said, counted: Counted, name: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    if said.stop == "refusal":
        message |= {"content": None, "refusal": said.text}
    elif said.data is not None:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": said.text}
        message |= {
            "content": None,
            "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}],
        }
    return {
        "id": f"chatcmpl-{name}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": served(body["model"], name),
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "length" if said.stop == "length" else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": counted.input + counted.cache_read,
            "completion_tokens": counted.output,
            "total_tokens": counted.input + counted.cache_read + counted.output,
            "prompt_tokens_details": {"cached_tokens": counted.cache_read},
        },
    }


def stated_usage(reply: dict[str, Any]) -> Counted:
    """Tokens as a forwarded reply states them."""
    usage = reply.get("usage", {})
    if "prompt_tokens" in usage:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return Counted(usage["prompt_tokens"] - cached, usage["completion_tokens"], 0, cached)
    return Counted(
        usage.get("input_tokens", 0),
        usage.get("output_tokens", 0),
        usage.get("cache_creation_input_tokens") or 0,
        usage.get("cache_read_input_tokens") or 0,
    )


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _filled(schema: dict[str, Any], digest: bytes) -> dict[str, Any]:
    """A document that follows the schema."""
    made: dict[str, Any] = {}
    for name, wanted in schema.get("properties", {}).items():
        if "enum" in wanted:
            made[name] = wanted["enum"][digest[0] % len(wanted["enum"])]
        elif wanted.get("type") == "boolean":
            made[name] = made.get("verdict") == "A=B" and digest[3] < 64
        else:
            made[name] = f"By hash {digest.hex()[:8]}."
    return made
