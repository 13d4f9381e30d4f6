"""API routes for managing arenas: create, import, change, withdraw."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from pathlib import Path as FilePath
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tiltyard.arena.boards.shadow_boards import shadow_board
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.answer_rows import AnswerReading
from tiltyard.arena.content.arenas import (
    Arena,
    find_arena,
    list_models,
    list_prompts,
    read_prompt_filters,
)
from tiltyard.arena.content.stored_conversations import MAX_RESPONSE_BYTES
from tiltyard.arena.operators.arena_changes import (
    apply_policy_changes,
    change_settings,
    current_policy,
    set_enabled,
    set_policy,
    withdraw,
)
from tiltyard.arena.operators.vote_import import VoteFile, import_votes, list_vote_imports
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import (
    ArenaName,
    ChosenColumns,
    CurrentActor,
    ModelName,
    ReadableArena,
    ScopeCheck,
    Source,
    boards_of,
    list_readable,
    source_number,
)
from tiltyard.web.edge.problem_details import OpenApi
from tiltyard.web.routes.boards import send_private, write_csv
from tiltyard.wire.arenas import (
    ArenaInfo,
    ArenaList,
    ChangeArenaRequest,
    CreateArenaRequest,
    Enabled,
    Imported,
    ImportedVotes,
    ModelInfo,
    ModelList,
    PolicyInForce,
    PromptList,
    ShadowBoard,
    ShadowRow,
    Values,
    VoteFileInfo,
    VoteFileList,
    Withdrawn,
    WithdrawRequest,
)
from tiltyard.wire.records import Plain

router = APIRouter(prefix="/api/v1/arenas", tags=["operators"])

Admin = Annotated[Actor, Depends(ScopeCheck("admin"))]
Importer = Annotated[Actor, Depends(ScopeCheck("import"))]

_ADMIN = [Depends(ScopeCheck("admin"))]
#: Maximum bytes of a line of answers: the largest response as base64, plus the other fields.
_MAX_LINE_BYTES = MAX_RESPONSE_BYTES * 4 // 3 + 4 * 1024 * 1024


def _sent_as_lines(description: str) -> OpenApi:
    """The description of a body that is a file."""
    kinds = ("application/x-ndjson", "text/csv")
    content = {kind: {"schema": {"type": "string"}} for kind in kinds}
    return {"requestBody": {"required": True, "description": description, "content": content}}


@router.post("", status_code=201)
async def make_arena(body: CreateArenaRequest, request: Request, actor: Admin) -> ArenaInfo:
    """Create an empty arena. Its log starts with its ranking policy."""
    made = await create_arena(
        registry_of(request).pool,
        body.name,
        title=body.title,
        settings=ArenaSettings.from_dict(body.settings),
        policy=apply_policy_changes(Policy(), body.policy),
        rater=None if body.volatility is None else RaterSettings.with_volatility(body.volatility),
        actor=actor.name,
    )
    return serialize_arena(made, budgets=True)


@router.patch("/{arena}")
async def change_arena(
    arena: ArenaName, body: ChangeArenaRequest, request: Request, actor: Admin
) -> ArenaInfo:
    """Change the title or the given settings."""
    registry = registry_of(request)
    changed = await change_settings(registry.pool, arena, body.settings, title=body.title, actor=actor.name)
    await registry.settings_changed()
    boards_of(request).forget(arena)
    return serialize_arena(changed, budgets=True)


@router.post("/{arena}/responses", openapi_extra=_sent_as_lines("Answers as JSON Lines, JSON or CSV."))
async def import_responses(
    arena: ArenaName,
    request: Request,
    actor: Importer,
    choice: ChosenColumns,
    enable: Annotated[bool, Query(description="Whether new models are served at once.")] = True,
    partly: Annotated[
        bool, Query(description="Whether rows of a table without a response may be left out.")
    ] = False,
) -> Imported:
    """Import answers. Existing answers are unchanged; if any answer contradicts an existing one, nothing is imported."""
    registry = registry_of(request)
    await find_arena(registry.pool, arena)
    reading = AnswerReading(True, choice, partly)
    async with _spooled(request) as path:
        return await import_answers(
            registry.pool, registry.blobs, arena, path, enable=enable, reading=reading, actor=actor.name
        )


@router.post(
    "/{arena}/past-votes",
    openapi_extra=_sent_as_lines("Battles with voters and prompts, as JSON Lines, JSON or CSV."),
)
async def import_past_votes(
    arena: ArenaName,
    request: Request,
    actor: Importer,
    name: Annotated[Plain, Query(description="The file's name, as lists show it.")] = "votes",
) -> ImportedVotes:
    """Import votes that people cast elsewhere. The whole file is checked first; votes that are there already are not added again."""
    registry = registry_of(request)
    await find_arena(registry.pool, arena)
    async with _spooled(request) as path:
        return await import_votes(
            registry.pool,
            access_of(request).keys,
            arena,
            VoteFile(path, name, text_only=True),
            shard=registry.settings.shard,
            actor=actor.name,
        )


@router.get("/{arena}/past-votes", dependencies=_ADMIN)
async def past_votes(arena: ArenaName, request: Request) -> VoteFileList:
    """The files whose votes were imported, and how far each came."""
    pool = registry_of(request).pool
    files = await list_vote_imports(pool, (await find_arena(pool, arena)).arena)
    return VoteFileList(
        [VoteFileInfo(one.name, one.file_sha256.hex(), one.votes, one.done, one.began_at) for one in files]
    )


@router.get("/{arena}/models", dependencies=_ADMIN)
async def models(arena: ArenaName, request: Request) -> ModelList:
    """All models that were ever added, enabled or not."""
    pool = registry_of(request).pool
    found = await list_models(pool, (await find_arena(pool, arena)).arena)
    return ModelList(
        [
            ModelInfo(model=one.name, enabled=one.enabled, responses=one.responses, added_at=one.added_at)
            for one in found
        ]
    )


@router.post("/{arena}/models/{model:path}/enable")
async def enable_model(arena: ArenaName, model: ModelName, request: Request, actor: Admin) -> Enabled:
    """Enable a model, so that it is served."""
    return await _enabled(request, arena, model, actor, enabled=True)


@router.post("/{arena}/models/{model:path}/retire")
async def retire_model(arena: ArenaName, model: ModelName, request: Request, actor: Admin) -> Enabled:
    """Retire a model, so that it is no longer served. Open matchups stay valid until they expire; its battles count."""
    return await _enabled(request, arena, model, actor, enabled=False)


@router.get("/{arena}/prompts", dependencies=_ADMIN)
async def prompts(
    arena: ArenaName,
    request: Request,
    after: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> PromptList:
    """A page of prompts with their texts, ordered by number."""
    pool = registry_of(request).pool
    found = await list_prompts(pool, (await find_arena(pool, arena)).arena, after=after, limit=limit)
    return PromptList(found)


@router.post("/{arena}/withdrawals", status_code=201)
async def take_down(arena: ArenaName, body: WithdrawRequest, request: Request, actor: Admin) -> Withdrawn:
    """Withdraw a response, or a prompt with all its responses. Content is deleted; names, hashes and battles stay."""
    registry = registry_of(request)
    return await withdraw(
        registry.pool, registry.blobs, arena, body.prompt, body.model, reason=body.reason, actor=actor.name
    )


@router.get("/{arena}/policy", tags=["readers"])
async def policy(arena: ReadableArena, request: Request) -> PolicyInForce:
    """The current ranking policy."""
    return PolicyInForce(policy=asdict(await current_policy(registry_of(request).pool, arena.name)))


@router.patch("/{arena}/policy")
async def change_policy(
    arena: ArenaName,
    body: Annotated[Values, Body(description="Constants to change, by name.")],
    request: Request,
    actor: Admin,
) -> PolicyInForce:
    """Change the ranking policy from the next event on. Constants that determine what is stored cannot change."""
    changed = await set_policy(registry_of(request).pool, arena, body, actor=actor.name)
    return PolicyInForce(policy=asdict(changed))


@router.get(
    "/{arena}/shadow",
    response_model=ShadowBoard,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    dependencies=_ADMIN,
)
async def shadow(
    arena: ArenaName,
    request: Request,
    source: Source = "human",
    format: Annotated[Literal["json", "csv"], Query(description="The file format.")] = "json",
) -> ShadowBoard | Response:
    """Each model's rank by legacy Elo and under the ranking policy, and why they differ; as CSV, its models alone."""
    boards = boards_of(request)
    found = shadow_board(await boards.latest((await boards.arena(arena)).arena, source_number(source)))
    if format == "json":
        return found
    data = write_csv([field.name for field in fields(ShadowRow)], [asdict(one) for one in found.models])
    headers = {"Content-Disposition": f'attachment; filename="{arena}-shadow.csv"'}
    return send_private(data, "text/csv; charset=utf-8", headers)


