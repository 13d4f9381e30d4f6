"""The ledger's money against a naive twin, through any sequence of entries, on both databases."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from support.billed_judges import intent, settlement
from support.sizes import sized
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.judges.ledger import Ledger, ReservationResult

KEYS = st.sampled_from("abcdef")
ASKS = st.integers(0, 1)
SUMS = st.integers(0, 60)
CAPS = st.none() | st.integers(0, 200)
ASKED = st.lists(st.tuples(KEYS, ASKS, SUMS), min_size=1, max_size=5)


class Machine(RuleBasedStateMachine):
    """Every entry is made in the ledger and in plain Python; after each, both must say the same."""

    ledger: Ledger
    numbers: Iterator[int]
    begun = Bundle("begun")

    @initialize(cap=CAPS)
    def open(self, cap):
        self.number = next(self.numbers)
        self.run = f"run-{self.number}"
        self.cap = cap
        self.spent = 0
        self.open_intents = {}
        self.batches = {}
        self.answered = set()
        self.ledger.open_run(self.run, "plan", cap)

    @property
    def held(self):
        return sum(one.reserved for one in self.open_intents.values())

    def fits(self, amount):
        return self.cap is None or self.spent + self.held + amount <= self.cap

    def intents(self, asked, **given):
        return [
            intent(f"{self.number}-{key}", reserved, ask=ask, run=self.run, worker=self.run, **given)
            for key, ask, reserved in asked
        ]

    def free(self, one, entered):
        place = one.request_key, one.ask
        under_way = {(other.request_key, other.ask) for other in self.open_intents.values()}
        return place not in under_way | entered | self.answered

    def refusal(self, amount):
        possible = self.cap is not None and self.spent + amount <= self.cap
        return ReservationResult.WAIT if self.held and possible else ReservationResult.NO

    @rule(target=begun, asked=ASKED)
    def begin(self, asked):
        intents = self.intents(asked)
        entered, expected, refused = set(), [], []
        for one in intents:
            if not self.free(one, entered):
                expected.append(ReservationResult.TAKEN)
                continue
            entered.add((one.request_key, one.ask))
            expected.append(ReservationResult.YES if self.fits(one.reserved) else None)
            if expected[-1] is ReservationResult.YES:
                self.open_intents[one.attempt_id] = one
            else:
                refused.append(len(expected) - 1)
        for place in refused:
            expected[place] = self.refusal(intents[place].reserved)
        assert self.ledger.begin(intents) == expected
        return multiple(
            *(one for one, held in zip(intents, expected, strict=True) if held is ReservationResult.YES)
        )

    @rule(target=begun, asked=ASKED)
    def begin_batch(self, asked):
        name = f"batch-{next(self.numbers)}"
        intents = [self.intents([one], batch=name, place=place)[0] for place, one in enumerate(asked)]
        free, entered = [], set()
        for one in intents:
            if self.free(one, entered):
                entered.add((one.request_key, one.ask))
                free.append(one)
        covered = 0
        while covered < len(free) and self.fits(sum(one.reserved for one in free[: covered + 1])):
            covered += 1
        expected = (
            ReservationResult.YES
            if covered
            else self.refusal(free[0].reserved)
            if free
            else ReservationResult.TAKEN
        )
        assert self.ledger.begin_batch(name, "0", intents) == (free[:covered], expected)
        self.open_intents |= {one.attempt_id: one for one in free[:covered]}
        if covered:
            self.batches[name] = free[:covered]
        return multiple(*free[:covered])

    @rule(one=begun, share=st.floats(0, 1), replies=st.booleans())
    def settle(self, one, share, replies):
        cost = int(one.reserved * share)
        state = QuestionState.OK if replies else QuestionState.PROVIDER_ERROR
        self.ledger.settle([settlement(one, cost, state=state, body={"n": 1} if replies else None)])
        self._settled(one, cost)
        if replies:
            self.answered.add((one.request_key, one.ask))

    def _settled(self, one, cost):
        if self.open_intents.pop(one.attempt_id, None) is not None:
            self.spent += cost

    @rule()
    def lose(self):
        lost = [one for one in self.open_intents.values() if one.batch is None]
        assert self.ledger.lose(self.run) == len(lost)
        for one in lost:
            self._settled(one, one.reserved)

    @rule(one=begun)
    def withdraw(self, one):
        self.ledger.write([], [], [one])
        self.open_intents.pop(one.attempt_id, None)

    @rule()
    def close_batches(self):
        for name, intents in self.batches.items():
            endings = [settlement(one, 0, state=QuestionState.EXPIRED) for one in intents]
            self.ledger.close_batch(name, "ended", endings)
            for one in intents:
                self._settled(one, 0)
        self.batches = {}

    @rule(cap=CAPS)
    def change_the_budget(self, cap):
        self.cap = cap
        self.ledger.open_run(self.run, "plan", cap)

    @invariant()
    def both_say_the_same(self):
        row = self.ledger.run(self.run)
        assert (row.cap, row.held, row.spent) == (self.cap, self.held, self.spent)

    def teardown(self):
        states = {row.attempt_id for row in self.ledger.attempts(self.run) if row.state == "intent"}
        assert states == set(self.open_intents)


@pytest.fixture
def machine(database: str) -> Iterator[type[Machine]]:
    """Without a disk, on SQLite: what is counted is the same, and the disk is slow."""
    ledger = Ledger("sqlite:///:memory:" if database.startswith("sqlite") else database)
    yield type("OnDatabase", (Machine,), {"ledger": ledger, "numbers": iter(range(10**9))})
    ledger.close()


@pytest.mark.slow(but_every=2)
def test_the_ledger_counts_as_its_naive_twin(machine: type[Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=sized(12, 25), stateful_step_count=25))


@pytest.mark.slow
def test_the_ledger_counts_as_its_naive_twin_for_long(machine: type[Machine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=500, stateful_step_count=60))
