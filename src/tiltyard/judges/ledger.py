"""The ledger: raw replies, every attempt, reservations and costs. The only record of what was paid."""

from __future__ import annotations

import enum
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import BadOption
from tiltyard.judges.ledger_database import LedgerDatabase, ledger_statements, open_database
from tiltyard.judges.providers.provider import Body, Usage

_LOOKUP_BATCH_COUNT = 500
#: The largest value of a BIGINT column.
_MAX_CAP_PICODOLLARS = 2**63 - 1
_KNOWN = "SELECT request_key, ask FROM judge_replies WHERE request_key IN"
_REPLIES = "SELECT request_key, ask, body FROM judge_replies WHERE request_key IN"
#: Duration of the lease of a worker that waits for a batch.
BATCH_WATCH_SECONDS = 600.0


class ReservationResult(enum.Enum):
    """Whether the worst-case cost of a call was reserved."""

    YES = enum.auto()
    #: Not now: calls in flight, or batches with a valid lease, may release enough.
    WAIT = enum.auto()
    #: No: the budget does not cover it, and nothing in flight could release enough.
    NO = enum.auto()
    #: Not needed: the same request is in flight, or its reply is already stored.
    TAKEN = enum.auto()
    #: Not now: it was sent in a batch, and may be paid, but no worker waits for that batch any more.
    LEFT = enum.auto()


@dataclass(frozen=True, slots=True)
class AttemptIntent:
    """A planned attempt. ``reserved`` is its worst-case cost in picodollars, 0 if the price is unknown."""

    attempt_id: str
    run: str
    request_key: str
    ask: int
    question_id: str
    judge: str
    dimension: str
    worker: str
    reserved: int
    batch: str | None = None
    place: int | None = None
    priced: bool = True
    #: Picodollars that must be left in the budget after ``reserved``.
    headroom: int = 0


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ended. ``state`` is how the reply was parsed then; ``body`` is the raw reply, if any."""

    attempt_id: str
    run: str
    request_key: str
    ask: int
    reserved: int
    state: str
    #: Picodollars; ``None`` if the price is unknown.
    cost: int | None
    body: Body | None = None
    usage: Usage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as stored in the ledger."""

    attempt_id: str
    request_key: str
    ask: int
    question_id: str
    judge: str
    dimension: str
    worker: str
    #: The provider's ID of its batch; empty if the ID is not known.
    batch: str | None
    state: str
    reserved: int
    cost: int | None
    input_tokens: int | None
    output_tokens: int | None
    cache_write_tokens: int | None
    cache_read_tokens: int | None
    error: str | None
    started_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class BatchRow:
    """An open batch; without ``provider_id``, its creation got no response."""

    batch: str
    judge: str
    provider_id: str | None
    size: int
    created_at: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """The state of a run; ``cap``, ``held`` (reserved) and ``spent`` in picodollars."""

    plan: str
    generation: int
    cap: int | None
    held: int
    spent: int
    #: The cost estimate of the plan when the run started, as text.
    estimate: str


_INTENT = tuple(field.name for field in fields(AttemptIntent))


