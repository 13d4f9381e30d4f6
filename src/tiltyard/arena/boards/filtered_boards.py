"""Filtered boards, pairs and model pages, computed from the votes behind a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiltyard.arena.log.votes import VoteTally
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.board.board_rows import Board, make_board
from tiltyard.core.board.filtered import FilteredBoard, PromptFilter
from tiltyard.core.ratings import BradleyTerry, Finding
from tiltyard.core.ratings.ranks import rank_models

__all__ = [
    "VoteSubset",
    "count_consecutive_passes",
    "filtered_board",
    "head_to_head",
    "pair_results",
    "prompt_results",
    "table_from_tally",
]

#: What a kind is for the model on the left, and on the right.
_RESULTS = {
    Kind.WIN_A: ("wins", "losses"),
    Kind.LEAN_A: ("wins", "losses"),
    Kind.WIN_B: ("losses", "wins"),
    Kind.LEAN_B: ("losses", "wins"),
    Kind.TIE: ("ties", "ties"),
    Kind.INCONSISTENT: ("ties", "ties"),
    Kind.BOTH_BAD: ("both_bad", "both_bad"),
}
_NOTHING = {"wins": 0, "losses": 0, "ties": 0, "both_bad": 0, "votes": 0}
#: A left model's wins, losses, ties and both-bad votes by kind.
_OUTCOME = np.array([("wins", "losses", "ties", "both_bad").index(_RESULTS[kind.plain][0]) for kind in Kind])
_FLAGGED = np.array([kind.flagged for kind in Kind])
_COUNTED = Finding("excluded-counted")
_ANOTHER_METHOD = Finding("filtered-board")


@dataclass(frozen=True, slots=True)
class VoteSubset:
    """Which votes of an arena: one source's, on some prompts, excluded ones left out or counted."""

    source: int = 0
    category: str | None = None
    language: str | None = None
    #: Whether excluded votes count.
    counted: bool = False

    @property
    def whole(self) -> bool:
        """Whether these are exactly the votes that published boards count."""
        return self.category is None and self.language is None and not self.counted


def table_from_tally(tally: VoteTally, models: Sequence[str], prompts: Mapping[int, str]) -> Table:
    """Votes as a table, clustered by prompt: every count as so many battles."""
    names = sorted(models)
    place = {name: k for k, name in enumerate(names)}
    code = np.array([place[name] for name in models], dtype=np.int64)
    numbers = np.array(sorted(prompts), dtype=np.int64)
    keys = hash_texts([prompts[number] for number in numbers.tolist()])
    row = np.repeat(np.arange(len(tally)), tally.count)
    codes = CodedBattles(
        code[tally.a[row]],
        code[tally.b[row]],
        tally.kind[row].astype(np.uint8),
        prompt=keys[np.searchsorted(numbers, tally.prompt[row])],
    )
    return Table.from_codes(names, codes)


def filtered_board(
    tally: VoteTally,
    models: Sequence[str],
    prompts: Mapping[int, str],
    *,
    about: Mapping[str, Any],
    part: VoteSubset,
) -> FilteredBoard:
    """The board of these votes: batch Bradley–Terry, with the findings of its own fit."""
    board = _board(table_from_tally(tally, models, prompts)) if len(tally) else None
    said = [_COUNTED] if part.counted else []
    if part.category is not None or part.language is not None:
        said.append(_ANOTHER_METHOD)
    return FilteredBoard(
        **about,
        filter=PromptFilter(part.category, part.language),
        excluded="counted" if part.counted else "left-out",
        prompts=len(prompts),
        votes=int(tally.count.sum()),
        order="bradley-terry",
        level=None if board is None else board.level,
        scope=None if board is None else board.scope,
        clusters=None if board is None else board.clusters,
        n_clusters=None if board is None else board.n_clusters,
        rows=() if board is None else board.rows,
        findings=(*said, *(() if board is None else board.findings)),
        method=BradleyTerry(),
    )


def pair_results(tally: VoteTally, models: Sequence[str], shown: Sequence[int]) -> list[dict[str, Any]]:
    """How each two of these models did against each other, in their order; those that never met are left out.

    ``score`` is the first one's share of the points, a tie counting half.
    """
    place = np.full(len(models), -1)
    place[list(shown)] = np.arange(len(shown))
    a, b = place[tally.a], place[tally.b]
    outcome, swap = _OUTCOME[tally.kind], a > b
    outcome = np.where(swap & (outcome < 2), 1 - outcome, outcome)
    cells = np.zeros((len(shown), len(shown), 5), dtype=np.int64)
    inside = (a >= 0) & (b >= 0)
    low, high, count = np.minimum(a, b)[inside], np.maximum(a, b)[inside], tally.count[inside]
    np.add.at(cells, (low, high, outcome[inside]), count)
    np.add.at(cells, (low, high, 4), count * _FLAGGED[tally.kind[inside]])
    pairs: list[dict[str, Any]] = []
    for first, second in np.argwhere(cells.sum(axis=2)).tolist():
        wins, losses, ties, unrated, flagged = cells[first, second].tolist()
        battles = wins + losses + ties
        pairs.append(
            {
                "model_a": models[shown[first]],
                "model_b": models[shown[second]],
                "battles": battles,
                "both_bad": unrated + flagged,
                "score": (wins + 0.5 * ties) / battles if battles else None,
            }
        )
    return pairs


def count_consecutive_passes(
    looks: Sequence[tuple[int, bool]], *, votes: int, every: int, most: int
) -> int | None:
    """At how many of the last evaluations all rules held, up to ``most``; ``None`` if too little is known.

    ``looks`` has votes and result of those whose boards were kept; there is one every so many votes.
    """
    expected, run = votes - votes % every, 0
    known = dict(looks)
    while expected > 0 and run < most:
        held = known.get(expected)
        if held is None:
            return None
        if not held:
            break
        run, expected = run + 1, expected - every
    return run


def head_to_head(tally: VoteTally, models: Sequence[str], model: int) -> list[dict[str, Any]]:
    """How one model did against each it met, those met most often first."""
    return _results(tally, model, lambda _prompt, opponent: {"opponent": models[opponent]})


def prompt_results(
    tally: VoteTally, prompts: Sequence[tuple[str, str | None, str | None]], model: int
) -> list[dict[str, Any]]:
    """How one model did on each prompt, those with most votes first."""
    return _results(
        tally,
        model,
        lambda prompt, _opponent: dict(zip(("prompt", "category", "language"), prompts[prompt], strict=True)),
    )


def _results(tally: VoteTally, model: int, told: Any) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    columns = (column.tolist() for column in (tally.a, tally.b, tally.prompt, tally.kind, tally.count))
    for a, b, prompt, kind, count in zip(*columns, strict=True):
        if model not in (a, b):
            continue
        group = told(prompt, b if a == model else a)
        ended = Kind(kind)
        row = found.setdefault(tuple(group.values()), group | _NOTHING)
        row[_RESULTS[ended.plain][0 if a == model else 1]] += count
        row["both_bad"] += count * ended.flagged
        row["votes"] += count
    for row in found.values():
        rated = row["wins"] + row["losses"] + row["ties"]
        row["score"] = (row["wins"] + 0.5 * row["ties"]) / rated if rated else None
    return sorted(found.values(), key=lambda row: (-row["votes"], *map(str, row.values())))


def _board(table: Table) -> Board:
    method = BradleyTerry()
    ratings = method(table)
    return make_board(ratings, rank_models(ratings, level=method.level))
