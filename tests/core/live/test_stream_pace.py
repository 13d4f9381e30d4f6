"""How much of two streams may be shown: by laws, and in worlds where one model is five times slower."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.live.stream_pace import (
    FASTEST_CHARACTERS_PER_SECOND,
    Pace,
    PaceState,
    SideProgress,
    advance,
)

_TICK_SECONDS = 1 / 15
#: So long after the start a frame is sent at the latest that shows the end of the longest text of these tests.
_LONGEST_SECONDS = 3_600.0


class Upstream(NamedTuple):
    """When characters arrive, and when the stream ends."""

    pieces: tuple[tuple[float, int], ...]
    ended_at: float

    @property
    def length(self) -> int:
        return sum(count for _, count in self.pieces)

    def at(self, now: float) -> SideProgress:
        return SideProgress(sum(count for time, count in self.pieces if time <= now), now >= self.ended_at)


class Seen(NamedTuple):
    """One frame."""

    at: float
    a: int
    b: int
    ended_a: bool
    ended_b: bool


@st.composite
def upstreams(draw: st.DrawFn) -> Upstream:
    """Any stream: slow or fast, steady or in bursts, empty too."""
    now, pieces = draw(st.floats(0, 30)), []
    for count, wait in draw(st.lists(st.tuples(st.integers(1, 400), st.floats(0, 10)), max_size=12)):
        pieces.append((now, count))
        now += wait
    return Upstream(tuple(pieces), now)


def _steps(
    a: Upstream, b: Upstream, pace: Pace = "equal", tick: float = _TICK_SECONDS
) -> list[tuple[float, SideProgress, SideProgress, PaceState]]:
    state, now, found = PaceState(pace), 0.0, []
    while not state.finished:
        assert now < _LONGEST_SECONDS, "both sides are shown to their ends at some time"
        come_a, come_b = a.at(now), b.at(now)
        state = advance(state, come_a, come_b, now)
        found.append((now, come_a, come_b, state))
        now += tick
    return found


def _frames(a: Upstream, b: Upstream, pace: Pace = "equal") -> list[Seen]:
    frames, last = [], (0, 0, False, False)
    for now, _, _, state in _steps(a, b, pace):
        shown = (state.shown_a, state.shown_b, state.ended_a, state.ended_b)
        if shown != last:
            frames.append(Seen(now, *shown))
        last = shown
    return frames


@given(upstreams(), upstreams())
def test_equal_pace_keeps_its_laws_for_any_two_streams(a: Upstream, b: Upstream) -> None:
    before = PaceState()
    for _, come_a, come_b, state in _steps(a, b, tick=0.25):
        assert state.shown_a <= come_a.come
        assert state.shown_b <= come_b.come
        assert state.shown_a >= before.shown_a
        assert state.shown_b >= before.shown_b
        if not (come_a.may_start and come_b.may_start):
            assert state.shown_a == state.shown_b == 0
        if not (state.ended_a or state.ended_b):
            assert state.shown_a == state.shown_b, "the same count while both have more to come"
        else:
            shorter = min(
                come.come for come, ended in ((come_a, state.ended_a), (come_b, state.ended_b)) if ended
            )
            assert min(state.shown_a, state.shown_b) >= shorter
        steps = (state.shown_a - before.shown_a, state.shown_b - before.shown_b)
        assert max(steps) <= FASTEST_CHARACTERS_PER_SECOND * 0.25 + 1.5, "no burst"
        before = state
    assert (before.shown_a, before.shown_b) == (a.length, b.length)
    assert not before.moves


@given(upstreams(), upstreams())
def test_sides_may_be_swapped(a: Upstream, b: Upstream) -> None:
    straight = [state for _, _, _, state in _steps(a, b, tick=0.25)]
    swapped = [state for _, _, _, state in _steps(b, a, tick=0.25)]
    assert [(one.shown_a, one.shown_b, one.ended_a, one.ended_b) for one in straight] == [
        (one.shown_b, one.shown_a, one.ended_b, one.ended_a) for one in swapped
    ]


@given(upstreams(), upstreams())
def test_complete_shows_nothing_before_both_have_ended(a: Upstream, b: Upstream) -> None:
    for _, come_a, come_b, state in _steps(a, b, "complete", tick=0.25):
        if come_a.ended and come_b.ended:
            assert (state.shown_a, state.shown_b, state.finished) == (a.length, b.length, True)
        else:
            assert (state.shown_a, state.shown_b, state.finished) == (0, 0, False)
        assert not state.moves


@given(upstreams(), upstreams())
def test_as_it_comes_shows_everything(a: Upstream, b: Upstream) -> None:
    for _, come_a, come_b, state in _steps(a, b, "as-it-comes", tick=0.25):
        assert (state.shown_a, state.shown_b) == (come_a.come, come_b.come)
        assert (state.ended_a, state.ended_b) == (come_a.ended, come_b.ended)
        assert not state.moves


def test_an_empty_answer_holds_nothing_up() -> None:
    empty, other = Upstream((), 1.0), Upstream(((2.0, 40), (3.0, 40)), 4.0)
    frames = _frames(empty, other)
    assert frames[0].at < 2.2
    assert frames[-1][1:] == (0, 80, True, True)
    assert _frames(empty, empty)[-1][1:] == (0, 0, True, True)


def test_the_speed_is_that_of_the_slower_side_though_the_faster_one_is_complete() -> None:
    whole = Upstream(((0.1, 2_000),), 0.2)
    slow = _steady(rate=30, length=900, first=0.1)
    frames = _frames(whole, slow)
    at_300 = next(frame for frame in frames if frame.a >= 300)
    assert at_300.a == at_300.b
    assert 300 / (at_300.at - frames[0].at) <= 31


def test_the_longer_answer_goes_on_at_the_speed_seen_so_far() -> None:
    """It is there already, and is held back, so that its end depends on its length only."""
    slow, whole = _steady(rate=50, length=500, first=0.1), Upstream(((0.1, 2_000),), 0.2)
    frames = _frames(slow, whole)
    first_end = next(frame for frame in frames if frame.ended_a)
    before = 500 / (first_end.at - frames[0].at)
    after = 1_500 / (frames[-1].at - first_end.at)
    assert after == pytest.approx(before, rel=0.1)


@pytest.mark.parametrize("words", [1, 3, 30])
def test_after_an_answer_of_a_few_characters_the_other_goes_on_at_a_readable_speed(words: int) -> None:
    """No speed was seen by then: the rest does not creep."""
    brief, long = Upstream(((0.1, words),), 0.1), _steady(rate=400, length=1_500, first=0.1)
    for frames in (_frames(brief, long), _frames(long, brief)):
        assert frames[-1].at < 1_500 / 90


def test_the_end_of_an_answer_is_only_shown_once_it_is_known() -> None:
    """A stream that has sent its text and does not end yet holds both sides at the same character."""
    hanging, other = Upstream(((0.1, 60),), 20.0), _steady(rate=100, length=500, first=0.1)
    frames = _frames(hanging, other)
    held = [frame for frame in frames if frame.at < 20.0]
    assert (held[-1].a, held[-1].b, held[-1].ended_a) == (60, 60, False)
    waiting = [state for now, _, _, state in _steps(hanging, other) if 10.0 < now < 20.0]
    assert all(state.waits and not state.moves for state in waiting)


def test_a_clock_that_stands_still_moves_nothing() -> None:
    some = SideProgress(100)
    started = advance(PaceState(), some, some, 5.0)
    assert advance(started, some, some, 5.0) == started
    assert started.moves


def _steady(*, rate: float, length: int, first: float) -> Upstream:
    return _world(random.Random(0), rate=rate, length=length, first=first, burst=0.05)


def _world(rng: random.Random, *, rate: float, length: int, first: float, burst: float) -> Upstream:
    """A stream of pieces that hold about ``burst`` seconds of text each."""
    now, left, pieces = first, length, []
    while left:
        count = min(left, max(1, round(rng.uniform(0.5, 1.5) * rate * burst)))
        pieces.append((now, count))
        left -= count
        now += count / rate * rng.uniform(0.8, 1.2)
    return Upstream(tuple(pieces), now)


class Impression(NamedTuple):
    """What a reader can measure: the start, the speeds before and after the first end, and the longest pauses."""

    start: float
    speed: float
    later_speed: float
    pause: float
    later_pause: float


def _impression(frames: list[Seen], short: int, long: int) -> Impression:
    start, last = frames[0].at, frames[-1].at
    end = next(frame.at for frame in frames if frame.ended_a or frame.ended_b)
    pauses = [(one.at, other.at - one.at) for one, other in itertools.pairwise(frames)]
    return Impression(
        start=start,
        speed=short / (end - start),
        later_speed=(long - short) / (last - end),
        pause=max(pause for at, pause in pauses if at < end),
        later_pause=max(pause for at, pause in pauses if at >= end),
    )


@pytest.mark.parametrize(("rate", "first", "burst"), [(30.0, 12.0, 0.05), (80.0, 4.0, 0.8)])
def test_a_reader_cannot_tell_which_of_two_models_is_five_times_slower(
    rate: float, first: float, burst: float
) -> None:
    """Two worlds: the slow model writes the shorter answer, or the longer one. What can be measured is the same."""
    short, long = 500, 1_400
    for seed in range(3):

        def slow(length: int, seed: int = seed) -> Upstream:
            return _world(random.Random(seed), rate=rate, length=length, first=first, burst=burst)

        def fast(length: int, seed: int = seed) -> Upstream:
            return _world(random.Random(-seed), rate=5 * rate, length=length, first=0.3, burst=0.1)

        one = _impression(_frames(slow(short), fast(long)), short, long)
        other = _impression(_frames(fast(short), slow(long)), short, long)
        assert one.start == other.start
        assert one.speed == pytest.approx(other.speed, rel=0.1)
        assert one.later_speed == pytest.approx(other.later_speed, rel=0.15)
        assert one.later_speed == pytest.approx(one.speed, rel=0.15)
        assert max(one.later_pause, other.later_pause) <= max(one.pause, other.pause) + 2 * _TICK_SECONDS
