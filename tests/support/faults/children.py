"""The service's processes, each to be killed by itself: what `tiltyard serve` starts, started by hand."""

import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.child_processes import ChildProcess, run_quick_rater
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.server.supervisor import ChildConfig, run_child

_SECRET = "a secret for tests that is long enough"


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
    process: ChildProcess | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = Path(tempfile.mkstemp(prefix=f"{self.part}-", suffix=".log", dir=self.home)[1])

    @property
    def address(self) -> str:
        assert self.listening is not None
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def start(self, *, wait: bool = True) -> None:
        """Start it; its socket is kept here, so that whoever comes while it is dead waits in line."""
        environment = {
            "TILTYARD_HOME": str(self.home),
            "TILTYARD_SECRET_KEY": _SECRET,
            "OPENBLAS_NUM_THREADS": "1",
            **self.variables,
        }
        config = ChildConfig(self.part, self.url, self.settings, self.listening)
        run = run_quick_rater if self.part == "quick rater" else run_child
        self.process = ChildProcess(config, self.log, environment, run)
        if wait:
            self.ready()

    def ready(self) -> None:
        """Wait until it says so."""
        assert self.process is not None
        self.process.wait_until_ready()

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
        if self.process is not None and self.process.alive():
            self.thaw()
            self._signal(signal.SIGTERM)
            if not self.process.join(30):
                self._signal(signal.SIGKILL)
        self._gone()

    def alive(self) -> bool:
        return self.process is not None and self.process.alive()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _gone(self) -> None:
        if self.process is not None:
            assert self.process.join(60)


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
