"""The job engine: processes shards with any number of workers, and survives their crashes.

It can submit, resume and report shards. No two live workers ever process the same shard: a shard is taken
from the queue in a transaction by one worker, and is requeued only by a worker that has obtained the lock
of its owner, which proves that the owner is dead.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.errors import BadOption, MissingExtra, TiltyardError
from tiltyard.jobs.worker_locks import FileLocks, ServerLocks, WorkerLock, WorkerLocks, lock_worker_name

if TYPE_CHECKING:
    from dbos import DBOSConfig, WorkflowStatus
import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

from tiltyard.foundation.caches import SingleFlight

_STOP_WAIT_SECONDS = 10.0
T = TypeVar("T")

_LOCK_WATCH_SECONDS = 1.0
_RESUME_SECONDS = 1.0
_STRANDED_SECONDS = 30.0
#: A longer gap between two checks counts only as this much: the process may have been suspended.
_MAX_OBSERVED_SECONDS = 5.0
_RESUME_BATCH_COUNT = 500

_STATES = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "CANCELLED": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}
_FAILED = [name for name, state in _STATES.items() if state == "failed"]
#: Workers process only shards of their own version; it changes when the meaning of a shard does.
_VERSION = "1"
_NAME = "tiltyard"
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Shard:
    """One unit of work: questions ``first`` (included) to ``last`` (excluded) of a plan."""

    run: str
    generation: int
    index: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A permanent key: a shard that finished or failed is never run again under the same key."""
        return f"{self.run}:{self.generation}:{self.index}"


#: Processes a shard and returns counts. Runs on the engine's event loop; must be idempotent.
Work = Callable[[Shard], Awaitable[dict[str, int]]]
#: Runs on the engine's event loop, before or after all work.
Hook = Callable[[], Awaitable[None]]


