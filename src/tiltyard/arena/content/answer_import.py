"""Create arenas and import answers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.answer_rows import (
    PLAIN_READING,
    AnswerReading,
    CheckedAnswer,
    read_checked_answers,
    read_named_models,
    validate_name,
)
from tiltyard.arena.content.arenas import (
    Arena,
    NewResponse,
    PromptKey,
    add_arena,
    add_models,
    add_prompts,
    add_responses,
    connect_to_arena,
    describe_prompts,
    find_arena,
    list_models,
    lock_arena,
    read_model_numbers,
    read_prompt_keys,
    read_response_keys,
    read_size,
    require_live,
    reserve_arena_number,
)
from tiltyard.arena.content.blob_store import BlobStore, ResponseContent
from tiltyard.arena.content.name_mentions import MentionFinder
from tiltyard.arena.content.response_details import ResponseDetails, add_response_details
from tiltyard.arena.content.stored_conversations import count_unshown, read_conversation
from tiltyard.arena.log.bulk_append import ImportProgress, append_in_parts, ignore_progress, retry_faults
from tiltyard.arena.log.event_log import LogBatch, LogKind, append_batch
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings, method_to_dict
from tiltyard.errors import Conflict, InputError
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.arenas import Imported

#: Warnings that are listed; the others are only counted.
SHOWN_WARNING_LIMIT = 20
#: The last line of a prose text that was cut off is long, and begins no list, table or quotation.
_LONG_LINE_CHARACTERS = 60
_NO_PROSE = ("|", "#", ">", "-", "*", "+", "    ", "\t")
_FENCES = ("```", "~~~")
_MESSAGES = {
    "empty": "the response is empty",
    "limit": "the response was cut off at the token limit",
    "fence": "the response ends inside a code block",
    "sentence": "the response ends in the middle of a sentence",
    "files": "its messages have images or other files that voters are not shown",
}
WarningKind = Literal["empty", "limit", "fence", "sentence", "files"]


@dataclass(frozen=True, slots=True)
class ResponseWarning:
    """A response that is empty, looks cut off, or had files beside its texts."""

    where: str
    model: str
    prompt: str
    about: WarningKind

    def __str__(self) -> str:
        return f"{self.where}: {_MESSAGES[self.about]}: {self.model} on {self.prompt}"


#: A prompt is called by its first words.
_PROMPT_CHARACTERS = 80


class WarningFinder:
    """Counts such responses and keeps the first."""

    def __init__(self) -> None:
        self.first: list[ResponseWarning] = []
        self.count = 0

    def watching(self, answers: Iterable[CheckedAnswer]) -> Iterator[CheckedAnswer]:
        """Pass the answers through, and look at each of them."""
        for answer in answers:
            self.look(answer)
            yield answer

    def look(self, answer: CheckedAnswer) -> None:
        """Count a response that there is something to say about; the first ones are stored."""
        about = _problem(answer)
        if about is None:
            return
        self.count += 1
        if len(self.first) < SHOWN_WARNING_LIMIT:
            words = " ".join(answer.text[:_PROMPT_CHARACTERS].split())
            self.first.append(ResponseWarning(answer.where, answer.model, words or answer.prompt, about))


def _problem(answer: CheckedAnswer) -> WarningKind | None:
    if answer.kind != "text":
        empty, looks, files = not answer.data.strip(), None, answer.unshown_files
    else:
        stored = read_conversation(ResponseContent(answer.media_type, answer.data))
        empty, looks = not stored.response.strip(), _looks(stored.response)
        files = count_unshown((*stored.context.messages, *stored.context.trace)) > 0
    if empty:
        return "empty"
    return "limit" if answer.truncated else looks or ("files" if files else None)


def _looks(text: str) -> WarningKind | None:
    return "fence" if _ends_in_fence(text) else "sentence" if _ends_in_sentence(text) else None


def _ends_in_fence(text: str) -> bool:
    """Whether a code block is open at the end: it ends with a line of its own mark, at least as long."""
    mark = ""
    for line in text.splitlines():
        bare = line.strip()
        if mark:
            if bare.startswith(mark) and not bare.strip(mark[0]):
                mark = ""
        elif bare.startswith(_FENCES):
            mark = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    return bool(mark)


def _ends_in_sentence(text: str) -> bool:
    """Whether prose ends without a mark. Only scripts with small letters tell: others may have no such marks."""
    last = text.rstrip().rpartition("\n")[2]
    return last[-1:].islower() and len(last) >= _LONG_LINE_CHARACTERS and not last.startswith(_NO_PROSE)


#: Answers, and bytes, that are stored at once.
_CHUNK_ROWS = 500
_CHUNK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """What an import would add: names of new models and prompts, and how many responses."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    responses: int
    unchanged: int
    #: Conflicts with the arena, by the number of the answer; these are not counted elsewhere.
    conflicts: dict[int, str]


