"""Several connections at once: no request twice, no picodollar too much, nobody waits for ever."""

import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context

import pytest

from support.billed_judges import RUN, intent, settlement
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.judges.ledger import Ledger, ReservationResult

CAP, RESERVED, COST = 100, 17, 3


def hammer(database: str, seed: int, rounds: int) -> tuple[Counter[str], int]:
    """Begin and settle what many others begin too; how often each was begun, and the most ever committed."""
    drawn = random.Random(seed)
    begun: Counter[str] = Counter()
    most = 0
    with closing(Ledger(database)) as ledger:
        for number in range(rounds):
            keys = drawn.sample(range(30), 4)
            intents = [intent(f"k{key}", RESERVED, attempt_id=f"{seed}-{number}-{key}") for key in keys]
            held = ledger.begin(intents)
            yes = [one for one, answer in zip(intents, held, strict=True) if answer is ReservationResult.YES]
            row = ledger.run(RUN)
            most = max(most, row.held + row.spent)
            begun.update(one.request_key for one in yes)
            ledger.settle([settlement(one, COST, body={"by": seed}) for one in yes])
    return begun, most


def check(database: str, results: list[tuple[Counter[str], int]]) -> None:
    begun = sum((counts for counts, _ in results), Counter())
    assert set(begun.values()) == {1}
    assert max(most for _, most in results) <= CAP
    with closing(Ledger(database)) as ledger:
        row = ledger.run(RUN)
        assert (row.held, row.spent) == (0, COST * len(begun))
        assert len(ledger.replies(begun)) == len(begun)


def test_threads_on_a_small_budget_begin_nothing_twice_and_never_exceed_it(database: str) -> None:
    with closing(Ledger(database)) as ledger:
        ledger.open_run(RUN, "plan", CAP)
    with ThreadPoolExecutor(4) as pool:
        check(database, list(pool.map(hammer, [database] * 4, range(4), [25] * 4)))


@pytest.mark.slow(but_every=2)
def test_processes_on_a_small_budget_begin_nothing_twice_and_never_exceed_it(database: str) -> None:
    with closing(Ledger(database)) as ledger:
        ledger.open_run(RUN, "plan", CAP)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        check(database, list(pool.map(hammer, [database] * 2, range(2), [40] * 2)))


def test_workers_that_settle_and_begin_the_same_in_other_orders_do_not_wait_for_each_other(
    database: str,
) -> None:
    with closing(Ledger(database)) as ledger:
        ledger.open_run(RUN, "plan", None)

    def work(worker: int) -> int:
        under_way, begun = [], 0
        with closing(Ledger(database)) as own:
            for number in range(60):
                keys = [f"{number // 2}-{k}" for k in range(4)][:: 1 if worker else -1]
                intents = [intent(key, 1, attempt_id=f"{worker}-{number}-{key}") for key in keys]
                endings = [settlement(one, 0, state=QuestionState.PROVIDER_ERROR) for one in under_way]
                held = own.write(intents, endings)
                under_way = [
                    one for one, yes in zip(intents, held, strict=True) if yes is ReservationResult.YES
                ]
                begun += len(under_way)
        return begun

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(work, range(2))) >= 120


def test_two_runs_that_bring_the_same_replies_do_not_wait_for_each_other(database: str) -> None:
    def work(worker: int) -> None:
        with closing(Ledger(database)) as own:
            own.open_run(f"run-{worker}", "plan", None)
            for number in range(30):
                keys = [f"{number}-{k}" for k in range(8)][:: 1 if worker else -1]
                intents = [
                    intent(key, 1, run=f"run-{worker}", attempt_id=f"{worker}-{number}-{key}") for key in keys
                ]
                own.begin(intents)
                own.settle([settlement(one, 1, body={"worker": worker}) for one in intents])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    with closing(Ledger(database)) as ledger:
        assert len(ledger.replies(f"{number}-{k}" for number in range(30) for k in range(8))) == 240


def test_many_open_a_new_database_at_once(database: str) -> None:
    def work(_: int) -> None:
        Ledger(database).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
