"""Places for turns, and the line before them."""

from __future__ import annotations

import pytest

from tiltyard.arena.live.turn_slots import TurnSlots
from tiltyard.errors import BadOption, Busy


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _slots(limit: int = 2) -> tuple[TurnSlots, Clock]:
    clock = Clock()
    return TurnSlots(limit, clock), clock


def _wait(slots: TurnSlots, voter: str) -> str:
    with pytest.raises(Busy) as refusal:
        slots.take(voter)
    assert refusal.value.retry_after > 0
    return str(refusal.value)


def test_a_voter_without_a_place_is_told_their_place_in_line() -> None:
    slots, _ = _slots()
    slots.take("a")
    slots.take("b")
    assert "you are number 1 in line" in _wait(slots, "c")
    assert "you are number 2 in line" in _wait(slots, "d")
    assert "you are number 1 in line" in _wait(slots, "c")
    assert (slots.running, slots.waiting) == (2, 2)


def test_places_are_given_in_the_order_of_the_line() -> None:
    slots, _ = _slots()
    slots.take("a")
    slots.take("b")
    _wait(slots, "c")
    _wait(slots, "d")
    slots.release("a")
    assert "number 2 in line" in _wait(slots, "d")
    assert "number 3 in line" in _wait(slots, "new")
    slots.take("c")
    slots.release("b")
    slots.take("d")
    assert slots.waiting == 1


def test_the_estimate_comes_from_the_last_turns() -> None:
    slots, clock = _slots(1)
    for _ in range(60):
        slots.take("a")
        clock.now += 8.0
        slots.release("a")
    assert slots.estimated_seconds(1) == pytest.approx(8.0)
    assert slots.estimated_seconds(3) == pytest.approx(24.0)
    slots.take("a")
    assert "it takes about 8 seconds" in _wait(slots, "b")


def test_who_does_not_ask_again_loses_the_place() -> None:
    slots, clock = _slots(1)
    slots.take("a")
    _wait(slots, "gone")
    clock.now += 12.0
    _wait(slots, "b")
    clock.now += 12.0
    assert "number 1 in line" in _wait(slots, "b")


def test_one_turn_of_a_voter_at_a_time() -> None:
    slots, _ = _slots()
    slots.take("a")
    assert "still being answered" in _wait(slots, "a")
    slots.release("a")
    slots.release("a")
    slots.take("a")


def test_the_line_has_an_end() -> None:
    slots, _ = _slots(1)
    slots.take("a")
    for number in range(1_000):
        _wait(slots, f"voter {number}")
    assert "too many people wait" in _wait(slots, "one more")


@pytest.mark.parametrize("limit", [0, -1])
def test_there_is_at_least_one_place(limit: int) -> None:
    with pytest.raises(BadOption, match="expected at least 1"):
        TurnSlots(limit)