async def create_arena(
    pool: ConnectionPool,
    name: str,
    *,
    title: str | None = None,
    settings: ArenaSettings | None = None,
    policy: Policy | None = None,
    rater: RaterSettings | None = None,
    actor: str = "cli",
) -> Arena:
    """A new arena. Its log begins with its policy."""
    settings = settings or ArenaSettings()
    shown = name if title is None else validate_name("title", title)
    _check_arena_name(name)
    laws = method_to_dict(policy or Policy(), rater)
    async with pool.connection() as connection:
        number = await reserve_arena_number(connection)
        # The arena comes first: its row says in which bucket the log lies. The batch commits both.
        await connection.execute(statement("log_begin"))
        made = await add_arena(connection, number, name, shown, settings)
        async with append_batch(connection, number) as batch:
            batch.add(LogKind.POLICY, detail=laws)
            about = {
                "name": name,
                "title": shown,
                "settings": settings.to_dict(),
                "exists": [False, True],
                **laws,
            }
            await write_audit_entry(connection, actor, "create arena", about, arena=number)
    return made


async def import_answers(
    pool: ConnectionPool,
    blobs: BlobStore,
    arena: str,
    path: Path,
    *,
    enable: bool = True,
    reading: AnswerReading = PLAIN_READING,
    actor: str = "cli",
) -> Imported:
    """Let the answers of a file in: new models and prompts are numbered on, new models enabled.

    An answer that is there already changes nothing, so that an import that was interrupted can be repeated. One that
    contradicts what is there is a `Conflict`, and then nothing of the file enters. Files that
    responses name lie beside the answers or below; the body of a request names none. A table whose columns may be meant
    otherwise is `UnclearColumns`, unless ``reading`` says what they hold.

    The file is read twice: which names may not be said is known only at its end.
    """
    async with connect_to_arena(pool, arena) as (connection, found):
        known = [model.name for model in await list_models(connection, found.arena)]
    stated = await asyncio.to_thread(read_named_models, path, reading)
    lookout = MentionFinder([*known, *stated], stated)
    warnings = WarningFinder()
    answers = warnings.watching(lookout.watching(read_checked_answers(path, reading)))
    brought = await import_checked_answers(
        pool, blobs, arena, answers, enable=enable, actor=actor, progress=reading.progress
    )
    return replace(
        brought,
        mentioned=lookout.count,
        mentions=tuple(map(str, lookout.first)),
        suspect=warnings.count,
        suspects=tuple(map(str, warnings.first)),
    )


async def import_checked_answers(
    pool: ConnectionPool,
    blobs: BlobStore,
    arena: str,
    answers: Iterator[CheckedAnswer],
    *,
    enable: bool = True,
    actor: str = "cli",
    progress: ImportProgress = ignore_progress,
) -> Imported:
    """The same of answers that were read and checked already."""
    found = await find_arena(pool, arena)
    require_live(found)
    if found.settings.is_live:
        raise Conflict(
            f"in the arena {arena} models answer live: stored answers cannot be added to it; make another arena"
        )
    rows = await _kept(blobs, answers)
    async with pool.connection() as connection:
        plan = await _plan_for(connection, found.arena, rows)
    await asyncio.to_thread(plan.add_all, rows)
    parts: list[Imported] = []
    reached = 0

    async def append(connection: Connection, most: int) -> tuple[int, LogBatch]:
        nonlocal reached
        part, batch = await _entered(connection, blobs, found, rows[reached : reached + most], enable, actor)
        parts.append(part)
        reached = min(reached + most, len(rows))
        return reached, batch

    # There is at least one part, so that an empty file is an import too.
    await append_in_parts(pool, append, len(rows), progress)
    return replace(
        parts[-1], **{name: sum(getattr(part, name) for part in parts) for name in _COUNTED_FIELDS}
    )


