"""Write a prompt and its responses by hand. What is written becomes an upload, which is checked as every other is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena, read_models
from tiltyard.arena.content.upload_review import store_upload
from tiltyard.errors import InputError
from tiltyard.files.judgments import prompt_id as make_prompt_id
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
)

router = operator_router("/arenas/{arena}/answers/write")

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


@router.get("", response_class=HTMLResponse)
async def write_page(arena: str, request: Request) -> HTMLResponse:
    """The empty form."""
    return await _page(request, await arena_of(request, arena), WrittenPrompt())


@router.post("")
async def write_form(arena: str, request: Request) -> Response:
    """Check what was written, or add another response to the form."""
    found, form = await arena_of(request, arena), await request.form()
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
        return await _page(request, found, replace(written, answers=more))
    try:
        upload = await store_upload(
            pool_of(request), found, _name_of(written), written.to_lines(), actor=actor_of(request).name
        )
    except InputError as error:
        return await _page(request, found, written, trouble=str(error), status=422)
    return redirect_to(paths.operator("arenas", arena, "uploads", str(upload)))


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


async def _page(
    request: Request, arena: Arena, given: WrittenPrompt, *, trouble: str | None = None, status: int = 200
) -> HTMLResponse:
    models = [one.name for one in await read_models(pool_of(request), arena)]
    return arena_page(
        request, arena, "write.html", "answers", status=status, trouble=trouble, given=given, models=models
    )
