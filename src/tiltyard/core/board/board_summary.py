"""What a board says in a few words: who is first, and how much was seen. Lists of arenas show no more of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tiltyard.core.board.document import BoardDocument, FilteredBoard
from tiltyard.core.board.settled_order import FirstPlaces, claims_nothing
from tiltyard.core.ratings import Finding

#: ``no-votes``: before the first vote. ``unclaimed``: the board claims no ranks at all. ``too-few``: there are not two
#: models to compare. ``nobody``: no order is settled, or most models cannot be placed. ``first``: one model is first.
#: ``shared``: several may be.
HeadlineCase = Literal["no-votes", "unclaimed", "too-few", "nobody", "first", "shared"]

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
    ranked = [row for row in board.rows if row.rank_low is not None]
    if not board.votes:
        return Headline("no-votes")
    if board.settled is None:
        return Headline("unclaimed")
    if len(ranked) < 2:
        return Headline("too-few")
    if claims_nothing(board.settled):
        return Headline("nobody")
    places = FirstPlaces.of([(row.rank_low or 0, row.rank_high or 0) for row in ranked])
    unplaced = tuple(UnplacedModel(ranked[k].model, ranked[k].votes) for k in places.unplaced)
    if 2 * len(unplaced) > len(ranked):
        # To be first of a few is no first place.
        return Headline("nobody", unplaced=unplaced)
    leaders = [ranked[k].model for k in places.leaders]
    return Headline(
        "first" if len(leaders) == 1 else "shared",
        leaders=tuple(leaders[:_NAMED_MODEL_COUNT]),
        more=max(len(leaders) - _NAMED_MODEL_COUNT, 0),
        below=len(ranked) - len(leaders) - len(unplaced),
        unplaced=unplaced,
        error=board.method.policy.settled_alpha,
    )


@dataclass(frozen=True, slots=True)
class BoardSummary:
    """What a list of arenas shows of a board; it is stored beside it."""

    status: str | None
    votes: int
    #: Enabled models, and retired ones.
    models: int
    retired: int
    #: Who is first, and whether that is settled.
    headline: Headline
    #: What is settled in all; ``None`` where the board does not say.
    claim: Finding | None

    @classmethod
    def of(cls, board: BoardDocument) -> BoardSummary:
        enabled = sum(row.enabled for row in board.rows)
        claim = board.settled if board.votes else None
        return cls(board.status, board.votes, enabled, len(board.rows) - enabled, headline_of(board), claim)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"claim": None if self.claim is None else self.claim.to_dict()}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> BoardSummary:
        """The summary of `to_dict`."""
        first = said["headline"]
        unplaced = tuple(UnplacedModel(**one) for one in first["unplaced"])
        headline = Headline(**{**first, "leaders": tuple(first["leaders"]), "unplaced": unplaced})
        claim = None if said["claim"] is None else Finding.from_dict(said["claim"])
        return cls(**{**said, "headline": headline, "claim": claim})
