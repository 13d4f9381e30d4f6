"""Paths of pages. Names in paths are percent-encoded."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit


def board(arena: str, **query: str | None) -> str:
    """An arena's front page: its newest board."""
    return asked(f"/arenas/{_quoted(arena)}", query)


def snapshot(arena: str, sha256: str) -> str:
    """A published board."""
    return f"/arenas/{_quoted(arena)}/boards/{sha256}"


def board_view(arena: str, view: str) -> str:
    """Another view of an arena's models; ``board`` is the board itself."""
    return board(arena) if view == "board" else f"{board(arena)}/{view}"


def board_card(arena: str, sha256: str, query: Mapping[str, str | None], form: str = "png") -> str:
    """The card of a published board, for link previews and to be posted."""
    return asked(f"{snapshot(arena, sha256)}/card.{form}", query)


def embed(arena: str, **query: str | None) -> str:
    """A board for other sites."""
    return asked(f"{board(arena)}/embed", query)


def model(arena: str, name: str, **query: str | None) -> str:
    return asked(f"/arenas/{_quoted(arena)}/models/{_quoted(name)}", query)


def responses(arena: str, **query: str | None) -> str:
    """A response under its model's name, in an archived arena: with ``model`` and ``prompt``."""
    return asked(f"/arenas/{_quoted(arena)}/responses", query)


def vote(arena: str, **query: str | None) -> str:
    return asked(f"/arenas/{_quoted(arena)}/vote", query)


def gate(arena: str) -> str:
    """What a new voter must do first, in the API."""
    return f"/api/v1/arenas/{_quoted(arena)}/gate"


def revealed(arena: str) -> str:
    """The page with the names of a session's votes."""
    return f"{vote(arena)}/names"


def within(arena: str, *parts: str) -> str:
    """A page of an arena, such as ``mine``, the board of the voter's own votes, and ``mine``, ``data``."""
    return "/".join((board(arena), *parts))


def join(code: str) -> str:
    """The page of an invitation link."""
    return f"/join/{_quoted(code)}"


def sign_in(shard: int | str, *parts: str) -> str:
    """Where people sign in at the identity provider, and what belongs to it."""
    return "/".join((f"/sign-in/{_quoted(str(shard))}", *parts))


def matchup(shown: str, act: str | None = None) -> str:
    """The page of a matchup, or the path of an action on it."""
    return f"/matchups/{_quoted(shown)}" + ("" if act is None else f"/{act}")


def operator(*parts: str | int) -> str:
    return "/".join(("/operator", *(_quoted(str(part)) for part in parts)))


def asked(path: str, query: Mapping[str, str | None]) -> str:
    """A path with a query string; ``None`` values are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def local(path: str | None, otherwise: str = "/") -> str:
    """The path if it is on this site, else ``otherwise``. The input is untrusted."""
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
