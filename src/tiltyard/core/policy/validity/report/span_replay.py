"""A span of an arena's log folded again, with everything kept that a report asks about."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.exposure_window import ExposureWindow
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.core.policy.validity.evaluation import Evaluation, EvaluationHistory, evaluate
from tiltyard.core.policy.validity.pair_floors import adjacent_floors
from tiltyard.core.policy.validity.serving_fairness import ExposureDeviation, largest_exposure_deviation
from tiltyard.errors import BadOption

_WINDOWED = (Event.SERVED, Event.EXPIRE, Event.ENABLE, Event.RETIRE)


@dataclass(frozen=True, slots=True)
class SpanStart:
    """The arena as the span found it."""

    evaluation: Evaluation
    floors_met: int
    pairs_tried: int
    pairs_decided: int


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """Windows of the span: how many are steered, settled, and out of tolerance."""

    steered: int
    outside: int
    settled: int
    settled_outside: int
    widest: ExposureDeviation | None


@dataclass(frozen=True, slots=True)
class SpanReplay:
    """The arena at the span's end, and what was seen on the way there."""

    votes_before: int
    #: ``None`` where no vote came before the span.
    before: SpanStart | None
    standing: Standing
    #: All evaluations up to the span's end; the span's own are the last ``n_evaluations``.
    history: EvaluationHistory
    n_evaluations: int
    windows: WindowCounts


def find_span(events: Events, since: int | None, until: int | None) -> slice:
    """The rows of a span: by time, or by votes in a log whose times are all 0.

    By votes, a row belongs where the arena had from ``since`` on and fewer than ``until`` votes
    before it. The log's order counts: a row with a time before its predecessor's stands with its
    predecessor.
    """
    if since is not None and until is not None and until < since:
        raise BadOption(f"the span ends at {until}, before it begins at {since}; exchange them")
    is_vote = events.event == Event.VOTE
    place = np.maximum.accumulate(events.time) if is_timed(events) else np.cumsum(is_vote) - is_vote
    first = 0 if since is None else int(np.searchsorted(place, since))
    return slice(first, len(events) if until is None else int(np.searchsorted(place, until)))


def is_timed(events: Events) -> bool:
    """Whether a log has times."""
    return bool(events.time.any())


def replay_span(following: ArenaFold, events: Events) -> SpanReplay:
    """Fold the events of a span, evaluating as the arena did. ``following`` is the fold of all events before it.

    What comes after the span is not looked at, so that a report of last week reads the same for ever.
    """
    following.rank()
    standing, votes_before = following.standing, following.votes
    window, before = deepcopy(standing.window), _before(standing) if votes_before else None
    n_before = len(following.history.evaluations)
    following.fold(events)
    following.rank()
    return SpanReplay(
        votes_before,
        before,
        standing,
        following.history,
        len(following.history.evaluations) - n_before,
        _watch(events, window, standing.models),
    )


def count_pairs_met(standing: Standing, votes: npt.NDArray[np.int32], least: int) -> int:
    """Pairs of enabled models sharing a prompt that have at least so many of these votes."""
    met = (standing.cells.shared > 0) & (votes >= least)
    return int(np.count_nonzero(np.triu(met, 1)))


def _before(standing: Standing) -> SpanStart:
    policy, meetings = standing.policy, standing.meetings
    return SpanStart(
        evaluate(standing),
        sum(floor.met for floor in adjacent_floors(standing, policy.published_top)),
        count_pairs_met(standing, meetings.attempts, 1),
        count_pairs_met(standing, meetings.decisive, policy.pair_floor),
    )


def _watch(events: Events, window: ExposureWindow, models: tuple[str, ...]) -> WindowCounts:
    """Go through the span's windows one by one: the only place where each matchup is looked at."""
    enabled = window.enabled[window.epoch].copy()
    counts = np.zeros((2, 2), dtype=np.int64)
    widest: ExposureDeviation | None = None
    for row in events[np.isin(events.event, _WINDOWED)].rows():
        event = row["event"]
        if event == Event.EXPIRE:
            window.expire(row["serial"])
        elif event != Event.SERVED:
            now = event == Event.ENABLE
            if enabled[row["a"]] != now:
                enabled[row["a"]] = now
                window.open_epoch(enabled)
        else:
            contender = row["lane"] == Lane.CONTENDER
            window.serve(row["a"], row["b"], contender=contender, serial=row["serial"])
            if not window.active():
                continue
            strain = largest_exposure_deviation(window, models, enabled)
            outside = strain is not None and not strain.within
            counts[int(window.settled()), int(outside)] += 1
            if strain is not None and (widest is None or strain.strain > widest.strain):
                widest = strain
    return WindowCounts(
        int(counts.sum()), int(counts[:, 1].sum()), int(counts[1].sum()), int(counts[1, 1]), widest
    )
