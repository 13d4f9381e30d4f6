"""The ledger on both databases: runs, replies, attempts, money, batches, limits."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from support.billed_judges import RUN, intent, settlement
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import BadOption, TiltyardError, UnreadableFile
from tiltyard.judges.ledger import Ledger, ReservationResult
from tiltyard.judges.providers.provider import Usage

HOSTILE = {
    "text": "a\0b \ud800 \U0001f600 \u2028 '; DROP TABLE judge_replies; -- %s :key \\u0000",
    "deep": [{"ключ": [None, True, 1.5, -(10**30)]}],
    "": "",
}


@pytest.fixture
def ledger(database: str) -> Iterator[Ledger]:
    with closing(Ledger(database)) as opened:
        yield opened


@pytest.fixture
def run(ledger: Ledger) -> Ledger:
    ledger.open_run(RUN, "plan", 100)
    return ledger


def money(ledger: Ledger) -> tuple[int, int]:
    row = ledger.run(RUN)
    return row.held, row.spent


def test_a_run_goes_on_under_its_own_plan_only(ledger: Ledger) -> None:
    begun = ledger.open_run(RUN, "plan", 100, "expected")
    assert (begun.plan, begun.generation, begun.cap, begun.held, begun.spent) == ("plan", 0, 100, 0, 0)
    assert ledger.plan_of(RUN) == "plan"
    assert ledger.plan_of("other") is None
    with pytest.raises(BadOption, match="another"):
        ledger.open_run(RUN, "other plan", 7)
    assert ledger.run(RUN).cap == 100
    again = ledger.open_run(RUN, "plan", None, "expected otherwise")
    assert (again.cap, again.estimate) == (None, "expected")


def test_a_budget_beyond_what_a_column_holds_is_refused_in_words(ledger: Ledger) -> None:
    with pytest.raises(BadOption, match="ledger can store"):
        ledger.open_run(RUN, "plan", 2**63)
    assert ledger.open_run(RUN, "plan", 2**63 - 1).cap == 2**63 - 1
    assert ledger.begin([intent(reserved=5)]) == [ReservationResult.YES]


def test_a_new_pass_is_begun_once(run: Ledger) -> None:
    assert run.next_generation(RUN, 0) == 1
    assert run.next_generation(RUN, 0) == 1
    assert run.next_generation(RUN, 1) == 2


def test_replies_come_back_as_they_were_first_ask_first(run: Ledger) -> None:
    first, second = intent("k"), intent("k", ask=1)
    run.begin([first, second])
    run.settle([settlement(second, 1, body={"n": 1}), settlement(first, 1, body=HOSTILE)])
    assert run.replies(["k", "missing", "k"]) == {"k": [HOSTILE, {"n": 1}]}
    assert run.replies([]) == {}


def test_many_replies_are_looked_up_at_once(run: Ledger) -> None:
    every = [intent(f"k{number}", 0) for number in range(1203)]
    run.begin(every)
    run.settle([settlement(one, 0, body={"key": one.request_key}) for one in every])
    found = run.replies(one.request_key for one in every)
    assert {key: bodies[0]["key"] for key, bodies in found.items()} == {key: key for key in found}
    assert len(found) == len(every)


def test_the_first_reply_of_a_request_stands(run: Ledger) -> None:
    run.open_run("other", "plan", None)
    mine, theirs = intent("k"), intent("k", run="other")
    assert run.begin([mine, theirs]) == [ReservationResult.YES, ReservationResult.YES]
    run.settle([settlement(mine, 1, body={"n": 1})])
    run.settle([settlement(theirs, 1, body={"n": 2})])
    assert run.replies(["k"]) == {"k": [{"n": 1}]}


def test_money_is_held_then_spent(run: Ledger) -> None:
    one, two = intent("one", 60), intent("two", 40)
    assert run.begin([one, two]) == [ReservationResult.YES, ReservationResult.YES]
    assert money(run) == (100, 0)
    run.settle([settlement(one, 7)])
    assert money(run) == (40, 7)
    run.settle([settlement(one, 7), settlement(one, 50)])
    assert money(run) == (40, 7)
    assert run.lose("worker-0") == 1
    assert money(run) == (0, 47)
    assert run.lose("worker-0") == 0
    assert {attempt.state for attempt in run.attempts(RUN)} == {"ok", "lost"}


def test_only_the_dead_workers_calls_are_lost_and_no_batches(run: Ledger) -> None:
    run.begin([intent("mine", 1), intent("theirs", 2, worker="worker-1")])
    run.begin_batch("b", "0", [intent("item", 4, batch="b", place=0)])
    assert run.lose("worker-0") == 1
    assert money(run) == (6, 1)


def test_a_lost_call_of_unknown_price_has_no_known_cost(run: Ledger) -> None:
    run.begin([intent("dear", 7), intent("unknown", 0, priced=False)])
    assert run.lose("worker-0") == 2
    costs = {one.request_key: (one.state, one.cost) for one in run.attempts(RUN)}
    assert costs == {"dear": ("lost", 7), "unknown": ("lost", None)}
    assert money(run) == (0, 7)


def test_what_a_batch_holds_is_waited_for_only_while_somebody_waits_for_the_batch(run: Ledger) -> None:
    run.begin_batch("b", "0", [intent("item", 60, batch="b", place=0)])
    assert run.begin([intent("item", 1), intent("k", 50)]) == [
        ReservationResult.TAKEN,
        ReservationResult.WAIT,
    ]
    run.watch_batch("b", 0.0)
    assert run.begin([intent("item", 1), intent("k", 50)]) == [ReservationResult.LEFT, ReservationResult.NO]
    assert run.begin_batch("c", "1", [intent("item", 1), intent("k", 50)]) == ([], ReservationResult.NO)
    assert run.begin_batch("c", "1", [intent("item", 1)]) == ([], ReservationResult.LEFT)
    live = intent("live", 30)
    assert run.begin([live]) == [ReservationResult.YES]
    # The live call may leave 40, never 41: the batch keeps its 60.
    assert run.begin([intent("k", 40), intent("l", 41)]) == [ReservationResult.WAIT, ReservationResult.NO]
    assert run.begin_batch("c", "1", [intent("item", 1), intent("live", 1)]) == ([], ReservationResult.TAKEN)
    run.watch_batch("b")
    assert run.begin([intent("item", 1), intent("l", 41)]) == [
        ReservationResult.TAKEN,
        ReservationResult.WAIT,
    ]
    assert money(run) == (90, 0)


def test_what_is_not_covered_now_waits_and_what_never_will_be_is_refused(run: Ledger) -> None:
    big = intent("big", 90)
    assert run.begin([big]) == [ReservationResult.YES]
    assert run.begin([intent("k", 11)]) == [ReservationResult.WAIT]
    assert run.begin([intent("k", 101)]) == [ReservationResult.NO]
    run.settle([settlement(big, 50)])
    assert run.begin([intent("k", 51)]) == [ReservationResult.NO]
    assert run.begin([intent("k", 50)]) == [ReservationResult.YES]
    assert money(run) == (50, 50)


def test_of_several_those_that_fit_are_held(run: Ledger) -> None:
    held = run.begin([intent("a", 60), intent("b", 60), intent("c", 40), intent("a", 1)])
    assert held == [
        ReservationResult.YES,
        ReservationResult.WAIT,
        ReservationResult.YES,
        ReservationResult.TAKEN,
    ]
    assert money(run) == (100, 0)
    assert Counter(attempt.state for attempt in run.attempts(RUN)) == {"intent": 2}


def test_a_request_under_way_or_answered_is_taken(run: Ledger) -> None:
    one = intent("k", 5)
    assert run.begin([one]) == [ReservationResult.YES]
    assert run.begin([intent("k", 5), intent("k", 5, ask=1)]) == [
        ReservationResult.TAKEN,
        ReservationResult.YES,
    ]
    run.settle([settlement(one, 1, body={})])
    assert run.begin([intent("k", 5)]) == [ReservationResult.TAKEN]
    assert money(run) == (5, 1)
    failed = intent("f", 5)
    run.begin([failed])
    run.settle([settlement(failed, 0, state=QuestionState.PROVIDER_ERROR, error="no")])
    assert run.begin([intent("f", 5)]) == [ReservationResult.YES]


def test_without_a_budget_and_with_unknown_prices_all_is_held(ledger: Ledger) -> None:
    ledger.open_run(RUN, "plan", None)
    one = intent("k", 0)
    assert ledger.begin([one, intent("dear", 10**18)]) == [ReservationResult.YES, ReservationResult.YES]
    ledger.settle([settlement(one, None, usage=Usage(5, 6, 7, 8))])
    (row,) = [attempt for attempt in ledger.attempts(RUN) if attempt.request_key == "k"]
    assert (row.cost, row.reserved, row.state) == (None, 0, "ok")
    assert (row.input_tokens, row.output_tokens, row.cache_write_tokens, row.cache_read_tokens) == (
        5,
        6,
        7,
        8,
    )


def test_what_is_released_can_be_held_in_the_same_breath(run: Ledger) -> None:
    one = intent("one", 100)
    run.begin([one])
    assert run.write([intent("two", 99)], [settlement(one, 1)]) == [ReservationResult.YES]
    assert money(run) == (99, 1)
    assert run.write([], []) == []


def test_an_attempt_that_was_never_sent_leaves_no_trace(run: Ledger) -> None:
    one, two = intent("one", 60), intent("two", 40)
    run.begin([one, two])
    run.settle([settlement(two, 3)])
    assert run.write([intent("three", 90)], [], [one, two, one]) == [ReservationResult.YES]
    assert money(run) == (90, 3)
    assert {attempt.request_key for attempt in run.attempts(RUN)} == {"two", "three"}


def test_a_reply_that_comes_after_its_worker_was_given_up_is_kept_and_not_counted_twice(run: Ledger) -> None:
    one = intent("k", 10)
    run.begin([one])
    run.lose("worker-0")
    run.settle([settlement(one, 2, body={"late": True})])
    assert run.replies(["k"]) == {"k": [{"late": True}]}
    assert money(run) == (0, 10)


def test_an_error_may_say_anything(run: Ledger) -> None:
    one = intent("k")
    run.begin([one])
    run.settle([settlement(one, 0, state=QuestionState.PROVIDER_ERROR, error="a\0b \ud800 %s :x ' é")])
    (row,) = run.attempts(RUN)
    assert row.error == "ab ? %s :x ' é"


def test_attempts_come_by_question_and_name_their_batch(run: Ledger) -> None:
    live = intent("a", 1, question_id="2")
    run.begin([live])
    run.begin_batch("named", "0", [intent("b", 1, question_id="1", batch="named", place=0)])
    run.begin_batch("unnamed", "0", [intent("c", 1, question_id="3", batch="unnamed", place=0)])
    run.name_batch("named", "msgbatch_1")
    rows = list(run.attempts(RUN))
    assert [(row.question_id, row.batch) for row in rows] == [("1", "msgbatch_1"), ("2", None), ("3", "")]
    assert all(row.finished_at is None and abs(row.started_at - time.time()) < 60 for row in rows)


def test_a_batch_takes_the_longest_prefix_that_is_covered(run: Ledger) -> None:
    items = [intent(f"k{n}", 30, batch="b", place=n) for n in range(5)]
    run.begin([intent("k1", 5)])
    covered, held = run.begin_batch("b", "0", items)
    assert held is ReservationResult.YES
    assert [one.place for one in covered] == [0, 2, 3]
    assert money(run) == (95, 0)
    (row,) = run.open_batches(RUN, "0")
    assert (row.batch, row.provider_id, row.size, row.judge) == ("b", None, 3, "judge")
    assert [one.request_key for one in run.batch_intents(row, RUN).values()] == ["k0", "k2", "k3"]
    assert run.begin_batch("c", "0", [intent("k4", 30)]) == ([], ReservationResult.WAIT)
    assert run.begin_batch("c", "0", [intent("k4", 101)]) == ([], ReservationResult.NO)
    assert run.begin_batch("c", "0", [intent("k0", 1)]) == ([], ReservationResult.TAKEN)
    assert len(run.open_batches(RUN, "0")) == 1
    assert run.open_batches(RUN, "1") == []


def test_a_batch_is_named_and_closed(run: Ledger) -> None:
    began = time.time()
    items = [intent(f"k{n}", 30, batch="b", place=n) for n in range(3)]
    run.begin_batch("b", "0", items)
    assert run.claimed_batches(began - 1) == frozenset()
    run.name_batch("b", "batch_1")
    assert run.claimed_batches(began - 1) == {"batch_1"}
    assert run.claimed_batches(began + 60) == frozenset()
    run.settle([settlement(items[1], 2, body={})])
    (row,) = run.open_batches(RUN, "0")
    assert row.provider_id == "batch_1"
    assert sorted(run.batch_intents(row, RUN)) == [0, 2]
    rest = [settlement(items[n], 0, state=QuestionState.EXPIRED) for n in (0, 2)]
    run.close_batch("b", "ended", rest)
    run.close_batch("b", "ended", rest)
    assert run.open_batches(RUN, "0") == []
    assert money(run) == (0, 2)


def test_permits_are_handed_out_one_after_another_and_a_pause_is_seen_by_all(run: Ledger) -> None:
    before = time.time()
    first, paused = run.take_permits("key", 4, 30.0)
    assert before - 1e-3 <= first <= time.time() + 1e-3
    assert paused == 0
    assert run.take_permits("key", 2, 30.0)[0] == pytest.approx(first + 120.0, abs=1e-4)
    assert run.take_permits("other", 1, 30.0)[0] < first + 90.0
    run.pause("key", before + 50)
    run.pause("key", before + 20)
    assert run.take_permits("key", 0, 0.0)[1] == pytest.approx(before + 50)


def test_a_transaction_is_all_or_nothing(run: Ledger) -> None:
    good, bad = intent("good", 1), intent("bad", 1)
    run.begin([good, bad])
    with pytest.raises(TypeError):
        run.settle([settlement(good, 1, body={}), settlement(bad, 1, body={"no": object()})])
    assert money(run) == (2, 0)
    assert run.replies(["good"]) == {}
    run.settle([settlement(good, 1, body={})])
    assert money(run) == (1, 1)


def test_what_the_database_refuses_is_said_in_words_and_leaves_it_usable(run: Ledger) -> None:
    one = intent("k", 1)
    run.begin([one])
    with pytest.raises(TiltyardError, match="cannot write"):
        run.begin([intent("null", 1, question_id=None)])
    run.settle([settlement(one, 1)])
    assert money(run) == (0, 1)


def test_what_cannot_be_read_is_said_in_words(run: Ledger) -> None:
    database = run._database
    with pytest.raises(TiltyardError, match="cannot read"):
        database.rows("SELECT nothing FROM nowhere", {})
    with pytest.raises(TiltyardError, match="cannot read"):
        list(database.stream("SELECT nothing FROM nowhere", {}))
    with pytest.raises(TiltyardError, match="cannot read"):
        database.lookup("SELECT nothing FROM nowhere WHERE nothing IN", ["x"])
    assert money(run) == (0, 0)


def test_a_transaction_that_the_database_ended_itself_hides_no_error(file: str) -> None:
    with closing(Ledger(file)) as ledger:
        database = ledger._database

        def broken() -> None:
            with database.transaction():
                database._connection.execute("ROLLBACK")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            broken()
        assert ledger.open_run(RUN, "plan", 1).cap == 1


def test_a_full_disk_is_said_in_words_and_ends_the_transaction(file: str) -> None:
    with closing(Ledger(file)) as ledger:
        ledger.open_run(RUN, "plan", None)
        connection: sqlite3.Connection = ledger._database._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        every = [intent(f"k{number}", 1) for number in range(3000)]
        with pytest.raises(TiltyardError, match="full"):
            ledger.begin(every)
        connection.execute("PRAGMA max_page_count = 100000")
        assert set(ledger.begin(every)) == {ReservationResult.YES}
        assert ledger.run(RUN).held == 3000


@pytest.mark.parametrize("url", ["mysql://u:secret@host/db", "nothing", ""])
def test_an_unknown_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(BadOption) as caught:
        Ledger(url)
    assert "secret" not in str(caught.value)


def test_a_database_that_cannot_be_opened_is_said_in_words(tmp_path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(UnreadableFile, match=r"caches\.judgments_dir"):
        Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    with pytest.raises(UnreadableFile, match="DATABASE_URL"):
        Ledger("postgresql://nobody@127.0.0.1:1/none")
