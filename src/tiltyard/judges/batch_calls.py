"""Asking by batch: half the price, and a batch that was created is never created again."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import ProviderFault, TiltyardError
from tiltyard.judges.ledger import (
    BATCH_WATCH_SECONDS,
    AttemptIntent,
    BatchRow,
    Ledger,
    ReservationResult,
    Settlement,
)
from tiltyard.judges.ledger_batcher import LedgerBatcher
from tiltyard.judges.live_calls import (
    OnSettled,
    gather_or_cancel,
    make_intent,
    retry_delay,
    settle_failure,
    settle_reply,
)
from tiltyard.judges.providers.provider import BatchEntry, BatchItem, BatchStatus, Body
from tiltyard.judges.reply_limits import ADAPTATION_LIMIT
from tiltyard.judges.requests import JudgeCaller, JudgeRequest

__all__ = ["BatchCalls"]

#: Requests that are asked again first, of a judge that has given no verdict for long.
_PROBE_REQUESTS = 10
#: Settlements that are written together while results are read.
_SETTLEMENT_BATCH_COUNT = 200
#: How far a provider's clock may be off.
_CLOCK_SKEW_TOLERANCE = timedelta(minutes=5)
#: Bytes that an item's wrapping may take.
_ITEM_OVERHEAD_BYTES = 400
#: What a provider says of a batch, or of results, that it does not know or no longer keeps.
_GONE_STATUSES = frozenset({404, 410})
#: Seconds until a batch is offered again to a provider that has too many waiting.
_BATCH_QUEUE_RETRY_SECONDS = 60.0
_FIRST_POLL_SECONDS, _MAX_POLL_SECONDS = 0.2, 60.0
#: Seconds until looking again at what other shards hold, at most.
_OTHER_SHARD_POLL_SECONDS = 5.0
#: Seconds between the first two searches for a batch whose creation went unanswered, and between the last.
_FIRST_SEARCH_SECONDS, _MAX_SEARCH_SECONDS = 1.0, 15.0
#: Seconds for which such a batch is looked for before it is held never to have been created.
_SEARCH_TIMEOUT_SECONDS = 120.0
#: What was paid for is read this often before it is given up: reading costs nothing.
_READ_ATTEMPT_LIMIT = 8
_ADVICE = (
    "Batch {} was created and may be paid for: is this the API key, or the workspace, that it was created with? "
    "Results are kept for 29 days. What was asked in it is not bought again; to ask it again, start a new run"
)


class BatchCalls:
    """Asks the requests of one shard by batch.

    Order of events: intent rows for the batch and its attempts, with the worst case reserved;
    the batch is created; its id is written down. A crash between the last two leaves an intent
    without an id: the batch is looked for among those that the provider lists, by the names of
    its items, which begin with the intent's own. Only if it is not there, for minutes, are the
    reservations released and the requests sent again.

    While a batch is waited for the ledger is told so. What other shards need, money or replies,
    is waited for as long as somebody waits for the batches that hold it: where a shard has
    failed, or its worker is gone, its batches stay open and booked, and what depends on them ends
    as unasked. Going on with the run brings them in.
    """

    def __init__(self, run: str, shard: str, worker: str, books: LedgerBatcher, heard: OnSettled) -> None:
        self._run = run
        self._shard = shard
        self._worker = worker
        self._books = books
        self._heard = heard
        #: The requests of the shard, as they were last sent.
        self._requests: dict[str, JudgeRequest] = {}
        #: By request: how often it was sent, and how often changed to what its endpoint allows.
        self._tries: Counter[str] = Counter()
        self._adapted: Counter[str] = Counter()
        #: Requests that will never be accepted.
        self._hopeless: set[str] = set()

    async def ask(self, requests: Sequence[JudgeRequest], caller: JudgeCaller) -> Counter[str]:
        """Ask what the cache does not hold; how the requests ended."""
        distinct = {request.key: request for request in requests}
        self._requests = dict(distinct)
        unpaid: set[str] = set()
        idle = 0
        await self._collect(caller)
        while True:
            replies = await self._books.replies(distinct)
            waiting = [
                sent
                for key, request in distinct.items()
                if key not in self._hopeless
                and key not in unpaid
                and self._tries[key] <= caller.retries
                and (sent := caller.due(request, replies.get(key, []))) is not None
            ]
            if not waiting:
                caller.gate.check_judge()
                states = {key: [caller.read(body) for body in replies.get(key, [])] for key in distinct}
                return Counter(_ending(key, states[key], unpaid) for key in distinct)
            caller.gate.check()
            if caller.unusable is not None and caller.unusable.has_long_streak:
                # A few first: whether asking again helps is not tried out on everything.
                waiting = waiting[:_PROBE_REQUESTS]
            self._requests.update((request.key, request) for request in waiting)
            held = await self._submit(waiting, replies, caller)
            if held in (ReservationResult.NO, ReservationResult.LEFT):
                unpaid |= {request.key for request in waiting}
            idle = 0 if held is ReservationResult.YES else idle + 1
            if idle:
                # Others hold the money, or are asking the same.
                await asyncio.sleep(
                    min(_FIRST_POLL_SECONDS * 1.5 ** min(idle, 20), _OTHER_SHARD_POLL_SECONDS)
                )
            await self._collect(caller)

    async def _submit(
        self, waiting: Sequence[JudgeRequest], replies: Mapping[str, Sequence[Body]], caller: JudgeCaller
    ) -> ReservationResult:
        """Create the batches that these requests need, as far as the budget covers them; why, if there is none."""
        left = list(waiting)
        answer = ReservationResult.LEFT
        while left:
            piece, left = _cut(left, caller)
            mark = uuid.uuid4().hex
            intents = [
                make_intent(request, self._run, self._worker, len(replies.get(request.key, ())), mark, place)
                for place, request in enumerate(piece)
            ]
            covered, held = await self._books.run(Ledger.begin_batch, mark, self._shard, intents)
            if covered:
                answer = ReservationResult.YES
                self._tries.update(intent.request_key for intent in covered)
                items = [BatchItem(f"{mark}-{one.place}", piece[one.place or 0].body) for one in covered]
                fault = await self._create(mark, items, covered, caller)
                if fault is not None and not (fault.retryable or fault.billed):
                    self._hopeless.update(intent.request_key for intent in covered)
                elif fault is not None:
                    await asyncio.sleep(
                        retry_delay(self._tries[covered[0].request_key] - 1, fault.retry_after)
                    )
            elif held in (ReservationResult.NO, ReservationResult.WAIT):
                return answer if answer is ReservationResult.YES else held
            elif answer is ReservationResult.LEFT:
                answer = held
        return answer

    async def _create(
        self, mark: str, items: Sequence[BatchItem], intents: Sequence[AttemptIntent], caller: JudgeCaller
    ) -> ProviderFault | None:
        """Create a batch and write down its id, or why there is none; one that may exist stays an intent."""
        await caller.gate.enter()
        try:
            provider_id = await caller.provider.submit_batch(items, mark)
        except ProviderFault as fault:
            caller.gate.leave(well=False)
            if not fault.billed:
                await self._void(mark, intents, caller, fault)
            if fault.throttled:
                await caller.gate.throttle(fault.retry_after)
            return fault
        except BaseException:
            caller.gate.leave(well=False)
            raise
        caller.gate.leave(well=True)
        await self._books.run(Ledger.name_batch, mark, provider_id)
        return None

    async def _void(
        self, mark: str, intents: Sequence[AttemptIntent], caller: JudgeCaller, fault: ProviderFault
    ) -> None:
        settlements = [settle_failure(intent, caller, fault) for intent in intents]
        await self._books.run(Ledger.close_batch, mark, "void", settlements)
        self._tell(settlements)

    async def _collect(self, caller: JudgeCaller) -> None:
        """Bring in every batch of this shard that is under way."""
        rows = await self._books.run(Ledger.open_batches, self._run, self._shard)
        mine = [row for row in rows if row.judge == caller.name]
        await gather_or_cancel([self._collect_batch(row, caller) for row in mine])

    async def _collect_batch(self, row: BatchRow, caller: JudgeCaller) -> None:
        """Wait for a batch and read its results; if that fails it stays open, and nobody else waits for it."""
        try:
            await self._read_batch(row, caller)
        except TiltyardError as error:
            await self._books.run(Ledger.watch_batch, row.batch, 0.0)
            if (
                isinstance(error, ProviderFault)
                and error.status in _GONE_STATUSES
                and row.provider_id is not None
            ):
                raise ProviderFault(
                    f"{error}. {_ADVICE.format(row.provider_id)}", status=error.status
                ) from None
            raise

    async def _read_batch(self, row: BatchRow, caller: JudgeCaller) -> None:
        if row.provider_id is None:
            found = await self._find(row, caller)
            if found is None:
                intents = await self._books.run(Ledger.batch_intents, row, self._run)
                fault = ProviderFault("the batch was never created", retryable=True)
                await self._void(row.batch, list(intents.values()), caller, fault)
                return
            await self._books.run(Ledger.name_batch, row.batch, found)
            row = replace(row, provider_id=found)
        assert row.provider_id is not None
        intents = await self._books.run(Ledger.batch_intents, row, self._run)
        status = await self._ended(row.provider_id, row, caller)
        if status.failed is not None:
            await self._failed(row, list(intents.values()), caller, status.failed)
            return
        await self._read(row, intents, caller)

    async def _failed(
        self, row: BatchRow, intents: Sequence[AttemptIntent], caller: JudgeCaller, why: str
    ) -> None:
        """A batch that failed as a whole: nothing of it was done or charged, so it may be tried again.

        A provider that has too much waiting already is waited for, however often that may be.
        """
        await self._void(row.batch, intents, caller, ProviderFault(f"the whole batch failed: {why}"))
        keys = [intent.request_key for intent in intents]
        if "limit" in why.lower():
            self._tries.subtract(keys)
            await asyncio.sleep(_BATCH_QUEUE_RETRY_SECONDS)
        elif keys:
            await asyncio.sleep(retry_delay(self._tries[keys[0]], None))

    async def _ended(self, provider_id: str, row: BatchRow, caller: JudgeCaller) -> BatchStatus:
        """A batch's status, once it has ended; looked at ever less often, for the sake of ``row``."""
        wait, faults = _FIRST_POLL_SECONDS, 0
        while True:
            try:
                status = await caller.provider.poll(provider_id)
                faults = 0
                if status.ended:
                    return status
            except ProviderFault as fault:
                faults += 1
                if not fault.retryable and faults >= _READ_ATTEMPT_LIMIT:
                    raise
                wait = max(wait, fault.retry_after or 0.0)
            await self._watch(row, wait)
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _MAX_POLL_SECONDS)

    async def _read(self, row: BatchRow, intents: dict[int, AttemptIntent], caller: JudgeCaller) -> None:
        """Stream the results into the ledger; where some are missing they are read again, for the rest.

        A stream may break off, or end too early as if it were whole; a provider may say that a
        batch has ended before its results are there.
        """
        left = dict(intents)
        for readings in range(_READ_ATTEMPT_LIMIT):
            await self._watch(row, 0.0)
            try:
                await self._stream(row, left, caller)
            except ProviderFault:
                if readings == _READ_ATTEMPT_LIMIT - 1:
                    raise
            if not left:
                break
            if readings < _READ_ATTEMPT_LIMIT - 1:
                await asyncio.sleep(_FIRST_POLL_SECONDS * 2.0**readings)
        fault = ProviderFault("the batch has no result for it", retryable=True, billed=True)
        missing = [settle_failure(intent, caller, fault) for intent in left.values()]
        await self._books.run(Ledger.close_batch, row.batch, "ended", missing)
        self._tell(missing)

    async def _stream(self, row: BatchRow, left: dict[int, AttemptIntent], caller: JudgeCaller) -> None:
        assert row.provider_id is not None
        gathered: list[Settlement] = []
        try:
            async with aclosing(caller.provider.results(row.provider_id)) as entries:
                async for entry in entries:
                    intent = left.pop(_place(entry.name, row.batch), None)
                    if intent is None:
                        continue
                    if entry.outcome == "errored" and not entry.retryable:
                        self._refused(entry, intent.request_key, caller)
                    gathered.append(_settlement(entry, intent, caller))
                    if len(gathered) >= _SETTLEMENT_BATCH_COUNT:
                        await self._write(gathered, caller)
                        gathered = []
        except ProviderFault:
            # What was read before the stream broke off is not read again.
            await self._write(gathered, caller)
            raise
        await self._write(gathered, caller)

    def _refused(self, entry: BatchEntry, key: str, caller: JudgeCaller) -> None:
        """A request that was not accepted is given up, unless its endpoint says what it would accept."""
        request, fault = self._requests.get(key), ProviderFault(entry.error or "", said=entry.said)
        if (
            request is None
            or self._adapted[key] >= ADAPTATION_LIMIT
            or not caller.learned.learn(fault, request.body, request.size)
        ):
            self._hopeless.add(key)
            return
        self._adapted[key] += 1
        self._tries[key] -= 1

    async def _write(self, settlements: Sequence[Settlement], caller: JudgeCaller) -> None:
        await self._books.run(Ledger.settle, settlements)
        self._tell(settlements)
        for one in settlements:
            request = self._requests.get(one.request_key)
            if one.body is not None and request is not None:
                # A second reply ends its question, whatever the first was.
                caller.heard(request, [one.body] * (one.ask + 1))

    def _tell(self, settlements: Sequence[Settlement]) -> None:
        for one in settlements:
            self._heard(one.state, one.cost)

    async def _watch(self, row: BatchRow, wait: float) -> None:
        await self._books.run(Ledger.watch_batch, row.batch, wait + BATCH_WATCH_SECONDS)

    async def _find(self, row: BatchRow, caller: JudgeCaller) -> str | None:
        """The id of a batch whose creation went unanswered, or ``None`` if there is no such batch.

        It may be listed only after a while. Counted from now: nobody knows when it was sent.
        """
        told: dict[str, bool | None] = {}
        wait, looks, faults, end = _FIRST_SEARCH_SECONDS, 0, 0, time.monotonic() + _SEARCH_TIMEOUT_SECONDS
        while True:
            last = time.monotonic() >= end
            try:
                found = await self._listed(row, caller, told)
                looks += 1
                if found is not None or (last and None not in told.values()):
                    return found
                if last and looks >= _READ_ATTEMPT_LIMIT:
                    raise _undecided(told)
            except ProviderFault as fault:
                faults += 1
                if not fault.retryable or faults >= _READ_ATTEMPT_LIMIT:
                    raise
            await self._watch(row, wait)
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _MAX_SEARCH_SECONDS)

    async def _listed(self, row: BatchRow, caller: JudgeCaller, told: dict[str, bool | None]) -> str | None:
        """Look through the provider's list once. ``told``: of those seen, whether they are ours."""
        since = datetime.fromtimestamp(row.created_at, tz=UTC) - _CLOCK_SKEW_TOLERANCE
        claimed = await self._books.run(Ledger.claimed_batches, since.timestamp())
        listed = [status async for status in caller.provider.list_batches(since)]
        # Those that can be told at once come first: others may run for a day.
        listed.sort(key=lambda status: (status.mark != row.batch, not status.ended))
        for status in listed:
            if told.get(status.id) is False:
                continue
            claimed_already = status.id in claimed
            told[status.id] = False if claimed_already else await self._is_ours(status, row, caller)
            if told[status.id]:
                return status.id
        return None

    async def _is_ours(self, status: BatchStatus, row: BatchRow, caller: JudgeCaller) -> bool | None:
        """By its mark where the provider keeps one, else by the names of its items, once it has ended.

        ``None`` where there are no results to tell by, or none yet.
        """
        if status.mark is not None:
            return status.mark == row.batch
        # A size of nothing is one that is not counted yet.
        if status.size and status.size != row.size:
            return False
        ended = await self._ended(status.id, row, caller)
        if ended.failed is not None:
            return False
        async with aclosing(caller.provider.results(status.id)) as entries:
            async for entry in entries:
                return entry.name.startswith(f"{row.batch}-")
        return None


