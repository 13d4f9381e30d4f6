"""Findings about a log whatever it is rated by: names that are spelled in several ways, and voters who choose one side."""

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
from tiltyard.core.ratings.sentences import first_of

#: The probability that any honest voter of a log is called one-sided.
_CHANCE_RATIO = 0.001
#: A pair tells sides from models only if each of its models is on either side in at least this share of its battles.
_SIDE_SHARE = 0.2
_A_WINS = (Kind.WIN_A, Kind.LEAN_A)
_PLAIN = np.array([kind.plain for kind in Kind], dtype=np.uint8)


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