async def _enabled(request: Request, arena: str, model: str, actor: Actor, *, enabled: bool) -> Enabled:
    position = await set_enabled(registry_of(request).pool, arena, model, enabled=enabled, actor=actor.name)
    return Enabled(model=model, enabled=enabled, position=position)


@asynccontextmanager
async def _spooled(request: Request) -> AsyncIterator[FilePath]:
    """The request body in a temporary file."""
    with tempfile.NamedTemporaryFile(prefix="tiltyard-", suffix=".jsonl") as file:
        line = 0
        async for piece in request.stream():
            end = piece.rfind(b"\n")
            line = len(piece) - end - 1 if end >= 0 else line + len(piece)
            if line > _MAX_LINE_BYTES:
                raise HTTPException(413, f"A line of the body has more than {_MAX_LINE_BYTES} bytes.")
            await asyncio.to_thread(file.write, piece)
        file.flush()
        yield FilePath(file.name)


readers = APIRouter(prefix="/api/v1/arenas", tags=["readers"])


@readers.get("")
async def arenas(
    request: Request,
    actor: CurrentActor,
    q: Annotated[Plain, Query(description="Words with which words of names or titles begin.")] = "",
    after: Annotated[Plain, Query(description="The last arena of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ArenaList:
    """A page of the open arenas, and of closed and private ones that the client may read, ordered by name."""
    found = await list_readable(request, actor, after=after, search=q, limit=limit)
    return ArenaList(
        [serialize_arena(one.arena, budgets=_sees_budgets(actor, one.arena.name)) for one in found]
    )


@readers.get("/{arena}")
async def arena(arena: ReadableArena, request: Request, actor: CurrentActor) -> ArenaInfo:
    """An arena's title and settings, and the categories and languages of its prompts.

    Budgets of live arenas are told to operators only.
    """
    categories, languages = await read_prompt_filters(registry_of(request).pool, arena)
    return serialize_arena(arena, categories, languages, budgets=_sees_budgets(actor, arena.name))


def _sees_budgets(actor: Actor | None, arena: str) -> bool:
    return actor is not None and actor.may("admin", arena)


def serialize_arena(
    arena: Arena,
    categories: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    *,
    budgets: bool = False,
) -> ArenaInfo:
    """An arena for the API, without its number; with ``budgets``, for its operators."""
    return ArenaInfo(
        arena=arena.name,
        title=arena.title,
        created_at=arena.created_at,
        settings=arena.settings.to_dict() if budgets else arena.settings.shown_to_voters(),
        categories=None if categories is None else tuple(categories),
        languages=None if languages is None else tuple(languages),
    )
