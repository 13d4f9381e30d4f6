"""Judges that misbehave: what `ab` makes of each, and how many calls it takes to give one up."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.arranged import Arranged, write_lines
from support.servers.manners import likes
from support.servers.replies import parts

PROMPTS = 40
#: A document to reply with, or the status and the document, or bytes; ``None`` breaks the connection.
Reply = dict[str, Any] | tuple[int, dict[str, Any]] | bytes | None


@dataclass
class Call:
    """A request: how many came before it, and what a good judge says."""

    number: int
    body: dict[str, Any]
    step: str

    def verdict(self, **fields: Any) -> str:
        return json.dumps({"reasoning": "Because.", "verdict": self.step, "both_bad": False} | fields)


def said(content: str | None, stop: str = "stop", **message: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": content, **message}
    usage = {"prompt_tokens": 900, "completion_tokens": 120, "total_tokens": 1020}
    return {"model": "m", "choices": [{"index": 0, "finish_reason": stop, "message": told}], "usage": usage}


def called(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return said(None, "tool_calls", tool_calls=[{"id": "1", "type": "function", "function": function}])


GOOD: dict[str, Callable[[Call], Reply]] = {
    "plain": lambda call: said(call.verdict()),
    "fenced": lambda call: said(f"Sure!\n```json\n{call.verdict()}\n```\nI hope this helps."),
    "thinks": lambda call: said(f"<think>\nVERDICT: B>A maybe\n{'hm ' * 300}</think>\n{call.verdict()}"),
    "lower case": lambda call: said(call.verdict(verdict=call.step.lower())),
    "extra field": lambda call: said(call.verdict(confidence=0.9)),
    "by tool": lambda call: called("give_verdict", call.verdict()),
    "no usage": lambda call: said(call.verdict()) | {"usage": None},
    "overloaded now and then": lambda call: (
        said(call.verdict()) if call.number % 3 else (529, {"error": {"message": "Overloaded"}})
    ),
    "errors with status 200 now and then": lambda call: (
        said(call.verdict()) if call.number % 2 else {"error": {"message": "Provider error", "code": 502}}
    ),
    "empty now and then": lambda call: said(call.verdict() if call.number % 4 else ""),
    "broken off now and then": lambda call: said(call.verdict()) if call.number % 4 else None,
}
SILENT: dict[str, Callable[[Call], Reply]] = {
    "empty": lambda _call: said(""),
    "empty without usage": lambda _call: said("  \n") | {"usage": None},
    "nothing": lambda _call: {},
    "no choices": lambda _call: {"choices": []},
    "null content": lambda _call: said(None),
    "errors with status 200": lambda _call: {"error": {"message": "Provider error", "code": 502}},
    "errors without a code": lambda _call: {"error": "no such backend"},
    "errors with status 500": lambda _call: (500, {"error": {"message": "boom"}}),
    "connections lost": lambda _call: None,
    "not JSON": lambda _call: b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nBusy",
    "wrong key": lambda _call: (401, {"error": {"message": "Incorrect API key"}}),
}
USELESS: dict[str, Callable[[Call], Reply]] = {
    "endless thoughts": lambda _call: said("<think>\nhmm" * 50),
    "cut off": lambda call: said(call.verdict()[:20], "length"),
    "refuses": lambda _call: said(None, refusal="I cannot help with that."),
    "refuses in words": lambda _call: said("I'm sorry, but I can't assist with that."),
    "filtered": lambda _call: said(None, "content_filter"),
    "other fields": lambda _call: said('{"winner": "A"}'),
    "another tool": lambda _call: called("web_search", "{}"),
    "a web page": lambda _call: b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
    "only streams": lambda _call: (400, {"error": {"message": "set stream=true"}}),
}


@dataclass
class Server:
    """A judge, how it replies, and how often it was asked."""

    url: str
    reply: Callable[[Call], Reply]
    calls: list[int] = field(default_factory=list)


@contextmanager
def judge(reply: Callable[[Call], Reply]) -> Iterator[Server]:
    class Answering(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number = len(served.calls)
            served.calls.append(number)
            step = likes("likes-fine", parts(body)[1]) or "A=B"
            answer = served.reply(Call(number, body, step))
            if answer is None or isinstance(answer, bytes):
                self.wfile.write(answer or b"")
                self.close_connection = True
                return
            status, document = answer if isinstance(answer, tuple) else (200, answer)
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_given: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        served = Server(f"http://127.0.0.1:{server.server_address[1]}/v1", reply)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield served
        server.shutdown()


def compared(folder, server):
    for name, word in (("a", " poor"), ("b", " fine")):
        rows = [
            {"prompt_id": f"q{k}", "prompt": f"Question {k}?", "model": name, "response": f"To {k}{word}."}
            for k in range(PROMPTS)
        ]
        write_lines(folder / f"{name}.jsonl", rows)
    options = ("--judge", "m", "--base-url", server.url, "--price", "m=3,15", "--json")
    ran = Arranged(folder).call("ab", "a.jsonl", "b.jsonl", *options)
    assert "Traceback" not in ran.err
    return ran


def quick(kinds, *chosen):
    return [pytest.param(kind, marks=() if kind in chosen else pytest.mark.slow) for kind in kinds]


@pytest.mark.parametrize("kind", quick(GOOD, "empty now and then"))
def test_a_judge_that_gives_verdicts_decides(tmp_path, kind):
    with judge(GOOD[kind]) as server:
        ran = compared(tmp_path, server)
    print(f"{kind}: code {ran.code}, {len(server.calls)} calls")
    assert (ran.code, json.loads(ran.out)["decision"]) == (0, "better"), ran.err


@pytest.mark.parametrize("kind", quick(SILENT, "connections lost"))
def test_a_judge_that_says_nothing_is_given_up_and_resumed(tmp_path, kind):
    with judge(SILENT[kind]) as server:
        ran = compared(tmp_path, server)
        calls = len(server.calls)
        print(f"{kind}: code {ran.code}, {calls} calls")
        assert (ran.code, json.loads(ran.out)["decision"]) == (3, "undecided"), ran.err
        assert calls <= 27, "nine questions, each tried three times"
        # Nothing of it is kept: the same command asks everything once the judge replies.
        server.reply = GOOD["plain"]
        again = compared(tmp_path, server)
    found = json.loads(again.out)
    assert (again.code, found["decision"]) == (0, "better"), again.err
    assert len(server.calls) - calls == 2 * found["compared"] + found["spoilt_answers"]


@pytest.mark.parametrize("kind", quick(USELESS, "refuses in words"))
def test_a_judge_that_gives_no_verdict_is_given_up_as_unusable(tmp_path, kind):
    with judge(USELESS[kind]) as server:
        ran = compared(tmp_path, server)
    print(f"{kind}: code {ran.code}, {len(server.calls)} calls")
    assert (ran.code, json.loads(ran.out)["decision"]) == (4, "cannot tell"), ran.err
    assert len(server.calls) <= 12
