"""What is said of a request that was refused (RFC 9457)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field of a request that is wrong."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong (RFC 9457)."""

    type: Annotated[
        str, Field(description="Which problem it is: urn:tiltyard:problem:… and a name that stays.")
    ]
    title: Annotated[str, Field(description="The same in words; always alike for one type.")]
    status: Annotated[int, Field(description="The HTTP status.")]
    detail: Annotated[str, Field(description="What was wrong this time, and what to do.")]
    instance: Annotated[str, Field(description="A name of this occurrence; the server's log has it too.")]
    errors: Annotated[Sequence[FieldProblem] | None, Field(description="Each field that is wrong.")] = None
    arena: Annotated[
        str | None,
        Field(
            description="The private arena that has to be entered first, by a link, a passcode or a sign-in."
        ),
    ] = None
    matchup: Annotated[
        str | None, Field(description="The live battle that has to be voted on or skipped first.")
    ] = None
    gate: Annotated[
        str | None,
        Field(
            description="The arena that asks for a proof first: GET /api/v1/arenas/{arena}/gate has a challenge."
        ),
    ] = None
