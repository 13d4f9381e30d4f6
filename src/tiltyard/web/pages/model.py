"""The page of a model, and its charts."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tiltyard.arena.boards.model_profiles import ModelProfile, ModelProfiles
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.model_details import ModelDetails
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache, BoundedQueue, SingleFlight
from tiltyard.report.board_charts import (
    ChartTheme,
    fit_to_phone,
    localise_spec,
    render_svg,
)
from tiltyard.web.access.access import context_of
from tiltyard.web.access.route_access import ModelName, ReadableArena, send_cacheable
from tiltyard.web.pages.board_data import model_details_of
from tiltyard.web.pages.layout import localization_of, pages_of, send_page, theme_of
from tiltyard.web.pages.localization import Localization
from tiltyard.web.pages.model_view import (
    ModelPageQuery,
    Sort,
    SourceWord,
    make_model_view,
    model_chart,
    response_state,
)
from tiltyard.wire.vocabulary import Plain

router = APIRouter(include_in_schema=False)

#: Size of the cache of pages and pictures; and how many requests may wait for a picture.
_CACHE_BYTES = 64_000_000
_WAITING_REQUEST_LIMIT = 8
#: Charts contain text in the client's language.
_LANGUAGE_HEADERS = {"Vary": "Accept-Language"}
_CHART = "/arenas/{arena}/model-charts/{chart}"

Key = tuple[str | None, ...]


class ModelPageCache:
    """Caches model pages and their pictures in one process."""

    def __init__(self, model_profiles: ModelProfiles) -> None:
        self.model_profiles = model_profiles
        self._made: BoundedCache[Key, tuple[bytes, str]] = BoundedCache(_CACHE_BYTES, heaviest=_CACHE_BYTES)
        self._drawing = BoundedQueue(1, _WAITING_REQUEST_LIMIT, "a chart of a model")
        self._drawn = SingleFlight()

    def known(self, key: Key) -> tuple[bytes, str] | None:
        return self._made.get(key)

    def keep(self, key: Key, data: bytes) -> tuple[bytes, str]:
        """Bytes with their hash, which is their ETag."""
        return self._made.put(key, (data, sha256(data).hexdigest()[:32]), len(data))

    async def drawn(
        self,
        key: Key,
        profile: ModelProfile,
        chart: str,
        look: ChartTheme,
        localization: Localization,
        *,
        narrow: bool,
    ) -> bytes:
        """A chart as a picture, drawn once for all who ask; one is drawn at a time."""

        async def make() -> bytes:
            async with self._drawing.acquire_slot():
                spec = localise_spec(_spec(profile, chart, look, localization), localization.chart_locale())
                spec = fit_to_phone(spec) if narrow else spec
                return self.keep(key, await asyncio.to_thread(render_svg, spec))[0]

        return await self._drawn(key, make)


def model_page_cache_of(request: Request) -> ModelPageCache:
    """The model page cache of this process."""
    context = context_of(request)
    return context.shared(
        ModelPageCache,
        lambda: ModelPageCache(ModelProfiles(context.registry.pool, context.registry.boards)),
    )


@router.get(_CHART + ".svg")
async def model_picture(
    arena: ReadableArena,
    chart: str,
    request: Request,
    model: Plain,
    source: SourceWord = "human",
    theme: Literal["light", "dark"] = "light",
    narrow: Annotated[bool, Query(description="For a phone.")] = False,
) -> Response:
    """A chart of a model as a picture."""
    pages = model_page_cache_of(request)
    profile = await _profile(pages, arena, source, model)
    localization, width = localization_of(request), "narrow" if narrow else None
    key = (arena.name, source, model, profile.snapshot.sha256, chart, theme, width, localization.language)
    made = pages.known(key)
    data = (
        await pages.drawn(key, profile, chart, theme, localization, narrow=narrow)
        if made is None
        else made[0]
    )
    etag = sha256(data).hexdigest()[:32]
    return send_cacheable(request, arena, data, etag, headers=_LANGUAGE_HEADERS, media_type="image/svg+xml")


@router.get(_CHART + ".json")
async def model_spec(
    arena: ReadableArena,
    chart: str,
    request: Request,
    model: Plain,
    source: SourceWord = "human",
    theme: ChartTheme = "any",
) -> Response:
    """A chart of a model as a Vega-Lite spec, which the page styles."""
    profile = await _profile(model_page_cache_of(request), arena, source, model)
    localization = localization_of(request)
    spec = {
        name: part for name, part in _spec(profile, chart, theme, localization).items() if name != "config"
    }
    spec = localise_spec(spec, localization.chart_locale())
    data = json.dumps(spec, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return send_cacheable(request, arena, data, sha256(data).hexdigest()[:32], headers=_LANGUAGE_HEADERS)


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
    pages = model_page_cache_of(request)
    profile = await _profile(pages, arena, source, model)
    details = (await model_details_of(request, arena)).of(profile.name)
    asked = ModelPageQuery(source, sort, order, whole=rows == "all")
    shown = (arena.name, arena.title, profile.name, profile.snapshot.sha256, *asked.query().values())
    key = (*shown, *details.texts().values(), theme_of(request), localization_of(request).language)
    made = pages.known(key)
    if made is None:
        html = await asyncio.to_thread(_rendered, request, arena, profile, asked, details)
        made = pages.keep(key, html)
    return send_page(request, arena, *made)


async def _profile(pages: ModelPageCache, arena: Arena, source: SourceWord, model: str) -> ModelProfile:
    return await pages.model_profiles.of(arena, int(source == "llm-judge"), model)


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
