"""What one voter's votes say: an order of the voter's own, and how it sits with the arena's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.board.board_rows import Board, make_board
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.findings import MIN_BATTLES
from tiltyard.core.ratings.ranks import rank_models

#: A weak prior: one voter's few votes are mostly one-sided, and without it most models would have no rating.
OWN_METHOD = BradleyTerry(prior_sd=200.0)

#: Who won, by kind: −1 the left one, 1 the right one. Other kinds decide nothing.
_WINNER = {Kind.WIN_A: -1, Kind.LEAN_A: -1, Kind.WIN_B: 1, Kind.LEAN_B: 1}


@dataclass(frozen=True, slots=True)
class VoteCount:
    """So many votes of one voter that ended alike."""

    model_a: str
    model_b: str
    prompt: str
    kind: Kind
    count: int = 1


@dataclass(frozen=True, slots=True)
class BoardAgreement:
    """Decisive votes on two ranked models, and how many of them went to the one that is ranked higher."""

    agreed: int
    decisive: int

    @property
    def share(self) -> float | None:
        return self.agreed / self.decisive if self.decisive else None


def named_votes(
    counts: Iterable[tuple[int, int, int, int, int]], models: Sequence[str], prompts: Sequence[str]
) -> tuple[VoteCount, ...]:
    """Votes by name, from numbers of left and right model, prompt and kind, and how often."""
    return tuple(
        VoteCount(models[a], models[b], prompts[prompt], Kind(kind), count)
        for a, b, prompt, kind, count in counts
    )


def own_board(cast: Sequence[VoteCount]) -> Board | None:
    """The order that these votes make; ``None`` without a vote that rates skill.

    Only models that the voter has met are on it. Who has fewer than 30 battles has no interval: so few
    make one that is too narrow to be believed.
    """
    if all(one.kind is Kind.BOTH_BAD for one in cast):
        return None
    ratings = OWN_METHOD(_table(cast))
    board = make_board(ratings, rank_models(ratings, level=OWN_METHOD.level))
    rows = tuple(
        row
        if row.battles >= MIN_BATTLES
        else replace(row, low=None, high=None, rank_low=None, rank_high=None, tier=None)
        for row in board.rows
    )
    return replace(board, rows=rows)


def agrees_with_order(cast: VoteCount, rank: Mapping[str, int]) -> bool | None:
    """Whether a vote went to the model that is ranked higher; ``None`` if it decides nothing between two ranked."""
    winner = _WINNER.get(cast.kind.plain)
    if winner is None or cast.model_a not in rank or cast.model_b not in rank:
        return None
    return (rank[cast.model_a] < rank[cast.model_b]) == (winner < 0)


def board_agreement(cast: Sequence[VoteCount], rank: Mapping[str, int]) -> BoardAgreement:
    """How often the voter and the arena's order are of one mind."""
    found = [(agrees_with_order(one, rank), one.count) for one in cast]
    return BoardAgreement(
        sum(count for same, count in found if same),
        sum(count for same, count in found if same is not None),
    )


def _table(cast: Sequence[VoteCount]) -> Table:
    names = sorted({name for one in cast for name in (one.model_a, one.model_b)})
    place = {name: k for k, name in enumerate(names)}
    row = np.repeat(np.arange(len(cast)), [one.count for one in cast])
    codes = CodedBattles(
        np.array([place[one.model_a] for one in cast], dtype=np.int64)[row],
        np.array([place[one.model_b] for one in cast], dtype=np.int64)[row],
        np.array([one.kind for one in cast], dtype=np.uint8)[row],
        prompt=hash_texts([one.prompt for one in cast])[row],
    )
    return Table.from_codes(names, codes)
