"""The service's processes, each to be killed by itself: what `tiltyard serve` starts, started by hand."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.child_process import READY, ChildConfig

__all__ = ["Child", "Service", "service", "wait_until"]

_SECRET = "a secret for tests that is long enough"
_QUICK = Path(__file__).with_name("rating_process.py")
_STARTED = 60.0


@dataclass(eq=False)
class Child:
    """A ``web`` process, a ``rater``, or a ``quick rater`` that checkpoints often: killed and started again."""

    part: str
    url: str
    home: Path
    listening: socket.socket | None = None
    settings: ServingSettings = field(default_factory=lambda: ServingSettings(port=0))
    #: What its environment has besides.
    variables: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = Path(tempfile.mkstemp(prefix=f"{self.part}-", suffix=".log", dir=self.home)[1])

    @property
    def address(self) -> str:
        assert self.listening is not None
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def start(self, *, wait: bool = True) -> None:
        """Start it; its socket is kept here, so that whoever comes while it is dead waits in line."""
        descriptors = () if self.listening is None else (self.listening.fileno(),)
        environment = os.environ | {
            "TILTYARD_HOME": str(self.home),
            "TILTYARD_SECRET_KEY": _SECRET,
            "OPENBLAS_NUM_THREADS": "1",
            **self.variables,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self._program()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=descriptors,
                env=environment,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(self._orders(descriptors[0] if descriptors else None))
        self.process.stdin.flush()
        if wait:
            self.ready()

    def _program(self) -> list[str]:
        if self.part == "quick rater":
            return [str(_QUICK), self.url, "200"]
        return ["-m", "tiltyard.web.child_process"]

    def _orders(self, descriptor: int | None) -> bytes:
        if self.part == "quick rater":
            return b""
        return ChildConfig(self.part, self.url, self.settings, descriptor).to_line()

    def ready(self) -> None:
        """Wait until it says so."""
        assert self.process is not None
        assert self.process.stdout is not None
        said = self.process.stdout.readline().decode().strip()
        assert said == READY, f"{self.part} said {said!r}: {self.log.read_text()[-2000:]}"

    def kill(self) -> None:
        """kill -9."""
        self._signal(signal.SIGKILL)
        self._gone()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, as an operator does."""
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._gone()

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def _gone(self) -> None:
        if self.process is None:
            return
        self.process.wait(_STARTED)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@dataclass(eq=False)
class Service:
    """Two web processes and raters over one database."""

    webs: list[Child]
    raters: list[Child]

    @property
    def addresses(self) -> list[str]:
        return [web.address for web in self.webs]

    def tend(self) -> list[Child]:
        """Start what has died, as the supervisor does; what was started."""
        dead = [child for child in (*self.webs, *self.raters) if not child.alive()]
        for child in dead:
            child._gone()
            child.start(wait=False)
        return dead

    def said(self) -> str:
        """What all of them logged."""
        return "\n".join(child.log.read_text() for child in (*self.webs, *self.raters))


@contextmanager
def service(
    url: str,
    home: Path,
    *,
    webs: int = 2,
    raters: Sequence[str] = ("rater", "quick rater"),
    settings: ServingSettings | None = None,
) -> Iterator[Service]:
    """A service that answers; nothing of it runs afterwards."""
    settings = settings or ServingSettings(port=0)
    with ExitStack() as stack:
        made = Service([], [])
        for _ in range(webs):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
            made.webs.append(Child("web", url, home, listening, settings))
        made.raters.extend(Child(part, url, home) for part in raters)
        children = (*made.webs, *made.raters)
        try:
            for child in children:
                child.start(wait=False)
            for child in children:
                child.ready()
            yield made
        finally:
            for child in children:
                if child.process is not None:
                    child.thaw()
                    child.kill()


def wait_until(holds: Callable[[], bool], seconds: float, what: str) -> float:
    """Seconds until it holds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began
