"""Launches DBOS: at most one instance per process, on our own event loop, without output."""

from __future__ import annotations

import contextlib
import functools
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.errors import BadOption
from tiltyard.jobs.running_shards import EventLoopThread, RunningShards
from tiltyard.jobs.shard import Shard

if TYPE_CHECKING:
    from dbos import DBOSConfig

_VERSION = "1"
"""Workers process only shards of their own version; it changes when the meaning of a shard does."""

_NAME = "tiltyard"
_POLL_SECONDS = 0.1

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
            _register(address, queue, parallel)
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


def _register(address: str, queue: str, parallel: int) -> None:
    """Register the queue before the launch; DBOS would see it a second later otherwise."""
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
