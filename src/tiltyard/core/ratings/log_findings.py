"""Findings about a log whatever it is rated by: names spelled in several ways, voters who choose one side, adaptive pairs."""

from __future__ import annotations

import math
import shlex
import unicodedata
from collections.abc import Sequence

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.battles.alike_names import alike_names
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.battles.outcome import Kind
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.sentences import first_of
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
#: The probability that any honest voter of a log is called one-sided.
_CHANCE_RATIO = 0.001
#: A pair tells sides from models only if each of its models is on either side in at least this share of its battles.
_SIDE_SHARE = 0.2
_A_WINS = (Kind.WIN_A, Kind.LEAN_A)
_PLAIN = np.array([kind.plain for kind in Kind], dtype=np.uint8)


def pairing_findings(table: Table, scoring: Scoring) -> tuple[Finding, ...]:
    """``adaptive-pairs`` if the closeness of opponents follows running ratings. The log must be in the order of time.

    A model that was lucky then meets those who were lucky too, so its luck is never corrected, and intervals are too
    narrow. Running Elo ratings are kept over the log. Each model's gap to the opponent that it has is compared with its
    gap, at that moment, to opponents that it has some battles later. If pairs do not depend on running ratings, one is
    as often the smaller as the other, however uneven the pairs: opponents of one model are compared, and those soon
    after each other.
    """
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


def log_findings(table: Table) -> tuple[Finding, ...]:
    """What to look at before any method: `tiltyard check` says how to repair it."""
    keys, battles = one_sided_voters(table)
    one_sided = [Finding("one-sided-voters", {"voters": len(keys), "battles": battles})] if len(keys) else []
    return (*_spellings(table), *one_sided)


def _spellings(table: Table) -> list[Finding]:
    counts = table.counts
    left, right = (np.bincount(side, counts.n, len(table.models)) for side in (counts.a, counts.b))
    number = dict(zip(table.models, (left + right).astype(int).tolist(), strict=True))
    sets = [sorted(names, key=_is_odd) for names in alike_names(number)]
    others = [(names[0], other) for names in sets for other in names[1:]]
    if not others:
        return []
    named = [{"model": model, "other": other, "battles": number[other]} for model, other in others]
    rows = sum(number[other] for _, other in others)
    option = " ".join(f"--rename {_renaming(names)}" for names in sets)
    return [Finding("names-alike", {"battles": rows, "option": option, **first_of("names", named)})]


def _is_odd(name: str) -> bool:
    """Whether a name has characters that are not seen or cannot be typed, so that another should stand for it."""
    return not name.isprintable() or not unicodedata.is_normalized("NFKC", name)


def _renaming(names: Sequence[str]) -> str:
    """The value of the option; a name that has an equals sign of its own stands on both sides of one."""
    return shlex.quote(f"{names[0]}={names[0]}" if "=" in names[0] else names[0])


def one_sided_voters(table: Table) -> tuple[Keys, int]:
    """Voters who always chose one side, beyond chance, and how many battles they decided.

    Only pairs that are shown in both places count, where choosing a side is not choosing a model; a vote of a side that
    others prefer as well says less.
    """
    if not table.has_log or "voter" not in table.keyed:
        return np.empty(0, dtype=np.uint64), 0
    log = table.log(lambda run: np.isin(_PLAIN[run.kind], (*_A_WINS, Kind.WIN_B, Kind.LEAN_B)))
    named = np.zeros(len(log), dtype=np.uint64) if log.voter is None else log.voter
    is_a = np.isin(_PLAIN[log.kind], _A_WINS)
    voters, of = np.unique(named, return_inverse=True)
    votes, for_a = np.bincount(of), np.bincount(of, is_a)
    needed = math.log2(2.0 * max(len(voters), 1) / _CHANCE_RATIO)
    # No vote says more than one bit.
    alone = ((for_a == 0) | (for_a == votes)) & (votes > needed) & (voters != MISSING_KEY)
    if not alone.any():
        return voters[alone], 0
    n, m = len(log), len(table.models)
    shown = np.concatenate([log.a.astype(np.int64) * m + log.b, log.b.astype(np.int64) * m + log.a])
    pair = np.unique(shown, return_inverse=True)[1]
    counts = np.bincount(pair[:n], minlength=2 * n)
    here, there = counts[pair[:n]], counts[pair[n:]]
    chose_a = np.bincount(pair[:n], is_a)[pair[:n]] / here
    bits = -np.log2(np.maximum(np.where(is_a, chose_a, 1.0 - chose_a), 0.5))
    bits[np.minimum(here, there) < _SIDE_SHARE * (here + there)] = 0.0
    chosen = alone & (np.bincount(of, bits) > needed)
    return voters[chosen], int(votes[chosen].sum())
