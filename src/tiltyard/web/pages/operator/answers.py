"""Upload answers: check a file, then import or discard it. And past votes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import File, Form, UploadFile
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import list_models
from tiltyard.arena.content.upload_review import (
    MAX_UPLOAD_BYTES,
    UploadDecision,
    discard_upload,
    import_upload,
    list_uploads,
    preview_upload,
    store_upload,
)
from tiltyard.arena.operators.vote_import import VoteFile, import_votes, list_vote_imports
from tiltyard.errors import InputError
from tiltyard.files.answer_formats.answer_columns import ColumnChoice
from tiltyard.files.judgments import prompt_id as make_prompt_id
from tiltyard.web.access.access import access_of
from tiltyard.web.access.route_access import ChosenColumns
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router

router = operator_router("/arenas/{arena}")


@router.get("/answers")
async def answers_page(visit: OnArena) -> HTMLResponse:
    """The upload form."""
    return await _choose(visit)


@router.post("/uploads")
async def upload_form(visit: OnArena, file: Annotated[UploadFile, File()]) -> Response:
    """Keep a file for an hour; its preview is next."""
    visit.on_refusal(_choose)
    data, actor = await file.read(MAX_UPLOAD_BYTES + 1), visit.actor.name
    async with access_of(visit.request).quota("uploads", visit.arena.arena):
        upload = await store_upload(visit.pool, visit.arena, file.filename or "", data, actor=actor)
    return redirect_to(paths.operator("arenas", visit.arena.name, "uploads", str(upload)))


@router.post("/past-votes")
async def past_votes_form(visit: OnArena, file: Annotated[UploadFile, File()]) -> Response:
    """Import votes that people cast elsewhere; the list on the page says how far it came."""
    visit.on_refusal(_choose)
    with tempfile.NamedTemporaryFile(prefix="tiltyard-") as kept:
        kept.write(await file.read())
        kept.flush()
        name = "".join(one if one.isprintable() else "�" for one in (file.filename or "votes")[:200])
        async with access_of(visit.request).quota("uploads", visit.arena.arena):
            done = await import_votes(
                visit.pool,
                access_of(visit.request).keys,
                visit.arena.name,
                VoteFile(Path(kept.name), name, text_only=True),
                shard=visit.registry.settings.shard,
                actor=visit.actor.name,
            )
    if done.repeated:
        return await _choose(visit, trouble=f"The past votes are imported. {done.warning}")
    return visit.done("votes-imported", "answers")


@router.get("/uploads/{upload}")
async def upload_page(visit: OnArena, upload: UUID, choice: ChosenColumns) -> HTMLResponse:
    """What the file would add, and its errors; or first what its columns hold, where that is not clear."""
    return await _preview(visit, upload, choice)


@router.post("/uploads/{upload}/let-in")
async def let_in_form(
    visit: OnArena,
    upload: UUID,
    choice: ChosenColumns,
    expected: Annotated[int, Form(ge=0, lt=2**31)],
    partly: Annotated[bool, Form()] = False,
    enable: Annotated[bool, Form()] = False,
    more: Annotated[bool, Form()] = False,
) -> Response:
    """Import exactly what was previewed. A draft's next step is on its overview; ``more``: another prompt by hand."""
    visit.on_refusal(_preview, upload, choice)
    await import_upload(
        visit.pool,
        visit.registry.blobs,
        visit.arena,
        upload,
        UploadDecision(expected, partly, enable, choice),
        actor=visit.actor.name,
    )
    if more:
        return visit.done("imported", "answers", "write")
    draft = visit.arena.settings.stage == "draft"
    return visit.done("imported", *(() if draft else ("models",)))


@router.post("/uploads/{upload}/discard")
async def discard_form(visit: OnArena, upload: UUID) -> Response:
    """Discard the file."""
    await discard_upload(visit.pool, visit.arena, upload, actor=visit.actor.name)
    return visit.done("discarded", "answers")


async def _choose(visit: ArenaVisit, **said: Any) -> HTMLResponse:
    base = visit.registry.settings.base_url or str(visit.request.base_url).rstrip("/")
    about = {
        "base": base,
        "most": MAX_UPLOAD_BYTES,
        "files": await list_vote_imports(visit.pool, visit.arena.arena),
        "uploads": await list_uploads(visit.pool, visit.arena, actor=visit.actor.name),
    }
    return visit.page("answers.html", "answers", **about, **said)


