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
#: Consecutive parts of the log whose sums are compared, and the least number of comparisons.
_PART_COUNT, _COMPARISON_COUNT = 20, 200
#: Student's t from which on pairs follow ratings: even logs are above it in fewer than one of two hundred.
_T_LIMIT = 3.0


def pairing_findings(table: Table, scoring: Scoring) -> tuple[Finding, ...]:
    """``adaptive-pairs`` if the closeness of opponents follows running ratings. The log must be in the order of time."""
    found = table.has_log and pairing_statistic(table, scoring) > _T_LIMIT
    return (Finding("adaptive-pairs"),) if found else ()


def pairing_statistic(table: Table, scoring: Scoring) -> float:
    """Student's t of how much closer opponents are than those that models have later; 0 if too little is known."""
    a, b, gain = _replay(table, scoring)
    n = len(gain)
    time, model, opponent = np.tile(np.arange(n), 2), np.concatenate([a, b]), np.concatenate([b, a])
    order = np.lexsort((time, model))
    time, model, opponent = time[order], model[order], opponent[order]
    # What a model gained before each of its battles, with all that the models before it gained, which is taken off again.
    gained = np.append(0.0, np.cumsum(np.concatenate([gain, -gain])[order]))
    key = model * n + time
    before = gained[np.searchsorted(key, np.arange(len(table.models)) * n)]

    def gap(own: Ints, other: Ints) -> Floats:
        """Between a model and others, before its battles."""
        theirs = gained[np.searchsorted(key, other * n + time[own])] - before[other]
        return np.asarray(np.abs(gained[own] - before[model[own]] - theirs))

    later = [(np.flatnonzero(model[:-lag] == model[lag:]), lag) for lag in _LAG_BATTLES]
    own = np.concatenate([places for places, _ in later])
    if len(own) < _COMPARISON_COUNT:
        return 0.0
    others = np.concatenate([opponent[places + lag] for places, lag in later])
    closer = gap(own, others) - gap(own, opponent[own])
    sums = np.bincount(time[own] * _PART_COUNT // n, closer, _PART_COUNT)
    error = float(sums.std(ddof=1)) / math.sqrt(_PART_COUNT)
    return float(sums.mean()) / error if error > 0.0 else 0.0


def _replay(table: Table, scoring: Scoring) -> tuple[Ints, Ints, Floats]:
    """Models of the first scored battles, and what A gains in each, by Elo in the order of the log."""
    rating, rows = [0.0] * len(table.models), []
    for run in table.scan():
        columns = (column[:_BATTLE_COUNT].tolist() for column in (run.a, run.b, scoring.of(run)))
        for a, b, score in zip(*columns, strict=True):
            if score == score:
                gain = _STEP_LOGITS * (score - 1.0 / (1.0 + math.exp(rating[b] - rating[a])))
                rating[a] += gain
                rating[b] -= gain
                rows.append((a, b, gain))
        if len(rows) >= _BATTLE_COUNT:
            break
    first, second, gains = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return first.astype(np.int64), second.astype(np.int64), gains
