"""Live judge calls: one call per request, with adaptive concurrency."""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import ProviderFault
from tiltyard.judges.ledger import AttemptIntent, ReservationResult, Settlement
from tiltyard.judges.ledger_batcher import LedgerBatcher
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.requests import ADAPTATION_LIMIT, EmptyReply, JudgeCaller, JudgeRequest

T = TypeVar("T")

#: The progress state of a call that only filled the prompt cache.
PREWARMED = "prewarmed"
#: The ask number of a call that only fills the prompt cache.
PREWARM = -1
#: Usage above this number of tokens is ignored as implausible.
_PLAUSIBLE_TOKENS = 10**9
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.5, 60.0
_FIRST_POLL_SECONDS, _MAX_POLL_SECONDS = 0.05, 2.0

#: Called after every attempt with its state and its cost in picodollars.
OnSettled = Callable[[str, int | None], None]


class LiveCalls:
    """Sends each request as one call, many concurrently."""

    def __init__(
        self,
        run: str,
        worker: str,
        books: LedgerBatcher,
        heard: OnSettled,
        *,
        fault: Callable[[ProviderFault], None] = lambda _fault: None,
    ) -> None:
        self._run = run
        self._worker = worker
        self._books = books
        self._heard = heard
        self._fault = fault
        #: The smallest amount that the budget did not cover: it will not cover more, so nothing else is tried.
        self._refused = math.inf
        #: Matches of which an order has been sent.
        self._opened: set[Match] = set()

    async def ask(self, requests: Sequence[JudgeRequest], caller: JudgeCaller) -> Counter[str]:
        """Send the requests that are not cached; count all requests by final state."""
        known = await self._books.replies(request.key for request in requests)
        distinct = {request.key: request for request in requests}
        endings = await gather_or_cancel(
            [
                self._ask(request, caller, known.get(request.key, []))
                for request in _with_headroom(distinct.values(), known, caller)
            ]
        )
        return Counter(endings)

    async def _ask(self, request: JudgeRequest, caller: JudgeCaller, known: Sequence[Body]) -> str:
        bodies = list(known)
        looks = 0
        while caller.due(request, bodies) is not None:
            reply = await self._reply(request, caller, bodies)
            if reply is None:
                await _poll_delay(looks)
                looks += 1
                bodies = (await self._books.replies([request.key])).get(request.key, [])
            elif isinstance(reply, QuestionState):
                return caller.read(bodies[-1]) if bodies else reply
            else:
                bodies.append(reply)
        states = [caller.read(body) for body in bodies]
        return QuestionState.OK if QuestionState.OK in states else states[-1]

    async def _reply(
        self, request: JudgeRequest, caller: JudgeCaller, bodies: Sequence[Body]
    ) -> Body | QuestionState | None:
        """The next reply, or the state of a request without one; ``None`` if another task is sending it.

        If an endpoint rejects the limit on output tokens, the request is retried with the limit it allows.
        """
        tries = adapted = 0
        while (sent := caller.due(request, bodies)) is not None:
            intent = await self._allowed(sent, caller, len(bodies))
            if not isinstance(intent, AttemptIntent):
                return None if intent is ReservationResult.TAKEN else QuestionState.UNASKED
            reply = await self._attempt(sent, caller, intent)
            if not isinstance(reply, ProviderFault):
                caller.heard(request, [*bodies, reply])
                return reply
            if adapted < ADAPTATION_LIMIT and caller.learned.learn(reply, sent.body, sent.size):
                adapted += 1
            elif reply.retryable and tries < caller.retries:
                await asyncio.sleep(retry_delay(tries, reply.retry_after))
                tries += 1
            else:
                break
        return QuestionState.PROVIDER_ERROR

    async def _allowed(
        self, request: JudgeRequest, caller: JudgeCaller, ask: int, *, patient: bool = True
    ) -> AttemptIntent | ReservationResult:
        """Wait for a free slot and reserve the worst-case cost; returns the intent, or why there is none.

        ``patient``: wait in line for money that others hold, as long as it may be released.
        """
        line = self._books.money_line
        held = await self._reserved(request, caller, ask, overtaking=not patient)
        if held is not ReservationResult.WAIT or not patient:
            return held
        async with line:
            for looks in count():
                held = await self._reserved(request, caller, ask, overtaking=True)
                if held is not ReservationResult.WAIT:
                    return held
                await _poll_delay(looks)
        raise AssertionError

    async def _reserved(
        self, request: JudgeRequest, caller: JudgeCaller, ask: int, *, overtaking: bool
    ) -> AttemptIntent | ReservationResult:
        """Try to reserve once, with a free slot. Unless ``overtaking``, WAIT if others wait in line for money."""
        if (request.worst or 0) + self._headroom(request) >= self._refused:
            return ReservationResult.NO
        await caller.gate.enter()
        # The other order may have been sent meanwhile.
        request = replace(request, headroom=self._headroom(request))
        intent = make_intent(request, self._run, self._worker, ask)
        held = ReservationResult.WAIT
        try:
            if overtaking or not self._books.money_line.locked():
                held = await self._books.begin(intent)
        except BaseException:
            caller.gate.leave(well=False)
            raise
        if held is ReservationResult.YES:
            if request.match is not None:
                self._opened.add(request.match)
            return intent
        caller.gate.leave(well=False)
        if held is ReservationResult.NO:
            self._refused = min(self._refused, intent.reserved + intent.headroom)
        return held

    def _headroom(self, request: JudgeRequest) -> int:
        """What must be left for the other order of a match, unless one has been sent."""
        return 0 if request.match in self._opened else request.headroom

    async def _attempt(
        self, request: JudgeRequest, caller: JudgeCaller, intent: AttemptIntent
    ) -> Body | ProviderFault:
        """Send once; the result is in the ledger before it is returned."""
        served = False
        try:
            settlement = await self._sent(caller.provider.complete, request, caller, intent)
            # Do not raise the concurrency while a judge gives no usable reply.
            served = settlement.state == QuestionState.OK
            settlement, empty = _without_empty(settlement, caller)
            caller.gate.tell(empty)
            await self._books.settle(settlement)
        except ProviderFault as fault:
            caller.gate.tell(fault)
            self._fault(fault)
            await self._failed(intent, caller, fault)
            return fault
        finally:
            caller.gate.leave(well=served)
        self._heard(settlement.state, settlement.cost)
        if settlement.body is None:
            assert empty is not None
            self._fault(empty)
            return empty
        return settlement.body

    async def _sent(
        self,
        send: Callable[[Body], Awaitable[Body]],
        request: JudgeRequest,
        caller: JudgeCaller,
        intent: AttemptIntent,
    ) -> Settlement:
        """Send a request. A call that is cancelled, or fails unexpectedly, is settled as lost and possibly billed."""
        try:
            return settle_reply(intent, caller, await send(request.body))
        except ProviderFault:
            raise
        except (Exception, asyncio.CancelledError) as error:
            problem = f"abandoned in flight ({type(error).__name__})"
            settlement = settle_failure(intent, caller, ProviderFault(problem, billed=True))
            self._books.note(settlement)
            self._heard(settlement.state, settlement.cost)
            raise

    async def prewarm(self, request: JudgeRequest, caller: JudgeCaller) -> bool:
        """Fill the provider's prompt cache with the common prefix of a rubric's requests; return whether it was done.

        Does not wait for money that others hold: open batches may only be collected after this.
        """
        # Without a question ID: a failure here must not count for a question.
        intent = await self._allowed(replace(request, question_id=""), caller, PREWARM, patient=False)
        if not isinstance(intent, AttemptIntent):
            return False
        try:
            settlement = await self._sent(caller.provider.prewarm, request, caller, intent)
            settlement = replace(settlement, state=QuestionState.OK, body=None)
            await self._books.settle(settlement)
        except ProviderFault as fault:
            await self._failed(intent, caller, fault)
            return False
        finally:
            caller.gate.leave(well=False)
        self._heard(PREWARMED, settlement.cost)
        return True

    async def _failed(self, intent: AttemptIntent, caller: JudgeCaller, fault: ProviderFault) -> None:
        settlement = settle_failure(intent, caller, fault)
        await self._books.settle(settlement)
        self._heard(settlement.state, settlement.cost)
        if fault.throttled:
            await caller.gate.throttle(fault.retry_after)


