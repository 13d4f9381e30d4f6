"""Calls of operators: arenas, what they hold, how they are run, and what is left out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_nothing, decode_value
from tiltyard.wire.arenas import (
    ArenaInfo,
    ChangeArenaRequest,
    CreateArenaRequest,
    Enabled,
    Imported,
    ModelInfo,
    PhaseRequest,
    PolicyInForce,
    PromptInfo,
    Withdrawn,
    WithdrawRequest,
)
from tiltyard.wire.oversight import (
    AuditEntry,
    Complaint,
    Excluded,
    ExcludeRequest,
    Exclusion,
    Restored,
)
from tiltyard.wire.records import body_of, reader_of
from tiltyard.wire.vocabulary import SourceName

__all__ = [
    "AuditEntry",
    "Complaint",
    "Enabled",
    "Excluded",
    "Exclusion",
    "Imported",
    "ModelInfo",
    "PromptInfo",
    "Restored",
    "Withdrawn",
    "audit",
    "change_arena",
    "complaints",
    "create_arena",
    "enable",
    "exclude",
    "exclusions",
    "import_answers",
    "models",
    "policy",
    "prompts",
    "response_of",
    "restore",
    "retire",
    "set_phase",
    "set_policy",
    "settle_complaint",
    "withdraw",
]

#: Constants of the ranking policy by name: the server says which there are.
Constants = dict[str, Any]


def create_arena(
    name: str,
    *,
    title: str | None = None,
    settings: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
) -> Call[ArenaInfo]:
    request = CreateArenaRequest(name=name, title=title, settings=settings or {}, policy=policy or {})
    return Call("POST", api_path("arenas"), decode_value(ArenaInfo), body=body_of(request), repeatable=False)


def change_arena(
    arena: str, *, title: str | None = None, settings: Mapping[str, Any] | None = None
) -> Call[ArenaInfo]:
    body = body_of(ChangeArenaRequest(title=title, settings=settings or {}))
    return Call("PATCH", api_path("arenas", arena), decode_value(ArenaInfo), body=body)


def import_answers(arena: str, answers: Path | bytes, *, enable: bool = True) -> Call[Imported]:
    return Call(
        "POST",
        api_path("arenas", arena, "responses"),
        decode_value(Imported),
        {"enable": enable},
        content=answers,
        media_type="application/x-ndjson",
    )


def response_of(arena: str, model: str, prompt: str, image: int | None = None) -> Call[bytes]:
    query = {"model": model, "prompt": prompt, "image": image}
    return Call("GET", api_path("arenas", arena, "responses"), bytes, query, raw=True)


def models(arena: str) -> Call[list[ModelInfo]]:
    return Call("GET", api_path("arenas", arena, "models"), decode_list(ModelInfo, "models"))


def enable(arena: str, model: str) -> Call[Enabled]:
    return Call("POST", api_path("arenas", arena, "models", model, "enable"), decode_value(Enabled))


def retire(arena: str, model: str) -> Call[Enabled]:
    return Call("POST", api_path("arenas", arena, "models", model, "retire"), decode_value(Enabled))


def prompts(arena: str, *, after: int = -1, limit: int = 100) -> Call[list[PromptInfo]]:
    query = {"after": after, "limit": limit}
    return Call("GET", api_path("arenas", arena, "prompts"), decode_list(PromptInfo, "prompts"), query)


def withdraw(arena: str, prompt: str, *, reason: str, model: str | None = None) -> Call[Withdrawn]:
    body = body_of(WithdrawRequest(prompt=prompt, model=model, reason=reason))
    path = api_path("arenas", arena, "withdrawals")
    return Call("POST", path, decode_value(Withdrawn), body=body, repeatable=False)


def policy(arena: str) -> Call[Constants]:
    return Call("GET", api_path("arenas", arena, "policy"), _policy)


def set_policy(arena: str, constants: Mapping[str, Any]) -> Call[Constants]:
    return Call("PATCH", api_path("arenas", arena, "policy"), _policy, body=dict(constants))


def set_phase(arena: str, phase: int) -> Call[Constants]:
    body = body_of(PhaseRequest(phase=cast("Literal[1, 2, 3, 4]", phase)))
    return Call("PUT", api_path("arenas", arena, "phase"), _policy, body=body)


def exclusions(arena: str) -> Call[list[Exclusion]]:
    return Call("GET", api_path("arenas", arena, "exclusions"), decode_list(Exclusion, "exclusions"))


def exclude(
    arena: str,
    reason: str,
    *,
    sessions: Sequence[int] | None = None,
    voters: Sequence[str] | None = None,
    release: str | None = None,
    matchups: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    source: str | None = None,
) -> Call[Excluded]:
    request = ExcludeRequest(
        reason=reason,
        sessions=None if sessions is None else list(sessions),
        voters=None if voters is None else list(voters),
        release=release,
        matchups=None if matchups is None else list(matchups),
        since=since,
        until=until,
        source=cast("SourceName | None", source),
    )
    path = api_path("arenas", arena, "exclusions")
    return Call("POST", path, decode_value(Excluded), body=body_of(request), repeatable=False)


def restore(arena: str, exclusion: int) -> Call[Restored]:
    path = api_path("arenas", arena, "exclusions", str(exclusion), "restore")
    return Call("POST", path, decode_value(Restored), repeatable=False)


def audit(arena: str, *, before: int | None = None, limit: int = 100) -> Call[list[AuditEntry]]:
    query = {"before": before, "limit": limit}
    return Call("GET", api_path("arenas", arena, "audit"), decode_list(AuditEntry, "entries"), query)


def complaints(
    arena: str, *, after: int = 0, limit: int = 100, settled: bool = False
) -> Call[list[Complaint]]:
    query = {"after": after, "limit": limit, "settled": settled}
    return Call("GET", api_path("arenas", arena, "complaints"), decode_list(Complaint, "complaints"), query)


def settle_complaint(arena: str, complaint: int) -> Call[None]:
    return Call("POST", api_path("arenas", arena, "complaints", str(complaint), "settle"), decode_nothing)


def _policy(document: object) -> Constants:
    return dict(reader_of(PolicyInForce).validate_python(document).policy)
