"""The models of a live arena: their connections in one process, their prices, and their health in the database."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.live.live_records import BudgetLimits, CallPlan, StoredEntrant, TurnEntrant
from tiltyard.arena.live.live_store import list_entrants, lock_spending, reserve_calls
from tiltyard.arena.log.buckets import fetch_one, fetch_rows, run_statement
from tiltyard.errors import ProviderFault, StoreFault, TiltyardError
from tiltyard.judges.chat_models import ChatModel, EntrantHealth, describe_problem, open_chat_model
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn, StreamEnd, StreamTimeouts, encode_body
from tiltyard.judges.requests import token_upper_bound
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveEntrant, LiveModels
from tiltyard.settings.prices import Price, open_prices

_LOG = logging.getLogger(__name__)

#: How long the list of models is used before it is read again.
_REFRESH_SECONDS = 5.0
#: So many voters, with as many prompts, see a model fail before it rests for what a prompt may have caused; and as many as
#: lately had an answer of it.
_LEAST_WITNESS_COUNT = 3
#: Prices are in millionths of a millionth of a dollar, budgets in millionths.
_PICODOLLARS_PER_MICRODOLLAR = 1_000_000
#: The arena's own timeouts are shorter, and the same for all.
_TIMEOUTS = StreamTimeouts(first_token_seconds=700.0, gap_seconds=700.0, total_seconds=1_000.0)

#: Opens the connections to a stored model.
EntrantOpener = Callable[[StoredEntrant], TurnEntrant]


@dataclass(slots=True, eq=False)
class _Opened:
    stored: StoredEntrant
    entrant: TurnEntrant | None


class EntrantPool:
    """The models of one live arena."""

    def __init__(self, pool: ConnectionPool, arena: int, opener: EntrantOpener) -> None:
        self._pool = pool
        self._arena = arena
        self._opener = opener
        self._opened: dict[int, _Opened] = {}
        self._read_at: float | None = None
        #: Those that are not well, and the time when they were read.
        self._health: dict[int, EntrantHealth] = {}
        self._now = datetime.min.replace(tzinfo=UTC)

    async def refresh(self) -> None:
        """Read how the models are, and the list of models, if it is old: a new version is another model."""
        rows = await fetch_rows(self._pool, "health_read", {"arena": self._arena})
        self._now = rows[0][0]
        self._health = {model: EntrantHealth(*values) for _, model, *values in rows if model is not None}
        if self._read_at is not None and time.monotonic() - self._read_at < _REFRESH_SECONDS:
            return
        # It reads a long file once: not on the event loop.
        await asyncio.to_thread(open_prices)
        for stored in await list_entrants(self._pool, self._arena):
            if stored.model in self._opened:
                self._opened[stored.model].stored = stored
            else:
                self._opened[stored.model] = _Opened(stored, self._open(stored))
        self._read_at = time.monotonic()

    def stored(self) -> list[StoredEntrant]:
        """All versions of all models, as they were read last."""
        return [opened.stored for opened in self._opened.values()]

    def of(self, model: int) -> TurnEntrant:
        """A model that answers."""
        opened = self._opened.get(model)
        if opened is None or opened.entrant is None:
            raise StoreFault(
                f"model {model} of this arena cannot be asked: its settings or its key are missing"
            )
        return opened.entrant

    def resting(self) -> Collection[int]:
        """Models that are not served at present: those that keep failing, and those that cannot be asked."""
        return [
            model
            for model, opened in self._opened.items()
            if opened.entrant is None
            or not opened.stored.enabled
            or opened.stored.is_paused
            or (model in self._health and not self._health[model].available(self._now))
        ]

    async def note_started(self, models: Iterable[int]) -> None:
        """These models are asked. For one that was rested, this is the trial."""
        for model in self._health.keys() & set(models):
            await self._change(model, lambda health, now: health.started(now))

    async def note_health(self, entrant: TurnEntrant, fault: ProviderFault | None) -> None:
        """A model has answered, or failed."""
        if fault is None:
            values = {"arena": self._arena, "model": entrant.model}
            await run_statement(self._pool, "health_well", values)
            return
        values = {"arena": self._arena, "model": entrant.model}
        ((voters, prompts, answered),) = await fetch_rows(self._pool, "health_witnesses", values)
        agreed = min(voters, prompts) >= _LEAST_WITNESS_COUNT and voters >= answered
        before, after = await self._change(
            entrant.model, lambda health, now: health.failed(fault, now, agreed=agreed)
        )
        if after.state == "rested" and before.state != "rested":
            name = self._opened[entrant.model].stored.name
            _LOG.warning("model %r of a live arena is rested: %s", name, after.problem)

    async def note_stopped(self, entrant: TurnEntrant) -> None:
        """A call was stopped: nothing is known of the model's health."""
        if entrant.model in self._health:
            await self._change(entrant.model, lambda health, now: health.stopped(now))

    async def close(self) -> None:
        for opened in self._opened.values():
            if opened.entrant is not None:
                await opened.entrant.provider.aclose()
        self._opened.clear()

    async def _change(
        self, model: int, change: Callable[[EntrantHealth, datetime], EntrantHealth]
    ) -> tuple[EntrantHealth, EntrantHealth]:
        """Change what the database says of a model's health; return it before and after."""
        key = {"arena": self._arena, "model": model}
        async with self._pool.connection() as connection, connection.transaction():
            row = await fetch_one(connection, "health_lock", key)
            now, *values = row
            before = EntrantHealth(*values)
            after = change(before, now)
            await connection.execute(statement("health_put"), key | asdict(after))
        return before, after

    def _open(self, stored: StoredEntrant) -> TurnEntrant | None:
        try:
            return self._opener(stored)
        except TiltyardError as error:
            _LOG.error("model %r of a live arena cannot be asked: %s", stored.name, error)
            return None


