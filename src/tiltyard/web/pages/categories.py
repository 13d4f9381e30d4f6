"""The models of an arena by category: for each category, what the board of its prompts claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tiltyard.core.board.board_summary import Headline
from tiltyard.errors import NotFound
from tiltyard.web.access.route_access import ReadableArena
from tiltyard.web.pages.board_data import BoardPageCache, SourceBoard, gather_board_page, send_view
from tiltyard.web.pages.board_query import BoardQuery
from tiltyard.web.pages.board_view import BoardLine, BoardView
from tiltyard.web.pages.model import SourceWord

router = APIRouter(include_in_schema=False)

#: Categories that are shown; each is a board of its own, computed from its votes.
_SHOWN_CATEGORY_LIMIT = 12
#: With fewer votes in a category, the cell of a model says how many it has, and no more.
_CELL_VOTES = 30


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """One category: who is first in it, the rows of the models that have enough votes, and the votes of all."""

    #: ``None`` for all prompts.
    category: str | None
    votes: int
    headline: Headline
    cells: dict[str, BoardLine]
    model_votes: dict[str, int]


@dataclass(frozen=True, slots=True)
class CategoryMatrix:
    """Models in the order of the whole board, by category."""

    models: tuple[str, ...]
    columns: tuple[CategoryColumn, ...]
    #: Categories that are left out.
    left_out: int
    #: With fewer votes, a cell only says how many there are.
    cell_votes: int = _CELL_VOTES

    @property
    def is_empty(self) -> bool:
        """Whether no model has enough votes in any category."""
        return not any(column.cells for column in self.columns if column.category is not None)


@router.get("/arenas/{arena}/categories")
async def categories_page(arena: ReadableArena, request: Request, source: SourceWord = "human") -> Response:
    """The matrix of the newest boards."""
    whole = await gather_board_page(request, arena, BoardQuery(source=source))
    categories = whole.facts.categories
    if len(categories) < 2:
        raise NotFound("the prompts of this arena are not in several categories; see its board")
    shown = categories[:_SHOWN_CATEGORY_LIMIT]
    queries = [BoardQuery(source=source, category=category) for category in shown]
    boards = [whole.first, *[(await gather_board_page(request, arena, query)).first for query in queries]]

    def read(kept: BoardPageCache) -> dict[str, object]:
        views = [kept.view(board) for board in boards]
        matrix = make_matrix([None, *shown], boards, views, left_out=len(categories) - len(shown))
        return {"document": whole.first.document, "matrix": matrix, "source": source}

    key = (arena.name, arena.title, len(categories), *(board.sha256 for board in boards))
    return await send_view(request, whole, "board/categories.html", key, read)


def make_matrix(
    categories: Sequence[str | None],
    boards: Sequence[SourceBoard],
    views: Sequence[BoardView],
    *,
    left_out: int,
) -> CategoryMatrix:
    """The matrix of a whole board, which comes first, and of those of its categories."""
    models = tuple(line.model for line in views[0].lines if not line.retired)
    columns = tuple(
        CategoryColumn(
            category,
            (board.filtered or board.document).votes,
            view.headline,
            {
                line.model: line
                for line in view.lines
                if not line.retired and line.rank_low is not None and line.votes >= _CELL_VOTES
            },
            {line.model: line.votes for line in view.lines},
        )
        for category, board, view in zip(categories, boards, views, strict=True)
    )
    return CategoryMatrix(models, columns, left_out)