class EventLoopThread:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="tiltyard-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, wait for it, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """Cancel running tasks, wait for them up to a timeout, and stop."""
        self.run(_end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class RunningShards:
    """Runs shards until it is halted.

    A halt cancels work, but never the writing of a finished shard's result. A shard that arrives after
    the halt is neither started nor failed: it blocks, so that DBOS does not take another one instead.
    """

    def __init__(self, work: Work, on_stop: Hook | None) -> None:
        self.in_hand: set[str] = set()
        self._work = work
        self._on_stop = on_stop
        self._doing = SingleFlight()
        self._held: set[asyncio.Task[Any]] = set()
        self._halted = False
        self._settled = False

    async def do(self, shard: Shard) -> dict[str, int]:
        """Run a shard and return its counts. If it is already running, wait for it instead.

        Errors are raised as plain text that can be stored.
        """
        if self._halted:
            task = asyncio.current_task()
            assert task is not None
            self._held.add(task)
            await asyncio.get_running_loop().create_future()
        return await self._doing(shard.id, lambda: self._attempt(shard))

    def halt(self) -> None:
        """Cancel all work and start none. Must be called on the loop."""
        self._halted = True
        self._doing.cancel()

    async def settle(self) -> None:
        """Halt, call ``on_stop``, and wait until results are written. Further calls do nothing."""
        if self._settled:
            return
        self._settled = True
        self.halt()
        deadline = time.monotonic() + _STOP_WAIT_SECONDS
        if running := self._doing.running:
            await asyncio.wait(running, timeout=_STOP_WAIT_SECONDS)
        try:
            if self._on_stop is not None:
                await self._on_stop()
        finally:
            current = asyncio.current_task()
            while (rest := asyncio.all_tasks() - self._held - {current}) and time.monotonic() < deadline:
                await asyncio.wait(rest, timeout=0.1)

    async def _attempt(self, shard: Shard) -> dict[str, int]:
        try:
            return dict(await self._work(shard))
        except TiltyardError as error:
            raise RuntimeError(str(error)) from None
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


async def _end_all() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_STOP_WAIT_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()


@dataclass(frozen=True)
class WorkerHooks:
    """What a worker calls beside its work.

    ``on_dead_worker`` hears the name of every worker whose shards are about to go back to the queue, our
    own name first (for our former life), while nobody works under that name. ``on_start`` and
    ``on_stop`` run on the event loop of the work: before all work, and after it was stopped.
    """

    on_dead_worker: Callable[[str], None] = lambda _name: None
    on_start: Hook | None = None
    on_stop: Hook | None = None


_NO_HOOKS = WorkerHooks()


class Engine:
    """One worker, which takes shards from the queue and processes them."""

    def __init__(
        self,
        worker: str,
        queue: str,
        running: RunningShards,
        locks: WorkerLocks,
        on_dead_worker: Callable[[str], None],
    ) -> None:
        self.worker = worker
        self.queue = queue
        self.running = running
        self.locks = locks
        self._on_dead = on_dead_worker
        self._obtained: dict[str, tuple[WorkerLock, float]] = {}
        #: For each shard that is ours but not running: seconds observed so far. And the time of the last check.
        self._idle: dict[str, float] = {}
        self._looked_at = time.monotonic()

    def submit(self, shards: Iterable[Shard]) -> None:
        """Enqueue shards. Shards that were submitted before are left unchanged."""
        from dbos import DBOS, SetWorkflowID

        known: dict[tuple[str, int], set[str]] = {}
        for shard in shards:
            plan = (shard.run, shard.generation)
            if plan not in known:
                known[plan] = {row.workflow_id for row in _rows(*plan)}
            if shard.id not in known[plan]:
                known[plan].add(shard.id)
                with SetWorkflowID(shard.id):
                    DBOS.enqueue_workflow(self.queue, shard_workflow(), *astuple(shard))

    def resume(self) -> list[str]:
        """Requeue the shards of dead workers; return the names of those workers.

        With PostgreSQL locks, a worker counts as dead only some seconds after its lock was obtained:
        call this repeatedly.
        """
        if not self.locks.kept():
            raise TiltyardError(
                f"{self.worker} lost the connection that held its lock, and stopped before another"
                " worker could take over its shards; run the command again to resume"
            )
        taken = self._taken_shards()
        mine = taken.pop(self.worker, set())
        for name in self._obtained.keys() - taken.keys():
            self._obtained.pop(name)[0].release()
        self._put_back(self._stranded(mine))
        return [name for name in sorted(taken) if self._take_over(name)]

    def status(self, run: str, generation: int) -> Counter[str]:
        """How many shards of a plan are ``waiting``, ``running``, ``done`` and ``failed``."""
        return Counter(_STATES[row.status] for row in _rows(run, generation))

    def wait(
        self, run: str, generation: int, *, poll: float = 0.25, on_tick: Callable[[], None] | None = None
    ) -> Counter[str]:
        """Wait until no shard is waiting or running, resuming shards of dead workers; return the last status.

        ``on_tick`` is called about every ``poll`` seconds. The status of large plans is read less often:
        the delay is proportional to the CPU time of a read, so that a suspended process or a slow
        database does not lengthen it.
        """
        resume = look = 0.0
        while True:
            now = time.monotonic()
            if now >= resume:
                self.resume()
                resume = now + _RESUME_SECONDS
            if now >= look:
                begun = time.thread_time()
                counts = self.status(run, generation)
                if not counts["waiting"] and not counts["running"]:
                    return counts
                look = time.monotonic() + 20 * (time.thread_time() - begun)
            if on_tick is not None:
                on_tick()
            time.sleep(poll)

    def failures(self, run: str, generation: int) -> dict[str, str]:
        """The errors of failed shards, by shard ID. Only a new generation retries them."""
        rows = _rows(run, generation, status=_FAILED, load_output=True)
        return {row.workflow_id: str(row.error or row.status) for row in rows}

    def release(self) -> None:
        """Release the locks of dead workers that were obtained but not used."""
        while self._obtained:
            self._obtained.popitem()[1][0].release()

    def _taken_shards(self, worker: str | None = None) -> dict[str, set[str]]:
        """The IDs of shards that were taken from the queue and not finished, by worker."""
        from dbos import DBOS

        taken: dict[str, set[str]] = {}
        rows = DBOS.list_workflows(
            status="PENDING", queue_name=self.queue, executor_id=worker, load_input=False, load_output=False
        )
        for row in rows:
            taken.setdefault(str(row.executor_id), set()).add(row.workflow_id)
        return taken

    def _take_over(self, name: str) -> bool:
        """Requeue the shards of a worker if it is dead.

        Its shards are listed again under its lock, because another worker may have requeued them
        before, and a live worker may be processing them.
        """
        if name not in self._obtained:
            lock = self.locks.take(name)
            if lock is None:
                return False
            self._obtained[name] = lock, time.monotonic()
        lock, since = self._obtained[name]
        if time.monotonic() - since < self.locks.grace:
            return False
        self._on_dead(name)
        left = self._taken_shards(name).get(name, set())
        self._put_back(left)
        del self._obtained[name]
        lock.release()
        return bool(left)

    def _stranded(self, mine: set[str]) -> set[str]:
        """Shards that we took from the queue long ago but are not running: the transaction was committed,
        but the connection failed before we got the result.

        Time without checks hardly counts: a suspended process may still start what it took.
        """
        now = time.monotonic()
        passed, self._looked_at = min(now - self._looked_at, _MAX_OBSERVED_SECONDS), now
        lacking = mine - self.running.in_hand
        self._idle = {shard: self._idle[shard] + passed if shard in self._idle else 0.0 for shard in lacking}
        return {shard for shard, seconds in self._idle.items() if seconds > _STRANDED_SECONDS}

    def _put_back(self, shards: Iterable[str]) -> None:
        from dbos import DBOS

        ids = sorted(shards)
        for first in range(0, len(ids), _RESUME_BATCH_COUNT):
            DBOS.resume_workflows(ids[first : first + _RESUME_BATCH_COUNT], queue_name=self.queue)


@contextlib.contextmanager
def open_engine(
    database: str,
    folder: Path | None,
    work: Work,
    *,
    run: str | None = None,
    parallel: int = 4,
    hooks: WorkerHooks = _NO_HOOKS,
) -> Iterator[Engine]:
    """Start a worker on a database, ``sqlite:///PATH`` or ``postgresql://…``; one at a time in a process.

    With ``run`` it does the shards of that run only, and bears a name of that run; without, those
    of every run submitted without. ``folder`` holds the locks of workers on SQLite, beside the
    database unless given. ``parallel`` is how many shards a worker has in hand at once; the worker
    that came last decides for all.
    """
    if find_spec("dbos") is None:
        raise MissingExtra("judges", "The durable engine")
    # The queue of a run; ``None`` is the shared queue.
    queue = "tiltyard" if run is None else f"tiltyard:{run}"
    with contextlib.closing(_open_locks(database, folder)) as locks:
        lock = lock_worker_name(locks, run)
        try:
            hooks.on_dead_worker(lock.name)
            running = RunningShards(work, hooks.on_stop)
            engine = Engine(lock.name, queue, running, locks, hooks.on_dead_worker)
            with _working(engine, database, parallel, hooks.on_start):
                yield engine
        finally:
            lock.release()


@contextlib.contextmanager
def _working(engine: Engine, database: str, parallel: int, on_start: Hook | None) -> Iterator[None]:
    """Run the event loop, DBOS and the lock watcher; stop them in reverse order."""
    running, locks = engine.running, engine.locks
    with contextlib.ExitStack() as stack:
        thread = EventLoopThread()
        stack.callback(thread.close)
        if on_start is not None:
            thread.run(_awaited(on_start))
        stack.callback(lambda: thread.run(running.settle()))
        with locks.starting():
            launching = launch_dbos(database, engine.worker, engine.queue, parallel, running, thread)
            stack.enter_context(launching)
        stack.callback(engine.release)
        # Runs before DBOS stops, so that results can be written; the callback above is for a failed launch.
        stack.callback(lambda: thread.run(running.settle()))
        stack.enter_context(_watched(locks, running, thread))
        yield


@contextlib.contextmanager
def _watched(locks: WorkerLocks, running: RunningShards, thread: EventLoopThread) -> Iterator[None]:
    """Halt all work within seconds after our locks are lost."""
    closing = threading.Event()

    def watch() -> None:
        while not closing.wait(_LOCK_WATCH_SECONDS):
            if not locks.kept():
                thread.loop.call_soon_threadsafe(running.halt)
                return

    watching = threading.Thread(target=watch, name="tiltyard-watch", daemon=True)
    watching.start()
    try:
        yield
    finally:
        closing.set()
        watching.join()


async def _awaited(hook: Hook) -> None:
    await hook()


def _open_locks(database: str, folder: Path | None) -> WorkerLocks:
    path = database_file(database)
    if path is None:
        return ServerLocks(database)
    locks = FileLocks(folder or path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    return locks


def _rows(run: str, generation: int, **options: Any) -> list[WorkflowStatus]:
    """The DBOS workflows of the shards of a plan."""
    from dbos import DBOS

    plan = f"{run}:{generation}"
    options = {"load_input": False, "load_output": False, **options}
    rows = DBOS.list_workflows(workflow_id_prefix=f"{plan}:", **options)
    return [row for row in rows if row.workflow_id.rpartition(":")[0] == plan]


#: The shards of the engine that is open in this process, if one is: DBOS has one instance in a process.
_current: list[RunningShards] = []


@contextlib.contextmanager
def launch_dbos(
    database: str, worker: str, queue: str, parallel: int, running: RunningShards, thread: EventLoopThread
) -> Iterator[None]:
    """Run DBOS under a worker's name. It runs every shard on the event loop of ``thread``.

    Shards that an earlier process of this name left unfinished are requeued.
    """
    from dbos import DBOS

    if _current:
        raise RuntimeError("an engine is already open in this process")
    shard_workflow()
    _current.append(running)
    try:
        try:
            address = _prepared(database)
            # Register the queue before the launch; DBOS would see it a second later otherwise.
            from dbos import DBOSClient

            client = DBOSClient(
                system_database_url=address,
                system_database_pool_size=1,
                application_name=_NAME,
                retry_connection_errors=False,
            )
            try:
                client.register_queue(queue, worker_concurrency=parallel, polling_interval_sec=_POLL_SECONDS)
            finally:
                client.destroy()
            DBOS(config=_config(address, worker))
            DBOS.listen_queues([queue])
            thread.run(_launch())
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise BadOption(
                f"cannot store the state of jobs in {redacted_url(database)}: {reason}"
            ) from error
        yield
    finally:
        DBOS.destroy()
        _current.clear()


@functools.cache
def shard_workflow() -> Callable[..., Any]:
    """The DBOS workflow of a shard: one step, with inputs and output stored as JSON."""
    from dbos import DBOS, WorkflowSerializationFormat

    # DBOS prints to stderr unless its logger has a handler.
    logging.getLogger("dbos").addHandler(logging.NullHandler())
    register = DBOS.workflow(
        name="tiltyard.shard",
        max_recovery_attempts=None,
        serialization_type=WorkflowSerializationFormat.PORTABLE,
    )
    return register(_run_shard)


def database_file(database: str) -> Path | None:
    """The file of a SQLite database; ``None`` for PostgreSQL."""
    if database.startswith(("postgresql://", "postgres://")):
        return None
    if database.startswith("sqlite:///") and database != "sqlite:///":
        return Path(database.removeprefix("sqlite:///"))
    raise BadOption(
        f"cannot use the database {redacted_url(database)}; expected sqlite:///PATH or postgresql://…"
    )


def redacted_url(database: str) -> str:
    """The URL of a database without user and password."""
    scheme, _, rest = database.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


async def _run_shard(run: str, generation: int, index: int, first: int, last: int) -> dict[str, int]:
    from dbos import DBOS

    running = _current[0]
    shard = Shard(run, generation, index, first, last)
    running.in_hand.add(shard.id)
    try:
        return await DBOS.run_step_async({"name": "work"}, running.do, shard)
    finally:
        running.in_hand.discard(shard.id)


async def _launch() -> None:
    from dbos import DBOS

    DBOS.launch()


def _config(database: str, worker: str) -> DBOSConfig:
    return {
        "name": _NAME,
        "system_database_url": database,
        "application_version": _VERSION,
        "executor_id": worker,
        "log_level": "WARNING",
        "enable_otlp": False,
        "run_migrations": False,
        "use_listen_notify": False,
        # We send no notifications; closing waits this long.
        "notification_listener_polling_interval_sec": 0.2,
        "sys_db_pool_size": 8,
    }


def _prepared(database: str) -> str:
    """Create DBOS's tables, and return the URL in DBOS's spelling.

    A new SQLite file is renamed into place when complete: DBOS creates its first tables outside a
    transaction, and a process killed in between would leave an unusable file.
    """
    from dbos import DBOS

    path = database_file(database)
    if path is None:
        database = "postgresql+psycopg://" + database.partition("://")[2]
    elif not path.exists():
        draft = path.with_name(f".{path.name}.part")
        draft.unlink(missing_ok=True)
        DBOS.migrate(f"sqlite:///{draft}")
        with contextlib.closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        draft.replace(path)
    DBOS.migrate(database)
    return database
