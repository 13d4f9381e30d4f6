"""CPU time and memory of processes, as Linux counts them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_USER, _OF_CHILDREN = 11, 13


@dataclass(frozen=True)
class Usage:
    """CPU seconds by group of processes, at a moment or between two."""

    cpu: dict[str, float]

    @classmethod
    def of(cls, groups: Mapping[str, Iterable[int]]) -> Usage:
        return cls({name: cpu_of(pids) for name, pids in groups.items()})

    def __sub__(self, before: Usage) -> Usage:
        return Usage({name: spent - before.cpu[name] for name, spent in self.cpu.items()})


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds of these processes and of those children that have ended."""
    return sum(sum(_times(pid)) for pid in pids) / _TICK


def memory_of(pids: Iterable[int]) -> float:
    """MiB of these processes; what several share is counted once, in parts."""
    return sum(_shared_out(pid) for pid in pids) / 1024


def family(pid: int) -> list[int]:
    """A process, and its children of now."""
    return [pid, *map(int, _read(pid, f"task/{pid}/children").split())]


def _times(pid: int) -> list[int]:
    parts = _read(pid, "stat").rpartition(")")[2].split()
    return [int(part) for part in parts[_USER : _OF_CHILDREN + 2]]


def _shared_out(pid: int) -> int:
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _read(pid: int, name: str) -> str:
    """A file of a process; nothing of one that has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
