"""A span of a log folded again, and the sections of its validity report: each is one function of what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations, pairwise, zip_longest

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.exposure_window import ExposureWindow
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.prompt_cells import LEFT_RESULTS, LOSS, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.core.policy.validity.pair_floors import adjacent_floors
from tiltyard.core.policy.validity.prompt_coverage import band_top_coverage, coverage_of
from tiltyard.core.policy.validity.publication import (
    Evaluation,
    EvaluationHistory,
    evaluate,
    neighbouring_top,
    pairs_needed,
)
from tiltyard.core.policy.validity.report.report_records import (
    AdjacentPair,
    Churn,
    ChurnStep,
    EvaluationRecord,
    ExplorationBoard,
    ExplorationPlace,
    ExposureFairness,
    MatchupCounts,
    ModelConfidence,
    ModelExposure,
    ModelMoment,
    ModelSides,
    PairCompleteness,
    PromptCoverage,
    PublicationStatus,
    RatingConfidence,
    ReversedPair,
    SideBalance,
    SwappedPair,
)
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.core.policy.validity.serving_fairness import (
    ExposureDeviation,
    LaneMix,
    lane_mix,
    largest_exposure_deviation,
)
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.ranks import Ranks, rank_models
from tiltyard.core.ratings.result import Ratings
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Ints

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
        sum(floor.met for floor in adjacent_floors(standing, neighbouring_top(standing))),
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


# The sections of a validity report: each is one function of the replayed log.


#: How often the report may call fair coins uneven.
_FALSE_ALARM_PROBABILITY = 0.01


def exposure_fairness(replay: SpanReplay) -> ExposureFairness:
    """Exposures in the window against what each model was due."""
    standing, windows = replay.standing, replay.windows
    window, due = standing.window, standing.window.due()
    counted, outside = window.counted(), window.due().outside(window.counted())
    shown = np.flatnonzero(standing.enabled | (due.target > 0.0))
    models = tuple(
        ModelExposure(
            standing.models[k],
            bool(standing.enabled[k]),
            int(counted[k]),
            int(window.exposures[1, k]),
            float(due.target[k]),
            float(due.tolerance[k]),
            float((counted[k] - due.target[k]) / due.target[k]) if due.target[k] > 0.0 else None,
            bool(outside[k]),
        )
        for k in shown.tolist()
    )
    return ExposureFairness(
        standing.policy.fairness,
        standing.policy.window,
        windows.steered,
        windows.outside,
        windows.settled,
        windows.settled_outside,
        windows.widest,
        largest_exposure_deviation(window, standing.models, standing.enabled) if window.served else None,
        models,
    )


def span_lanes(replay: SpanReplay, events: Events) -> LaneMix:
    """Lanes drawn, and lanes that chose, among the span's matchups."""
    served = events[events.event == Event.SERVED]
    lanes = np.zeros((len(Lane), len(Lane)), dtype=np.int64)
    np.add.at(lanes, (served.nominal, served.lane), 1)
    return lane_mix(replay.standing.policy, replay.standing.n_enabled, lanes)


def matchups(replay: SpanReplay, events: Events, given_up: Ints | None) -> MatchupCounts:
    """What was served, and how it ended; ``given_up`` are serials of the whole log."""
    standing = replay.standing
    wins, losses, ties, both_bad = np.bincount(
        LEFT_RESULTS[events.kind[events.event == Event.VOTE]], minlength=4
    ).tolist()
    served = events[events.event == Event.SERVED]
    ended = standing.votes + standing.skipped + standing.expired
    return MatchupCounts(
        len(served),
        wins + losses + ties + both_bad,
        wins + losses,
        ties,
        both_bad,
        int(np.count_nonzero(events.event == Event.SKIP)),
        int(np.count_nonzero(events.event == Event.EXPIRE)),
        standing.window.served - ended,
        None if given_up is None else int(np.isin(served.serial, given_up).sum()),
    )


