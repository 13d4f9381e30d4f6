"""Where pages are. Names in paths are percent-encoded, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

__all__ = ["asked", "board", "local", "matchup", "mine", "model", "operator", "snapshot", "told", "vote"]


def board(arena: str, **query: str | None) -> str:
    """An arena's front page: its newest board."""
    return asked(f"/arenas/{_quoted(arena)}", query)


def snapshot(arena: str, sha256: str) -> str:
    """A board as it was published."""
    return f"/arenas/{_quoted(arena)}/boards/{sha256}"


def model(arena: str, name: str, **query: str | None) -> str:
    """Everything about one model."""
    return asked(f"/arenas/{_quoted(arena)}/models/{_quoted(name)}", query)


def vote(arena: str, **query: str | None) -> str:
    """Where people vote."""
    return asked(f"/arenas/{_quoted(arena)}/vote", query)


def told(arena: str) -> str:
    """The names of a session's votes."""
    return f"{vote(arena)}/names"


def mine(arena: str) -> str:
    """The board of one's own votes."""
    return f"/arenas/{_quoted(arena)}/mine"


def matchup(shown: str, act: str | None = None) -> str:
    """A matchup after its vote, or what can be done with it."""
    return f"/matchups/{_quoted(shown)}" + ("" if act is None else f"/{act}")


def operator(*parts: str | int) -> str:
    """A page of the operator's."""
    return "/".join(("/operator", *(_quoted(str(part)) for part in parts)))


def asked(path: str, query: Mapping[str, str | None]) -> str:
    """A path with what is asked of it; ``None`` is not asked."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def local(path: str | None, otherwise: str = "/") -> str:
    """The path, if it leads to this site; else another one. What a form sends back may be anything."""
    if path is None or not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return otherwise
    try:
        parts = urlsplit(path)
    except ValueError:
        return otherwise
    return (
        path if not parts.scheme and not parts.netloc and path.isascii() and "\\" not in path else otherwise
    )


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="replace")