async def gather_or_cancel(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all. The first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def make_intent(
    request: JudgeRequest, run: str, worker: str, ask: int, batch: str | None = None, place: int | None = None
) -> AttemptIntent:
    """The intent for an attempt at a request."""
    return AttemptIntent(
        attempt_id=uuid.uuid4().hex,
        run=run,
        request_key=request.key,
        ask=ask,
        question_id=request.question_id,
        judge=request.judge,
        dimension=request.dimension,
        worker=worker,
        reserved=request.worst or 0,
        batch=batch,
        place=place,
        priced=request.worst is not None,
        headroom=request.headroom,
    )


def _with_headroom(
    requests: Iterable[JudgeRequest], known: Mapping[str, Sequence[Body]], caller: JudgeCaller
) -> list[JudgeRequest]:
    """The requests, each with what the other order of its match may cost, if that must be sent too."""
    whole: Counter[Match] = Counter()
    listed = [(one, caller.due(one, known.get(one.key, [])) is not None) for one in requests]
    for request, due in listed:
        if request.match is not None and due:
            whole[request.match] += request.worst or 0
    return [
        replace(request, headroom=whole[request.match] - (request.worst or 0))
        if request.match is not None and due
        else request
        for request, due in listed
    ]


def settle_reply(intent: AttemptIntent, caller: JudgeCaller, body: Body) -> Settlement:
    """The settlement of an attempt with a reply, usable or not."""
    _, usage = caller.provider.read(body)
    if (
        usage is not None
        and max(usage.input, usage.output, usage.cache_write, usage.cache_read) > _PLAUSIBLE_TOKENS
    ):
        usage = None
    return Settlement(
        attempt_id=intent.attempt_id,
        run=intent.run,
        request_key=intent.request_key,
        ask=intent.ask,
        reserved=intent.reserved,
        state=caller.read(body),
        cost=caller.cost(usage, intent.reserved),
        body=body,
        usage=usage,
    )


def _without_empty(settlement: Settlement, caller: JudgeCaller) -> tuple[Settlement, EmptyReply | None]:
    """The settlement, and the failure if its reply is empty.

    Of a judge that is serving, an empty reply is one without a verdict. Otherwise it is not kept, so that the question is
    asked again once the judge replies; what it cost is known all the same.
    """
    empty = None if settlement.body is None else caller.empty_reply(settlement.body)
    if empty is None or caller.gate.is_serving:
        return settlement, empty
    return replace(settlement, state=QuestionState.PROVIDER_ERROR, body=None, error=str(empty)), empty


def settle_failure(intent: AttemptIntent, caller: JudgeCaller, fault: ProviderFault) -> Settlement:
    """The settlement of an attempt without a reply; if it may have been billed, its worst case counts as spent."""
    return Settlement(
        attempt_id=intent.attempt_id,
        run=intent.run,
        request_key=intent.request_key,
        ask=intent.ask,
        reserved=intent.reserved,
        state=QuestionState.LOST if fault.billed else QuestionState.PROVIDER_ERROR,
        # The worst case of a reply that was lost, if the price is known.
        cost=0 if not fault.billed else None if caller.price is None else intent.reserved,
        error=str(fault),
    )


async def _poll_delay(looks: int) -> None:
    """Sleep before checking again what another call or worker holds, with growing delays."""
    await asyncio.sleep(min(_FIRST_POLL_SECONDS * 2.0 ** min(looks, 16), _MAX_POLL_SECONDS))


def retry_delay(tries: int, retry_after: float | None) -> float:
    """Seconds until the next attempt: Retry-After or exponential backoff, whichever is longer, with jitter."""
    doubled = min(_MAX_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(tries, 16))
    return max(retry_after or 0.0, doubled) * random.uniform(1.0, 1.25)  # noqa: S311 - to spread calls
