"""Whether a log paired models by running ratings: matchmaking that lets near-equals meet.

A model that was lucky then meets those who were lucky too, so its luck is never corrected, and intervals are too narrow.

Running Elo ratings are kept over the log. Each model's gap to the opponent that it has is compared with its gap, at that
moment, to opponents that it has some battles later. If pairs do not depend on running ratings, one is as often the
smaller as the other, however uneven the pairs: opponents of one model are compared, and those soon after each other.
"""

from __future__ import annotations

import math

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.foundation.arrays import Floats, Ints

#: So many battles from the start of the log are looked at.
_BATTLE_COUNT = 20_000
#: A later opponent is that of so many of the model's own battles later.
_LAG_BATTLES = (8, 16, 32)
#: What one battle moves a running rating at most, in logits: 24 points.
_STEP_LOGITS = 0.138
#: Consecutive parts of the log whose means are compared, and the least number of comparisons.
_PART_COUNT = 20
_COMPARISON_COUNT = 200
#: Student's t from which on pairs follow ratings: even logs are above it in fewer than one of two hundred.
_T_LIMIT = 3.0


def pairing_findings(table: Table, scoring: Scoring) -> tuple[Finding, ...]:
    """``adaptive-pairs`` if the closeness of opponents follows running ratings. The log must be in the order of time."""
    if not table.has_log or pairing_statistic(table, scoring) <= _T_LIMIT:
        return ()
    return (Finding("adaptive-pairs"),)


def pairing_statistic(table: Table, scoring: Scoring) -> float:
    """Student's t of how much closer opponents are than those that models have later; 0 if too little is known."""
    a, b, score = _first_battles(table, scoring)
    n, m = len(score), len(table.models)
    change = _changes(a, b, score, m)
    time, model, opponent = np.tile(np.arange(n), 2), np.concatenate([a, b]), np.concatenate([b, a])
    order = np.lexsort((time, model))
    time, model, opponent = time[order], model[order], opponent[order]
    # All that the models before it, and a model itself, gained up to each of its battles; so much gained those before it.
    gained = np.append(0.0, np.cumsum(np.concatenate([change, -change])[order]))
    key = model * n + time
    before = gained[np.searchsorted(key, np.arange(m) * n)]

    def gap(own: Ints, other: Ints) -> Floats:
        """Between a model and others, before its battles."""
        theirs = gained[np.searchsorted(key, other * n + time[own])] - before[other]
        return np.asarray(np.abs(gained[own] - before[model[own]] - theirs))

    later = [(np.flatnonzero(model[:-lag] == model[lag:]), lag) for lag in _LAG_BATTLES]
    own = np.concatenate([places for places, _ in later])
    if len(own) < _COMPARISON_COUNT:
        return 0.0
    closer = gap(own, np.concatenate([opponent[places + lag] for places, lag in later])) - gap(
        own, opponent[own]
    )
    sums = np.bincount(time[own] * _PART_COUNT // n, closer, _PART_COUNT)
    error = float(sums.std(ddof=1)) / math.sqrt(_PART_COUNT)
    return float(sums.mean()) / error if error > 0.0 else 0.0


def _first_battles(table: Table, scoring: Scoring) -> tuple[Ints, Ints, Floats]:
    """Models and A's score in the first battles that have one."""
    parts, left = [], _BATTLE_COUNT
    for run in table.scan():
        score = scoring.of(run)
        scored = np.flatnonzero(~np.isnan(score))[:left]
        parts.append((run.a[scored].astype(np.int64), run.b[scored].astype(np.int64), score[scored]))
        left -= len(scored)
        if left <= 0:
            break
    none = np.empty(0, dtype=np.int64)
    a, b, score = (np.concatenate(column) for column in zip((none, none, np.empty(0)), *parts, strict=True))
    return a, b, score


def _changes(a: Ints, b: Ints, score: Floats, m: int) -> Floats:
    """What A gains in each battle, by Elo in the order of the log."""
    rating, changes = [0.0] * m, []
    for first, second, scored in zip(a.tolist(), b.tolist(), score.tolist(), strict=True):
        change = _STEP_LOGITS * (scored - 1.0 / (1.0 + math.exp(rating[second] - rating[first])))
        rating[first] += change
        rating[second] -= change
        changes.append(change)
    return np.array(changes)