def sides(replay: SpanReplay, events: Events) -> SideBalance:
    """Whether sides fell like a coin, and whether voters preferred one."""
    standing = replay.standing
    served = events[events.event == Event.SERVED]
    left = np.bincount(served.a, minlength=len(standing.models))
    shown = left + np.bincount(served.b, minlength=len(standing.models))
    rows = tuple(
        ModelSides(
            standing.models[k], int(shown[k]), int(left[k]), float((2 * left[k] - shown[k]) / shown[k] ** 0.5)
        )
        for k in np.flatnonzero(shown).tolist()
    )
    bound = float(-ndtri(_FALSE_ALARM_PROBABILITY / (2.0 * max(len(rows), 1))))
    left_result = LEFT_RESULTS[events.kind[events.event == Event.VOTE]]
    return SideBalance(
        rows,
        bound,
        tuple(row.model for row in rows if abs(row.z) > bound),
        int(np.count_nonzero(left_result <= LOSS)),
        int(np.count_nonzero(left_result == WIN)),
    )


def pair_completeness(replay: SpanReplay) -> PairCompleteness:
    """Floors of neighbours at the top, and how many pairs have met at all."""
    standing, before = replay.standing, replay.before
    policy, meetings = standing.policy, standing.meetings
    floors = adjacent_floors(standing, neighbouring_top(standing))
    return PairCompleteness(
        tuple(
            AdjacentPair(
                standing.models[floor.above],
                standing.models[floor.below],
                floor.votes,
                floor.votes_needed,
                floor.prompts,
                floor.prompts_needed,
                floor.attempts,
                floor.met,
                floor.indistinguishable,
            )
            for floor in floors
        ),
        sum(floor.met for floor in floors),
        None if before is None else before.floors_met,
        pairs_needed(len(floors) + 1, policy.published_pairs),
        sum(floor.indistinguishable for floor in floors),
        count_pairs_met(standing, meetings.attempts, 0),
        count_pairs_met(standing, meetings.attempts, 1),
        None if before is None else before.pairs_tried,
        count_pairs_met(standing, meetings.decisive, policy.pair_floor),
        None if before is None else before.pairs_decided,
    )


def prompt_coverage(replay: SpanReplay) -> PromptCoverage:
    """Cells of all enabled models together."""
    cells, policy = replay.standing.cells, replay.standing.policy
    on = replay.standing.enabled
    return PromptCoverage(
        int(cells.n_eligible[on].sum()),
        int(cells.n_filled[on].sum()),
        int(cells.n_exhausted[on].sum()),
        band_top_coverage(replay.standing),
        policy.top_prompt_floor,
    )


def confidence(replay: SpanReplay) -> RatingConfidence:
    """RD and conservative score at the span's end, before it, and at every evaluation within."""
    standing, before = replay.standing, None if replay.before is None else replay.before.evaluation
    within = replay.history.evaluations[-replay.n_evaluations :] if replay.n_evaluations else ()
    top = standing.order[: standing.policy.published_top]
    return RatingConfidence(
        tuple(
            _model_confidence(standing, place, model, before, within)
            for place, model in enumerate(standing.order.tolist(), start=1)
        ),
        standing.policy.published_top,
        float_or_none(float(np.median(standing.strengths.rd[top]))) if len(top) else None,
        _median_rd(before, standing.policy.published_top),
        tuple(
            ModelMoment(
                standing.models[model],
                look.votes,
                look.time,
                float(look.rating[model]),
                float(look.rd[model]),
                score,
            )
            for look in within
            for model in top.tolist()
            if (score := look.conservative(model)) is not None
        ),
    )


def _median_rd(evaluation: Evaluation | None, top: int) -> float | None:
    if evaluation is None or not len(evaluation.order):
        return None
    return float(np.median(evaluation.rd[evaluation.order[:top]]))


