"""What all pages share: templates, localization, theme, headers and sending."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tiltyard._version import __version__
from tiltyard.arena.content.arenas import Arena
from tiltyard.web.access.access import context_of
from tiltyard.web.access.cookies import read_cookie
from tiltyard.web.access.route_access import send_cacheable
from tiltyard.web.assets import Assets, accepts_gzip, load_assets
from tiltyard.web.pages import paths
from tiltyard.web.pages.localization import Localization, languages, localization_for, translate_sentence
from tiltyard.web.texts import format_name, plain_text, render_text, spell_hidden_characters

#: Content security policy: only resources of this site, and no inline scripts or styles.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; media-src 'self'; "
    "frame-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
THEME_COOKIE, LANGUAGE_COOKIE = "tiltyard_theme", "tiltyard_language"
THEMES = ("light", "dark")
#: The language of a page in its address, which comes before what the browser asks for.
LANGUAGE_PARAMETER = "in"
#: In a request's scope: whether the page is the same for all readers, whatever their cookies.
_SHARED_KEY = "tiltyard.shared_page"

#: Browsers send the origin of a form only if the referrer policy allows it for the same site.
_HEADERS = {"Content-Security-Policy": PAGE_POLICY, "Referrer-Policy": "same-origin"}


class PageTemplates:
    """The templates, with one environment for each language."""

    def __init__(self, assets: Assets) -> None:
        self.assets = assets
        self._environments: dict[str, Environment] = {}

    def render(self, template: str, request: Request, **values: Any) -> str:
        """Render a template, in the language of the reader; pages of operators are in English."""
        localization = (
            localization_for(None) if template.startswith("operator/") else localization_of(request)
        )
        environment = self._environments.get(localization.language) or self._made(localization)
        given = {
            "theme": theme_of(request),
            "here": _here(request),
            "shared_page": is_shared(request),
            "matchup_text": context_of(request).matchup_ids.format,
            "shard_number": context_of(request).registry.settings.shard,
            **values,
        }
        return environment.get_template(template).render(given)

    def _made(self, localization: Localization) -> Environment:
        environment = Environment(
            loader=PackageLoader("tiltyard.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.i18n"],
        )
        environment.install_gettext_translations(localization.texts, newstyle=True)  # type: ignore[attr-defined]
        environment.globals |= {
            "assets": self.assets,
            "direction": localization.direction,
            "language": localization.language,
            "language_name": localization.language_name,
            "moment": localization.moment,
            "number": localization.number,
            "page_languages": {tag: localization_for(tag).language_name(tag) for tag in languages()},
            "paths": paths,
            "percent": localization.percent,
            "plain_text": plain_text,
            "render_text": partial(render_text, say=localization.texts.gettext),
            "shown": format_name,
            "spelled": spell_hidden_characters,
            "sentence": partial(translate_sentence, localization),
            "version": __version__,
            "words": _words,
        }
        self._environments[localization.language] = environment
        return environment


def pages_of(request: Request) -> PageTemplates:
    return context_of(request).shared(PageTemplates, lambda: PageTemplates(load_assets()))


def render_page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    """Render a page that is not cached."""
    text = pages_of(request).render(template, request, status=status, **values)
    return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})


def send_page(
    request: Request, arena: Arena, html: bytes, etag: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Send a rendered page, compressed if the client accepts that, or 304 if the client has it."""
    headers = {**_HEADERS, "Vary": f"Accept-Encoding, {varying(request)}", **(headers or {})}
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        html, etag = gzip_bytes(html), f"{etag}-gzip"
        headers["Content-Encoding"] = "gzip"
    return send_cacheable(request, arena, html, etag, headers=headers, media_type="text/html; charset=utf-8")


@lru_cache(maxsize=32)
def gzip_bytes(data: bytes) -> bytes:
    """Compress deterministically."""
    return gzip.compress(data, 6, mtime=0)


