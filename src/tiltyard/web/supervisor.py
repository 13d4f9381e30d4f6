"""The supervisor, the main process of `tiltyard serve`: starts and restarts web processes and the rater."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tiltyard.errors import BadOption, StoreFault, TiltyardError
from tiltyard.instruments import CHILD_RESTARTS, recording
from tiltyard.postgres.database_url import OpenedDatabase
from tiltyard.retries import Backoff
from tiltyard.settings.environment import ONE_THREAD, read_environment
from tiltyard.settings.serving_settings import HOST_ADVICE, ServingSettings
from tiltyard.web.child_process import FAILED, READY, ChildConfig
from tiltyard.web.heartbeats import FOLDER_VARIABLE
from tiltyard.web.logs import log_event, log_failure
from tiltyard.web.supervisor_health import SupervisorHealth
from tiltyard.web.systemd_notify import notify_systemd, watchdog_seconds

__all__ = ["Supervisor", "listening_socket"]

#: Seconds before a child that died is restarted: the first time, and at most.
_FIRST_RESTART_SECONDS, _MAX_RESTART_SECONDS = 0.5, 30.0
#: Seconds after which a running child counts as healthy.
_HEALTHY_SECONDS = 60.0
#: Failed starts before the first success after which the supervisor gives up.
_START_ATTEMPT_LIMIT = 3
#: Seconds that children have to stop before they are killed.
_STOP_GRACE_SECONDS = 20.0
#: Seconds between checks of the embedded database server.
_DATABASE_CHECK_SECONDS = 1.0
_LISTEN_BACKLOG_COUNT = 2048
#: Seconds between signs of life of the supervisor.
_BEAT_SECONDS = 2.0


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
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; {_advice(error)}"
        ) from None
    with made:
        made.set_inheritable(True)
        yield made


def _advice(error: OSError) -> str:
    """What to do if an address cannot be listened on."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"this is no address of this machine; {HOST_ADVICE}"
    if error.errno == errno.EACCES:
        return "ports below 1024 need a right that this user does not have: choose another with --port"
    return "another server may be using it: choose another with --port"


class Supervisor:
    """Keeps the child processes running, and the embedded database if there is one, until stopped."""

    def __init__(
        self, database: OpenedDatabase, settings: ServingSettings, listening: socket.socket | None
    ) -> None:
        self._database = database
        self._settings = settings
        self._listening = listening
        self._stopping = asyncio.Event()
        self._children: set[asyncio.subprocess.Process] = set()
        self._signals = 0
        self.health = SupervisorHealth()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start the children, call ``on_ready`` when all are ready, and stop at SIGTERM or SIGINT.

        A second signal kills the children.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        with _metrics_folder() as folder, self._monitored(folder):
            ready = [asyncio.Event() for _ in self._parts()]
            tasks = [
                asyncio.create_task(self._keep_child_running(part, event))
                for part, event in zip(self._parts(), ready, strict=True)
            ]
            tasks.append(asyncio.create_task(self._keep_database_running()))
            tasks.append(asyncio.create_task(self._beat()))
            said = asyncio.create_task(self._say_ready(ready, on_ready))
            try:
                await asyncio.gather(*tasks)
            finally:
                notify_systemd("STOPPING=1")
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
        """Restart the embedded database server when it has died; retry if it does not start."""
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
        """Run a child, and restart it when it ends."""
        backoff, failures = Backoff(_FIRST_RESTART_SECONDS, _MAX_RESTART_SECONDS), 0
        while not self._stopping.is_set():
            born = time.monotonic()
            child = await self._spawn(part)
            reading = asyncio.create_task(self._read_message(child, ready))
            code = await self._ended(child)
            message = await reading
            self.health.child_ended(child.pid, was_ready=message == READY)
            _forget(child.pid)
            if self._stopping.is_set():
                return
            failures += 1
            if not ready.is_set() and (message.startswith(FAILED) or failures == _START_ATTEMPT_LIMIT):
                problem = f"the {part} process does not start; the log above says why"
                raise TiltyardError(message.removeprefix(FAILED) or problem)
            if time.monotonic() - born > _HEALTHY_SECONDS:
                backoff.reset()
            delay = backoff.next()
            CHILD_RESTARTS.record(1, part)
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
            # Ctrl-C in the terminal signals this process only; it stops the children.
            start_new_session=True,
        )
        self._children.add(child)
        self.health.child_started(part, child.pid)
        config = ChildConfig(
            part, self._database.url, self._settings, descriptors[0] if descriptors else None
        )
        assert child.stdin is not None
        child.stdin.write(config.to_line())
        with contextlib.suppress(ConnectionError):
            await child.stdin.drain()
        return child

    async def _read_message(self, child: asyncio.subprocess.Process, ready: asyncio.Event) -> str:
        """The one line that a child writes to standard output."""
        assert child.stdout is not None
        try:
            message = (await child.stdout.readline()).decode("utf-8", "replace").rstrip("\n")
        except ValueError:
            return ""
        if message == READY:
            self.health.child_ready()
            ready.set()
        return message

    async def _say_ready(self, ready: Sequence[asyncio.Event], on_ready: Callable[[], None]) -> None:
        for event in ready:
            await event.wait()
        notify_systemd("READY=1")
        on_ready()

    async def _beat(self) -> None:
        """Tell probes that this event loop runs, and systemd that everything works."""
        seconds = min(_BEAT_SECONDS, (watchdog_seconds() or _BEAT_SECONDS) / 2)
        while not await self._stops_within(seconds):
            self.health.beat()
            if not self.health.problems():
                notify_systemd("WATCHDOG=1")

    @contextmanager
    def _monitored(self, folder: Path) -> Iterator[None]:
        """Metrics, heartbeats and probes of the child processes."""
        from tiltyard.web.metrics import ProcessMetrics

        self.health.watch(folder, len(self._parts()))
        with recording(ProcessMetrics()), _monitoring_port(self._database, self._settings, self.health):
            yield

    async def _ended(self, child: asyncio.subprocess.Process) -> int:
        """Wait for a child and return its exit code; when stopping, kill it after the grace period."""
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


def _forget(pid: int) -> None:
    """Remove the gauges of a process that has ended."""
    from tiltyard.web.metrics import forget_process

    forget_process(pid)


@contextmanager
def _metrics_folder() -> Iterator[Path]:
    """A folder in which the processes keep their metrics and heartbeats, so that any of them can report all."""
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-metrics-"))
    before = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        if before is None:
            del os.environ[FOLDER_VARIABLE]
        else:
            os.environ[FOLDER_VARIABLE] = before
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _monitoring_port(
    database: OpenedDatabase, settings: ServingSettings, health: SupervisorHealth
) -> Iterator[None]:
    """Metrics and probes on a port of their own, if one is set."""
    if settings.metrics_port is None:
        yield
        return
    from tiltyard.arena.operators.service_status import ServiceStatusReader
    from tiltyard.web.monitoring_port import serve_monitoring

    reader = ServiceStatusReader(database.url, read_environment().home)
    try:
        serving = ExitStack()
        serving.enter_context(serve_monitoring(settings.metrics_host, settings.metrics_port, reader, health))
    except OSError as error:
        raise BadOption(
            f"cannot listen on {settings.metrics_host} port {settings.metrics_port}: {error.strerror or error}; "
            "choose another with --metrics-port"
        ) from None
    with serving:
        yield
