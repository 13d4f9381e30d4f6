"""The view of style: how models write, and their ratings if all wrote alike."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.battle_effects import StyledDocument, StyledRow, StyleEffect
from tiltyard.arena.content.response_details import ModelUsage, read_usage
from tiltyard.errors import NotFound
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena, boards_of, source_number
from tiltyard.web.pages.board_data import BoardPageCache, gather_board_page, send_view
from tiltyard.web.pages.board_query import BoardQuery
from tiltyard.web.pages.model import SourceWord

router = APIRouter(include_in_schema=False)

#: Standard errors beyond which an effect is named.
_NAMED_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class ModelStyle:
    """One model: its ratings, and how it writes on average."""

    row: StyledRow
    usage: ModelUsage | None

    @property
    def change(self) -> float | None:
        """The points that the rating gains at equal style."""
        plain, equal = self.row["plain"]["rating"], self.row["equal_style"]["rating"]
        return None if plain is None or equal is None else round(equal) - round(plain)


@router.get("/arenas/{arena}/style", response_class=HTMLResponse)
async def style_page(arena: ReadableArena, request: Request, source: SourceWord = "human") -> Response:
    """How models write, and their ratings at equal style."""
    whole = await gather_board_page(request, arena, BoardQuery(source=source))
    if not whole.facts.styled:
        raise NotFound(
            "the style of this arena's responses is not known, or there are no votes; see its board"
        )
    document = await boards_of(request).styled(arena, source_number(source))
    usage = await read_usage(registry_of(request).pool, arena.arena)

    def read(kept: BoardPageCache) -> dict[str, object]:
        said: StyledDocument = json.loads(document.data)
        rows, known = {row["model"]: row for row in said["rows"]}, {one.model: one for one in usage}
        lines = [line for line in kept.view(whole.first).lines if not line.retired and line.model in rows]
        return {
            "favoured": [(one["trait"], trait_favoured(one)) for one in said["effects"]],
            "said": said,
            "styles": [ModelStyle(rows[line.model], known.get(line.model)) for line in lines],
        }

    key = (whole.key(), document.sha256, tuple(usage))
    return await send_view(request, whole, "board/style.html", key, read)


def trait_favoured(effect: StyleEffect) -> bool | None:
    """Whether more of a trait wins votes (or loses them); ``None`` if that is within chance."""
    error = effect["standard_error"]
    if (
        error is None
        or not math.isfinite(error)
        or abs(effect["coefficient"]) < _NAMED_STANDARD_ERRORS * error
    ):
        return None
    return effect["coefficient"] > 0.0
