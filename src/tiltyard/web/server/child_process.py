"""A child of `tiltyard serve`: a web process or the rater, started by the supervisor with `multiprocessing`."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from ctypes import c_double
from dataclasses import dataclass

from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys
from tiltyard.errors import TiltyardError
from tiltyard.foundation.telemetry import tracing
from tiltyard.report.escapes import escape_controls
from tiltyard.settings.environment import Environment, read_environment
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.settings.sign_in_settings import read_sign_in
from tiltyard.web.edge.logs import configure_logging, log_event, log_failure

#: Seconds for requests in flight when a web process stops, and for everything once the supervisor is gone.
_REQUEST_DRAIN_SECONDS = 5
_ORPHAN_SHUTDOWN_SECONDS = 15.0
#: Ticks of uvicorn's loop, of a tenth of a second each, between two signs of life.
_TICKS_PER_BEAT = 10
#: File descriptors that a web process requests; each connection needs one.
_DESCRIPTOR_LIMIT = 65_536


@dataclass(frozen=True)
class ChildConfig:
    """What a child runs."""

    #: ``web`` or ``rater``.
    part: str
    url: str
    settings: ServingSettings
    #: The socket that all web processes share.
    listening: socket.socket | None = None


def run_child(config: ChildConfig, beat_at: c_double) -> None:
    """Run a web process or the rater until SIGTERM, or until the supervisor is gone.

    ``beat_at`` is shared with the supervisor: 0 until this process is ready, then the time of its last sign of life by
    the monotonic clock. It is written by the loop that does the work, not by a thread beside it, so that a loop that
    hangs is noticed.
    """
    # Before any thread starts, which would inherit otherwise. Ctrl-C is for the supervisor, which stops its children.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    configure_logging()
    threading.Thread(target=_end_without_parent, name="parent", daemon=True).start()
    run = _run_web if config.part == "web" else _run_rater
    try:
        environment = read_environment()
        with tracing(environment.variables, config.part):
            run(config, environment, lambda: setattr(beat_at, "value", time.monotonic()))
    except TiltyardError as error:
        log_failure(f"{config.part} failed", error)
        sys.exit(f"tiltyard: {escape_controls(str(error))}")
    except Exception as error:  # noqa: BLE001 - a traceback could show secrets
        log_failure(f"{config.part} failed", error)
        sys.exit(70)


def _end_without_parent() -> None:
    """Stop this process when the supervisor is gone; exit immediately if that takes too long."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ORPHAN_SHUTDOWN_SECONDS)
    os._exit(1)


def _run_web(config: ChildConfig, environment: Environment, beat: Callable[[], None]) -> None:
    import uvloop

    _raise_descriptor_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, environment, beat))


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of file descriptors, which is 1,024 on many systems."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTOR_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTOR_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(config: ChildConfig, environment: Environment, beat: Callable[[], None]) -> None:
    import uvicorn

    from tiltyard.arena.registry import open_registry
    from tiltyard.web.access.access import app_context
    from tiltyard.web.edge.http_limits import HttpLimits, limited_protocol
    from tiltyard.web.edge.metrics import metrics_of, record_gauges
    from tiltyard.web.server.app import make_app

    settings = config.settings
    keys = open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    assert config.listening is not None
    async with open_registry(config.url, environment, settings) as registry:
        sign_in = read_sign_in(environment.variables)
        app = make_app(registry, keys, home=environment.home, sign_in=sign_in)

        class Server(uvicorn.Server):
            async def main_loop(self) -> None:
                # Objects created so far live as long as the process; exclude them from garbage collection.
                gc.collect()
                gc.freeze()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                log_event("web ready")
                await super().main_loop()

            async def on_tick(self, counter: int) -> bool:
                if counter % _TICKS_PER_BEAT == 0:
                    record_gauges(registry)
                    beat()
                return await super().on_tick(counter)

        server = Server(
            uvicorn.Config(
                app,
                lifespan="on",
                http=limited_protocol(HttpLimits(settings, metrics_of(app_context(app)).refused)),
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
        )
        # uvicorn raises the signal again after its shutdown; what follows here must still run.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        await server.serve(sockets=[config.listening])


def _run_rater(config: ChildConfig, environment: Environment, beat: Callable[[], None]) -> None:
    from tiltyard.arena.operators.scheduled_jobs import run_scheduled_jobs
    from tiltyard.arena.rating.rater_process import rate_arenas
    from tiltyard.foundation.telemetry import recording
    from tiltyard.web.edge.metrics import ProcessMetrics

    stop = threading.Event()
    stop_by_signal(stop.set)
    with recording(ProcessMetrics()), run_scheduled_jobs(config.url, environment):
        log_event("rater ready")
        rate_arenas(config.url, stop, beat)


def stop_by_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` at the first SIGTERM, which must be blocked; later ones stay blocked and cannot end a shutdown.

    A thread waits for the signal, because a handler could need a lock that the interrupted code holds.
    """

    def waiting() -> None:
        signal.sigwait({signal.SIGTERM})
        stop()

    threading.Thread(target=waiting, name="signal", daemon=True).start()
