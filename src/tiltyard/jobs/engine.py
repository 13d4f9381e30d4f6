"""The engine: shards that are done, whichever worker does them and however often one dies.

Three verbs: submit, resume, status. No two live workers ever have one shard in hand. A shard comes
out of the queue by a transaction that admits one worker, and goes back only from a worker whose
lock has been obtained, which is to say from a dead one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.errors import BadOption, MissingExtra, TiltyardError
from tiltyard.jobs.dbos_launch import database_file, launch_dbos, shard_workflow
from tiltyard.jobs.running_shards import EventLoopThread, RunningShards
from tiltyard.jobs.shard import Hook, Shard, Work
from tiltyard.jobs.worker_locks import FileLocks, ServerLocks, WorkerLock, WorkerLocks, lock_worker_name

if TYPE_CHECKING:
    from dbos import WorkflowStatus

__all__ = ["Engine", "WorkerHooks", "open_engine", "queue_of"]

_LOCK_WATCH_SECONDS = 1.0
_RESUME_SECONDS = 1.0
_STRANDED_SECONDS = 30.0
#: Seconds between two looks that count at most: for longer we were not there to see.
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
    """One worker, which takes shards from the queue and does them."""

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
        #: Seconds for which each shard was seen to be ours and not in hand, and when we last looked.
        self._idle: dict[str, float] = {}
        self._looked_at = time.monotonic()

    def submit(self, shards: Iterable[Shard]) -> None:
        """Put shards into the queue. Those that are known already are left as they are."""
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
        """Put the shards of dead workers back into the queue; the names of those workers.

        Where the locks are a server's, a worker counts as dead only some seconds after its lock
        was obtained: call again.
        """
        self._check()
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
        """Wait until no shard waits or runs, resuming those of dead workers; the last status.

        ``on_tick`` is called about every ``poll`` seconds. Large plans are looked at less often.
        What a look costs is this thread's own processor time: one during which the process was
        stopped, or waited for the database, puts off the next no longer than any other.
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

    def results(self, run: str, generation: int) -> dict[str, dict[str, int]]:
        """What each shard that is done counted, by shard id."""
        rows = _rows(run, generation, status="SUCCESS", load_output=True)
        return {row.workflow_id: dict(row.output or {}) for row in rows}

    def failures(self, run: str, generation: int) -> dict[str, str]:
        """Why each failed shard failed, by shard id. Only a new generation tries them again."""
        rows = _rows(run, generation, status=_FAILED, load_output=True)
        return {row.workflow_id: str(row.error or row.status) for row in rows}

    def release(self) -> None:
        """Give back the locks of dead workers that were obtained and not used yet."""
        while self._obtained:
            self._obtained.popitem()[1][0].release()

    def _check(self) -> None:
        if not self.locks.kept():
            raise TiltyardError(
                f"{self.worker} lost the connection that held its lock, and stopped work before another"
                " worker could begin the same; run the command again to go on"
            )

    def _taken_shards(self, worker: str | None = None) -> dict[str, set[str]]:
        """The ids of the shards that were taken from the queue and not finished, by worker."""
        from dbos import DBOS

        taken: dict[str, set[str]] = {}
        rows = DBOS.list_workflows(
            status="PENDING", queue_name=self.queue, executor_id=worker, load_input=False, load_output=False
        )
        for row in rows:
            taken.setdefault(str(row.executor_id), set()).add(row.workflow_id)
        return taken

    def _take_over(self, name: str) -> bool:
        """Take over from a worker if it is dead.

        Its shards are listed once more under its lock. Before that somebody else may have taken
        them over, and a live worker may have them.
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
        """Shards that we took from the queue long ago and do not have: the take was committed, but
        the connection broke before we heard of it.

        Time in which we did not look hardly counts: whoever was stopped may yet begin what it took.
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
    worker: str | None = None,
    hooks: WorkerHooks = _NO_HOOKS,
) -> Iterator[Engine]:
    """A worker on a database, ``sqlite:///PATH`` or ``postgresql://…``; one at a time in a process.

    With ``run`` it does the shards of that run only, and bears a name of that run; without, those
    of every run submitted without. ``folder`` holds the locks of workers on SQLite, beside the
    database unless given. ``parallel`` is how many shards a worker has in hand at once; the worker
    that came last decides for all. ``worker`` insists on a name.
    """
    if find_spec("dbos") is None:
        raise MissingExtra("judges", "The durable engine")
    queue = queue_of(run)
    with contextlib.closing(_open_locks(database, folder)) as locks:
        lock = lock_worker_name(locks, run) if worker is None else _named(locks, worker)
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
    """An event loop, DBOS on it, and a watch over the locks; ended in the opposite order."""
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
        # Before DBOS is taken down, so that outcomes can be written; above, in case it never came up.
        stack.callback(lambda: thread.run(running.settle()))
        stack.enter_context(_watched(locks, running, thread))
        yield


@contextlib.contextmanager
def _watched(locks: WorkerLocks, running: RunningShards, thread: EventLoopThread) -> Iterator[None]:
    """Halt all work within seconds of the loss of our locks."""
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


def queue_of(run: str | None) -> str:
    """The queue of a run's shards; without one, that of every run submitted without."""
    return "tiltyard" if run is None else f"tiltyard:{run}"


def _named(locks: WorkerLocks, worker: str) -> WorkerLock:
    lock = locks.take(worker)
    if lock is None:
        raise BadOption(f"a worker named {worker} is running; choose another name, or none")
    return lock


def _rows(run: str, generation: int, **options: Any) -> list[WorkflowStatus]:
    """The shards of a plan as DBOS lists them."""
    from dbos import DBOS

    plan = f"{run}:{generation}"
    options = {"load_input": False, "load_output": False, **options}
    rows = DBOS.list_workflows(workflow_id_prefix=f"{plan}:", **options)
    return [row for row in rows if row.workflow_id.rpartition(":")[0] == plan]
