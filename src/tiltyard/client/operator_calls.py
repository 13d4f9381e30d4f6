"""Calls about the house itself: the operator, tokens, health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_nothing, decode_value

__all__ = [
    "Me",
    "NewToken",
    "Token",
    "claim",
    "health",
    "list_tokens",
    "make_token",
    "me",
    "metrics",
    "ready",
    "revoke_token",
    "sign_in",
    "sign_out",
]


@dataclass(frozen=True, slots=True)
class Me:
    """Who is asking: ``operator:NAME`` or ``token:NAME``."""

    name: str
    scopes: tuple[str, ...]
    #: The one arena it is for; ``None``: every arena.
    arena: str | None


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token."""

    api_token: int
    name: str
    scopes: tuple[str, ...]
    arena: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(Token):
    """The same with the token itself, which is never shown again."""

    token: str = field(repr=False)


def claim(token: str, name: str, password: str) -> Call[Me]:
    body = {"token": token, "name": name, "password": password}
    return Call("POST", api_path("operator", "claim"), decode_value(Me), body=body, repeatable=False)


def sign_in(name: str, password: str) -> Call[Me]:
    body = {"name": name, "password": password}
    return Call("POST", api_path("operator", "sign-in"), decode_value(Me), body=body)


def sign_out() -> Call[None]:
    return Call("POST", api_path("operator", "sign-out"), decode_nothing)


def me() -> Call[Me]:
    return Call("GET", api_path("me"), decode_value(Me))


def list_tokens() -> Call[list[Token]]:
    return Call("GET", api_path("tokens"), decode_list(Token, "tokens"))


def make_token(
    name: str, scopes: Sequence[str], *, arena: str | None = None, days: int | None = None
) -> Call[NewToken]:
    body = {"name": name, "scopes": list(scopes), "arena": arena, "days": days}
    return Call("POST", api_path("tokens"), decode_value(NewToken), body=body, repeatable=False)


def revoke_token(api_token: int) -> Call[None]:
    return Call("DELETE", api_path("tokens", str(api_token)), decode_nothing)


def health() -> Call[None]:
    return Call("GET", "/healthz", decode_nothing)


def ready() -> Call[None]:
    return Call("GET", "/readyz", decode_nothing)


def metrics() -> Call[str]:
    return Call("GET", "/metrics", bytes.decode, raw=True)
