"""A server of OpenAI's protocol that streams scripted answers and faults, and names its model wherever it can.

::

    with faulty_upstream() as upstream:                       # in a thread; process=True for one of its own
        base_url = upstream.base_url                          # …/v1
        upstream.script("heron", fault="half", times=1)       # the next call breaks off, later ones do not
        upstream.tally()["calls"]

A model's name may carry its script: ``wren@fault=stall-first`` or ``wren@rate=30,tokens=300``. Everything that a provider
may send beside the answer contains `TELLTALE` and the model's name: ids, fingerprints, headers, comments, error messages.
The answer itself never does. Tokens are encoded once for each script, so that a token costs some microseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from support import TESTS
from support.servers.http_front import Front, Request

#: In everything but the answers.
TELLTALE = "Telltale"
#: What can go wrong. The numbers are statuses, which come before anything else.
FAULTS = (
    "none",
    "400",
    "401",
    "404",
    "429",
    "500",
    "503",
    "refuse",  # nobody listens: the connection is cut before a byte is answered
    "html",
    "stall-first",
    "stall-middle",
    "garbage",  # bytes that are no events, in the middle
    "garbage-first",
    "half",  # the connection ends in the middle of an event
    "reset",  # the connection is reset in the middle
    "no-end",  # all tokens, and neither a reason nor an end mark
    "error-event",
    "error-first",
    "filter",  # ends by a content filter in the middle
    "refuse-usage",  # status 400 if stream_options is sent
    "one-document",  # ignores "stream": true
    "keep-alive",  # comments, and nothing else, without end
)
_WORDS = [
    "water",
    "stone",
    "river",
    "light",
    "moss",
    "fern",
    "grass",
    "cloud",
    "rain",
    "leaf",
    "root",
    "wind",
    "hill",
    "path",
    "bird",
    "song",
    "reed",
    "shore",
    "mud",
    "sand",
    "pool",
    "wing",
    "feather",
    "nest",
    "egg",
    "shell",
    "drift",
    "storm",
    "calm",
    "morning",
    "evening",
]
_BATCH_TOKENS = 64


@dataclass(frozen=True)
class UpstreamScript:
    """How one model answers."""

    fault: str = "none"
    #: So many calls have the fault, and later ones have none; 0 means all calls.
    times: int = 0
    #: Only calls whose last prompt holds this have the fault.
    upon: str = ""
    tokens: int = 40
    #: Tokens a second; 0 means as fast as they are read.
    rate: float = 0.0
    #: Seconds before the first token.
    delay: float = 0.0
    #: Tokens of thinking before the answer: in their own field, or between tags in the text.
    thinking: int = 0
    tags: bool = False
    #: Every token is the time at which it was written, in microseconds of the monotonic clock.
    stamped: bool = False
    #: Text that is the answer, in place of words. It is cut into tokens of four characters.
    text: str = ""

    def __post_init__(self) -> None:
        assert self.fault in FAULTS, f"{self.fault}: one of {', '.join(FAULTS)}"

    @classmethod
    def named(cls, model: str) -> UpstreamScript:
        """The script that a model's name carries."""
        _, _, stated = model.partition("@")
        kinds = {each.name: type(each.default) for each in fields(cls)}
        pairs = (pair.partition("=") for pair in stated.split(",") if pair)
        return cls(**{name: kinds[name](value) for name, _, value in pairs})


def upstream_words(model: str, count: int) -> list[str]:
    """The tokens of a model's answer: the same for every call, different for most models."""
    start = sum(model.encode()) % len(_WORDS)
    step = 1 + len(model) % 7
    return [f"{_WORDS[(start + step * number) % len(_WORDS)]} " for number in range(count)]


@dataclass(frozen=True)
class FaultyUpstream:
    """Where the server is, and how it is told what to do."""

    url: str

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def script(self, model: str, **script: Any) -> None:
        """Answer for this model in this way from now on; the fields are those of `UpstreamScript`."""
        asdict(UpstreamScript(**script))
        self._ask("/script", {"model": model, **script})

    def tally(self) -> dict[str, Any]:
        """Calls by model, tokens written, streams that are open, and streams that the client closed before their end."""
        return self._ask("/tally")

    def bodies(self) -> list[dict[str, Any]]:
        """The last thousand requests."""
        return self._ask("/bodies")

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def faulty_upstream(*, process: bool = False) -> Iterator[FaultyUpstream]:
    """Run the server in a thread, or in a process that ends with whoever started it."""
    with _in_process() if process else _in_thread() as port:
        yield FaultyUpstream(f"http://127.0.0.1:{port}")


@contextmanager
def _in_process() -> Iterator[int]:
    paths = filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "support.faulty_upstream"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    with process:
        try:
            port = int(process.stdout.readline() or 0)
            assert port, "the server did not start"
            yield port
        finally:
            process.kill()


