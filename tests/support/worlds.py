"""Small worlds of battles: told in a line, or drawn from known strengths and a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from string import ascii_lowercase
from typing import Any

import numpy as np

from tiltyard.core.battles import (
    Battle,
    BattleBatch,
    CodedBattles,
    Kind,
    NameColumn,
    Table,
    TableBuilder,
    to_batches,
)

WINNER = {">": "model_a", "<": "model_b", "=": "tie", "!": "both_bad"}

#: What each kind is called from the other side.
MIRROR = np.array(
    [Kind.WIN_B, Kind.WIN_A, Kind.TIE, Kind.BOTH_BAD, Kind.LEAN_B, Kind.LEAN_A, Kind.INCONSISTENT]
)


def battles(story: str, **columns: Sequence[Any]) -> list[Battle]:
    """``a>b*3 b=c a!c``: three wins of a, a tie, a both_bad; columns go on row by row."""
    rows = []
    for item in story.split():
        fight, _, times = item.partition("*")
        sign = next(sign for sign in WINNER if sign in fight)
        a, b = fight.split(sign)
        rows += [{"model_a": a, "model_b": b, "winner": WINNER[sign]} for _ in range(int(times or 1))]
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return [Battle.from_dict(row) for row in rows]


def told(story: str, **columns: Sequence[Any]) -> Table:
    return Table.from_battles(battles(story, **columns))


def names(m: int) -> tuple[str, ...]:
    return tuple(f"{ascii_lowercase[k // 26]}{ascii_lowercase[k % 26]}" for k in range(m))


def drawn(
    m: int = 5,
    n: int = 240,
    seed: int = 0,
    *,
    ties: float = 0.2,
    judged: bool = False,
    prompts: int = 0,
    voters: int = 0,
    weighted: bool = False,
    soft: bool = False,
) -> CodedBattles:
    """Battles of models with normal strengths; a judged world also leans and contradicts itself.

    Weights and preferences are multiples of 1/8, so that sums of them are exact.
    """
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, 0.7, m)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    p = 1.0 / (1.0 + np.exp(strength[b] - strength[a]))
    kind = np.where(rng.random(n) < p, Kind.WIN_A, Kind.WIN_B)
    if judged:
        kind = np.where(rng.random(n) < 0.3, kind + Kind.LEAN_A, kind)
        kind = np.where(rng.random(n) < 0.1, Kind.INCONSISTENT, kind)
    kind = np.where(rng.random(n) < ties, Kind.TIE, kind)
    pref = np.round(p * 8.0) / 8.0
    return CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        kind.astype(np.uint8),
        prompt=rng.integers(1, prompts + 1, n).astype(np.uint64) if prompts else None,
        voter=rng.integers(1, voters + 1, n).astype(np.uint64) if voters else None,
        weight=rng.integers(1, 9, n) / 4.0 if weighted else None,
        pref=np.where(rng.random(n) < 0.7, pref, np.nan) if soft else None,
    )


def table(codes: CodedBattles, m: int | None = None) -> Table:
    return Table.from_codes(names(m or 1 + int(max(codes.a.max(), codes.b.max()))), codes)


def batch(codes: CodedBattles, m: int) -> BattleBatch:
    columns = {field.name: getattr(codes, field.name) for field in fields(codes)[2:]}
    return BattleBatch(NameColumn(codes.a, names(m)), NameColumn(codes.b, names(m)), **columns)


def styled(codes: CodedBattles, covariates: np.ndarray) -> Table:
    """The same battles with style columns s0, s1, …"""
    m = 1 + int(max(codes.a.max(), codes.b.max()))
    builder = TableBuilder(covariates=[f"s{k}" for k in range(covariates.shape[1])])
    builder.add(batch(replace(codes, covariates=covariates), m))
    return builder.table()


def rows(codes: CodedBattles, chosen: np.ndarray) -> CodedBattles:
    """Some rows of a log, in the order given."""
    return CodedBattles(*(None if column is None else column[chosen] for column in columns(codes)))


def columns(codes: CodedBattles) -> Iterator[np.ndarray | None]:
    """All but the levels."""
    return (getattr(codes, field.name) for field in fields(codes)[:-1])


def mirrored(codes: CodedBattles) -> CodedBattles:
    """The same battles with A and B exchanged."""
    return replace(
        codes,
        a=codes.b,
        b=codes.a,
        kind=MIRROR[codes.kind].astype(np.uint8),
        pref=None if codes.pref is None else 1.0 - codes.pref,
    )


def relabelled(codes: CodedBattles, to: np.ndarray) -> CodedBattles:
    """The same battles where model k is model ``to[k]``."""
    return replace(codes, a=to[codes.a].astype(np.uint16), b=to[codes.b].astype(np.uint16))


def with_rows(codes: CodedBattles, a: int, b: int, kind: Kind, times: int = 1) -> CodedBattles:
    """The log with some more battles at its end; their other columns are those of its first rows."""
    more = rows(codes, np.arange(times))
    more = replace(more, a=np.full(times, a, np.uint16), b=np.full(times, b, np.uint16))
    more = replace(more, kind=np.full(times, kind, np.uint8))
    joined = zip(columns(codes), columns(more), strict=True)
    return CodedBattles(*(None if old is None else np.concatenate([old, new]) for old, new in joined))


def split_tables(codes: CodedBattles, m: int, part: np.ndarray) -> list[Table]:
    """One table for each part of the log, models that do not occur left out."""
    found = []
    for number in np.unique(part):
        some = rows(codes, np.flatnonzero(part == number))
        used = np.unique(np.concatenate([some.a, some.b]))
        place = np.zeros(m, dtype=np.int64)
        place[used] = np.arange(len(used))
        found.append(Table.from_codes([names(m)[k] for k in used], relabelled(some, place)))
    return found


def counted(story: str) -> Table:
    """A table that kept no log."""
    builder = TableBuilder(keep_log=False)
    for some in to_batches(battles(story)):
        builder.add(some)
    return builder.table()
