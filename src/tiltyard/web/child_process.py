"""One child of `tiltyard serve`: a web process or a rater. ``python -m tiltyard.web.child_process``

Its orders come as one line of JSON on standard input, which stays open: when it ends, whoever gave the
orders is gone, and the child stops too. It says ``ready`` on standard output, or why it cannot be.
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
from tiltyard.web.logs import configure_logging, log_event, log_failure

if TYPE_CHECKING:
    from uvicorn import Server


__all__ = ["FAILED", "READY", "ChildConfig", "main", "stop_by_signals"]

READY, FAILED = "ready", "failed "
#: Shutdown timeouts in seconds: for requests in flight, and in total.
_REQUEST_DRAIN_SECONDS = 5
_SHUTDOWN_SECONDS = 15.0
#: Descriptors that a web process asks for, one for each connection.
_DESCRIPTOR_LIMIT = 65_536


@dataclass(frozen=True)
class ChildConfig:
    """What a child is to do."""

    #: ``web`` or ``rater``.
    part: str
    url: str
    settings: ServingSettings
    #: The listening socket's descriptor, for a web process.
    descriptor: int | None = None

    def to_line(self) -> bytes:
        """As one line for the child's standard input."""
        return json.dumps(asdict(self) | {"settings": self.settings.to_dict()}).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ChildConfig:
        """What `to_line` gave."""
        values = json.loads(line)
        return cls(**{**values, "settings": ServingSettings.from_dict(values["settings"])})


def main() -> None:
    """Read the orders and run until stopped."""
    configure_logging()
    orders = ChildConfig.from_line(sys.stdin.buffer.readline())
    try:
        environment = read_environment()
        if orders.part == "web":
            _run_web(orders, environment)
        else:
            _run_rater(orders, environment)
    except TiltyardError as error:
        log_failure(f"{orders.part} failed", error)
        _say(FAILED + str(error).replace("\n", " "))
        sys.exit(2)
    except Exception as error:  # noqa: BLE001 - a traceback could show what no log may
        log_failure(f"{orders.part} failed", error)
        sys.exit(70)


def _run_web(orders: ChildConfig, environment: Environment) -> None:
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    _raise_descriptor_limit()
    with runner:
        runner.run(_serve(orders, environment))


def _raise_descriptor_limit() -> None:
    """Use as many descriptors as the system allows: many systems give 1,024 to those who do not ask for more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTOR_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTOR_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(orders: ChildConfig, environment: Environment) -> None:
    import uvicorn

    from tiltyard.arena.registry import open_registry
    from tiltyard.web.app import make_app
    from tiltyard.web.context import app_context
    from tiltyard.web.http_limits import HttpLimits, limited_protocol

    settings = orders.settings
    keys = open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    assert orders.descriptor is not None
    async with open_registry(orders.url, environment, settings) as house:
        app = make_app(house, keys)
        config = uvicorn.Config(
            app,
            lifespan="on",
            http=limited_protocol(HttpLimits(settings, app_context(app).figures.refused)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_REQUEST_DRAIN_SECONDS,
        )
        server = uvicorn.Server(config)
        ready = asyncio.create_task(_tell_ready(server))
        _watch_lifeline(lambda: setattr(server, "should_exit", True))
        listening = socket.socket(fileno=orders.descriptor)
        await server.serve(sockets=[listening])
        ready.cancel()
        if not server.started:
            raise TiltyardError("the web process could not start; the lines above say why")


async def _tell_ready(server: Server) -> None:
    while not server.started:  # noqa: ASYNC110 - the library has no event for it
        await asyncio.sleep(0.01)
    # What was made so far lives as long as the process: not to be looked through again and again.
    gc.collect()
    gc.freeze()
    log_event("web ready")
    _say(READY)


def _run_rater(orders: ChildConfig, environment: Environment) -> None:
    from tiltyard.arena.operators.scheduled_jobs import run_scheduled_jobs
    from tiltyard.arena.rating.rater_process import rate_arenas

    stop = threading.Event()
    stop_by_signals(stop.set)
    _watch_lifeline(stop.set)
    with run_scheduled_jobs(orders.url, environment):
        log_event("rater ready")
        _say(READY)
        rate_arenas(orders.url, stop)


def stop_by_signals(stop: Callable[[], None]) -> None:
    """Stop when told to, however often: a second signal may come while the first is being handled, or much later.

    So the handler takes no lock that it might already hold, and what comes after the first is ignored: an interpreter
    that is leaving puts its handlers back to the system's, and would be killed by a signal that says nothing new.
    """
    told: SimpleQueue[int] = SimpleQueue()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def tell(number: int, _: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        told.put(number)

    for number in numbers:
        signal.signal(number, tell)

    def waiting() -> None:
        told.get()
        stop()

    threading.Thread(target=waiting, name="signals", daemon=True).start()


def _watch_lifeline(stop: Callable[[], None]) -> None:
    """Stop when standard input ends; exit immediately if that takes too long."""

    def watching() -> None:
        # By its descriptor: a thread that waits in a buffer holds the interpreter up when it ends.
        while os.read(lifeline, 1024):
            pass
        stop()
        threading.Event().wait(_SHUTDOWN_SECONDS)
        os._exit(1)

    lifeline = sys.stdin.fileno()
    threading.Thread(target=watching, name="lifeline", daemon=True).start()


def _say(line: str) -> None:
    """To whoever gave the orders, who may have gone and listens to this one line only."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
