"""The operator, tokens for programs, and whether the server is well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from tiltyard.wire.records import SaidScope, Scope, Text, request


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Who the operator is from now on."""

    token: Annotated[Text, StringConstraints(min_length=1, max_length=200)] = field(repr=False)
    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)]
    password: Annotated[Text, StringConstraints(min_length=12, max_length=1024)] = field(repr=False)


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class SignInRequest:
    """An operator's name and password, and a code if it has a second factor."""

    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)]
    password: Annotated[Text, StringConstraints(min_length=1, max_length=1024)] = field(repr=False)
    code: Annotated[
        Annotated[Text, StringConstraints(max_length=40)] | None,
        Field(description="A code of the second factor, or a recovery code."),
    ] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Me:
    """Who is asking."""

    name: Annotated[str, Field(description="operator:NAME or token:NAME.")]
    scopes: tuple[SaidScope, ...]
    arena: Annotated[str | None, Field(description="The one arena it is for; null: every arena.")]


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A token to be made."""

    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    arena: Annotated[Text, StringConstraints(max_length=64)] | None = None
    days: Annotated[
        int | None,
        Field(ge=1, le=3650, strict=True, description="How long it is valid; null: until revoked."),
    ] = None


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token."""

    api_token: int
    name: str
    scopes: tuple[SaidScope, ...]
    arena: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    operator: Annotated[
        str | None, Field(description="The operator whose rights it has; null: made on the command line.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(Token):
    """The same with the token itself, which is never shown again."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenList:
    """Every token there ever was."""

    tokens: Sequence[Token]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the process lives."""

    status: Literal["ok"]


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether the process can serve voters."""

    status: Literal["ok"]
    arenas: Annotated[int, Field(description="Arenas that this process has loaded.")]
    loading: Annotated[
        int, Field(description="Arenas that it has opened and not loaded, or lost to a fault.")
    ]