async def plan_import(connection: Connection, arena: int, answers: Sequence[CheckedAnswer]) -> ImportPreview:
    """What these answers would add, and which conflict with the arena or each other. Nothing is stored."""
    rows = [_Row(one, hashlib.sha256(one.data).digest(), len(one.data)) for one in answers]
    plan = await _plan_for(connection, arena, rows)
    conflicts: dict[int, str] = {}
    for k, row in enumerate(rows):
        try:
            plan.add(row)
        except Conflict as error:
            conflicts[k] = str(error).removeprefix(f"{row.answer.where}: ")
    return ImportPreview(
        tuple(plan.new_models), tuple(plan.new_prompts), len(plan.new_responses), plan.unchanged, conflicts
    )


_COUNTED_FIELDS = ("models", "prompts", "responses", "unchanged")


@dataclass(frozen=True, slots=True)
class _Row:
    """An answer whose bytes are kept elsewhere. Prompts' texts are shared by the rows that have them."""

    answer: CheckedAnswer
    sha256: bytes
    size: int


@dataclass(slots=True)
class _ImportPlan:
    """What rows add to the arena, and the numbers of new models and prompts."""

    #: Of what the rows name.
    models: dict[str, int]
    prompts: dict[str, PromptKey]
    responses: dict[tuple[int, int], bytes]
    #: How many models and prompts there are, counting those that are going to be added.
    n_models: int
    n_prompts: int
    new_models: list[str] = field(default_factory=list)
    new_prompts: list[str] = field(default_factory=list)
    described: dict[int, tuple[int, str | None, str | None]] = field(default_factory=dict)
    new_responses: list[NewResponse] = field(default_factory=list)
    #: Of the new responses, by model and prompt.
    details: dict[tuple[int, int], ResponseDetails] = field(default_factory=dict)
    unchanged: int = 0

    @property
    def brings(self) -> bool:
        return bool(self.new_models or self.new_prompts or self.described or self.new_responses)

    def add(self, row: _Row) -> None:
        """Add a row to the plan. If it raises `Conflict`, the plan is unchanged."""
        self._check(row)
        one = row.answer
        if one.model not in self.models:
            self.models[one.model] = self.n_models
            self.n_models += 1
            self.new_models.append(one.model)
        model, prompt = self.models[one.model], self._prompt(one)
        if self.responses.get((model, prompt)) == row.sha256:
            self.unchanged += 1
            return
        self.responses[model, prompt] = row.sha256
        self.details[model, prompt] = one.details
        self.new_responses.append(NewResponse(model, prompt, one.kind, one.media_type, row.sha256, row.size))

    def add_all(self, rows: Iterable[_Row]) -> None:
        for row in rows:
            self.add(row)

    def _check(self, row: _Row) -> None:
        one, known = row.answer, self.prompts.get(row.answer.prompt)
        if known is None:
            return
        if known.withdrawn:
            raise Conflict(f"{one.where}: prompt {one.prompt} was withdrawn; give it another prompt_id")
        if known.sha256 != one.text_sha256:
            raise Conflict(
                f"{one.where}: prompt {one.prompt} already has a different text; give one of them another prompt_id"
            )
        for what in ("category", "language"):
            value, there = getattr(one, what), getattr(known, what)
            if None not in (there, value) and there != value:
                raise Conflict(f"{one.where}: the {what} of prompt {one.prompt} is {there!r}, not {value!r}")
        if self.responses.get((self.models.get(one.model, -1), known.prompt)) not in (None, row.sha256):
            raise Conflict(
                f"{one.where}: {one.model} already has a different response to {one.prompt}; "
                "withdraw that one first, or leave this one out"
            )

    def _prompt(self, one: CheckedAnswer) -> int:
        """The number of an answer's prompt. Category and language may be added later, but not changed."""
        known = self.prompts.get(one.prompt)
        if known is None:
            stated = (one.text_sha256, one.category, one.language)
            known = PromptKey(self.n_prompts, one.prompt, *stated, text=one.text)
            self.n_prompts += 1
            self.new_prompts.append(one.prompt)
            self.prompts[one.prompt] = known
            return known.prompt
        category = one.category if known.category is None else known.category
        language = one.language if known.language is None else known.language
        if (category, language) != (known.category, known.language):
            self.prompts[one.prompt] = replace(known, category=category, language=language)
            if known.prompt < self.n_prompts - len(self.new_prompts):
                self.described[known.prompt] = (known.prompt, category, language)
        return known.prompt


