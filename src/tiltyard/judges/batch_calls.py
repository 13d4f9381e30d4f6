"""Judge calls by batch: half the price, and no batch is created twice."""

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
from tiltyard.judges.requests import ADAPTATION_LIMIT, JudgeCaller, JudgeRequest

#: Requests to try first when a judge has given no verdict for long.
_PROBE_REQUESTS = 10
#: Settlements written in one transaction while results are read.
_SETTLEMENT_BATCH_COUNT = 200
#: Tolerated difference between our clock and the provider's.
_CLOCK_SKEW_TOLERANCE = timedelta(minutes=5)
#: Bytes added to each request by the batch format.
_ITEM_OVERHEAD_BYTES = 400
#: Statuses for a batch or results that the provider does not know or no longer keeps.
_GONE_STATUSES = frozenset({404, 410})
#: Delay before a batch is retried when the provider's batch queue is full.
_BATCH_QUEUE_RETRY_SECONDS = 60.0
_FIRST_POLL_SECONDS, _MAX_POLL_SECONDS = 0.2, 60.0
#: Longest delay between checks whether other shards have released money or replies.
_OTHER_SHARD_POLL_SECONDS = 5.0
#: First and longest delay between searches for a batch whose creation got no response.
_FIRST_SEARCH_SECONDS, _MAX_SEARCH_SECONDS = 1.0, 15.0
#: After this time without success, such a batch counts as never created.
_SEARCH_TIMEOUT_SECONDS = 120.0
#: How often reading paid results is tried: reading costs nothing.
_READ_ATTEMPT_LIMIT = 8
_ADVICE = (
    "Batch {} was created and may be billed: check that this is the API key and workspace that created it. "
    "Results are kept for 29 days. Its requests are not sent again; to send them again, start a new run"
)