def open_entrant(stored: StoredEntrant, environment: Environment) -> TurnEntrant:
    """Open the connections to a model; nothing is sent yet. Raises `BadConfig` if its key is missing."""
    settings = LiveModels.of_one({**stored.section, "name": stored.name}).entrants()[0]
    chat = open_chat_model(settings, environment, _TIMEOUTS)
    return TurnEntrant(
        model=stored.model,
        provider=chat,
        system=settings.system,
        max_tokens=settings.max_tokens,
        worst_cost=lambda request: _worst_cost(chat, settings, request),
        cost=lambda end: _cost(settings.price, end),
    )


#: What a test asks.
_TRIAL_TEXT = "Reply with one word: ready."
_TRIAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class EntrantTrial:
    """What one call to a model brought: its answer, or its problem in our own words."""

    seconds: float
    text: str = ""
    problem: str | None = None
    #: Millionths of a dollar; ``None`` if it is unknown: then the most that it can be stays counted.
    cost: int | None = None


def plan_trial(entrant: TurnEntrant, settings: ArenaSettings) -> tuple[ChatRequest, CallPlan]:
    """A request like a voter's, and the most that it can cost."""
    limit = min(entrant.max_tokens, settings.live_answer_tokens)
    request = ChatRequest((ChatTurn("user", _TRIAL_TEXT),), entrant.system, limit)
    return request, entrant.plan(request)


async def try_entrant(
    pool: ConnectionPool, arena: Arena, entrant: TurnEntrant, *, name: str, actor: str
) -> EntrantTrial:
    """Ask a model one short question, within the arena's budgets. One that answers is not rested any more."""
    request, plan = plan_trial(entrant, arena.settings)
    async with pool.connection() as connection, connection.transaction():
        await lock_spending(connection, arena.arena)
        day = await reserve_calls(connection, arena.arena, (), (plan,), BudgetLimits.of(arena.settings))
    trial = await _ask(entrant, request)
    async with pool.connection() as connection, connection.transaction():
        if trial.cost is not None and plan.reserve is not None:
            values = {"arena": arena.arena, "payers": [], "day": day, "amount": trial.cost - plan.reserve}
            await connection.execute(statement("live_count"), values)
        if trial.problem is None:
            await connection.execute(statement("health_well"), {"arena": arena.arena, "model": entrant.model})
        about = {"model": name, "seconds": round(trial.seconds, 3), "problem": trial.problem}
        await write_audit_entry(connection, actor, "test model", about, arena=arena.arena)
    return trial


async def _ask(entrant: TurnEntrant, request: ChatRequest) -> EntrantTrial:
    begun, text, problem, cost = time.monotonic(), "", None, None
    try:
        async with asyncio.timeout(_TRIAL_SECONDS), aclosing(entrant.provider.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, StreamEnd):
                    cost = entrant.cost(piece)
                else:
                    text += piece.text
    except ProviderFault as fault:
        problem, cost = describe_problem(fault), None if fault.billed else 0
    except TimeoutError:
        problem = f"it did not answer within {_TRIAL_SECONDS:.0f} seconds"
    return EntrantTrial(time.monotonic() - begun, text, problem, cost)


def _worst_cost(chat: ChatModel, settings: LiveEntrant, request: ChatRequest) -> int | None:
    if settings.price is None:
        return None
    tokens = token_upper_bound(len(encode_body(chat.body(request))))
    return _microdollars(settings.price.worst(tokens, request.max_tokens, batch=False))


def _cost(price: Price | None, end: StreamEnd) -> int | None:
    if price is None or end.usage is None:
        return None
    return _microdollars(price.cost(end.usage, batch=False))


def _microdollars(picodollars: int) -> int:
    """Rounded up."""
    return -(-picodollars // _PICODOLLARS_PER_MICRODOLLAR)