async def _preview(visit: ArenaVisit, upload: UUID, choice: ColumnChoice | None, **said: Any) -> HTMLResponse:
    found = await preview_upload(visit.pool, visit.arena, upload, actor=visit.actor.name, choice=choice)
    query = visit.request.url.query
    return visit.page("upload.html", "answers", preview=found, query=query, written_name=WRITTEN_NAME, **said)


#: The name of the file that is made of what was written.
WRITTEN_NAME = "written-by-hand.jsonl"
#: Responses that a form has at least, and at most.
_LEAST_RESPONSES_COUNT = 2
_RESPONSE_LIMIT = 50
#: What the name of a prompt that nobody named has of its text, and of its hash.
_NAMED_CHARACTERS, _NAMED_WORDS_COUNT, _NAMED_HASH_CHARACTERS = 60, 5, 8


@dataclass(frozen=True, slots=True)
class WrittenPrompt:
    """What was typed: a prompt, and pairs of model and response."""

    prompt: str = ""
    prompt_id: str = ""
    category: str = ""
    language: str = ""
    answers: tuple[tuple[str, str], ...] = (("", ""),) * _LEAST_RESPONSES_COUNT

    def to_lines(self) -> bytes:
        """The responses as JSON Lines; pairs of which nothing was typed are left out."""
        named = self.prompt_id or _short_name(self.prompt)
        about = {"category": self.category, "language": self.language}
        rows = (
            {"prompt_id": named, "prompt": self.prompt, "model": model, "response": response}
            | {name: value for name, value in about.items() if value}
            for model, response in self.answers
            if model or response
        )
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@router.get("/answers/write")
async def write_page(visit: OnArena) -> HTMLResponse:
    """The empty form."""
    return await _page(visit, WrittenPrompt())


@router.post("/answers/write")
async def write_form(visit: OnArena) -> Response:
    """Check what was written, or add another response to the form."""
    form = await visit.request.form()
    typed = {
        name: str(form.get(name, "")).replace("\r\n", "\n")
        for name in ("prompt", "prompt_id", "category", "language")
    }
    written = WrittenPrompt(
        prompt=typed["prompt"],
        prompt_id=typed["prompt_id"].strip(),
        category=typed["category"].strip(),
        language=typed["language"].strip(),
        answers=_pairs(form.getlist("model"), form.getlist("response")),
    )
    if form.get("act") == "more":
        more = (*written.answers, ("", ""))[:_RESPONSE_LIMIT]
        return await _page(visit, replace(written, answers=more))
    visit.on_refusal(_page, written)
    upload = await store_upload(
        visit.pool, visit.arena, _name_of(written), written.to_lines(), actor=visit.actor.name
    )
    return redirect_to(paths.operator("arenas", visit.arena.name, "uploads", str(upload)))


def _short_name(prompt: str) -> str:
    """A name that can be read: the first words of the prompt, and the start of its hash, so that no two are the same."""
    letters = "".join(one if one.isalnum() else " " for one in prompt[:_NAMED_CHARACTERS].lower())
    return "-".join(
        (*letters.split()[:_NAMED_WORDS_COUNT], str(make_prompt_id(prompt))[:_NAMED_HASH_CHARACTERS])
    )


def _name_of(written: WrittenPrompt) -> str:
    if not written.prompt.strip():
        raise InputError("the prompt is empty; write what was asked")
    if sum(bool(model or response) for model, response in written.answers) < _LEAST_RESPONSES_COUNT:
        raise InputError("two responses or more are needed: a matchup shows two")
    return WRITTEN_NAME


def _pairs(models: Sequence[object], responses: Sequence[object]) -> tuple[tuple[str, str], ...]:
    """Pairs of model and response, of which a form has at least two."""
    given = list(zip(models, responses, strict=False))[:_RESPONSE_LIMIT]
    pairs = [(str(model).strip(), str(response).replace("\r\n", "\n")) for model, response in given]
    return (*pairs, *[("", "")] * (_LEAST_RESPONSES_COUNT - len(pairs)))


async def _page(visit: ArenaVisit, given: WrittenPrompt, **said: Any) -> HTMLResponse:
    models = [one.name for one in await list_models(visit.pool, visit.arena.arena)]
    return visit.page("write.html", "answers", given=given, models=models, **said)
