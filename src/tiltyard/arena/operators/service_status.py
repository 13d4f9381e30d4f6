"""What monitoring reads of the whole service: raters' lag, and the space that the data takes."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tiltyard.arena.live.turn_slots import count_slots
from tiltyard.arena.log.buckets import fetch_row_sync
from tiltyard.arena.rating.rater_lag import LagSweep, RaterLag
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect

#: Seconds for which the size of the database is cached: the server looks at every file for it.
_SIZE_CACHE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What one look at database and disk has found."""

    #: ``None`` if the database does not answer.
    lags: Sequence[RaterLag] | None
    database_bytes: int | None
    #: Of the disk that has the data folder: free bytes, and all.
    disk: tuple[int, int] | None
    #: Turns of live battles that run, and voters who wait for a place.
    live_turns: tuple[int, int] = (0, 0)


class ServiceStatusReader:
    """Reads the status on a connection of its own, for one caller at a time."""

    def __init__(self, url: str, home: Path | None = None) -> None:
        self._url = url
        self._home = home
        self._sweep = LagSweep()
        self._size: tuple[float, int] | None = None
        self._lock = threading.Lock()

    def read(self) -> ServiceStatus:
        """Read the status; a database that does not answer is part of it."""
        with self._lock:
            try:
                with connect(self._url, name="tiltyard metrics") as connection:
                    lags, size = self._sweep.read(connection), self._database_bytes(connection)
                    live = count_slots(connection)
            except StoreFault:
                return ServiceStatus(None, None, self._disk())
            return ServiceStatus(lags, size, self._disk(), live)

    def _database_bytes(self, connection: psycopg.Connection) -> int:
        now = time.monotonic()
        if self._size is None or now - self._size[0] >= _SIZE_CACHE_SECONDS:
            row = fetch_row_sync(connection, "overviews_size", {}, "read the size of the database")
            assert row is not None
            self._size = (now, int(row[0]))
        return self._size[1]

    def _disk(self) -> tuple[int, int] | None:
        if self._home is None:
            return None
        try:
            found = shutil.disk_usage(self._home)
        except OSError:
            return None
        return found.free, found.total
