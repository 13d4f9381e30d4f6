"""Static assets of the pages: one stylesheet, another for operators, one icon, and the JavaScript bundle if it was built.

Every name contains a hash of the content, so that browsers may cache a file forever.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tiltyard.errors import NotFound

router = APIRouter(include_in_schema=False)

#: The order of the style sheets, because later ones override earlier ones; all others follow.
_SHEETS = ("tokens", "base", "parts", "text", "vote", "board", "model")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_ENTRY = "src/main.ts"

#: Two lances across the barrier that parts the riders, seen from above.
_ICON = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke-linecap="round">
<rect width="32" height="32" rx="7" fill="#1f5f8b"/>
<path d="M16 5v22" stroke="#8fc0e2" stroke-width="2.5"/>
<path d="M6 18 24 7M8 25 26 14" stroke="#fff" stroke-width="3.5"/>
</svg>
"""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file and its compressed form."""

    data: bytes
    media_type: str
    #: The data compressed with gzip; ``None`` if that is not smaller.
    packed: bytes | None

    @classmethod
    def of(cls, name: str, data: bytes) -> Asset:
        """An asset whose media type is determined by the file extension."""
        packed = gzip.compress(data, mtime=0)
        media_type = _TYPES.get(PurePath(name).suffix, "application/octet-stream")
        return cls(data, media_type, packed if len(packed) < len(data) else None)


@dataclass(frozen=True, slots=True)
class Assets:
    """Everything under ``/assets/``."""

    found: Mapping[str, Asset]
    #: Names that templates use, mapped to names with a hash.
    names: Mapping[str, str]
    #: The name of the main script.
    main: str | None

    def url(self, name: str) -> str:
        """The URL of a file, such as ``tiltyard.css`` or ``favicon.svg``."""
        return f"/assets/{self.names[name]}"

    def script(self) -> str | None:
        """The URL of the main script; ``None`` if no bundle was built."""
        return None if self.main is None else f"/assets/{self.main}"


@lru_cache(maxsize=1)
def load_assets() -> Assets:
    """The assets of the package, read once per process."""
    return read_assets(files("tiltyard.web"))


def read_assets(folder: Traversable) -> Assets:
    """Read the folders ``styles`` and ``bundle`` in a folder."""
    styles = folder / "styles"
    own = {
        "tiltyard.css": _joined(styles),
        "operator.css": _joined(styles / "operator"),
        "chosen.js": chosen.read_text("utf-8") if (chosen := styles / "chosen.js").is_file() else "",
        "favicon.svg": _ICON,
    }
    names = {name: _hashed(name, text.encode()) for name, text in own.items()}
    found = {names[name]: Asset.of(name, text.encode()) for name, text in own.items()}
    manifest = folder / "bundle" / "manifest.json"
    if not manifest.is_file():
        return Assets(found, names, None)
    chunks = json.loads(manifest.read_bytes())
    for chunk in chunks.values():
        for name in (chunk["file"], *chunk.get("css", ()), *chunk.get("assets", ())):
            found[name] = Asset.of(name, (folder / "bundle" / name).read_bytes())
    return Assets(found, names, chunks[_ENTRY]["file"])


def _joined(styles: Traversable) -> str:
    """The style sheets of a folder in order, without comments and without spaces that only people need."""
    if not styles.is_dir():
        return ""
    sheets = {
        sheet.name.removesuffix(".css"): sheet for sheet in styles.iterdir() if sheet.name.endswith(".css")
    }
    order = [name for name in _SHEETS if name in sheets] + sorted(sheets.keys() - set(_SHEETS))
    css = "\n".join(sheets[name].read_text(encoding="utf-8") for name in order)
    css = " ".join(re.sub(r"/\*[^*]*\*/", "", css).split())
    return re.sub(r" ?([{};,]) ?|(:) ", r"\1\2", css).replace(";}", "}")


def _hashed(name: str, data: bytes) -> str:
    path = PurePath(name)
    return f"{path.stem}-{sha256(data).hexdigest()[:12]}{path.suffix}"


@router.api_route("/assets/{name}", methods=["GET", "HEAD"])
async def asset(name: str, request: Request) -> Response:
    """An asset, which never changes under its name."""
    found = load_assets().found.get(name)
    if found is None:
        raise NotFound("no such file; reload the page to get the files of this version")
    return _sent(found, request, "public, max-age=31536000, immutable")


@router.api_route("/favicon.ico", methods=["GET", "HEAD"])
async def favicon(request: Request) -> Response:
    """The icon, for clients that request it at the default path."""
    assets = load_assets()
    return _sent(assets.found[assets.names["favicon.svg"]], request, "public, max-age=86400")


def _sent(found: Asset, request: Request, caching: str) -> Response:
    headers = {"Cache-Control": caching, "X-Content-Type-Options": "nosniff"}
    data = found.data
    if found.packed is not None:
        headers["Vary"] = "Accept-Encoding"
        if accepts_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            data = found.packed
    return Response(data, headers=headers, media_type=found.media_type)


def accepts_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` such as ``br;q=1.0, gzip;q=0.8`` allows gzip; a weight of 0 forbids it."""
    weights = {}
    for item in accepted.lower().split(","):
        coding, _, weight = item.partition(";")
        weights[coding.strip()] = weight.replace(" ", "").removeprefix("q=").rstrip("0.") != "" or not weight
    return weights.get("gzip", weights.get("*", False))