def _model_confidence(
    standing: Standing, place: int, model: int, before: Evaluation | None, within: tuple[Evaluation, ...]
) -> ModelConfidence:
    was = None if before is None else before.conservative(model)
    scores = [score for look in within if (score := look.conservative(model)) is not None]
    known = before if was is not None else None
    covered = coverage_of(standing, model)
    return ModelConfidence(
        place,
        None if known is None else 1 + int(np.flatnonzero(known.order == model)[0]),
        standing.models[model],
        float(standing.strengths.rating[model]),
        float(standing.strengths.rd[model]),
        None if known is None else float(known.rd[model]),
        float(standing.strengths.conservative()[model]),
        was,
        max(scores) - min(scores) if scores else None,
        covered.strict,
        covered.adjusted,
    )


def publication(replay: SpanReplay, now: Evaluation) -> PublicationStatus:
    """The rules now, and at every evaluation of the span."""
    history, policy = replay.history, replay.standing.policy
    first = len(history.evaluations) - replay.n_evaluations
    run, looks = 0, []
    for n, look in enumerate(history.evaluations):
        run = run + 1 if look.holds else 0
        if n >= first:
            values = tuple(rule.value for rule in look.rules)
            holds = tuple(rule.holds for rule in look.rules)
            looks.append(EvaluationRecord(look.votes, look.time, values, holds, run >= history.in_a_row))
    return PublicationStatus(
        history.official,
        now.rules,
        run,
        history.in_a_row,
        policy.evaluated_every,
        history.official_since(),
        history.first_official(),
        tuple(looks),
    )


def votes_of_lane(events: Events, lane: Lane) -> Events:
    """Votes on matchups that this lane chose. The log must begin with the first matchup."""
    served = events[events.event == Event.SERVED]
    rows = np.flatnonzero(events.event == Event.VOTE)
    votes = events[rows]
    by_serial = np.argsort(served.serial, kind="stable")
    place = np.searchsorted(served.serial[by_serial], votes.serial)
    known = place < len(served)
    ended = served[by_serial[np.where(known, place, 0)]] if len(served) else votes
    known &= ended.serial == votes.serial
    same = known & (votes.a == ended.a) & (votes.b == ended.b) & (votes.prompt == ended.prompt)
    if not same.all():
        wrong = int(np.flatnonzero(~same)[0])
        raise BadOption(
            f"the vote in row {rows[wrong]} of the log ends matchup {votes.serial[wrong]}, which was not "
            "served with these models, sides and prompt; give votes the serial of their matchup"
        )
    return votes[ended.lane == lane]


def exploration_board(standing: Standing, votes: VoteLog, method: BradleyTerry) -> ExplorationBoard:
    """Rate the lane's votes and lay the order of enabled models beside the official one."""
    official = standing.order.tolist()
    if not len(votes):
        unplaced = tuple(standing.models[model] for model in official)
        return ExplorationBoard(0, 0, method.level, (), unplaced, 0, 0, ())
    ratings, code_of = _rated(standing, votes, method)
    mine = [k for k in ratings.order().tolist() if ratings.group[k] == 0]
    place_of = {code_of[k]: k for k in mine}
    placed = [model for model in official if model in place_of]
    order = [code_of[k] for k in mine if standing.enabled[code_of[k]]]
    ranks = rank_models(ratings, level=method.level) if len(placed) > 1 else None
    same, reversed_ = _compared(standing.models, placed, place_of, ratings, ranks)
    return ExplorationBoard(
        len(votes),
        len(np.unique(votes.columns()["prompt"])),
        method.level,
        tuple(
            ExplorationPlace(
                place,
                1 + official.index(model),
                standing.models[model],
                float(ratings.rating[k := place_of[model]]),
                None if ratings.interval is None else float_or_none(ratings.interval.low[k]),
                None if ratings.interval is None else float_or_none(ratings.interval.high[k]),
            )
            for place, model in enumerate(order, start=1)
        ),
        tuple(standing.models[model] for model in official if model not in place_of),
        len(placed) * (len(placed) - 1) // 2,
        same,
        reversed_,
    )


