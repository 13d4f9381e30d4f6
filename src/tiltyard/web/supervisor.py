"""The process that `tiltyard serve` is: it starts web processes and the rater, and starts them again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tiltyard.errors import BadOption, StoreFault, TiltyardError
from tiltyard.postgres.database_url import OpenedDatabase
from tiltyard.retries import Backoff
from tiltyard.settings.environment import ONE_THREAD
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.child_process import FAILED, READY, ChildConfig
from tiltyard.web.logs import log_event, log_failure

__all__ = ["Supervisor", "listening_socket"]

#: Seconds before a child that died is started again: the first time, and at most.
_FIRST_RESTART_SECONDS, _MAX_RESTART_SECONDS = 0.5, 30.0
#: A child that lived so long is taken for a healthy one.
_HEALTHY_SECONDS = 60.0
#: A child that fails so often before it was ever ready will not be.
_START_ATTEMPT_LIMIT = 3
#: Seconds that children have to stop by themselves.
_STOP_GRACE_SECONDS = 20.0
#: Seconds between two looks at the database's own server.
_DATABASE_CHECK_SECONDS = 1.0
_LISTEN_BACKLOG_COUNT = 2048


@contextmanager
def listening_socket(settings: ServingSettings) -> Iterator[socket.socket]:
    """The socket that all web processes share."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        made = socket.create_server(
            (str(address[0]), int(address[1])),
            family=socket.AddressFamily(family),
            backlog=_LISTEN_BACKLOG_COUNT,
        )
    except OSError as error:
        raise BadOption(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            "another server may run there: choose another with --port"
        ) from None
    with made:
        made.set_inheritable(True)
        yield made


class Supervisor:
    """Keeps the children of one machine alive, and the database if it is ours, until it is told to stop."""

    def __init__(
        self, database: OpenedDatabase, settings: ServingSettings, listening: socket.socket | None
    ) -> None:
        self._database = database
        self._settings = settings
        self._listening = listening
        self._stopping = asyncio.Event()
        self._children: set[asyncio.subprocess.Process] = set()
        self._signals = 0

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start everything, say so once all are ready, and stop at SIGTERM or SIGINT; at once at the second."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        with _figures_folder(), _metrics_port(self._database.url, self._settings):
            ready = [asyncio.Event() for _ in self._parts()]
            tasks = [
                asyncio.create_task(self._keep_child_running(part, event))
                for part, event in zip(self._parts(), ready, strict=True)
            ]
            tasks.append(asyncio.create_task(self._keep_database_running()))
            said = asyncio.create_task(_say_ready(ready, on_ready))
            try:
                await asyncio.gather(*tasks)
            finally:
                said.cancel()
                self._stopping.set()
                self._signal_all(signal.SIGTERM)
                await asyncio.gather(*tasks, return_exceptions=True)

    def _parts(self) -> Sequence[str]:
        web = ["web"] * self._settings.workers
        return {"all": [*web, "rater"], "web": web, "rater": ["rater"]}[self._settings.role]

    def _stop(self) -> None:
        self._signals += 1
        self._stopping.set()
        self._signal_all(signal.SIGTERM if self._signals == 1 else signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        for child in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

    async def _keep_database_running(self) -> None:
        """Start its server again whenever that has died, and try on if it does not start."""
        delay, backoff = _DATABASE_CHECK_SECONDS, Backoff(_DATABASE_CHECK_SECONDS * 2, _MAX_RESTART_SECONDS)
        while self._database.restart_if_dead is not None and not await self._stops_within(delay):
            try:
                if await asyncio.to_thread(self._database.restart_if_dead):
                    log_event("database started again")
                delay = _DATABASE_CHECK_SECONDS
                backoff.reset()
            except StoreFault as fault:
                delay = backoff.next()
                log_failure("database does not start", fault)

    async def _stops_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    async def _keep_child_running(self, part: str, ready: asyncio.Event) -> None:
        """One child, and its successors."""
        backoff, failures = Backoff(_FIRST_RESTART_SECONDS, _MAX_RESTART_SECONDS), 0
        while not self._stopping.is_set():
            born = time.monotonic()
            child = await self._spawn(part)
            hearing = asyncio.create_task(_heard(child, ready))
            code = await self._ended(child)
            told = await hearing
            if self._stopping.is_set():
                return
            failures += 1
            if not ready.is_set() and (told.startswith(FAILED) or failures == _START_ATTEMPT_LIMIT):
                problem = f"the {part} process does not start; the lines above say why"
                raise TiltyardError(told.removeprefix(FAILED) or problem)
            if time.monotonic() - born > _HEALTHY_SECONDS:
                backoff.reset()
            delay = backoff.next()
            log_event("child ended", part=part, code=code, again_in=round(delay, 2))
            await self._stops_within(delay)

    async def _spawn(self, part: str) -> asyncio.subprocess.Process:
        descriptors = () if self._listening is None or part != "web" else (self._listening.fileno(),)
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tiltyard.web.child_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
            env={**os.environ, **ONE_THREAD},
            # A Ctrl-C in the terminal is for us; children are told by us.
            start_new_session=True,
        )
        self._children.add(child)
        orders = ChildConfig(
            part, self._database.url, self._settings, descriptors[0] if descriptors else None
        )
        assert child.stdin is not None
        child.stdin.write(orders.to_line())
        with contextlib.suppress(ConnectionError):
            await child.stdin.drain()
        return child

    async def _ended(self, child: asyncio.subprocess.Process) -> int:
        """Its exit code, whenever it ends; once we are stopping, within the time it has for that."""
        waiting = asyncio.create_task(child.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                with contextlib.suppress(ProcessLookupError):
                    child.terminate()
                done, _ = await asyncio.wait({waiting}, timeout=_STOP_GRACE_SECONDS)
                if not done:
                    child.kill()
            return await waiting
        finally:
            stopping.cancel()
            self._children.discard(child)
            if child.stdin is not None:
                child.stdin.close()


async def _heard(child: asyncio.subprocess.Process, ready: asyncio.Event) -> str:
    """The one line that a child says."""
    assert child.stdout is not None
    try:
        told = (await child.stdout.readline()).decode("utf-8", "replace").rstrip("\n")
    except ValueError:
        return ""
    if told == READY:
        ready.set()
    return told


async def _say_ready(ready: Sequence[asyncio.Event], on_ready: Callable[[], None]) -> None:
    for event in ready:
        await event.wait()
    on_ready()


@contextmanager
def _figures_folder() -> Iterator[None]:
    """A folder in which the web processes keep their figures, so that any of them can show all."""
    variable = "PROMETHEUS_MULTIPROC_DIR"
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-figures-"))
    before = os.environ.get(variable)
    os.environ[variable] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _metrics_port(url: str, settings: ServingSettings) -> Iterator[None]:
    """/metrics on a port of its own, if one is set."""
    if settings.metrics_port is None:
        yield
        return
    from tiltyard.web.metrics import serve_metrics

    try:
        stop = serve_metrics(settings.metrics_host, settings.metrics_port, url)
    except OSError as error:
        raise BadOption(
            f"cannot listen on {settings.metrics_host} port {settings.metrics_port}: {error.strerror or error}; "
            "choose another with --metrics-port"
        ) from None
    try:
        yield
    finally:
        stop()
