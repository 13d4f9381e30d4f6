"""What one batch changes in matchups that were served, before it is written; at most one ending for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypedDict

from tiltyard.errors import StoreFault

#: Source and serial.
Key = tuple[int, int]

_VOTE_CODE = 1


class MatchupEnding(TypedDict):
    """A row of the table ``endings``, in the order of its columns."""

    source: int
    serial: int
    position: int
    kind: int
    outcome: int | None
    blind: bool | None
    undone: int | None
    #: Of a vote: why it is not rated.
    mark: int | None


class EndingBuffer:
    """The changes of a batch to matchups that were served.

    A matchup's first ending is inserted, and the primary key prevents a second one. An undo marks the row, and
    only a marked row is replaced, when the reopened matchup ends again. A matchup may end, be reopened and end
    again within one batch: its row is written once, in its final state.
    """

    def __init__(self) -> None:
        self._changes: list[tuple[str, Mapping[str, object]]] = []
        #: Serials of matchups that were shown, by source and by when they expire.
        self._shown: dict[tuple[int, datetime], list[int]] = {}
        #: Serials of votes that were admitted and the positions of their events, by source.
        self._admitted: dict[int, dict[int, int]] = {}
        self._inserted: list[MatchupEnding] = []
        self._of_batch: dict[Key, MatchupEnding] = {}
        self._undone: set[Key] = set()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `rows`."""
        return tuple(MatchupEnding.__annotations__)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """Endings to insert."""
        return [tuple(ending.values()) for ending in self._inserted]

    def statements(self) -> Iterator[tuple[str, Mapping[str, object], int]]:
        """Names and values of statements to run after the rows are inserted, and how many rows each changes."""
        for (source, expires_at), serials in self._shown.items():
            shown = {"source": source, "expires_at": expires_at, "serials": serials}
            yield "log_show", shown, len(serials)
        for source, positions in self._admitted.items():
            admitted = {"source": source, "serials": list(positions), "positions": list(positions.values())}
            yield "log_admit", admitted, len(positions)
        for name, values in self._changes:
            yield name, values, 1

    def show(self, key: Key, expires_at: datetime) -> None:
        """Mark a prefetched matchup as shown."""
        self._shown.setdefault((key[0], expires_at), []).append(key[1])

    def admit(self, key: Key, position: int) -> None:
        """Mark a vote that waited as admitted by the event at a position."""
        self._admitted.setdefault(key[0], {})[key[1]] = position

    def end(self, ending: MatchupEnding, *, reopened: bool) -> None:
        key = (ending["source"], ending["serial"])
        known = self._of_batch.setdefault(key, ending)
        if known is not ending:
            if known["undone"] is None:
                raise StoreFault(f"matchup {key[1]} has ended already in this batch; try again")
            known.update(ending)
        elif reopened:
            self._changes.append(("log_replace_ending", ending))
        else:
            self._inserted.append(ending)

    def undo(self, key: Key, position: int, vote: int, ballot: int, expires_at: datetime) -> None:
        """Add the undo of the vote at a position, which reopens its matchup."""
        matchup = {"source": key[0], "serial": key[1]}
        known = self._of_batch.get(key)
        if known is not None:
            known["undone"] = position
        else:
            self._undone.add(key)
            self._changes.append(("log_undo", matchup | {"vote": vote, "position": position}))
        self._changes.append(("log_reopen", matchup | {"ballot": ballot, "expires_at": expires_at}))

    def reveal(self, key: Key) -> None:
        """Mark the names of a matchup as revealed."""
        self._changes.append(("log_reveal", {"source": key[0], "serial": key[1]}))

    def stands(self, key: Key, position: int) -> bool | None:
        """Whether the vote at a position was not undone; ``None`` if this batch has not changed its matchup."""
        known = self._of_batch.get(key)
        if known is not None:
            return (known["kind"], known["position"], known["undone"]) == (_VOTE_CODE, position, None)
        return False if key in self._undone else None
