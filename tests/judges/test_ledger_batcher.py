"""The books: entries of many tasks in few transactions, each confirmed once it is written."""

import asyncio
import threading
from contextlib import closing

import pytest

from support.billed_judges import RUN, intent, settlement
from tiltyard.errors import BadOption
from tiltyard.judges.ledger import Ledger, ReservationResult
from tiltyard.judges.ledger_batcher import LedgerBatcher


def opened(file: str, cap: int | None = None) -> LedgerBatcher:
    with closing(Ledger(file)) as ledger:
        ledger.open_run(RUN, "plan", cap)
    return LedgerBatcher(file)


def row(file: str) -> tuple[int, int]:
    with closing(Ledger(file)) as ledger:
        found = ledger.run(RUN)
        return found.held, found.spent


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the transactions that are written."""
    sizes: list[int] = []
    write = Ledger.write

    def noted(self, intents, settlements, withdrawn=()):
        sizes.append(len(intents) + len(settlements))
        return write(self, intents, settlements, withdrawn)

    monkeypatch.setattr(Ledger, "write", noted)
    return sizes


def test_entries_that_come_together_are_written_together(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = counted(monkeypatch)

    async def enter() -> None:
        books = opened(file)
        intents = [intent(f"k{number}", 2) for number in range(200)]
        assert await asyncio.gather(*(books.begin(one) for one in intents)) == [ReservationResult.YES] * 200
        await asyncio.gather(*(books.settle(settlement(one, 1, body={})) for one in intents))
        assert len(await books.replies(one.request_key for one in intents)) == 200
        books.close()

    asyncio.run(enter())
    assert sum(sizes) == 400
    assert len(sizes) <= 4
    assert row(file) == (0, 200)


async def test_an_entry_is_confirmed_only_once_it_is_written(file: str) -> None:
    books = opened(file)
    one = intent("k", 5)
    assert await books.begin(one) is ReservationResult.YES
    assert row(file) == (5, 0)
    await books.settle(settlement(one, 2))
    assert row(file) == (0, 2)
    books.close()


def test_an_error_reaches_everybody_who_waits_and_the_books_go_on(file: str) -> None:
    async def enter() -> None:
        books = opened(file)
        good, bad = intent("good", 1), intent("bad", 1)
        await asyncio.gather(books.begin(good), books.begin(bad))
        results = await asyncio.gather(
            books.settle(settlement(good, 1, body={})),
            books.settle(settlement(bad, 1, body={"no": object()})),
            books.begin(intent("third", 1)),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [TypeError] * 3
        await books.settle(settlement(good, 1, body={}))
        assert await books.begin(intent("third", 1)) is ReservationResult.YES
        books.close()

    asyncio.run(enter())
    assert row(file) == (2, 1)


async def test_drained_means_that_all_is_written_even_what_nobody_waits_for(file: str) -> None:
    books = opened(file)
    await books.drained()
    one = intent("k", 5)
    await books.begin(one)
    books.note(settlement(one, 4))
    await books.drained()
    assert row(file) == (0, 4)
    books.note(settlement(intent("bad"), 1, body={"no": object()}))
    await books.drained()
    books.close()


def test_a_reply_in_hand_is_written_though_its_task_is_stopped(file: str) -> None:
    async def enter() -> None:
        books = opened(file)
        one = intent("k", 5)
        await books.begin(one)
        task = asyncio.create_task(books.settle(settlement(one, 2, body={"n": 1})))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await books.drained()
        assert await books.replies(["k"]) == {"k": [{"n": 1}]}
        books.close()

    asyncio.run(enter())
    assert row(file) == (0, 2)


@pytest.mark.parametrize("turns", range(6))
async def test_whoever_is_stopped_before_sending_holds_nothing(file: str, turns: int) -> None:
    """Stopped before, while or just after the intent is written: in each case, as if never begun."""

    books = opened(file, cap=10)
    written = threading.Event()
    task = asyncio.create_task(books.begin(intent("k", 10)))
    for _ in range(turns):
        await asyncio.sleep(0)
    if turns >= 2:
        books._thread.submit(written.set)
        await asyncio.get_running_loop().run_in_executor(None, written.wait)
    task.cancel()
    begun = (await asyncio.gather(task, return_exceptions=True))[0]
    await books.drained()
    if isinstance(begun, asyncio.CancelledError):
        assert row(file) == (0, 0)
        assert await books.begin(intent("k", 10)) is ReservationResult.YES
    books.close()


async def test_whoever_is_stopped_while_the_intent_is_written_holds_nothing(file: str) -> None:
    books = opened(file, cap=10)
    go_on = threading.Event()
    books._thread.submit(go_on.wait)
    task = asyncio.create_task(books.begin(intent("k", 10)))
    while books._intents or not books._flushing:  # noqa: ASYNC110  until the thread has it
        await asyncio.sleep(0)
    task.cancel()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
    go_on.set()
    await books.drained()
    assert row(file) == (0, 0)
    books.close()


async def test_an_answer_that_arrives_with_the_order_to_stop_is_taken_back(file: str) -> None:
    books = opened(file, cap=10)
    write = books._write_together

    async def write_and_stop(*entries) -> None:
        await write(*entries)
        task.cancel()

    books._write_together = write_and_stop
    task = asyncio.create_task(books.begin(intent("k", 10)))
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
    await books.drained()
    assert row(file) == (0, 0)
    books.close()


def test_books_that_cannot_be_opened_leave_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(BadOption):
        LedgerBatcher("mysql://nowhere")
    assert set(threading.enumerate()) <= before


def test_closed_books_leave_no_thread_behind(file: str) -> None:
    before = set(threading.enumerate())
    opened(file).close()
    assert set(threading.enumerate()) <= before