@contextmanager
def _in_thread() -> Iterator[int]:
    started, told = threading.Event(), {}

    async def run() -> None:
        told["loop"], told["stop"] = asyncio.get_running_loop(), asyncio.Event()
        fronts: set[Front] = set()
        server = await _listen(fronts)
        told["port"] = server.sockets[0].getsockname()[1]
        started.set()
        await told["stop"].wait()
        server.close()
        for front in [*fronts]:
            front.cut()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    try:
        assert started.wait(30), "the server did not start"
        yield told["port"]
    finally:
        told["loop"].call_soon_threadsafe(told["stop"].set)
        thread.join(30)


async def _listen(fronts: set[Front]) -> asyncio.Server:
    upstream, loop = _Upstream(), asyncio.get_running_loop()
    return await loop.create_server(lambda: Front(upstream.serve, fronts), "127.0.0.1", 0, backlog=2048)


@dataclass
class _Upstream:
    """The server's side: scripts by model, and what was counted."""

    scripts: dict[str, UpstreamScript] = field(default_factory=dict)
    #: Calls since a model's script was set, and all calls.
    served: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    requests: list[Any] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def serve(self, request: Request) -> None:
        if request.path == "/script":
            told = json.loads(request.body)
            model = told.pop("model")
            self.scripts[model] = UpstreamScript(**told)
            self.served[model] = 0
            request.reply({})
        elif request.path == "/tally":
            request.reply({"calls": dict(self.calls), **{name: self.counts[name] for name in _COUNTED}})
        elif request.path == "/bodies":
            request.reply(self.requests)
        elif request.path.endswith("/models"):
            request.reply({"object": "list", "data": []})
        elif request.path.endswith("/chat/completions"):
            self._complete(request)
        else:
            request.reply({"error": {"message": f"{TELLTALE}: no such path"}}, 404)

    def _complete(self, request: Request) -> None:
        body = json.loads(request.body)
        self.requests = [*self.requests[-999:], body]
        model = str(body["model"])
        script = self.scripts.get(model) or UpstreamScript.named(model)
        self.calls[model] += 1
        self.served[model] += 1
        is_over = script.times and self.served[model] > script.times
        if is_over or script.upon not in str(body["messages"][-1]["content"]):
            script = replace(script, fault="none")
        if script.fault == "refuse":
            request.drop()
        elif script.fault.isdecimal() or (script.fault == "refuse-usage" and "stream_options" in body):
            self._refuse(request, model, script.fault)
        elif script.fault == "html":
            request.front.send(f"<!doctype html><title>{TELLTALE}</title>".encode(), kind="text/html")
        elif script.fault == "one-document":
            request.reply(_document(model, script))
        else:
            task = asyncio.get_running_loop().create_task(self._stream(request.front, model, script, body))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def _refuse(self, request: Request, model: str, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 400
        what = "stream_options is not supported" if status == 400 and not fault.isdecimal() else "sorry"
        error = {"message": f"{TELLTALE} {model}: {what}", "type": f"{TELLTALE}_error", "param": model}
        request.reply({"error": error}, status, f"x-model: {TELLTALE}-{model}\r\nretry-after: 1\r\n")

    async def _stream(self, front: Front, model: str, script: UpstreamScript, body: Any) -> None:
        self.counts["open"] += 1
        try:
            ended = await _answer(front, model, script, bool(body.get("stream_options")), self.counts)
        finally:
            self.counts["open"] -= 1
        if not ended:
            self.counts["closed_early"] += 1


_COUNTED = ("tokens", "open", "closed_early")


async def _answer(
    front: Front, model: str, script: UpstreamScript, usage: bool, counts: Counter[str]
) -> bool:
    """Stream an answer; whether it came to the end that its script has."""
    _write(front, _head(model))
    fault, answer = script.fault, _encoded(model, script)
    half = len(answer.tokens) // 2
    if fault in {"stall-first", "keep-alive"}:
        return await _stall(front, answer.comment if fault == "keep-alive" else b"")
    if script.delay:
        await asyncio.sleep(script.delay)
    first = {"garbage-first": _chunk(b"\x00\xff\xfe garbage\n\ndata: {\xff\n\n"), "error-first": answer.error}
    if fault in first:
        _write(front, first[fault])
        return _finish(front)
    broken = fault in {"stall-middle", "garbage", "half", "reset", "error-event", "filter"}
    if not await _tokens(front, answer.tokens[:half] if broken else answer.tokens, script, counts):
        return False
    if fault == "stall-middle":
        return await _stall(front, b"")
    if fault == "half":
        _write(front, _chunk(b'data: {"id": "' + TELLTALE.encode() + b'", "choi'))
        front.cut(gently=True)
        return True
    if fault == "reset":
        # What is still in the buffers of this side is lost with the connection.
        await asyncio.sleep(0.05)
        front.cut()
        return True
    middle = {"garbage": _chunk(b"data: \xff\xfe\x00 garbage\n\n"), "error-event": answer.error}
    if fault in middle:
        _write(front, middle[fault])
    elif fault != "no-end":
        _write(front, answer.filtered if fault == "filter" else answer.stopped)
        _write(front, (answer.usage if usage else b"") + _chunk(b"data: [DONE]\n\n"))
    return _finish(front)


async def _tokens(
    front: Front, tokens: tuple[bytes, ...], script: UpstreamScript, counts: Counter[str]
) -> bool:
    """Write the tokens at their times; whether the client stayed."""
    start, at, size = time.monotonic(), 0, len(tokens)
    while at < size:
        if not front.writable.is_set():
            await front.writable.wait()
        if not front.alive:
            return False
        if script.rate:
            due = min(int((time.monotonic() - start) * script.rate) + 1, size)
        else:
            due = min(at + _BATCH_TOKENS, size)
        if due > at:
            _write(front, _stamped(due - at) if script.stamped else b"".join(tokens[at:due]))
            counts["tokens"] += due - at
            at = due
        await asyncio.sleep(max(start + at / script.rate - time.monotonic(), 0.0) if script.rate else 0)
    return True


async def _stall(front: Front, comment: bytes) -> bool:
    """Say nothing more, or comments only, until the client leaves."""
    while front.alive:
        if comment:
            _write(front, comment)
        await asyncio.sleep(0.02)
    return False


def _write(front: Front, data: bytes) -> None:
    if front.alive and data:
        front.transport.write(data)


def _finish(front: Front) -> bool:
    alive = front.alive
    _write(front, b"0\r\n\r\n")
    # A new connection for every answer: nothing of one can be taken for another's.
    front.cut(gently=True)
    return alive


@dataclass(frozen=True)
class _Encoded:
    """An answer as the bytes that are sent."""

    tokens: tuple[bytes, ...]
    stopped: bytes
    filtered: bytes
    usage: bytes
    error: bytes
    comment: bytes


@lru_cache(maxsize=512)
def _encoded(model: str, script: UpstreamScript) -> _Encoded:
    told = f"{TELLTALE}-{model}"
    # Words repeat: each is encoded once.
    known: dict[tuple[tuple[str, str], ...], bytes] = {}
    pieces = []
    for delta in _deltas(model, script):
        key = tuple(delta.items())
        known[key] = known.get(key) or _event(model, delta)
        pieces.append(known[key])
    counts = {"prompt_tokens": 7, "completion_tokens": len(pieces), "total_tokens": 7 + len(pieces)}
    details = {"completion_tokens_details": {told: 1}}
    return _Encoded(
        tuple(pieces),
        _event(model, {}, "stop"),
        _event(model, {}, "content_filter"),
        _event(model, None, usage={**counts, **details}),
        _data(
            {
                "error": {
                    "message": f"{told} failed",
                    "code": 500,
                    "type": told,
                    "metadata": {"provider": told},
                }
            }
        ),
        _chunk(f": {told} is working\n\n".encode()),
    )


def _deltas(model: str, script: UpstreamScript) -> Iterator[dict[str, str]]:
    text = script.text
    words = (
        [text[at : at + 4] for at in range(0, len(text), 4)] if text else upstream_words(model, script.tokens)
    )
    thoughts = upstream_words(f"{model}?", script.thinking)
    if thoughts and script.tags:
        yield {"role": "assistant", "content": "<think>"}
        yield from ({"content": word} for word in thoughts)
        yield {"content": "</think>"}
    else:
        yield from ({"reasoning_content": word} for word in thoughts)
    yield from ({"content": word} for word in words)


def _event(model: str, delta: dict[str, str] | None, finish: str | None = None, **more: Any) -> bytes:
    told = f"{TELLTALE}-{model}"
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "native_finish_reason": told}
    return _data(
        {
            "id": f"chatcmpl-{told}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": told,
            "provider": told,
            "system_fingerprint": f"fp_{told}",
            "service_tier": told,
            "choices": [] if delta is None else [choice],
            **more,
        },
        f"id: {told}\n",
    )


