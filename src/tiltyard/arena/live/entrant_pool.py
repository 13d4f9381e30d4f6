"""The models of a live arena: their connections in one process, their prices, and their health in the database."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.live.live_records import BudgetLimits, CallPlan, StoredEntrant, TurnEntrant
from tiltyard.arena.live.live_store import list_entrants, lock_spending, reserve_calls
from tiltyard.arena.log.buckets import fetch_one, fetch_rows, run_statement
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.errors import ProviderFault, StoreFault, TiltyardError
from tiltyard.judges.chat_models import (
    FAILURE_LIMIT,
    ChatModel,
    EntrantHealth,
    describe_problem,
    open_chat_model,
)
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
        #: When each model was last asked a question of our own, by the monotonic clock.
        self._trials: dict[int, tuple[float, asyncio.Task[None]]] = {}

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

    async def note_health(
        self, entrant: TurnEntrant, fault: ProviderFault | None, settings: ArenaSettings
    ) -> None:
        """A model has answered, or failed. If a prompt may be to blame, a question of our own decides whether it rests."""
        if fault is None:
            values = {"arena": self._arena, "model": entrant.model}
            await run_statement(self._pool, "health_well", values)
            return
        doubtful, now = await self._note_failure(entrant, fault, confirmed=False), time.monotonic()
        began_at, _ = self._trials.get(entrant.model, (-math.inf, None))
        if doubtful and now - began_at >= _TRIAL_SECONDS:
            self._trials[entrant.model] = now, asyncio.create_task(self._try(entrant, settings))

    async def _try(self, entrant: TurnEntrant, settings: ArenaSettings) -> None:
        with suppress(TiltyardError):
            trial = await ask_trial(self._pool, self._arena, entrant, settings)
            if trial.fault is not None:
                await self._note_failure(entrant, trial.fault, confirmed=True)

    async def _note_failure(self, entrant: TurnEntrant, fault: ProviderFault, *, confirmed: bool) -> bool:
        """Note a failure; return whether there are so many that the model should be asked a question of our own."""
        before, after = await self._change(
            entrant.model, lambda health, now: health.failed(fault, now, confirmed=confirmed)
        )
        if after.state == "rested" and before.state != "rested":
            name = self._opened[entrant.model].stored.name
            _LOG.warning("model %r of a live arena is rested: %s", name, after.problem)
        return after.available(self._now) and after.failures >= FAILURE_LIMIT

    async def note_stopped(self, entrant: TurnEntrant) -> None:
        """A call was stopped: nothing is known of the model's health."""
        if entrant.model in self._health:
            await self._change(entrant.model, lambda health, now: health.stopped(now))

    async def close(self) -> None:
        await asyncio.gather(*(cancel_and_wait(task) for _, task in self._trials.values()))
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


#: What a test asks, how long it may take, and how often a model whose voters see it fail is asked at most.
_TRIAL_TEXT = "Reply with one word: ready."
_TRIAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class EntrantTrial:
    """What one call to a model brought: its answer, or its problem in our own words."""

    seconds: float
    text: str = ""
    fault: ProviderFault | None = None
    #: Millionths of a dollar; ``None`` if it is unknown: then the most that it can be stays counted.
    cost: int | None = None

    @property
    def problem(self) -> str | None:
        return None if self.fault is None else describe_problem(self.fault)


def plan_trial(entrant: TurnEntrant, settings: ArenaSettings) -> tuple[ChatRequest, CallPlan]:
    """A request like a voter's, and the most that it can cost."""
    limit = min(entrant.max_tokens, settings.live_answer_tokens)
    request = ChatRequest((ChatTurn("user", _TRIAL_TEXT),), entrant.system, limit)
    return request, entrant.plan(request)


async def try_entrant(
    pool: ConnectionPool, arena: Arena, entrant: TurnEntrant, *, name: str, actor: str
) -> EntrantTrial:
    """Ask a model one short question for an operator, within the arena's budgets."""
    trial = await ask_trial(pool, arena.arena, entrant, arena.settings)
    about = {"model": name, "seconds": round(trial.seconds, 3), "problem": trial.problem}
    async with pool.connection() as connection:
        await write_audit_entry(connection, actor, "test model", about, arena=arena.arena)
    return trial


async def ask_trial(
    pool: ConnectionPool, arena: int, entrant: TurnEntrant, settings: ArenaSettings
) -> EntrantTrial:
    """Ask a model one short question, within the arena's budgets. One that answers is not rested any more."""
    request, plan = plan_trial(entrant, settings)
    async with pool.connection() as connection, connection.transaction():
        await lock_spending(connection, arena)
        day = await reserve_calls(connection, arena, (), (plan,), BudgetLimits.of(settings))
    trial = await _ask(entrant, request)
    async with pool.connection() as connection, connection.transaction():
        if trial.cost is not None and plan.reserve is not None:
            values = {"arena": arena, "payers": [], "day": day, "amount": trial.cost - plan.reserve}
            await connection.execute(statement("live_count"), values)
        if trial.fault is None:
            await connection.execute(statement("health_well"), {"arena": arena, "model": entrant.model})
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
        problem, cost = fault, None if fault.billed else 0
    except TimeoutError:
        problem = ProviderFault(f"no end of the answer within {_TRIAL_SECONDS:g} seconds", billed=True)
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
