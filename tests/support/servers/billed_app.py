"""The billed server's live side: both providers' endpoints, charged, delayed and spoilt as it is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from support.servers.batch_desk import BatchDesk
from support.servers.behaviour import Behaviour
from support.servers.endpoints import COMPLETIONS, MESSAGES, Refused, error_document, stopped
from support.servers.http_front import Request
from support.servers.manners import limit_refusal
from support.servers.replies import (
    Counted,
    anthropic_message,
    input_tokens,
    openai_completion,
    parts,
    say,
    stated_usage,
    tokens,
)

#: Prompts shorter than this are silently not cached.
CACHEABLE = 128


@dataclass
class Till:
    """What was paid, counted by the server itself: every accepted request, whoever is still there to hear the answer."""

    #: How often each request (by hash) was paid.
    paid: Counter[bytes] = field(default_factory=Counter)
    session_rate_limit: Counter[bytes] = field(default_factory=Counter)
    picodollars: int = 0
    live_calls: int = 0
    batch_calls: int = 0
    prewarms: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    #: Paid, and the answer was spoilt or dropped on purpose, or nobody was there any more.
    paid_and_lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def arrival(self, digest: bytes) -> int:
        """How often this request came before."""
        number = self.session_rate_limit[digest]
        self.session_rate_limit[digest] = number + 1
        return number

    def pay(self, digest: bytes, picodollars: int, *, batch: bool) -> None:
        self.paid[digest] += 1
        self.picodollars += picodollars
        if batch:
            self.batch_calls += 1
        else:
            self.live_calls += 1

    def begin(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def tally(self, batches: int) -> dict[str, Any]:
        paid = self.live_calls + self.batch_calls
        return {
            "paid_calls": paid,
            "distinct": len(self.paid),
            "paid_again": paid - len(self.paid),
            "live_calls": self.live_calls,
            "batch_calls": self.batch_calls,
            "prewarms": self.prewarms,
            "picodollars": self.picodollars,
            "dollars": f"{self.picodollars // 10**12}.{self.picodollars % 10**12:012d}",
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "paid_and_lost": self.paid_and_lost,
            "batches": batches,
            "faults": dict(self.faults),
            "requests": dict(self.requests),
        }


class BilledApp:
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.till = Till()
        self.desk = BatchDesk(self)
        self.bodies: list[bytes] = []
        self.cached: set[bytes] = set()
        #: Live calls that were served, by model, since the behaviour was changed.
        self.served: Counter[str] = Counter()
        self.threads = ThreadPoolExecutor(4)
        self.tasks: set[asyncio.Task[None]] = set()

    def serve(self, request: Request) -> None:
        try:
            self._route(request)
        except Refused as refused:
            request.reply(error_document(request.path, refused), refused.status)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            bad = Refused(400, f"cannot read the request: {error!r}")
            request.reply(error_document(request.path, bad), 400)

    def _route(self, request: Request) -> None:
        path = request.path
        if path in {MESSAGES, COMPLETIONS} and request.method == "POST":
            self._authorised(request)
            self.live(request)
        elif path == "/tally":
            request.reply(self.till.tally(len(self.desk.batches)))
        elif path == "/bodies":
            request.reply([body.decode() for body in self.bodies])
        elif path == "/behaviour":
            self.behaviour = replace(self.behaviour, **json.loads(request.body))
            self.served.clear()
            request.reply(asdict(self.behaviour))
        elif path == "/v1/messages/count_tokens":
            self._authorised(request)
            self.till.requests["count_tokens"] += 1
            request.reply({"input_tokens": input_tokens(json.loads(request.body))})
        else:
            self._authorised(request)
            self.desk.serve(request)

    def _authorised(self, request: Request) -> None:
        given = request.header("x-api-key") or request.header("authorization").removeprefix("bearer ")
        if not given or (self.behaviour.key and given != self.behaviour.key.lower()):
            raise Refused(401, "invalid api key", "authentication_error")

    def live(self, request: Request) -> None:
        """One live call: billed on arrival, answered after the latency."""
        behaviour, till = self.behaviour, self.till
        till.requests["live"] += 1
        if behaviour.keep_bodies:
            self.bodies.append(request.body)
        body = json.loads(request.body)
        digest = hashlib.sha256(request.body).digest()
        if self._stopped(request, body["model"]):
            return
        if behaviour.forward is not None and (refusal := limit_refusal(body, input_tokens(body))):
            raise Refused(400, refusal)
        fault = behaviour.live_fault(digest, till.arrival(digest))
        if fault is not None:
            till.faults[fault] += 1
        if fault in {"throttle", "overload", "server_error", "drop_before"}:
            self._later(behaviour.latency / 2, self.fail, request, fault)
            return
        if behaviour.forward is not None:
            self.start(self._forwarded(request, digest))
            return
        reply = self.charged(body, digest, request.path, batch=False)
        till.begin()
        self._later(behaviour.latency, self._answer, request, reply, fault)

    def _stopped(self, request: Request, model: str) -> bool:
        """Refuse a call of a model that is served no more."""
        behaviour = self.behaviour
        if behaviour.stops_after is None or not model.startswith(behaviour.stops_model):
            return False
        if self.served[model] < behaviour.stops_after:
            self.served[model] += 1
            return False
        self.till.faults["stopped"] += 1
        refused, wait = stopped(behaviour.stops_with, request.path, model)
        request.reply(error_document(request.path, refused), refused.status, wait)
        return True

    def charged(self, body: dict[str, Any], digest: bytes, path: str, *, batch: bool) -> dict[str, Any]:
        """The reply, paid for."""
        if body.get("max_tokens") == 0:
            return self._prewarmed(body, digest)
        refusal = limit_refusal(body, input_tokens(body))
        if refusal is not None:
            self.till.faults["limit"] += 1
            raise Refused(400, refusal)
        said = say(body, refuse=self.behaviour.refuse, garble=self.behaviour.garble)
        counted = replace(self._input(body), output=said.output)
        self.till.pay(digest, self.behaviour.prices.charge(counted, batch=batch), batch=batch)
        write = anthropic_message if path == MESSAGES else openai_completion
        return write(body, said, counted, digest.hex()[:24])

    def _prewarmed(self, body: dict[str, Any], digest: bytes) -> dict[str, Any]:
        if body.get("tool_choice") or body.get("output_config", {}).get("format") or body.get("thinking"):
            raise Refused(400, "max_tokens: 0 allows no tool_choice, output_config.format or thinking")
        counted = self._input(body)
        self.till.prewarms += 1
        self.till.picodollars += self.behaviour.prices.charge(counted, batch=False)
        said = say({**body, "max_tokens": 0})
        return anthropic_message(body, replace(said, text="", data=None), counted, digest.hex()[:24])

    def _input(self, body: dict[str, Any]) -> Counted:
        whole = input_tokens(body)
        if not self.behaviour.prompt_cache or not isinstance(body.get("system"), list):
            return Counted(whole, 0)
        mark = body["system"][-1].get("cache_control")
        prefix = tokens(parts(body)[0])
        if not mark or prefix < CACHEABLE:
            return Counted(whole, 0)
        key = hashlib.sha256(json.dumps([body["model"], body["system"]]).encode()).digest()
        if key in self.cached:
            return Counted(whole - prefix, 0, cache_read=prefix)
        self.cached.add(key)
        return Counted(whole - prefix, 0, cache_write=prefix, ttl=mark.get("ttl", "5m"))

    def _answer(self, request: Request, reply: dict[str, Any], fault: str | None) -> None:
        self.till.in_flight -= 1
        if fault or not request.front.alive:
            self.till.paid_and_lost += 1
        if fault == "drop_after":
            request.drop()
        elif fault == "truncate":
            whole = json.dumps(reply).encode()
            request.front.send(whole[: len(whole) * 2 // 3])
        else:
            request.reply(reply)

    def fail(self, request: Request, fault: str) -> None:
        wait = f"retry-after: {self.behaviour.retry_after}\r\n"
        if fault == "drop_before":
            request.drop()
        elif fault == "throttle":
            refused = Refused(429, "too many requests", "rate_limit_error")
            request.reply(error_document(request.path, refused), 429, wait)
        elif fault == "overload":
            refused = Refused(529, "overloaded", "overloaded_error")
            request.reply(error_document(request.path, refused), 529, wait)
        else:
            request.reply(error_document(request.path, Refused(500, "internal error", "api_error")), 500)

    async def _forwarded(self, request: Request, digest: bytes) -> None:
        self.till.begin()
        status, reply = await self.forward(request.path, request.body)
        if status == 200:
            self.till.pay(digest, self.behaviour.prices.charge(stated_usage(reply), batch=False), batch=False)
        await asyncio.sleep(self.behaviour.latency)
        self.till.in_flight -= 1
        self.till.paid_and_lost += status == 200 and not request.front.alive
        request.reply(reply, status)

    async def forward(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Let the real model answer."""
        base = str(self.behaviour.forward).rstrip("/").removesuffix("/v1")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, _post, base + path, body)

    def start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @staticmethod
    def _later(seconds: float, call: Any, *given: Any) -> None:
        if seconds > 0:
            asyncio.get_running_loop().call_later(seconds, call, *given)
        else:
            call(*given)


def _post(url: str, body: bytes) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        url, body, {"content-type": "application/json", "authorization": "Bearer no-key"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}")