def _rated(standing: Standing, votes: VoteLog, method: BradleyTerry) -> tuple[Ratings, list[int]]:
    models, columns = standing.models, votes.columns()
    code_of = sorted({*columns["a"].tolist(), *columns["b"].tolist()}, key=lambda code: models[code])
    place = np.zeros(len(models), dtype=np.int64)
    place[code_of] = np.arange(len(code_of))
    log = VoteLog.of({**columns, "a": place[columns["a"]], "b": place[columns["b"]]})
    return method(log.table([models[code] for code in code_of], standing.compared_prompts)), code_of


def _compared(
    models: tuple[str, ...],
    official: list[int],
    place_of: dict[int, int],
    ratings: Ratings,
    ranks: Ranks | None,
) -> tuple[int, tuple[ReversedPair, ...]]:
    """Pairs in the same order on both boards; and those that the lane contradicts beyond its uncertainty."""
    if ranks is None:
        return 0, ()
    at = np.array([place_of[model] for model in official])
    gap = ratings.rating[at][None, :] - ratings.rating[at][:, None]
    upper = np.triu(np.ones_like(gap, dtype=bool), 1)
    wrong = np.argwhere(ranks.above[np.ix_(at, at)].T & upper)
    worst = sorted(wrong.tolist(), key=lambda pair: -gap[pair[0], pair[1]])
    return int(np.count_nonzero((gap < 0.0) & upper)), tuple(
        ReversedPair(models[official[i]], models[official[j]], float(gap[i, j])) for i, j in worst
    )


def churn(evaluations: Sequence[Evaluation], models: Sequence[str], top: int) -> Churn:
    """Every step from one of these evaluations to the next, and the pairs that changed order."""
    steps: list[ChurnStep] = []
    times: Counter[tuple[int, int]] = Counter()
    beyond: Counter[tuple[int, int]] = Counter()
    far: Counter[tuple[int, int]] = Counter()
    for old, new in pairwise(evaluations):
        # Pairs among the models of either top, enabled both times, that changed order.
        before, after = (
            {model: place for place, model in enumerate(look.order.tolist())} for look in (old, new)
        )
        either = {*old.order[:top].tolist(), *new.order[:top].tolist()} & before.keys() & after.keys()
        swapped = [
            (i, j)
            for i, j in combinations(sorted(either), 2)
            if (before[i] < before[j]) != (after[i] < after[j])
        ]
        torn = [pair for pair in swapped if _apart(old, new, *pair) > 1.0]
        times.update(swapped)
        beyond.update(torn)
        far.update(pair for pair in torn if _apart(old, new, *pair) > 2.0)
        # Places held by another model, or by one where there was none (and the other way round).
        tops = zip_longest(old.order[:top].tolist(), new.order[:top].tolist())
        places = sum(one != other for one, other in tops)
        first = old.order[:1].tolist() != new.order[:1].tolist()
        steps.append(ChurnStep(new.votes, new.time, places, first, len(swapped), len(torn)))
    pairs = sorted(times, key=lambda pair: (-far[pair], -beyond[pair], -times[pair], pair))
    return Churn(
        top,
        tuple(steps),
        tuple(SwappedPair(models[i], models[j], times[i, j], beyond[i, j], far[i, j]) for i, j in pairs),
    )


def _apart(old: Evaluation, new: Evaluation, i: int, j: int) -> float:
    """The gap of the two ratings over the sum of their RD, before or after, whichever is wider.

    The bands rating ± RD overlap up to 1, the bands rating ± 2·RD up to 2.
    """
    return max(
        float(abs(known.rating[i] - known.rating[j]) / (known.rd[i] + known.rd[j])) for known in (old, new)
    )
