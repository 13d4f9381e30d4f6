"""What other sites show of a board: its card, which is the picture of a link preview, and a small board in a frame.

Only boards of arenas that are open to everybody are shared. Other sites cannot tell who is asking.
"""

from __future__ import annotations

from hashlib import sha256 as hashed
from operator import attrgetter
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from markupsafe import Markup

from tiltyard.arena.content.arenas import Arena
from tiltyard.errors import NotFound
from tiltyard.report.site_boards import ShareCard, SiteRow, card_png, draw_badge, draw_card
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ReadableArena, boards_of, send_cacheable
from tiltyard.web.pages.board_data import BoardPageData, board_page_cache_of, gather_board_page
from tiltyard.web.pages.board_query import BoardQuery, BoardQueryParams
from tiltyard.web.pages.board_view import BoardView, filtered_view
from tiltyard.web.pages.layout import PAGE_POLICY, localization_of, pages_of, send_page, varying
from tiltyard.web.pages.model import SourceWord
from tiltyard.web.routes.boards import Hash
from tiltyard.wire.records import Plain

router = APIRouter(include_in_schema=False)

#: Other sites may load these.
_SHARED_HEADERS = {"Cross-Origin-Resource-Policy": "cross-origin"}
#: An SVG that is opened by itself is a document.
_CARD_POLICY = "default-src 'none'; sandbox"
_EMBEDDED_ROW_LIMIT = 50
#: A row of the card.
_ROW = attrgetter("model", "bradley_terry", "low", "high", "rank_low", "rank_high", "tier")

RowCount = Annotated[int, Query(ge=1, le=_EMBEDDED_ROW_LIMIT, description="How many models are shown.")]


@router.api_route("/arenas/{arena}/boards/{sha256}/card.{form}", methods=["GET", "HEAD"])
async def board_card(
    arena: ReadableArena, sha256: Hash, form: Literal["png", "svg"], request: Request, query: BoardQueryParams
) -> Response:
    """The card of a published board: the picture that other sites show beside a link to it."""
    _check_public(arena)
    once = await boards_of(request).published(arena.arena, sha256)
    chosen = BoardQuery(**query.chosen_votes)  # type: ignore[arg-type]
    material = await gather_board_page(request, arena, chosen, once)
    first, language = material.first, localization_of(request).language
    key = ("card", form, arena.title, language, first.sha256, first.citation.amended is None)
    made = await board_page_cache_of(request).drawn(key, lambda: _draw(request, material, form))
    headers = {**_SHARED_HEADERS, "Content-Security-Policy": _CARD_POLICY, "Vary": varying(request)}
    kind = "image/png" if form == "png" else "image/svg+xml"
    return send_cacheable(request, arena, *made, headers=headers, media_type=kind)


@router.api_route("/arenas/{arena}/badge.svg", methods=["GET", "HEAD"])
async def board_badge(arena: ReadableArena, request: Request) -> Response:
    """Who is first on the newest board, in a few words, for a page about the arena."""
    _check_public(arena)
    material = await gather_board_page(request, arena, BoardQuery())
    text = _card_words(request, material)[-1].strip()
    data = draw_badge(text, f"{arena.title}: {text}").encode()
    headers = {**_SHARED_HEADERS, "Content-Security-Policy": _CARD_POLICY, "Vary": varying(request)}
    etag = hashed(data).hexdigest()
    return send_cacheable(request, arena, data, etag, headers=headers, media_type="image/svg+xml")


@router.api_route("/arenas/{arena}/embed", methods=["GET", "HEAD"])
async def embedded_board(
    arena: ReadableArena,
    request: Request,
    source: SourceWord = "human",
    category: Plain = "",
    theme: Literal["", "light", "dark"] = "",
    rows: RowCount = 10,
) -> Response:
    """A small board for a frame on one of the sites that the arena names. It has no scripts."""
    _check_public(arena)
    query = BoardQuery(source=source, category=category, retired="hide")
    material = await gather_board_page(request, arena, query)
    kept, language = board_page_cache_of(request), localization_of(request).language
    key = ("embed", language, theme, rows, material.key())

    def render() -> bytes:
        view = filtered_view(kept.view(material.first), query)
        text = pages_of(request).render(
            "board/embed.html",
            request,
            arena=arena,
            document=material.first.filtered or material.first.document,
            lines=view.lines[:rows],
            origin=registry_of(request).settings.address(),
            query=query,
            theme=theme or None,
            view=view,
        )
        return text.encode()

    sites = " ".join((arena.settings.embed_sites or "").split()) or "'none'"
    policy = PAGE_POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {sites}")
    headers = {
        **_SHARED_HEADERS,
        "Content-Security-Policy": policy,
    }
    return send_page(request, arena, *await kept.rendered(key, render), headers=headers)


def _check_public(arena: Arena) -> None:
    if not arena.settings.public:
        raise NotFound("boards of arenas that are not open to everybody are not shared with other sites")


def _card_words(request: Request, material: BoardPageData) -> list[str]:
    """The kind of the board's status, its status, how much was counted, and who is first."""
    view = _card_view(request, material)
    values = {"board": material.first, "query": material.query, "view": view}
    words = pages_of(request).render("board/card.html", request, **values)
    return Markup(words).striptags().split("|", 3)  # noqa: S704 - a template of ours made it


def _card_view(request: Request, material: BoardPageData) -> BoardView:
    kept = board_page_cache_of(request)
    return filtered_view(kept.view(material.first), BoardQuery(retired="hide"))


def _draw(request: Request, material: BoardPageData, form: str) -> bytes:
    view = _card_view(request, material)
    kind, status, counts, verdict = _card_words(request, material)
    claimed = view.headline.case in ("first", "shared")
    card = ShareCard(
        title=material.arena.title,
        verdict=verdict.strip(),
        rows=[SiteRow(*(*_ROW(line), None)) for line in view.lines if claimed and line.rank_low is not None],
        note=" · ".join(sorted(line.model for line in view.lines)),
        counts=counts.strip(),
        status=status.strip(),
        status_kind=kind.strip(),
        right_to_left=localization_of(request).direction == "rtl",
    )
    svg = draw_card(card)
    png = card_png(svg) if form == "png" else svg.encode()
    if png is None:
        raise NotFound("pictures are not available on this server")
    return png