def _cut(
    requests: Sequence[JudgeRequest], caller: JudgeCaller
) -> tuple[list[JudgeRequest], list[JudgeRequest]]:
    """As many requests, from the first on, as fit into one batch by number and by bytes; and the rest."""
    limits = caller.provider.capabilities
    total = 0
    for count, request in enumerate(requests):
        total += request.size + _ITEM_OVERHEAD_BYTES
        if count and (count >= limits.batch_requests or total > limits.batch_bytes):
            return list(requests[:count]), list(requests[count:])
    return list(requests), []


def _place(name: str, batch: str) -> int:
    """An item's place in its batch, from its name; -1 for a name that is none of ours."""
    mark, _, place = name.rpartition("-")
    return int(place) if mark == batch and place.isdecimal() and len(place) < 10 else -1


def _undecided(told: Mapping[str, bool | None]) -> ProviderFault:
    unsure = ", ".join(name for name, ours in told.items() if ours is None)
    return ProviderFault(
        f"a batch was created or not, nobody knows: {unsure} may be it and has no results to tell by; "
        "nothing is bought again; go on with the run later"
    )


def _settlement(entry: BatchEntry, intent: AttemptIntent, caller: JudgeCaller) -> Settlement:
    if entry.outcome == "succeeded" and entry.body is not None:
        return settle_reply(intent, caller, entry.body)
    fault = ProviderFault(f"{entry.outcome}: {entry.error or 'no reason given'}")
    state = (
        QuestionState.EXPIRED if entry.outcome in ("expired", "canceled") else QuestionState.PROVIDER_ERROR
    )
    return replace(settle_failure(intent, caller, fault), state=state)


def _ending(key: str, states: Sequence[QuestionState], unpaid: set[str]) -> str:
    if QuestionState.OK in states:
        return QuestionState.OK
    if states:
        return states[-1]
    return QuestionState.UNASKED if key in unpaid else QuestionState.PROVIDER_ERROR
