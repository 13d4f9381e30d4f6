"""What pages load besides themselves: one stylesheet, one icon, and the bundle of islands if it was built.

Every name carries a hash of what is inside, so that a browser may keep a file for ever; a file is found by its whole
name or not at all.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tiltyard.errors import NotFound

__all__ = ["Asset", "Assets", "accepts_gzip", "load_assets", "read_assets", "router"]

router = APIRouter(include_in_schema=False)

#: Later sheets may refine what earlier ones say; any other sheet follows these.
_SHEETS = ("tokens", "base", "parts", "text", "vote", "board", "model", "operator")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
#: Bytes below which packing saves nothing.
_MIN_GZIP_BYTES = 256
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
    """A file as it is sent."""

    data: bytes
    media_type: str
    #: The same, gzipped; None where that is no shorter.
    packed: bytes | None

    @classmethod
    def of(cls, name: str, data: bytes) -> Asset:
        """A file by its name's ending. An ending that is not known is sent as bytes."""
        packed = gzip.compress(data, mtime=0) if len(data) >= _MIN_GZIP_BYTES else data
        media_type = _TYPES.get(PurePath(name).suffix, "application/octet-stream")
        return cls(data, media_type, packed if len(packed) < len(data) else None)


@dataclass(frozen=True, slots=True)
class Assets:
    """Everything under ``/assets/``."""

    found: Mapping[str, Asset]
    #: Names that templates use, and the names with a hash that they stand for.
    names: Mapping[str, str]
    #: The name of the script that starts the islands.
    main: str | None

    def url(self, name: str) -> str:
        """Where a file of ours is, such as ``tiltyard.css`` or ``favicon.svg``."""
        return f"/assets/{self.names[name]}"

    def script(self) -> str | None:
        """Where the script of every page is; None where no bundle was built."""
        return None if self.main is None else f"/assets/{self.main}"


@lru_cache(maxsize=1)
def load_assets() -> Assets:
    """The package's own, read once in a process."""
    return read_assets(files("tiltyard.web"))


def read_assets(folder: Traversable) -> Assets:
    """What ``styles`` and ``bundle`` in a folder hold."""
    own = {"tiltyard.css": _joined(folder / "styles").encode(), "favicon.svg": _ICON.encode()}
    names = {name: _hashed(name, data) for name, data in own.items()}
    found = {names[name]: Asset.of(name, data) for name, data in own.items()}
    manifest = folder / "bundle" / "manifest.json"
    if not manifest.is_file():
        return Assets(found, names, None)
    chunks = json.loads(manifest.read_bytes())
    for name in sorted(set(_files_of(chunks))):
        found[name] = Asset.of(name, (folder / "bundle" / name).read_bytes())
    return Assets(found, names, chunks[_ENTRY]["file"])


def _joined(styles: Traversable) -> str:
    """All sheets as one."""
    if not styles.is_dir():
        return ""
    sheets = {
        sheet.name.removesuffix(".css"): sheet for sheet in styles.iterdir() if sheet.name.endswith(".css")
    }
    order = [name for name in _SHEETS if name in sheets] + sorted(sheets.keys() - set(_SHEETS))
    return "\n".join(sheets[name].read_text(encoding="utf-8") for name in order)


def _hashed(name: str, data: bytes) -> str:
    path = PurePath(name)
    return f"{path.stem}-{sha256(data).hexdigest()[:12]}{path.suffix}"


def _files_of(chunks: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """The files that a manifest of Vite's names."""
    for chunk in chunks.values():
        yield str(chunk["file"])
        for kind in ("css", "assets"):
            named = chunk.get(kind, [])
            yield from named if isinstance(named, list) else []


@router.api_route("/assets/{name}", methods=["GET", "HEAD"])
async def asset(name: str, request: Request) -> Response:
    """A file that never changes under this name."""
    found = load_assets().found.get(name)
    if found is None:
        raise NotFound("there is no such file; load the page again, it names the files of this version")
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
    """Whether a list such as ``br;q=1.0, gzip;q=0.8`` allows gzip; a weight of nought forbids it."""
    weights = {}
    for item in accepted.lower().split(","):
        coding, _, weight = item.partition(";")
        weights[coding.strip()] = weight.replace(" ", "").removeprefix("q=").rstrip("0.") != "" or not weight
    return weights.get("gzip", weights.get("*", False))