def _check_arena_name(name: str) -> None:
    plain = name.replace("-", "")
    fits = name == name.lower() and name.isascii() and plain.isalnum() and 1 <= len(name) <= 64
    if not fits or name[0] == "-" or name[-1] == "-":
        raise InputError(
            f"the name is {name[:100]!r}; expected 1 to 64 of a to z, 0 to 9 and hyphens, none at the ends"
        )


async def _kept(blobs: BlobStore, answers: Iterator[CheckedAnswer]) -> list[_Row]:
    """Store the bytes of all answers in chunks, and collect their metadata."""
    rows: list[_Row] = []
    texts: dict[bytes, str] = {}
    while chunk := await asyncio.to_thread(_chunk, answers):
        hashes = await retry_faults(partial(blobs.put_many, [one.data for one in chunk]))
        rows += [
            _Row(
                replace(one, data=b"", text=texts.setdefault(one.text_sha256, one.text)),
                sha256,
                len(one.data),
            )
            for one, sha256 in zip(chunk, hashes, strict=True)
        ]
    return rows


def _chunk(answers: Iterator[CheckedAnswer]) -> list[CheckedAnswer]:
    chunk: list[CheckedAnswer] = []
    size = 0
    while len(chunk) < _CHUNK_ROWS and size < _CHUNK_BYTES:
        one = next(answers, None)
        if one is None:
            break
        chunk.append(one)
        size += len(one.data)
    return chunk


async def _plan_for(connection: Connection, arena: int, rows: Sequence[_Row]) -> _ImportPlan:
    """An empty plan, with the current models, prompts and responses that these rows name."""
    names = {(row.answer.model, row.answer.prompt) for row in rows}
    models = await read_model_numbers(connection, arena, {model for model, _ in names})
    known = await read_prompt_keys(connection, arena, {prompt for _, prompt in names})
    prompts = {key.name: key for key in known}
    cells = {
        (models[model], prompts[prompt].prompt)
        for model, prompt in names
        if model in models and prompt in prompts
    }
    there = await read_response_keys(connection, arena, cells)
    return _ImportPlan(models, prompts, there, *await read_size(connection, arena))


async def _entered(
    connection: Connection, blobs: BlobStore, found: Arena, rows: list[_Row], enable: bool, actor: str
) -> tuple[Imported, LogBatch]:
    await blobs.hold(connection)
    async with append_batch(connection, found.arena) as batch:
        require_live(await lock_arena(connection, found.name))
        plan = await _plan_for(connection, found.arena, rows)
        plan.add_all(rows)
        await blobs.check(connection, {one.sha256 for one in plan.new_responses})
        await _write(connection, batch, plan, enable=enable)
        new = (len(plan.new_models), len(plan.new_prompts), len(plan.new_responses))
        brought = Imported(*new, plan.unchanged, batch.head, 0, (), 0, ())
        about = {name: getattr(brought, name) for name in _COUNTED_FIELDS} | {"enabled": enable}
        about["imported"] = [False, True]
        if plan.brings:
            await write_audit_entry(connection, actor, "import answers", about, arena=found.arena)
    return brought, batch


async def _write(connection: Connection, batch: LogBatch, plan: _ImportPlan, *, enable: bool) -> None:
    arena, first = batch.arena, plan.n_models - len(plan.new_models)
    if plan.new_models:
        await add_models(connection, arena, first, plan.new_models)
    if plan.new_prompts:
        await add_prompts(connection, arena, [plan.prompts[name] for name in plan.new_prompts])
    if plan.described:
        await describe_prompts(connection, arena, list(plan.described.values()))
    if plan.new_models or plan.new_prompts:
        batch.add(LogKind.WIDEN, a=plan.n_models, prompt=plan.n_prompts)
    if plan.new_responses:
        added = await add_responses(connection, arena, plan.new_responses)
        for response, model, prompt in added:
            batch.add(LogKind.RESPOND, a=model, prompt=prompt, serial=response)
        details = [(response, plan.details[model, prompt]) for response, model, prompt in added]
        await add_response_details(connection, arena, details)
    if enable:
        for model in range(first, plan.n_models):
            batch.add(LogKind.ENABLE, a=model)