def problem_page(request: Request, response: Response) -> Response:
    """Render a problem document as a page if a browser requested a page; otherwise return it unchanged."""
    wanted = "text/html" in request.headers.get("accept", "")
    if not wanted or request.url.path.startswith(("/api/", "/m/")):
        return response
    document = json.loads(bytes(response.body))
    if "arena" in document:
        arena = document["arena"]
        page = _here(request) if request.method == "GET" else paths.vote(arena)
        return private_page(request, arena, document["type"], page)
    if "gate" in document:
        return redirect_to(paths.vote(document["gate"], choose="proof"))
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in {"content-length", "content-type"}
    }
    return render_page(
        request,
        "problem.html",
        status=response.status_code,
        headers=headers,
        title=document["title"],
        detail=document["detail"],
        errors=document.get("errors"),
        again="retry-after" in headers and request.method == "GET",
        instance=document["instance"].rpartition(":")[2],
    )


def private_page(request: Request, arena: str, required: str, page: str, *, wrong: bool = False) -> Response:
    """The page in place of every page of a private arena: it asks for the link, the passcode or a sign-in, and names nothing.

    ``page``: the path that is shown after that. ``wrong``: whether another passcode was typed.
    """
    context = context_of(request)
    identities, shard = context.access.identities, context.registry.settings.shard
    return render_page(
        request,
        "entry/private.html",
        status=403,
        headers={"Cache-Control": "no-store"},
        name=arena,
        entry=required.rpartition(":")[2].removesuffix("-required"),
        can_sign_in=identities is not None and identities.provider is not None,
        sign_in=paths.asked(paths.sign_in(shard), {"next": page}),
        account=paths.sign_in(shard, "account"),
        next=page,
        wrong=wrong,
    )


def redirect_to(path: str, *, cookie: str | None = None, cookies: Sequence[str] = ()) -> Response:
    """Redirect after a form was submitted."""
    answer = Response(status_code=303, headers={"Location": path})
    for one in (*cookies, *(() if cookie is None else (cookie,))):
        answer.headers.append("set-cookie", one)
    return answer


def share_page(request: Request, arena: Arena) -> None:
    """Make the page of an arena that everybody may read the same for all: it may come from a cache or a file.

    A script applies the theme and the language that the reader chose.
    """
    request.scope[_SHARED_KEY] = arena.settings.public


def is_shared(request: Request) -> bool:
    return bool(request.scope.get(_SHARED_KEY))


def varying(request: Request) -> str:
    """The headers of a request that change a page or a file of it."""
    return "Accept-Language" if is_shared(request) else "Accept-Language, Cookie"


def theme_of(request: Request) -> str | None:
    """The theme that the user chose; ``None`` to follow the browser."""
    chosen = None if is_shared(request) else read_cookie(request, THEME_COOKIE)
    return chosen if chosen in THEMES else None


def localization_of(request: Request) -> Localization:
    """The language in the address, else the one that the reader chose, else the browser's."""
    chosen = request.query_params.get(LANGUAGE_PARAMETER)
    if chosen not in languages() and not is_shared(request):
        chosen = read_cookie(request, LANGUAGE_COOKIE)
    return localization_for(chosen if chosen in languages() else request.headers.get("accept-language"))


def _here(request: Request) -> str:
    """The page's own path and query without its language, for forms that return to it."""
    path = str(request.scope.get("raw_path", b"/").decode("latin-1")).partition("?")[0]
    stated = request.scope.get("query_string", b"").decode("latin-1").split("&")
    query = "&".join(one for one in stated if not one.startswith(f"{LANGUAGE_PARAMETER}="))
    return paths.local(f"{path}?{query}" if query else path)


def _words(texts: Mapping[str, object]) -> Markup:
    """Texts for a script, as the attribute with their JSON: within single quotes, most of it needs no escaping."""
    data = json.dumps({name: str(text) for name, text in texts.items()}, ensure_ascii=False)
    return Markup("data-words='{}'").format(data).replace("&#34;", '"')
