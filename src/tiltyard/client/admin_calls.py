"""Calls of operators: arenas, what they hold, how they are run, and what is left out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_nothing, decode_value
from tiltyard.client.reader_calls import ArenaInfo

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


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought; ``unchanged`` answers were there already.

    ``mentioned`` answers name a model, their family or maker, or claim another, so that their voters are not blind;
    the first are in ``mentions``.
    """

    models: int
    prompts: int
    responses: int
    unchanged: int
    position: int
    mentioned: int = 0
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model with what there is of it now."""

    model: str
    enabled: bool
    responses: int
    added_at: datetime


@dataclass(frozen=True, slots=True)
class Enabled:
    """A model that may be served, or is no more; ``position`` is 0 if it was so already."""

    model: str
    enabled: bool
    position: int


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt with what there is of it now; its text is gone once it is withdrawn."""

    number: int
    prompt: str
    text: str | None
    category: str | None
    language: str | None
    responses: int
    added_at: datetime
    withdrawn_at: datetime | None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What was taken down, and how many open matchups ended by it."""

    responses: int
    matchups: int
    position: int


@dataclass(frozen=True, slots=True)
class Excluded:
    """An exclusion that was made."""

    exclusion: int
    votes: int
    position: int


@dataclass(frozen=True, slots=True)
class Restored:
    """An exclusion that was taken back."""

    exclusion: int
    position: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Votes that were excluded together; ``excluded`` and ``restored`` are positions of the log."""

    exclusion: int
    reason: str
    votes: int
    excluded: int
    restored: int | None
    made_at: datetime


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change and who made it."""

    entry: int
    at: datetime
    actor: str
    action: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a voter said is wrong with a matchup."""

    complaint: int
    reason: str
    note: str | None
    made_at: datetime
    settled_at: datetime | None
    model_a: str | None
    model_b: str | None
    prompt: str | None


def create_arena(
    name: str,
    *,
    title: str | None = None,
    settings: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
) -> Call[ArenaInfo]:
    body = {"name": name, "title": title, "settings": dict(settings or {}), "policy": dict(policy or {})}
    return Call("POST", api_path("arenas"), decode_value(ArenaInfo), body=body, repeatable=False)


def change_arena(
    arena: str, *, title: str | None = None, settings: Mapping[str, Any] | None = None
) -> Call[ArenaInfo]:
    body = {"title": title, "settings": dict(settings or {})}
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


def response_of(arena: str, model: str, prompt: str) -> Call[bytes]:
    query = {"model": model, "prompt": prompt}
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
    body = {"prompt": prompt, "model": model, "reason": reason}
    path = api_path("arenas", arena, "withdrawals")
    return Call("POST", path, decode_value(Withdrawn), body=body, repeatable=False)


def policy(arena: str) -> Call[dict[str, Any]]:
    return Call("GET", api_path("arenas", arena, "policy"), _policy)


def set_policy(arena: str, constants: Mapping[str, Any]) -> Call[dict[str, Any]]:
    return Call("PATCH", api_path("arenas", arena, "policy"), _policy, body=dict(constants))


def set_phase(arena: str, phase: int) -> Call[dict[str, Any]]:
    return Call("PUT", api_path("arenas", arena, "phase"), _policy, body={"phase": phase})


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
    said: dict[str, Any] = {
        "sessions": None if sessions is None else list(sessions),
        "voters": None if voters is None else list(voters),
        "release": release,
        "matchups": None if matchups is None else list(matchups),
        "since": None if since is None else since.isoformat(),
        "until": None if until is None else until.isoformat(),
        "source": source,
    }
    body = {"reason": reason} | {name: value for name, value in said.items() if value is not None}
    path = api_path("arenas", arena, "exclusions")
    return Call("POST", path, decode_value(Excluded), body=body, repeatable=False)


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


def _policy(document: Any) -> dict[str, Any]:
    return dict(document["policy"])
