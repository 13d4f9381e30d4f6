"""Calls about the server itself: the operator, tokens, health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_nothing, decode_value
from tiltyard.wire.operators import ClaimRequest, Me, NewToken, SignInRequest, Token, TokenRequest
from tiltyard.wire.records import body_of
from tiltyard.wire.vocabulary import Scope

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


def claim(token: str, name: str, password: str) -> Call[Me]:
    body = body_of(ClaimRequest(token=token, name=name, password=password))
    return Call("POST", api_path("operator", "claim"), decode_value(Me), body=body, repeatable=False)


def sign_in(name: str, password: str, code: str | None = None) -> Call[Me]:
    body = body_of(SignInRequest(name=name, password=password, code=code))
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
    request = TokenRequest(name=name, scopes=cast("list[Scope]", list(scopes)), arena=arena, days=days)
    return Call("POST", api_path("tokens"), decode_value(NewToken), body=body_of(request), repeatable=False)


def revoke_token(api_token: int) -> Call[None]:
    return Call("DELETE", api_path("tokens", str(api_token)), decode_nothing)


def health() -> Call[None]:
    return Call("GET", "/healthz", decode_nothing)


def ready() -> Call[None]:
    return Call("GET", "/readyz", decode_nothing)


def metrics() -> Call[str]:
    return Call("GET", "/metrics", bytes.decode, raw=True)
