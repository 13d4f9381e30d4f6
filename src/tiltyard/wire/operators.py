"""Who is asking, and whether the server is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tiltyard.wire.records import SaidScope


@dataclass(frozen=True, slots=True)
class Me:
    """Who is asking."""

    name: Annotated[str, Field(description="operator:NAME or token:NAME.")]
    scopes: tuple[SaidScope, ...]
    arena: Annotated[str | None, Field(description="The one arena it is for; null: every arena.")]


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
