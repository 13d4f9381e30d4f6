"""Network namespaces of one test, joined by bridges: what runs in them reaches nothing else."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: What `setns` is told to enter, CLONE_NEWNET in <sched.h>.
_NETWORK_KIND = 0x40000000
_SWITCH = "switch"


class Namespaces:
    """Each has a loopback of its own, and an address on each bridge that it is joined to."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._links = 0

    def add(self, name: str, **addresses: str) -> None:
        """A namespace with these addresses, by the name of their bridge, such as ``front="172.30.84.2/24"``."""
        _ip("netns", "add", self._full(name))
        self._names.append(name)
        self._ip(name, "link", "set", "lo", "up")
        for bridge, address in addresses.items():
            self._links += 1
            link = f"link{self._links}"
            peer = ("peer", "name", bridge, "netns", self._full(name))
            self._ip(_SWITCH, "link", "add", link, "type", "veth", *peer)
            self._ip(_SWITCH, "link", "set", link, "master", bridge, "up")
            self._ip(name, "address", "add", address, "dev", bridge)
            self._ip(name, "link", "set", bridge, "up")

    def add_bridges(self, bridges: Iterable[str]) -> None:
        """What stands for the networks, in a namespace of their own."""
        self.add(_SWITCH)
        for bridge in bridges:
            self._ip(_SWITCH, "link", "add", bridge, "type", "bridge")
            self._ip(_SWITCH, "link", "set", bridge, "up")

    def command(self, name: str, *command: object) -> list[str]:
        """The same command inside; mounts that it makes are its own."""
        return ["ip", "netns", "exec", self._full(name), *map(str, command)]

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Sockets and processes that this thread opens meanwhile are inside."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            within = os.open(f"/run/netns/{self._full(name)}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(within)
            finally:
                os.close(within)
            try:
                yield
            finally:
                _enter(before)
        finally:
            os.close(before)

    def processes(self, name: str) -> list[int]:
        """Their numbers, in the order in which they began."""
        return sorted(map(int, _ip("netns", "pids", self._full(name)).split()))

    def remove(self) -> None:
        """With everything that still runs in them."""
        for name in reversed(self._names):
            deadline = time.monotonic() + 30
            while found := [one for one in self.processes(name) if one != os.getpid()]:
                assert time.monotonic() < deadline, found
                for one in found:
                    _kill(one)
                time.sleep(0.05)
            _ip("netns", "delete", self._full(name))

    def _full(self, name: str) -> str:
        return f"tiltyard-{os.getpid()}-{name}"

    def _ip(self, name: str, *arguments: str) -> str:
        return _ip("-netns", self._full(name), *arguments)


@contextmanager
def namespaces(*bridges: str) -> Iterator[Namespaces]:
    """Bridges that lead nowhere else, and what is added to them; all is gone afterwards."""
    made = Namespaces()
    try:
        made.add_bridges(bridges)
        yield made
    finally:
        made.remove()


def only_child(parent: int) -> int:
    """The process that this one started, in whichever of its threads."""
    lists = [path.read_text().split() for path in Path(f"/proc/{parent}/task").glob("*/children")]
    (child,) = [int(one) for listed in lists for one in listed]
    return child


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _enter(namespace: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, _NETWORK_KIND) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout
