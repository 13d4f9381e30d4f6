"""Every vote of an arena in log order, with its voter: what batch ratings are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.policy.state.events import NO_SESSION

__all__ = ["VoteLog"]

Column = npt.NDArray[Any]

#: A vote takes 21 bytes: two models, a prompt (of the roster, or a free one), a session and a kind.
_DTYPES: Mapping[str, type[np.generic]] = {
    "a": np.uint32,
    "b": np.uint32,
    "prompt": np.uint32,
    "session": np.int64,
    "kind": np.uint8,
}
_FIRST_ROOM_VOTES = 256
#: How much more room is made when there is none left.
_GROWTH_RATIO = 1.25


class VoteLog:
    """Votes as columns, with ``a`` on the left and ``b`` on the right.

    ``session`` is the voter's, or `NO_SESSION`. Room for more votes grows by a quarter, so a vote takes at most 27 bytes.
    """

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {name: np.empty(0, dtype) for name, dtype in _DTYPES.items()}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, a: int, b: int, prompt: int, session: int, kind: int) -> None:
        """Add one vote."""
        n = self._n
        if n == len(self._columns["a"]):
            self._make_room(n + 1)
        columns = self._columns
        columns["a"][n], columns["b"][n], columns["prompt"][n] = a, b, prompt
        columns["session"][n], columns["kind"][n] = session, kind
        self._n = n + 1

    def add_many(self, a: Column, b: Column, prompt: Column, session: Column, kind: Column) -> None:
        """Add votes in order."""
        stop = self._n + len(a)
        if stop > len(self._columns["a"]):
            self._make_room(stop)
        for name, more in zip(_DTYPES, (a, b, prompt, session, kind), strict=True):
            self._columns[name][self._n : stop] = more
        self._n = stop

    def columns(self) -> dict[str, Column]:
        """The columns by name."""
        return {name: column[: self._n] for name, column in self._columns.items()}

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> VoteLog:
        """The log of `columns`."""
        log = cls()
        log.add_many(*(columns[name] for name in _DTYPES))
        return log

    def table(self, models: Sequence[str], prompts: Sequence[str] | None, votes: int | None = None) -> Table:
        """The first ``votes`` of them, or all, as battles of named models; codes of the table are by sorted name.

        ``prompts`` has the names of the roster's prompts; ``None`` if prompts are free: a number from 1 up is one prompt.
        """
        known = {name: column[:votes] for name, column in self.columns().items()}
        place = np.argsort(np.argsort(np.array(models, dtype=object), kind="stable"), kind="stable")
        code: npt.NDArray[np.integer[Any]] = place.astype(np.uint16 if len(models) <= 1 << 16 else np.int32)
        session = known["session"]
        codes = CodedBattles(
            code[known["a"]],
            code[known["b"]],
            known["kind"],
            prompt=known["prompt"].astype(np.uint64)
            if prompts is None
            else hash_texts(prompts)[known["prompt"]],
            # NO_SESSION becomes the key of a battle without a voter.
            voter=(session - NO_SESSION).astype(np.uint64) if (session != NO_SESSION).any() else None,
        )
        return Table.from_codes(sorted(models), codes)

    def _make_room(self, votes: int) -> None:
        room = max(votes, int(self._n * _GROWTH_RATIO), _FIRST_ROOM_VOTES)
        for name, column in self._columns.items():
            wider = np.empty(room, column.dtype)
            wider[: self._n] = column[: self._n]
            self._columns[name] = wider
