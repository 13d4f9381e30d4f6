"""How the latest tick of each schedule went, read from what DBOS keeps."""

import asyncio
from datetime import UTC, datetime

import psycopg
import pytest

from support.worker_process import until
from tiltyard.arena.operators.schedule_status import ScheduledRun, read_ticks
from tiltyard.jobs.schedule import Schedule, run_schedules

YEARLY = "0 0 1 1 *"


def ticks(database: str) -> dict[str, ScheduledRun]:
    async def reading() -> dict[str, ScheduledRun]:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            return await read_ticks(connection)

    return asyncio.run(reading())


def failing(moment: datetime) -> None:
    raise OSError("no room")


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_what_was_done_and_what_failed_is_told(database: str):
    assert ticks(database) == {}
    schedules = [Schedule("well", YEARLY, lambda _moment: None), Schedule("badly", YEARLY, failing)]
    due = schedules[0].due(datetime.now(UTC))
    with run_schedules(database, schedules):
        until(lambda: {one.state for one in ticks(database).values()} == {"done", "failed"})
    assert ticks(database) == {
        "well": ScheduledRun("well", due, "done"),
        "badly": ScheduledRun("badly", due, "failed"),
    }