class Ledger:
    """The ledger through one connection. Not safe for concurrent threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._database: LedgerDatabase = open_database(url)
        self._sql = ledger_statements()

    def close(self) -> None:
        self._database.close()

    # Runs

    def open_run(self, run: str, plan: str, cap: int | None, estimate: str = "") -> RunRow:
        """Start or resume a run; raises if it was started with another plan.

        ``estimate`` is stored when the run starts and not changed later.
        """
        if cap is not None and cap > _MAX_CAP_PICODOLLARS:
            raise BadOption(
                f"a budget of {cap // 10**12:,} dollars is more than the ledger can store; use a smaller one, or none"
            )
        values = {"run": run, "plan": plan, "cap": cap, "estimate": estimate}
        with self._database.transaction():
            self._database.change(self._sql["add_run"], values)
            row = self.run(run)
            if row.plan != plan:
                raise BadOption(
                    f"run {run} was started with another plan (its prompts, answers, rubrics or judges have changed); "
                    "choose a new --output-dir: replies that still fit are taken from the cache"
                )
            self._database.change(self._sql["set_cap"], {"run": run, "cap": cap})
        return self.run(run)

    def run(self, run: str) -> RunRow:
        return RunRow(*self._database.rows(self._sql["get_run"], {"run": run})[0])

    def plan_of(self, run: str) -> str | None:
        """The plan that a run was started with; ``None`` if the run is unknown."""
        rows = self._database.rows(self._sql["get_run"], {"run": run})
        return rows[0][0] if rows else None

    def next_generation(self, run: str, generation: int) -> int:
        """Start a new pass over the plan, unless another worker already has; return its number."""
        with self._database.transaction():
            self._database.change(self._sql["next_generation"], {"run": run, "generation": generation})
        return self.run(run).generation

    # Replies

    def replies(self, keys: Iterable[str]) -> dict[str, list[Body]]:
        """The raw replies to these requests, in order of asking; requests without one are omitted."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, list[Body]] = {}
        for start in range(0, len(wanted), _LOOKUP_BATCH_COUNT):
            rows = self._database.lookup(_REPLIES, wanted[start : start + _LOOKUP_BATCH_COUNT])
            for key, _, packed in sorted(rows, key=lambda row: (row[0], row[1])):
                found.setdefault(key, []).append(json.loads(zlib.decompress(packed)))
        return found

    def add_note(self, key: str, note: Body) -> None:
        """Store a note among the replies, after earlier ones with its key, which is no request's."""
        with self._database.transaction():
            earlier = self.replies([key]).get(key, [])
            row = {"request_key": key, "ask": len(earlier), "body": _packed(note), "received_at": time.time()}
            if note not in earlier[-1:]:
                self._database.change(self._sql["add_reply"], row)

    # Attempts

    def begin(self, intents: Sequence[AttemptIntent]) -> list[ReservationResult]:
        """Record attempts and reserve their cost. Only those with the result YES may be sent."""
        return self.write(intents, ())

    def _lock_runs(self, runs: Iterable[str]) -> None:
        """Lock the rows of these runs in a fixed order, to prevent deadlocks on PostgreSQL."""
        for run in sorted(set(runs)):
            self._database.change(self._sql["line_up"], {"run": run})

    def _entered(self, intents: Sequence[AttemptIntent], now: float) -> list[ReservationResult]:
        """Insert intents, except for requests that are in flight or already answered."""
        written = []
        for intent in intents:
            row = {name: getattr(intent, name) for name in _INTENT}
            row |= {"priced": int(intent.priced), "started_at": now}
            written.append(self._database.change(self._sql["add_attempt"], row) == 1)
        # Look up replies after the insert, to see one that arrived in between.
        keys = [intent.request_key for intent in intents]
        known: set[tuple[str, int]] = set()
        for start in range(0, len(keys), _LOOKUP_BATCH_COUNT):
            known.update(self._database.lookup(_KNOWN, keys[start : start + _LOOKUP_BATCH_COUNT]))
        held: list[ReservationResult] = []
        for intent, inserted in zip(intents, written, strict=True):
            answered = (intent.request_key, intent.ask) in known
            if inserted and answered:
                self._database.change(self._sql["drop_intent"], {"attempt_id": intent.attempt_id})
            values = {"run": intent.run, "request_key": intent.request_key, "ask": intent.ask, "now": now}
            if inserted and not answered:
                held.append(ReservationResult.YES)
            elif not answered and self._database.rows(self._sql["left_behind"], values):
                held.append(ReservationResult.LEFT)
            else:
                held.append(ReservationResult.TAKEN)
        return held

    def _behind(self, run: str, now: float) -> int:
        rows = self._database.rows(self._sql["held_behind"], {"run": run, "now": now})
        return int(rows[0][0]) if rows else 0

    def _hold(self, run: str, amount: int, headroom: int = 0) -> bool:
        values = {"run": run, "amount": amount, "headroom": headroom}
        return self._database.change(self._sql["hold"], values) == 1

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Record results, replies and costs of attempts. Settling twice has no effect."""
        self.write((), settlements)

    def _settle(self, settlements: Sequence[Settlement], now: float) -> None:
        replies: list[dict[str, object]] = []
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for settlement in settlements:
            if self._database.change(self._sql["settle_attempt"], _settled(settlement, now)):
                sums[settlement.run][0] += settlement.reserved
                sums[settlement.run][1] += settlement.cost or 0
            if settlement.body is not None:
                replies.append(
                    {
                        "request_key": settlement.request_key,
                        "ask": settlement.ask,
                        "body": _packed(settlement.body),
                        "received_at": now,
                    }
                )
        if replies:
            # In a fixed order, to prevent deadlocks: other runs may insert the same replies.
            replies.sort(key=lambda reply: (reply["request_key"], reply["ask"]))
            self._database.change_many(self._sql["add_reply"], replies)
        for run, (reserved, cost) in sums.items():
            self._database.change(self._sql["release"], {"run": run, "reserved": reserved, "cost": cost})

    def write(
        self,
        intents: Sequence[AttemptIntent],
        settlements: Sequence[Settlement],
        withdrawn: Sequence[AttemptIntent] = (),
    ) -> list[ReservationResult]:
        """Write everything in one transaction; intents last, so that they can use released reservations.

        ``withdrawn`` are intents that were never sent: they are deleted.
        """
        now = time.time()
        with self._database.transaction():
            self._lock_runs({one.run for one in settlements}.union(one.run for one in (*withdrawn, *intents)))
            for intent in withdrawn:
                if self._database.change(self._sql["drop_intent"], {"attempt_id": intent.attempt_id}):
                    values = {"run": intent.run, "reserved": intent.reserved, "cost": 0}
                    self._database.change(self._sql["release"], values)
            self._settle(settlements, now)
            held = self._entered(intents, now)
            by_run: dict[str, list[int]] = defaultdict(list)
            for place, intent in enumerate(intents):
                if held[place] is ReservationResult.YES:
                    by_run[intent.run].append(place)
            for run, places in by_run.items():
                wanted = [intents[place] for place in places]
                headroom = max(intent.headroom for intent in wanted)
                if self._hold(run, sum(intent.reserved for intent in wanted), headroom):
                    continue
                refused = [
                    place
                    for place in places
                    if not self._hold(run, intents[place].reserved, intents[place].headroom)
                ]
                row, behind = self.run(run), self._behind(run, now)
                for place in refused:
                    held[place] = _refusal(row, behind, intents[place].reserved + intents[place].headroom)
                    self._database.change(self._sql["drop_intent"], {"attempt_id": intents[place].attempt_id})
            return held

    def lose(self, worker: str) -> int:
        """Settle the live calls of a dead worker as lost and possibly billed; return their number."""
        with self._database.transaction():
            rows = self._database.rows(self._sql["in_flight"], {"worker": worker})
            self._lock_runs(run for _, run, _, _ in rows)
            self._settle([_lost(*row) for row in rows], time.time())
        return len(rows)

    def unpriced_calls(self, run: str) -> int:
        """How many calls of a run were made at an unknown price."""
        return int(self._database.rows(self._sql["unpriced_attempts"], {"run": run})[0][0])

    def attempts(self, run: str) -> Iterator[Attempt]:
        """All attempts of a run, by question and time."""
        return (Attempt(*row) for row in self._database.stream(self._sql["attempts_of_run"], {"run": run}))

    # Batches

    def begin_batch(
        self, batch: str, shard: str, intents: Sequence[AttemptIntent]
    ) -> tuple[list[AttemptIntent], ReservationResult]:
        """Record a batch with the first requests that the budget covers, and reserve their cost.

        Requests in flight elsewhere are left out. If none remain, the result is the reason.
        """
        now = time.time()
        run, judge = intents[0].run, intents[0].judge
        with self._database.transaction():
            self._lock_runs([run])
            entered = self._entered(intents, now)
            free = [
                intent for intent, held in zip(intents, entered, strict=True) if held is ReservationResult.YES
            ]
            row = self.run(run)
            left = None if row.cap is None else row.cap - row.spent - row.held
            size = _covered([intent.reserved for intent in free], left)
            if size:
                self._hold(run, sum(intent.reserved for intent in free[:size]))
            for intent in free[size:]:
                self._database.change(self._sql["drop_intent"], {"attempt_id": intent.attempt_id})
            if not free:
                return (
                    [],
                    ReservationResult.TAKEN if ReservationResult.TAKEN in entered else ReservationResult.LEFT,
                )
            if size == 0:
                return [], _refusal(row, self._behind(run, now), free[0].reserved)
            values = {
                "batch": batch,
                "run": run,
                "shard": shard,
                "judge": judge,
                "size": size,
                "created_at": now,
                "watched_until": now + BATCH_WATCH_SECONDS,
            }
            self._database.change(self._sql["add_batch"], values)
        return free[:size], ReservationResult.YES

    def name_batch(self, batch: str, provider_id: str) -> None:
        """Record the ID that the provider gave to a batch."""
        with self._database.transaction():
            self._database.change(self._sql["name_batch"], {"batch": batch, "provider_id": provider_id})

    def watch_batch(self, batch: str, seconds: float = BATCH_WATCH_SECONDS) -> None:
        """Renew the lease of the worker that waits for a batch; 0 seconds end it."""
        with self._database.transaction():
            values = {"batch": batch, "watched_until": time.time() + seconds}
            self._database.change(self._sql["watch_batch"], values)

    def close_batch(self, batch: str, state: str, settlements: Sequence[Settlement] = ()) -> None:
        """Close a batch: ``ended`` with results, or ``void`` if it was never created."""
        with self._database.transaction():
            self._lock_runs(one.run for one in settlements)
            self._settle(settlements, time.time())
            self._database.change(self._sql["close_batch"], {"batch": batch, "state": state})

    def open_batches(self, run: str, shard: str) -> list[BatchRow]:
        rows = self._database.rows(self._sql["open_batches"], {"run": run, "shard": shard})
        return [BatchRow(*row) for row in rows]

    def claimed_batches(self, since: float) -> frozenset[str]:
        """Provider IDs of batches that are already assigned to an intent."""
        return frozenset(
            row[0] for row in self._database.rows(self._sql["claimed_batches"], {"since": since})
        )

    def batch_intents(self, row: BatchRow, run: str) -> dict[int, AttemptIntent]:
        """The unsettled attempts of a batch, by index."""
        rows = self._database.rows(self._sql["batch_attempts"], {"batch": row.batch})
        return {
            place: AttemptIntent(
                attempt, run, key, ask, question, row.judge, dimension, "", reserved, row.batch, place
            )
            for attempt, place, key, ask, question, dimension, reserved in rows
        }

    # Limits

    def take_permits(self, name: str, count: int, interval: float) -> tuple[float, float]:
        """When the first of ``count`` calls may be sent, and until when all calls are paused."""
        now = time.time()
        length = count * interval
        with self._database.transaction():
            self._database.change(self._sql["add_limit"], {"name": name})
            self._database.change(self._sql["take_permits"], {"name": name, "now": now, "length": length})
            next_at, paused = self._database.rows(self._sql["get_limit"], {"name": name})[0]
        return next_at - length, paused

    def pause(self, name: str, until: float) -> None:
        """Pause all workers with this key."""
        with self._database.transaction():
            self._database.change(self._sql["add_limit"], {"name": name})
            self._database.change(self._sql["pause"], {"name": name, "until": until})


def _packed(body: Body) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    # A reply may contain a lone surrogate and must be stored anyway: it was paid for.
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


def _settled(one: Settlement, now: float) -> Mapping[str, object]:
    usage = one.usage
    return {
        "attempt_id": one.attempt_id,
        "state": one.state,
        "cost": one.cost,
        "input_tokens": None if usage is None else usage.input,
        "output_tokens": None if usage is None else usage.output,
        "cache_write_tokens": None if usage is None else usage.cache_write,
        "cache_read_tokens": None if usage is None else usage.cache_read,
        # In a form that both databases accept.
        "error": None if one.error is None else one.error.replace("\0", "").encode(errors="replace").decode(),
        "finished_at": now,
    }


def _lost(attempt_id: str, run: str, reserved: int, priced: int) -> Settlement:
    return Settlement(
        attempt_id=attempt_id,
        run=run,
        request_key="",
        ask=0,
        reserved=reserved,
        state=QuestionState.LOST,
        cost=reserved if priced else None,
        error="in flight when its worker died",
    )


def _refusal(row: RunRow, behind: int, wanted: int) -> ReservationResult:
    """Why nothing was reserved: WAIT if calls in flight may release enough, else NO.

    ``behind`` is reserved for batches whose lease has expired: it is not released meanwhile.
    """
    possible = row.cap is not None and row.spent + behind + wanted <= row.cap
    return ReservationResult.WAIT if row.held > behind and possible else ReservationResult.NO


def _covered(amounts: Sequence[int], left: int | None) -> int:
    """How many of these amounts, from the first on, fit into what is left."""
    if left is None:
        return len(amounts)
    total = 0
    for count, amount in enumerate(amounts):
        total += amount
        if total > left:
            return count
    return len(amounts)
