"""Who is first on a board, and how sure that is: what a page says before everything else.

It is made from the ranks that the board claims, and says nothing that these do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiltyard.core.board.arena_board import ArenaRow
from tiltyard.core.board.document import BoardDocument, FilteredBoard
from tiltyard.core.board.settled_order import claims_nothing

#: ``no-votes``: before the first vote. ``unclaimed``: the board claims no ranks at all. ``too-few``: there are not two
#: models to compare. ``nobody``: no order is settled, or most models cannot be placed. ``first``: one model is first.
#: ``shared``: several may be.
HeadlineCase = Literal["no-votes", "unclaimed", "too-few", "nobody", "first", "shared"]
#: How sure the place of a model is.
PlaceWord = Literal["settled", "shared", "unplaced"]

#: So many of the models that share first place are named.
_NAMED_MODEL_COUNT = 3


@dataclass(frozen=True, slots=True)
class UnplacedModel:
    """A model whose votes rule out no rank."""

    model: str
    votes: int


@dataclass(frozen=True, slots=True)
class Headline:
    """What a board says first."""

    case: HeadlineCase
    #: The models that are first, or may be, in the order of the board; and how many more there are.
    leaders: tuple[str, ...] = ()
    more: int = 0
    #: Ranked models that are settled below another one.
    below: int = 0
    #: Ranked models about which nothing is settled, while something is about others.
    unplaced: tuple[UnplacedModel, ...] = ()
    #: The probability that anything which this board calls settled is wrong, at most.
    error: float = 0.0

    @property
    def placed(self) -> int:
        """Ranked models about which something is settled."""
        return len(self.leaders) + self.more + self.below


def headline_of(board: BoardDocument | FilteredBoard) -> Headline:
    """The headline of a published or filtered board."""
    ranked = [row for row in board.rows if row.rank_low is not None]
    if not board.votes:
        return Headline("no-votes")
    if board.settled is None:
        return Headline("unclaimed")
    if len(ranked) < 2:
        return Headline("too-few")
    if claims_nothing(board.settled):
        return Headline("nobody")
    unplaced = tuple(
        UnplacedModel(row.model, row.votes) for row in ranked if claimed_place(row, len(ranked)) == "unplaced"
    )
    if 2 * len(unplaced) > len(ranked):
        # To be first of a few is no first place.
        return Headline("nobody", unplaced=unplaced)
    leaders = [row.model for row in ranked if row.rank_low == 1 and row.rank_high != len(ranked)]
    return Headline(
        "first" if len(leaders) == 1 else "shared",
        leaders=tuple(leaders[:_NAMED_MODEL_COUNT]),
        more=max(len(leaders) - _NAMED_MODEL_COUNT, 0),
        below=len(ranked) - len(leaders) - len(unplaced),
        unplaced=unplaced,
        error=board.method.policy.settled_alpha,
    )


def claimed_place(row: ArenaRow, ranked: int) -> PlaceWord | None:
    """How sure the place of a row is, among so many ranked ones; ``None`` if no rank is claimed for it."""
    if row.rank_low is None:
        return None
    if row.rank_low == row.rank_high:
        return "settled"
    return "unplaced" if (row.rank_low, row.rank_high) == (1, ranked) else "shared"
