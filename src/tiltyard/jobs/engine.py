"""The job engine: processes shards with any number of workers, and survives their crashes.

It can submit, resume and report shards. No two live workers ever process the same shard: a shard is taken
from the queue in a transaction by one worker, and is requeued only by a worker that has obtained the lock
of its owner, which proves that the owner is dead.
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

    def results(self, run: str, generation: int) -> dict[str, dict[str, int]]:
        """The counts returned by each finished shard, by shard ID."""
        rows = _rows(run, generation, status="SUCCESS", load_output=True)
        return {row.workflow_id: dict(row.output or {}) for row in rows}

    def failures(self, run: str, generation: int) -> dict[str, str]:
        """The errors of failed shards, by shard ID. Only a new generation retries them."""
        rows = _rows(run, generation, status=_FAILED, load_output=True)
        return {row.workflow_id: str(row.error or row.status) for row in rows}

    def release(self) -> None:
        """Release the locks of dead workers that were obtained but not used."""
        while self._obtained:
            self._obtained.popitem()[1][0].release()

    def _check(self) -> None:
        if not self.locks.kept():
            raise TiltyardError(
                f"{self.worker} lost the connection that held its lock, and stopped before another"
                " worker could take over its shards; run the command again to resume"
            )

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
    worker: str | None = None,
    hooks: WorkerHooks = _NO_HOOKS,
) -> Iterator[Engine]:
    """Start a worker on a database, ``sqlite:///PATH`` or ``postgresql://…``; one at a time in a process.

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


def queue_of(run: str | None) -> str:
    """The queue of a run; ``None`` is the shared queue."""
    return "tiltyard" if run is None else f"tiltyard:{run}"


def _named(locks: WorkerLocks, worker: str) -> WorkerLock:
    lock = locks.take(worker)
    if lock is None:
        raise BadOption(f"a worker named {worker} is running; choose another name, or none")
    return lock


def _rows(run: str, generation: int, **options: Any) -> list[WorkflowStatus]:
    """The DBOS workflows of the shards of a plan."""
    from dbos import DBOS

    plan = f"{run}:{generation}"
    options = {"load_input": False, "load_output": False, **options}
    rows = DBOS.list_workflows(workflow_id_prefix=f"{plan}:", **options)
    return [row for row in rows if row.workflow_id.rpartition(":")[0] == plan]
