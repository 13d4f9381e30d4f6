"""Converts answers to rows that an arena accepts: names that can be displayed, bytes that can be served."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tiltyard.arena.content.blinding import strip_metadata
from tiltyard.arena.content.blinding.images import check_image_size
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.response_details import ResponseDetails, response_details
from tiltyard.arena.content.stored_conversations import (
    CONVERSATION,
    MAX_RESPONSE_BYTES,
    conversation_bytes,
    count_files,
    detect_media_type,
    read_answer_file,
    response_text,
)
from tiltyard.arena.log.bulk_append import ImportProgress, ignore_progress
from tiltyard.errors import InputError, UnclearColumns
from tiltyard.files.answer import SCORES_ONLY, Answer
from tiltyard.files.answer_formats.answer_columns import ColumnChoice, TableColumns
from tiltyard.files.input_file import InputFile, open_input
from tiltyard.files.style_text import measure_style
from tiltyard.files.upload_reader import NATIVE_FORMATS, UPLOAD_NAME, BadRow, UploadReader, bad_row
from tiltyard.foundation.option_names import option_name, quoted_list

#: Maximum bytes of a prompt.
MAX_PROMPT_BYTES = 1024 * 1024
MAX_NAME_CHARACTERS = 200
#: Answers in one import; their metadata stay in memory until all are read.
ANSWER_LIMIT = 1_000_000

#: What programs write where a response was cut off.
_CUT_OFF_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "MAX_TOKENS"})
_REASON_FIELDS = ("finish_reason", "stop_reason")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """A valid answer. ``where`` is its place in the file."""

    where: str
    model: str
    prompt: str
    text: str
    text_sha256: bytes
    category: str | None
    language: str | None
    kind: str
    media_type: str
    data: bytes
    #: The model's family and maker, as stated in the file.
    stated: frozenset[str] = frozenset()
    #: Whether the response was cut off at the token limit, as stated in the file.
    truncated: bool = False
    #: Whether its messages have files, of a response that is not a text: these are not kept.
    unshown_files: bool = False
    #: What the file says about making it, and how its text is written.
    details: ResponseDetails = field(default_factory=ResponseDetails)

    def shown_text(self, most: int) -> str:
        """The first characters of what is shown of a text, with its earlier messages and steps; at most ``most``."""
        if self.media_type == CONVERSATION:
            return response_text(ResponseContent(self.media_type, self.data))[:most]
        return self.data[: 4 * most].decode("utf-8", "ignore")[:most]


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """How a file of answers is read for an import."""

    #: Whether it was sent in a request: it is text, and names no files.
    body: bool = False
    #: What its columns hold, where their headers are not documented ones.
    choice: ColumnChoice | None = None
    #: Whether rows of a table without a response may be left out.
    partly: bool = False
    #: Told how many answers are there, and how many there are to be.
    progress: ImportProgress = ignore_progress


PLAIN_READING = AnswerReading()


def read_checked_answers(path: Path, reading: AnswerReading = PLAIN_READING) -> Iterator[CheckedAnswer]:
    """Read the answers of a file; the first bad row ends it, and so do columns of which it is not clear what they hold.

    Responses that are not text are ``data:`` URLs, or of a local file paths of files in the same folder or below.
    """
    folder = None if reading.body else path.parent
    for number, (where, answer) in enumerate(_answers(path, reading), start=1):
        if number > ANSWER_LIMIT:
            raise InputError(f"{where}: an import may have at most {ANSWER_LIMIT} answers; split the file")
        yield _checked(answer, where, folder)


def read_named_models(path: Path, reading: AnswerReading = PLAIN_READING) -> dict[str, set[str]]:
    """The models of a file, each with its stated families and makers."""
    found: dict[str, set[str]] = {}
    for _, answer in _answers(path, reading):
        found.setdefault(answer.model, set()).update(filter(None, (answer.family, answer.maker)))
    return found


def check_upload_rows(
    rows: Iterable[tuple[str, Answer] | BadRow], folder: Callable[[], Path | None], *, most: int
) -> Iterator[CheckedAnswer | BadRow]:
    """Check the answers of an uploaded file, and pass on the errors of invalid rows.

    As in a request body, responses that are not text must be ``data:`` URLs; or paths of files in the ``folder`` or
    below, if there is one, which is known from the first row on. Reading ends when the rows, with the files that they
    name, have more than ``most`` bytes: many rows may name the same file.
    """
    size = 0
    for number, row in enumerate(rows, start=1):
        if number > ANSWER_LIMIT:
            yield BadRow(
                "the file", None, f"an import may have at most {ANSWER_LIMIT} answers; split it", last=True
            )
            return
        if isinstance(row, BadRow):
            yield row
            continue
        where, answer = row
        try:
            checked = _checked(answer, where, folder())
        except InputError as error:
            yield bad_row(where, InputError(str(error).removeprefix(f"{where}: ")))
            continue
        size += len(checked.data)
        if size > most:
            problem = (
                f"the responses up to this one have more than {most} bytes with their files; split the file"
            )
            yield BadRow(where, None, problem, last=True)
            return
        yield checked


def validate_name(what: str, name: str) -> str:
    """Check a name and return it; raise `InputError` if it cannot be displayed."""
    if not name or name != name.strip() or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise InputError(
            f"{what} is {name[:MAX_NAME_CHARACTERS]!r}; expected 1 to {MAX_NAME_CHARACTERS} printable characters, "
            "without spaces at the ends"
        )
    return name


def _answers(path: Path, reading: AnswerReading) -> Iterator[tuple[str, Answer]]:
    """The answers with their places. Of logs, the first response to each prompt."""
    start = (InputFile(UPLOAD_NAME, path, None) if reading.body else open_input(path)).first_bytes()
    if not start:
        return
    if reading.body and start.startswith(NATIVE_FORMATS):
        raise InputError(
            f"{UPLOAD_NAME}: is an archive, a workbook or Parquet; send JSON Lines, JSON or CSV, or upload it on the "
            "operator's pages"
        )
    reader = UploadReader(path, None, math.inf, reading.choice, local=not reading.body)
    rows = reader.rows()
    first = list(itertools.islice(rows, 1))
    if reader.columns is not None and reader.columns.asks:
        raise _unclear(reader.shown_name, reader.columns)
    for row in itertools.chain(first, rows):
        if isinstance(row, BadRow):
            raise InputError(f"{row.where}: {row.problem}")
        yield row
    if reader.columns is not None and reader.columns.columns and reader.left_out and not reading.partly:
        listed = ", ".join(f"{reason}: {count}" for reason, count in reader.left_out)
        raise InputError(
            f"{reader.shown_name}: rows would be left out ({listed}); to import the others: {option_name('partly', True)}"
        )


def _unclear(name: str, columns: TableColumns) -> UnclearColumns:
    """The columns that a file has, and how to say what they hold."""
    uses = columns.uses
    listed = f" its columns are {quoted_list(list(uses))};" if uses else ""
    words = [f"{use}={header}" for header, use in uses.items() if use != "ignore"]
    option = option_name("columns", words or ["model=…"]) if uses else option_name("only_model", "NAME")
    if uses and not {"model", "responses"} & set(uses.values()):
        option += f" {option_name('only_model', 'NAME')}"
    problem = columns.problem or "it is not clear what they hold"
    return UnclearColumns(f"{name}:{listed} {problem}; say so, for example by {option}", uses)


def _checked(answer: Answer, where: str, folder: Path | None) -> CheckedAnswer:
    if answer.kind == SCORES_ONLY:
        raise InputError(f"{where}: the response is missing; an arena shows responses, not scores")
    try:
        for what in ("category", "language", "family", "maker"):
            if getattr(answer, what) is not None:
                validate_name(what, getattr(answer, what))
        conversation = conversation_bytes(answer, folder)
        text = _prompt_text(_asked(answer) if conversation is None else answer.prompt)
        if conversation is not None:
            data, media = _bounded(conversation), CONVERSATION
        else:
            is_text = answer.kind == "text"
            data = _bounded(
                answer.response.encode() if is_text else read_answer_file(answer.response, folder)
            )
            media = detect_media_type(answer.kind, data)
            check_image_size(media, data)
            strip_metadata(media, data)
        return CheckedAnswer(
            where=where,
            model=validate_name("model", answer.model),
            prompt=validate_name("prompt_id", answer.prompt_id),
            text=text,
            text_sha256=hashlib.sha256(text.encode()).digest(),
            category=answer.category,
            language=answer.language,
            kind=answer.kind,
            media_type=media,
            data=data,
            stated=frozenset(filter(None, (answer.family, answer.maker))),
            truncated=answer.truncated
            or any(str(answer.extra.get(name)) in _CUT_OFF_REASONS for name in _REASON_FIELDS),
            unshown_files=conversation is None and count_files((*answer.messages, *answer.trace)) > 0,
            details=response_details(
                answer.usage, measure_style(answer.response) if answer.kind == "text" else None
            ),
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _asked(answer: Answer) -> str:
    """The prompt of a response that is no text; of a conversation all of it, with its roles."""
    if not any(part.text for message in answer.messages[:-1] for part in message.parts):
        return answer.prompt
    return "\n\n".join(f"{message.role.capitalize()}: {message.text}" for message in answer.messages)


def _prompt_text(text: str) -> str:
    size = len(text.encode())
    if size > MAX_PROMPT_BYTES:
        raise InputError(f"the prompt has {size} bytes; the maximum is {MAX_PROMPT_BYTES}")
    if "\0" in text:
        raise InputError("the prompt contains a null character; remove it")
    return text


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_RESPONSE_BYTES:
        raise InputError(
            f"the response has more than {MAX_RESPONSE_BYTES} bytes, which is the maximum; "
            "that of a conversation counts its messages and images"
        )
    return data
