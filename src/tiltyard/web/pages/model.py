"""The page of a model, its charts, and its responses.

A response under its model's name is for operators, and for readers of an archived arena: whoever knows which model wrote
it does not vote blind on it, so readers see none while votes are taken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.boards.model_profiles import (
    ModelProfile,
    Opponent,
    PromptRecord,
    ResponseHistory,
)
from tiltyard.arena.content.arenas import Arena, read_prompt_responses
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.model_details import ModelDetails
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.content.stored_conversations import CONVERSATION, conversation_image, read_conversation
from tiltyard.core.board.settled_order import LIKE_THESE
from tiltyard.errors import NotFound
from tiltyard.report.arena_charts import (
    OpponentScore,
    both_bad_chart,
    confidence_chart,
    coverage_chart,
    expected_chart,
)
from tiltyard.report.board_charts import (
    ChartTheme,
    Spec,
    Translate,
    charts_available,
    fit_to_phone,
    localise_spec,
    render_svg,
)
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import ModelName, ReadableArena, model_profiles_of, send_cacheable
from tiltyard.web.pages import paths
from tiltyard.web.pages.board_data import board_page_cache_of, model_details_of
from tiltyard.web.pages.layout import localization_of, pages_of, render_page, send_page, theme_of
from tiltyard.web.pages.localization import Localization
from tiltyard.web.pages.matchup_view import ConversationTurn, build_single_turn, image_address
from tiltyard.web.routes.moderation import DOWNLOAD_HEADERS
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN
from tiltyard.wire.records import Plain

router = APIRouter(include_in_schema=False)

#: Charts contain text in the client's language.
_LANGUAGE_HEADERS = {"Vary": "Accept-Language, Cookie"}


async def _profile(
    request: Request, arena: ReadableArena, model: Plain, source: SourceWord = "human"
) -> ModelProfile:
    return await model_profiles_of(request).of(arena, int(source == "llm-judge"), model)


@router.get("/arenas/{arena}/model-charts/{chart}.{form}")
async def model_chart_file(
    arena: ReadableArena,
    chart: str,
    form: Literal["svg", "json"],
    request: Request,
    profile: Annotated[ModelProfile, Depends(_profile)],
    theme: ChartTheme = "any",
    narrow: Annotated[bool, Query(description="For a phone.")] = False,
) -> Response:
    """A chart of a model as a picture, or as a Vega-Lite spec, which the page styles."""
    localization = localization_of(request)
    look: ChartTheme = "light" if form == "svg" and theme == "any" else theme

    def draw() -> bytes:
        drawn, locale = _spec(profile, chart, look, localization), localization.chart_locale()
        if form == "svg":
            spec = localise_spec(drawn, locale)
            return render_svg(fit_to_phone(spec) if narrow else spec)
        spec = localise_spec({name: part for name, part in drawn.items() if name != "config"}, locale)
        return json.dumps(spec, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    key = (profile.name, profile.snapshot.sha256, chart, form, look, narrow, localization.language)
    made = await board_page_cache_of(request).drawn(("model chart", arena.name, *key), draw)
    media_type = "image/svg+xml" if form == "svg" else "application/json"
    return send_cacheable(request, arena, *made, headers=_LANGUAGE_HEADERS, media_type=media_type)


@router.get("/arenas/{arena}/models/{model:path}")
async def model_page(
    arena: ReadableArena,
    model: ModelName,
    request: Request,
    source: SourceWord = "human",
    sort: Sort = "votes",
    order: Literal["asc", "desc"] = "desc",
    rows: Annotated[Plain | None, Query()] = None,
) -> Response:
    """The page of a model."""
    profile = await _profile(request, arena, model, source)
    details = (await model_details_of(request, arena)).of(profile.name)
    asked = ModelPageQuery(source, sort, order, whole=rows == "all")
    shown = (
        arena.name,
        arena.title,
        arena.settings.stage,
        profile.name,
        profile.snapshot.sha256,
        *asked.query().values(),
    )
    key = (*shown, *details.texts().values(), theme_of(request), localization_of(request).language)
    made = await board_page_cache_of(request).rendered(
        ("model", *key), lambda: _rendered(request, arena, profile, asked, details)
    )
    return send_page(request, arena, *made)


def _rendered(
    request: Request, arena: Arena, profile: ModelProfile, asked: ModelPageQuery, details: ModelDetails
) -> bytes:
    view = make_model_view(profile, asked)
    here = view.path(arena.name, asked)
    text = pages_of(request).render(
        "model/model.html",
        request,
        arena=arena,
        details=details,
        view=view,
        profile=profile,
        row=profile.row,
        here=here,
        state_of=response_state,
    )
    return text.encode()


def _spec(
    profile: ModelProfile, chart: str, look: ChartTheme, localization: Localization
) -> dict[str, object]:
    spec = model_chart(profile, chart, look, localization.texts.gettext)
    if spec is None:
        raise NotFound("this model has no such chart; its page shows the available ones")
    return spec


SourceWord = Literal["human", "llm-judge"]
Sort = Literal["prompt", "category", "votes", "score"]
Order = Literal["asc", "desc"]

#: Rows of a table before "show all", and of the table of responses.
_FIRST_ROWS = 25
_FIRST_RESPONSE_ROWS = 10
#: Evaluations in the table beside the chart.
_EVALUATION_ROWS = 40


@dataclass(frozen=True, slots=True)
class ModelPageQuery:
    source: SourceWord = "human"
    sort: Sort = "votes"
    order: Order = "desc"
    whole: bool = False

    def query(self) -> dict[str, str | None]:
        """The query parameters that differ from the defaults; others are ``None``."""
        return {
            "source": None if self.source == "human" else self.source,
            "sort": None if self.sort == "votes" else self.sort,
            "order": None if self.order == "desc" else self.order,
            "rows": "all" if self.whole else None,
        }

    def by(self, source: SourceWord) -> ModelPageQuery:
        """A copy with another source."""
        return replace(self, source=source)

    def entire(self) -> ModelPageQuery:
        """A copy that shows all rows of all tables."""
        return replace(self, whole=True)

    def sorted_by(self, column: Sort) -> ModelPageQuery:
        """A copy sorted by this column; in reverse order if it is already sorted by it."""
        first: Order = "desc" if column in ("votes", "score") else "asc"
        other: Order = "asc" if self.order == "desc" else "desc"
        return replace(self, sort=column, order=other if column == self.sort else first)


@dataclass(frozen=True, slots=True)
class TruncatedRows:
    """The first rows of a table, and the number of all rows."""

    rows: tuple[Any, ...]
    total: int

    @classmethod
    def of(cls, rows: tuple[Any, ...], most: int | None) -> TruncatedRows:
        return cls(rows[:most], len(rows))

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class RankNeighbour:
    """A neighbour in rank, with the record against it."""

    name: str
    above: bool
    challenge: Any
    #: Whether all votes settle the order of the two for prompts like these; ``None`` if the board does not say.
    settled: bool | None


@dataclass(frozen=True, slots=True)
class HeatmapRow:
    """One prompt of the coverage heatmap: its deficit, and each opponent's cell as deficit and votes."""

    prompt: str
    deficit: float
    cells: tuple[tuple[float | None, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ModelView:
    """The data of a model page."""

    profile: ModelProfile
    asked: ModelPageQuery
    opponents: TruncatedRows
    prompts: TruncatedRows
    responses: TruncatedRows
    rivals: tuple[RankNeighbour, ...]
    heat_opponents: tuple[str, ...]
    heat: tuple[HeatmapRow, ...]
    history: tuple[Any, ...]
    #: Charts that have something to show.
    charts: frozenset[str]

    @property
    def lacking(self) -> bool:
        """Whether any cell of the heatmap lacks votes."""
        return any(deficit for line in self.heat for deficit, _ in line.cells)

    def path(self, arena: str, asked: ModelPageQuery) -> str:
        return paths.model(arena, self.profile.name, **asked.query())

    def chart(self, arena: str, name: str, ending: str, theme: str | None) -> str:
        """The path of a chart of this page."""
        query = {
            "model": self.profile.name,
            "source": None if self.asked.source == "human" else self.asked.source,
            "theme": theme,
            "board": self.profile.snapshot.sha256[:12],
        }
        return paths.asked(f"{paths.board(arena)}/model-charts/{name}.{ending}", query)


def make_model_view(profile: ModelProfile, asked: ModelPageQuery) -> ModelView:
    heat, most = profile.heatmap, None if asked.whole else _FIRST_ROWS
    prompts = tuple(profile.prompt_words.values())
    return ModelView(
        profile=profile,
        asked=asked,
        opponents=TruncatedRows.of(tuple(sorted(profile.opponents, key=_by_rank)), most),
        prompts=TruncatedRows.of(_sorted(profile.prompts, asked), most),
        responses=TruncatedRows.of(profile.responses, None if asked.whole else _FIRST_RESPONSE_ROWS),
        rivals=tuple(
            RankNeighbour(
                profile.models[challenge.other],
                above,
                challenge,
                _settled(profile, profile.models[challenge.other], above=above),
            )
            for challenge, above in zip(profile.challenges, (True, False), strict=True)
            if challenge is not None
        ),
        heat_opponents=() if heat is None else tuple(profile.models[k] for k in heat.opponents),
        heat=()
        if heat is None
        else tuple(
            HeatmapRow(prompts[prompt], lacking, tuple(zip(deficits, votes, strict=True)))
            for prompt, lacking, deficits, votes in zip(
                heat.prompts, heat.prompt_deficit, heat.deficit, heat.votes, strict=True
            )
        ),
        history=tuple(reversed(profile.history))[: None if asked.whole else _EVALUATION_ROWS],
        charts=_charts(profile),
    )


def model_chart(profile: ModelProfile, name: str, look: ChartTheme, say: Translate = str) -> Spec | None:
    """The Vega-Lite spec of a chart, with texts translated by ``say``; ``None`` if there is no data for it."""
    if name not in _charts(profile):
        return None
    if name == "confidence":
        return confidence_chart(profile.history, look, say)
    if name == "expected":
        scores = [
            OpponentScore(one.name, one.met.expected, one.met.score, one.met.record.votes)
            for one in profile.opponents
            if one.enabled
        ]
        return expected_chart(scores, look, say)
    if name == "both-bad":
        assert profile.row is not None
        assert profile.row.quality is not None
        return both_bad_chart(profile.row.quality.trend, profile.policy.both_bad_bar, look, say)
    assert profile.heatmap is not None
    return coverage_chart(profile.heatmap, profile.models, tuple(profile.prompt_words.values()), look, say)


def _charts(profile: ModelProfile) -> frozenset[str]:
    if not charts_available() or profile.row is None or not profile.shown_policy:
        return frozenset()
    heat, quality = profile.heatmap, profile.row.quality
    there = {
        "confidence": len(profile.history) > 1,
        "expected": any(one.enabled for one in profile.opponents),
        "both-bad": quality is not None and len(quality.trend) > 1,
        "coverage": heat is not None and any(any(line) for line in heat.deficit),
    }
    return frozenset(name for name, shown in there.items() if shown)


def _settled(profile: ModelProfile, other: str, *, above: bool) -> bool | None:
    """Whether the order of this model and a neighbour is settled. The board says so of rows that follow each other."""
    pair = (other, profile.name) if above else (profile.name, other)
    for row, following in pairwise(profile.board.rows):
        if (row.model, following.model) == pair and profile.board.settled is not None:
            return LIKE_THESE in row.settled
    return None


def _by_rank(opponent: Opponent) -> tuple[bool, int, int]:
    unranked = opponent.rank is None
    return unranked, opponent.rank or 0, opponent.met.model


_KEYS: dict[Sort, Callable[[PromptRecord], Any]] = {
    "prompt": lambda one: one.name.casefold(),
    "category": lambda one: (one.category or "").casefold(),
    "votes": lambda one: one.record.votes,
    "score": lambda one: one.score,
}


def _sorted(prompts: tuple[PromptRecord, ...], asked: ModelPageQuery) -> tuple[PromptRecord, ...]:
    """Sort by the query's column, rows without a value last; ties are ordered by votes."""
    key, backward = _KEYS[asked.sort], asked.order == "desc"
    known = [one for one in prompts if key(one) not in (None, "")]
    unknown = [one for one in prompts if key(one) in (None, "")]
    return (*sorted(known, key=key, reverse=backward), *unknown)


def response_state(response: ResponseHistory) -> str:
    """``shown``, ``withdrawn`` or ``replaced``."""
    if response.withdrawn_at is None:
        return "shown"
    return "withdrawn" if response.replaced_at is None else "replaced"


Model = Annotated[Plain, Query()]
Prompt = Annotated[Plain, Query()]


@dataclass(frozen=True, slots=True)
class ResponsePreview:
    """A response: a text as HTML, or the URL of other content. It has neither if it is withdrawn."""

    model: str
    text: Markup | None = None
    #: What stands before a text: the messages and steps of a conversation.
    turn: ConversationTurn | None = None
    #: ``image``, ``audio`` or ``text``, which means an app here.
    kind: str = ""
    href: str | None = None


async def preview_content(content: ResponseContent, url: str, model: str, prompt: str) -> ResponsePreview:
    """How a response is shown; ``url`` gives its bytes."""
    query = {"model": model, "prompt": prompt}
    if content.media_type in (PLAIN, CONVERSATION):
        stored = await asyncio.to_thread(read_conversation, content)
        turn = build_single_turn(stored, image_address(url, query))
        return ResponsePreview(model, text=await asyncio.to_thread(render_text, stored.response), turn=turn)
    return ResponsePreview(model, kind=content.media_type.partition("/")[0], href=paths.asked(url, query))


@router.get("/arenas/{arena}/responses")
async def response_page(arena: ReadableArena, request: Request, model: Model, prompt: Prompt) -> HTMLResponse:
    """A model's response to a prompt, in an archived arena."""
    text, content = await _read(request, arena, model, prompt)
    words = await read_prompt_words(registry_of(request).pool, arena, [prompt])
    return render_page(
        request,
        "model/response.html",
        arena=arena,
        active="board",
        prompt=words[prompt],
        prompt_text=None if text is None else await asyncio.to_thread(render_text, text),
        response=await preview_content(content, f"{paths.responses(arena.name)}/file", model, prompt),
    )


@router.get("/arenas/{arena}/responses/file")
async def response_file(
    arena: ReadableArena,
    request: Request,
    model: Model,
    prompt: Prompt,
    image: Annotated[int | None, Query(ge=0, lt=1_000)] = None,
) -> Response:
    """The bytes of such a response, or of an image of its messages."""
    _, content = await _read(request, arena, model, prompt)
    if image is not None:
        content = await asyncio.to_thread(conversation_image, content, image)
    return Response(content.data, media_type=content.media_type, headers=DOWNLOAD_HEADERS)


async def _read(
    request: Request, arena: Arena, model: str, prompt: str
) -> tuple[str | None, ResponseContent]:
    """The prompt's text and the response; `NotFound` if readers may not see it."""
    if arena.settings.stage != "archived" or arena.settings.is_live:
        raise NotFound("responses are shown with their models' names once the arena is archived")
    registry = registry_of(request)
    text, (number,) = await read_prompt_responses(registry.pool, arena, prompt, [model])
    if number is None:
        raise NotFound("this response was withdrawn")
    return text, await registry.blobs.read(number)