@lru_cache(maxsize=1)
def _stamp_frame() -> tuple[bytes, bytes]:
    before, after = _event("stamped", {"content": "0" * 16 + " "}).split(b"0" * 16, 1)
    return before, after


def _stamped(count: int) -> bytes:
    """Tokens that are the time at which they are written."""
    before, after = _stamp_frame()
    return (before + b"%016d" % (time.monotonic_ns() // 1000) + after) * count


def _document(model: str, script: UpstreamScript) -> dict[str, Any]:
    told = f"{TELLTALE}-{model}"
    deltas = list(_deltas(model, script))
    message = {
        name: "".join(delta.get(name, "") for delta in deltas) for name in ("content", "reasoning_content")
    }
    return {
        "id": told,
        "model": told,
        "system_fingerprint": told,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": len(deltas)},
    }


def _head(model: str) -> bytes:
    told = f"{TELLTALE}-{model}".encode("ascii", "replace").decode()
    return (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
        f"x-model: {told}\r\nx-request-id: {told}\r\nserver: {told}\r\n\r\n"
    ).encode()


def _data(document: Any, head: str = "") -> bytes:
    return _chunk(f"{head}data: {json.dumps(document, ensure_ascii=False)}\n\n".encode())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _main() -> None:
    server = await _listen(set())
    print(server.sockets[0].getsockname()[1], flush=True)
    # Whoever started this holds the other end of standard input: when it closes, they are gone.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(_main())
    os._exit(0)