class BatchCalls:
    """Sends the requests of one shard by batch.

    Order of events: write intent rows for the batch and its attempts and reserve the worst-case cost;
    create the batch; record its ID. A crash between the last two leaves an intent without an ID. The
    batch is then searched for in the provider's list, by the names of its items, which begin with the
    ID of the intent. Only if it is not listed for minutes are the reservations released and the
    requests sent again.

    While a worker waits for a batch, it renews a lease in the ledger. Other shards wait for money or
    replies that the batch holds as long as the lease is valid. If a shard fails or its worker dies, its
    batches stay open and reserved, and requests that depend on them end as unasked. Resuming the run
    collects the batches.
    """

    def __init__(self, run: str, shard: str, worker: str, books: LedgerBatcher, heard: OnSettled) -> None:
        self._run = run
        self._shard = shard
        self._worker = worker
        self._books = books
        self._heard = heard
        #: Requests of the shard by key, in the form last sent.
        self._requests: dict[str, JudgeRequest] = {}
        #: By request: how often it was sent, and how often it was adapted to limits of its endpoint.
        self._tries: Counter[str] = Counter()
        self._adapted: Counter[str] = Counter()
        #: Requests rejected for good.
        self._hopeless: set[str] = set()

    async def ask(self, requests: Sequence[JudgeRequest], caller: JudgeCaller) -> Counter[str]:
        """Send the requests that are not cached; count all requests by final state."""
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
                # Try a few first, instead of paying for all.
                waiting = waiting[:_PROBE_REQUESTS]
            self._requests.update((request.key, request) for request in waiting)
            held = await self._submit(waiting, replies, caller)
            if held in (ReservationResult.NO, ReservationResult.LEFT):
                unpaid |= {request.key for request in waiting}
            idle = 0 if held is ReservationResult.YES else idle + 1
            if idle:
                # Others hold the money, or are sending the same requests.
                await asyncio.sleep(
                    min(_FIRST_POLL_SECONDS * 1.5 ** min(idle, 20), _OTHER_SHARD_POLL_SECONDS)
                )
            await self._collect(caller)

    async def _submit(
        self, waiting: Sequence[JudgeRequest], replies: Mapping[str, Sequence[Body]], caller: JudgeCaller
    ) -> ReservationResult:
        """Create batches for these requests as far as the budget covers them.

        Returns YES if any was created, else the reason.
        """
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
                items = [
                    BatchItem(f"{mark}-{intent.place}", piece[intent.place or 0].body) for intent in covered
                ]
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
        """Create a batch and record its ID, or the fault; a batch that may exist stays an intent."""
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
        self._report(settlements)

    async def _collect(self, caller: JudgeCaller) -> None:
        """Wait for the open batches of this shard and store their results."""
        rows = await self._books.run(Ledger.open_batches, self._run, self._shard)
        mine = [row for row in rows if row.judge == caller.name]
        await gather_or_cancel([self._collect_batch(row, caller) for row in mine])

    async def _collect_batch(self, row: BatchRow, caller: JudgeCaller) -> None:
        """Wait for a batch and store its results; on failure it stays open and its lease ends."""
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
        """Release a batch that failed as a whole: nothing was billed, so it may be retried.

        If the provider's queue is full, the failure does not count as an attempt.
        """
        await self._void(row.batch, intents, caller, ProviderFault(f"the whole batch failed: {why}"))
        keys = [intent.request_key for intent in intents]
        if "limit" in why.lower():
            self._tries.subtract(keys)
            await asyncio.sleep(_BATCH_QUEUE_RETRY_SECONDS)
        elif keys:
            await asyncio.sleep(retry_delay(self._tries[keys[0]], None))

    async def _ended(self, provider_id: str, row: BatchRow, caller: JudgeCaller) -> BatchStatus:
        """Poll until a batch has ended, with growing delays, renewing the lease of ``row``."""
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
        """Stream the results into the ledger; if some are missing, retry.

        A stream may be interrupted or end too early, and a provider may report the end of a batch
        before its results are available.
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
        self._report(missing)

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
            # Keep what was read before the stream was interrupted.
            await self._write(gathered, caller)
            raise
        await self._write(gathered, caller)

    def _refused(self, entry: BatchEntry, key: str, caller: JudgeCaller) -> None:
        """Give up a rejected request, unless the error says which limit the endpoint accepts."""
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
        self._report(settlements)
        for settlement in settlements:
            request = self._requests.get(settlement.request_key)
            if settlement.body is not None and request is not None:
                # Only the number of replies matters here: a second one ends its question.
                caller.heard(request, [settlement.body] * (settlement.ask + 1))

    def _report(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            self._heard(settlement.state, settlement.cost)

    async def _watch(self, row: BatchRow, wait: float) -> None:
        await self._books.run(Ledger.watch_batch, row.batch, wait + BATCH_WATCH_SECONDS)

    async def _find(self, row: BatchRow, caller: JudgeCaller) -> str | None:
        """Find the ID of a batch whose creation got no response; ``None`` if it was never created.

        The provider may list it with a delay. The timeout starts now, because the time of sending is unknown.
        """
        ours: dict[str, bool | None] = {}
        wait, looks, faults, end = _FIRST_SEARCH_SECONDS, 0, 0, time.monotonic() + _SEARCH_TIMEOUT_SECONDS
        while True:
            last = time.monotonic() >= end
            try:
                found = await self._listed(row, caller, ours)
                looks += 1
                if found is not None or (last and None not in ours.values()):
                    return found
                if last and looks >= _READ_ATTEMPT_LIMIT:
                    raise _undecided(ours)
            except ProviderFault as fault:
                faults += 1
                if not fault.retryable or faults >= _READ_ATTEMPT_LIMIT:
                    raise
            await self._watch(row, wait)
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, _MAX_SEARCH_SECONDS)

    async def _listed(self, row: BatchRow, caller: JudgeCaller, ours: dict[str, bool | None]) -> str | None:
        """Search the provider's list once. ``ours`` collects for each listed batch whether it is ours."""
        since = datetime.fromtimestamp(row.created_at, tz=UTC) - _CLOCK_SKEW_TOLERANCE
        claimed = await self._books.run(Ledger.claimed_batches, since.timestamp())
        listed = [status async for status in caller.provider.list_batches(since)]
        # Check those first that can be decided at once: others may run for a day.
        listed.sort(key=lambda status: (status.mark != row.batch, not status.ended))
        for status in listed:
            if ours.get(status.id) is False:
                continue
            claimed_already = status.id in claimed
            ours[status.id] = False if claimed_already else await self._is_ours(status, row, caller)
            if ours[status.id]:
                return status.id
        return None

    async def _is_ours(self, status: BatchStatus, row: BatchRow, caller: JudgeCaller) -> bool | None:
        """Decide by its mark if the provider stores one, else by the names of its items once it has ended.

        ``None`` if there are no results to decide by, or none yet.
        """
        if status.mark is not None:
            return status.mark == row.batch
        # A size of 0 means not counted yet.
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
    """Split off the first requests that fit into one batch, by number and by bytes."""
    limits = caller.provider.capabilities
    total = 0
    for count, request in enumerate(requests):
        total += request.size + request.image_bytes + _ITEM_OVERHEAD_BYTES
        if count and (count >= limits.batch_requests or total > limits.batch_bytes):
            return list(requests[:count]), list(requests[count:])
    return list(requests), []


def _place(name: str, batch: str) -> int:
    """The index of an item in its batch, from its name; -1 for an unknown name."""
    mark, _, place = name.rpartition("-")
    return int(place) if mark == batch and place.isdecimal() and len(place) < 10 else -1


def _undecided(ours: Mapping[str, bool | None]) -> ProviderFault:
    unsure = ", ".join(name for name, answer in ours.items() if answer is None)
    return ProviderFault(
        f"it is unknown whether a batch was created: {unsure} may be it and has no results to identify it by; "
        "nothing is sent again; resume the run later"
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
