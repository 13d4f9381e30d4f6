"""The sections of a validity report: each is one function of the replayed log."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.prompt_cells import LEFT_RESULTS, LOSS, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.evaluation import Evaluation
from tiltyard.core.policy.validity.exposure_deviation import largest_exposure_deviation
from tiltyard.core.policy.validity.lane_mix import LaneMix, lane_mix
from tiltyard.core.policy.validity.pair_floors import PairFloor, adjacent_floors
from tiltyard.core.policy.validity.prompt_coverage import band_top_coverage, coverage_of
from tiltyard.core.policy.validity.publication import pairs_needed
from tiltyard.core.policy.validity.report.report_records import (
    AdjacentPair,
    EvaluationRecord,
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
    SideBalance,
)
from tiltyard.core.policy.validity.report.span_replay import SpanReplay, count_pairs_met
from tiltyard.core.policy.validity.rules import float_or_none

__all__ = [
    "confidence",
    "exposure_fairness",
    "matchups",
    "pair_completeness",
    "prompt_coverage",
    "publication",
    "sides",
    "span_lanes",
]

Ints = npt.NDArray[np.int64]

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
    floors = adjacent_floors(standing, policy.published_top)
    return PairCompleteness(
        tuple(_adjacent(standing, floor) for floor in floors),
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


def _adjacent(standing: Standing, floor: PairFloor) -> AdjacentPair:
    return AdjacentPair(
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
