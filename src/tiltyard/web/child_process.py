"""One child of `tiltyard serve`: a web process or a rater. ``python -m tiltyard.web.child_process``

It reads its configuration as one line of JSON from standard input, which stays open: end of file means that
the parent is gone, and the child stops too. It writes ``ready`` to standard output, or why it failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys
from tiltyard.errors import TiltyardError
from tiltyard.settings.environment import Environment, read_environment
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.settings.sign_in_settings import read_sign_in
from tiltyard.traces import tracing
from tiltyard.web.logs import configure_logging, log_event, log_failure

if TYPE_CHECKING:
    from uvicorn import Server


__all__ = ["FAILED", "READY", "ChildConfig", "main", "stop_by_signals"]

READY, FAILED = "ready", "failed "
#: Shutdown timeouts in seconds: for requests in flight, and in total.
_REQUEST_DRAIN_SECONDS = 5
_SHUTDOWN_SECONDS = 15.0
#: File descriptors that a web process requests; each connection needs one.
_DESCRIPTOR_LIMIT = 65_536


@dataclass(frozen=True)
class ChildConfig:
    """The configuration of a child process."""

    #: ``web`` or ``rater``.
    part: str
    url: str
    settings: ServingSettings
    #: The listening socket's descriptor, for a web process.
    descriptor: int | None = None

    def to_line(self) -> bytes:
        """Encode as one line for the child's standard input."""
        return json.dumps(asdict(self) | {"settings": self.settings.to_dict()}).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ChildConfig:
        """Decode the result of `to_line`."""
        values = json.loads(line)
        return cls(**{**values, "settings": ServingSettings.from_dict(values["settings"])})


def main() -> None:
    """Read the configuration and run until stopped."""
    configure_logging()
    config = ChildConfig.from_line(sys.stdin.buffer.readline())
    try:
        environment = read_environment()
        with tracing(environment.variables, config.part):
            (_run_web if config.part == "web" else _run_rater)(config, environment)
    except TiltyardError as error:
        log_failure(f"{config.part} failed", error)
        _say(FAILED + str(error).replace("\n", " "))
        sys.exit(2)
    except Exception as error:  # noqa: BLE001 - a traceback could show secrets
        log_failure(f"{config.part} failed", error)
        sys.exit(70)


def _run_web(config: ChildConfig, environment: Environment) -> None:
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    _raise_descriptor_limit()
    with runner:
        runner.run(_serve(config, environment))


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors, which is 1,024 on many systems."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTOR_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTOR_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(config: ChildConfig, environment: Environment) -> None:
    import uvicorn

    from tiltyard.arena.registry import open_registry
    from tiltyard.web.app import make_app
    from tiltyard.web.context import app_context
    from tiltyard.web.http_limits import HttpLimits, limited_protocol

    settings = config.settings
    keys = open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    assert config.descriptor is not None
    async with open_registry(config.url, environment, settings) as registry:
        sign_in = read_sign_in(environment.variables)
        app = make_app(registry, keys, home=environment.home, sign_in=sign_in)
        uvicorn_config = uvicorn.Config(
            app,
            lifespan="on",
            http=limited_protocol(HttpLimits(settings, app_context(app).metrics.refused)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
            # The application does it, which must know the address of the proxy as well.
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_REQUEST_DRAIN_SECONDS,
        )
        server = uvicorn.Server(uvicorn_config)
        ready = asyncio.create_task(_report_ready(server))
        _watch_lifeline(lambda: setattr(server, "should_exit", True))
        listening = socket.socket(fileno=config.descriptor)
        await server.serve(sockets=[listening])
        ready.cancel()
        if not server.started:
            raise TiltyardError("the web process could not start; the log above says why")


async def _report_ready(server: Server) -> None:
    while not server.started:  # noqa: ASYNC110 - the library has no event for it
        await asyncio.sleep(0.01)
    # Objects created so far live as long as the process; exclude them from garbage collection.
    gc.collect()
    gc.freeze()
    log_event("web ready")
    _say(READY)


def _run_rater(config: ChildConfig, environment: Environment) -> None:
    from tiltyard.arena.operators.scheduled_jobs import run_scheduled_jobs
    from tiltyard.arena.rating.rater_process import rate_arenas
    from tiltyard.instruments import recording
    from tiltyard.web.heartbeats import FOLDER_VARIABLE, Heartbeat
    from tiltyard.web.metrics import ProcessMetrics

    stop = threading.Event()
    stop_by_signals(stop.set)
    _watch_lifeline(stop.set)
    heartbeat = Heartbeat(os.environ.get(FOLDER_VARIABLE))
    with recording(ProcessMetrics()), run_scheduled_jobs(config.url, environment):
        log_event("rater ready")
        _say(READY)
        rate_arenas(config.url, stop, heartbeat.beat)


def stop_by_signals(stop: Callable[[], None]) -> None:
    """Call ``stop`` at the first SIGTERM or SIGINT; ignore later ones.

    A second signal may come while the first is handled, so the handler takes no lock that it might already hold.
    Later signals are ignored because an interpreter that is shutting down restores the default handlers, and a
    repeated signal would kill it.
    """
    received: SimpleQueue[int] = SimpleQueue()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def handle(number: int, _: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        received.put(number)

    for number in numbers:
        signal.signal(number, handle)

    def waiting() -> None:
        received.get()
        stop()

    threading.Thread(target=waiting, name="signals", daemon=True).start()


def _watch_lifeline(stop: Callable[[], None]) -> None:
    """Stop when standard input ends; exit immediately if that takes too long."""

    def watching() -> None:
        # Unbuffered: a thread that waits inside a buffered read blocks the interpreter's shutdown.
        while os.read(lifeline, 1024):
            pass
        stop()
        threading.Event().wait(_SHUTDOWN_SECONDS)
        os._exit(1)

    lifeline = sys.stdin.fileno()
    threading.Thread(target=watching, name="lifeline", daemon=True).start()


def _say(line: str) -> None:
    """Write a line to the parent, which may be gone and reads only this line."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
