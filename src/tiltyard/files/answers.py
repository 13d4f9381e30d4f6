"""Answer files: our own, with one response of one model to one prompt in each record, those of other tools, and answers in battles."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tiltyard.errors import BadBattle, BadOption, UnknownFormat, UnreadableFile
from tiltyard.files.answer import ANSWER_FIELDS, UNSCORED_NOTE, Answer
from tiltyard.files.answer_formats.answer_tables import AnswerTable, read_scores, score_columns
from tiltyard.files.answer_formats.inspect_logs import (
    INSPECT_HEADERS,
    inspect_archive_answers,
    inspect_document_answers,
)
from tiltyard.files.answer_formats.lm_eval import is_lm_eval, lm_eval_answers
from tiltyard.files.answer_formats.model_answers import is_model_answers, model_answers
from tiltyard.files.answer_formats.promptfoo import (
    is_promptfoo,
    promptfoo_answers,
    promptfoo_document_answers,
)
from tiltyard.files.arrow_records import ArrowRecords, is_saved_dataset
from tiltyard.files.battle_writer import write_rows
from tiltyard.files.canonical_columns import RESPONSES
from tiltyard.files.format import SkippedRecord
from tiltyard.files.format_detection import detect, find_format, open_input_records, open_records
from tiltyard.files.input_address import address_of, fetch_address
from tiltyard.files.input_file import InputFile, Records, open_input, translate_read_errors
from tiltyard.files.json_records import JsonScanner
from tiltyard.files.memory_records import FrameRecords, ListRecords, is_frame
from tiltyard.files.read_options import with_headers
from tiltyard.files.xlsx_records import WORKBOOK, XlsxRecords
from tiltyard.files.zip_members import open_zip

OWN_FORMAT = "tiltyard"
#: Formats whose files contain the prompts of a task and nothing else that could be meant.
LOG_FORMATS = frozenset({"inspect", "lm-eval", "promptfoo", "model-answers"})

#: The columns that make a table our own; a response or messages are needed as well.
_OWN_NAMES = frozenset({"prompt_id", "model"})
_OWN_RESPONSES = frozenset({"response", "messages", "scores"})
#: Containers whose columns may be models.
_WIDE_KINDS = frozenset({"csv", "xlsx", "parquet", "arrow", "frame"})
#: Files of a folder that are answers; the first pattern that any file matches counts.
_FOLDER_PATTERNS = ("*.eval", "samples_*.jsonl", "*.parquet", "*.jsonl", "*.json", "*.csv")
_FIRST_LINE_CHARACTERS = 1 << 20
#: Members of promptfoo's ``results``.
_PROMPTFOO_NAMES = frozenset({"version", "timestamp", "results", "prompts", "stats", "table"})

_Reader = Callable[[Counter[str]], Iterator[Answer]]
_DOCUMENTS = {"inspect": inspect_document_answers, "promptfoo": promptfoo_document_answers}
_RECORDS = (
    ("lm-eval", is_lm_eval, lm_eval_answers),
    ("promptfoo", is_promptfoo, promptfoo_answers),
    ("model-answers", is_model_answers, model_answers),
)
_PROMPTS = ("prompt", "instruction", "question")
_CONVERSATIONS = ("conversation_a", "full_conversation", "conversation")


@dataclass(frozen=True)
class AnswerSource:
    """Answers in a file, opened but not yet read. ``format`` is the tool that wrote it."""

    path: str
    format: str
    #: The name that the file's only model is given.
    model: str | None
    _reader: _Reader = field(repr=False)
    _tally: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    def answers(self) -> Iterator[Answer]:
        """The answers, from the start of the file."""
        self._tally.clear()
        found = self._reader(self._tally)
        return found if self.model is None else self._renamed(found, self.model)

    @property
    def notes(self) -> tuple[tuple[str, int], ...]:
        """What the current or last read has left out so far: the reason and the number of records."""
        return tuple((reason, count) for reason, count in self._tally.most_common() if count)

    def _renamed(self, answers: Iterator[Answer], name: str) -> Iterator[Answer]:
        only: str | None = None
        for answer in answers:
            only = answer.model if only is None else only
            if answer.model != only:
                raise BadOption(
                    f"{self.path}: has the answers of {only} and of {answer.model}; "
                    "a name can be given to the only model of a file"
                )
            yield replace(answer, model=name)


def open_answers(path: str | os.PathLike[str], *, model: str | None = None) -> AnswerSource:
    """Open a file of answers and detect its format. ``model`` renames the file's only model.

    The formats: our own (JSON Lines, JSON lists, CSV and Parquet, compressed or not), Inspect logs,
    samples of lm-evaluation-harness, results of promptfoo, answers of arena-hard and MT-bench,
    alpaca_eval's outputs, and tables (also Excel) with a column for each model or a row for each
    answer. ``path`` may be a folder: a data set saved by ``datasets``, or files of one format; or an address:
    ``hf://datasets/OWNER/NAME`` or ``https://HOST/FILE``.
    """
    address = address_of(path)
    if address is not None:
        fetched = fetch_address(address)
        name, reader = _detected_together(fetched.path, [_detected(file) for file in fetched.files])
        return AnswerSource(fetched.path, name, model, reader)
    text = os.fspath(path)
    folder = Path(text)
    with translate_read_errors(text):
        is_folder = text != "-" and folder.is_dir()
    name, reader = _detected_folder(folder) if is_folder else _detected(open_input(path))
    return AnswerSource(text, name, model, reader)


def answers_in_memory(data: Any, name: str) -> AnswerSource:
    """A frame, or mappings, read as a table with the same columns in a file; ``name`` is the model's unless they say it."""
    records = FrameRecords.opened(data, name) if is_frame(data) else ListRecords.opened(data, name)
    found, reader = _detected_records(records)
    return AnswerSource(name, found, None, reader)


def open_runs(path: str | os.PathLike[str]) -> list[AnswerSource]:
    """The files of a folder, each a source of its own; of anything else one source, as `open_answers` opens it."""
    whole = open_answers(path)
    folder = Path(whole.path)
    if address_of(path) is not None or not folder.is_dir() or is_saved_dataset(folder):
        return [whole]
    return [open_answers(file) for file in _folder_files(folder)]


def read_answers(path: str | os.PathLike[str], *, model: str | None = None) -> Iterator[Answer]:
    """All answers of a file in any known format; ``model`` renames the file's only model."""
    yield from open_answers(path, model=model).answers()


def write_answers(path: str | os.PathLike[str], answers: Iterable[Answer]) -> None:
    """Write answers as JSON Lines; ``-`` is standard output."""
    write_rows(path, (answer.to_dict() for answer in answers))


def drop_replaced_answers(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Drop truncated answers for which there is a complete or later answer to the same prompt."""
    found = list(answers)
    places = [(one.model, one.prompt_id, one.repeat) for one in found]
    whole = {place for place, one in zip(places, found, strict=True) if not one.truncated}
    last = {place: number for number, place in enumerate(places) if found[number].truncated}
    for number, (place, one) in enumerate(zip(places, found, strict=True)):
        if not one.truncated or (place not in whole and last[place] == number):
            yield one


def _detected(file: InputFile) -> tuple[str, _Reader]:
    """The name of the format and its reader."""
    start = file.first_bytes()
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _detected_archive(file.decompressed())
    if start.startswith(b"{"):
        document = _document_format(file)
        if document is not None:
            return document, partial(_DOCUMENTS[document], file)
        _reject_document(file)
    return _detected_records(open_input_records(file))


def _detected_records(records: Records) -> tuple[str, _Reader]:
    names = frozenset(records.columns)
    if not names >= _OWN_NAMES or _OWN_RESPONSES.isdisjoint(names):
        for name, recognises, read in _RECORDS:
            if recognises(names):
                return name, partial(read, records)
        table = AnswerTable.of(records.columns, wide=records.kind in _WIDE_KINDS)
        if table is not None:
            return _table_name(records, table), partial(table.answers, records)
    return OWN_FORMAT, partial(_own_answers, records)


def is_own_table(columns: Collection[str]) -> bool:
    """Whether these columns make a table our own, whose rows are read as they are documented, and refused if one is wrong."""
    names = set(columns)
    whole = not names.isdisjoint(_OWN_RESPONSES) and not names.isdisjoint({"prompt", "messages"})
    return names >= _OWN_NAMES and (whole or names <= ANSWER_FIELDS)


def _table_name(records: Records, table: AnswerTable) -> str:
    if table.models:
        return "model-columns"
    return "alpaca-eval" if {"instruction", "output"} <= set(records.columns) else "table"


def _detected_folder(folder: Path) -> tuple[str, _Reader]:
    """A saved data set, or the files of one format in a folder."""
    if is_saved_dataset(folder):
        return _detected_records(ArrowRecords.opened(folder))
    return _detected_together(str(folder), [_detected(open_input(path)) for path in _folder_files(folder)])


def _folder_files(folder: Path) -> list[Path]:
    with translate_read_errors(str(folder)):
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for pattern in _FOLDER_PATTERNS:
        found = [path for path in paths if path.match(pattern)]
        if found:
            return found
    raise UnreadableFile(f"{folder}: no files of answers in this folder ({', '.join(_FOLDER_PATTERNS)})")


def _detected_together(where: str, found: Sequence[tuple[str, _Reader]]) -> tuple[str, _Reader]:
    names = sorted({name for name, _ in found})
    if len(names) > 1:
        raise UnreadableFile(
            f"{where}: the files have different formats ({', '.join(names)}); name a single file"
        )
    return names[0], partial(_chained, [reader for _, reader in found])


def _chained(readers: Sequence[_Reader], tally: Counter[str]) -> Iterator[Answer]:
    for reader in readers:
        yield from reader(tally)


def _own_answers(records: Records, tally: Counter[str]) -> Iterator[Answer]:
    columns = {} if "scores" in records.columns else score_columns(records.columns, usual=True)
    for where, record in records.records():
        scores = record.get("scores")
        if isinstance(scores, Mapping):
            tally[UNSCORED_NOTE] += sum(
                (value is None or (isinstance(value, float) and not math.isfinite(value)))
                for value in scores.values()
            )
        stated = read_scores(record, columns, tally)
        yield Answer.from_dict({**record, "scores": stated} if stated else record, where)


def answer_columns(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The columns or fields of a table of answers; none of other files."""
    if not Path(path).is_file() or open_answers(path).format in LOG_FORMATS:
        return ()
    return tuple(open_input_records(open_input(path)).columns)


def _detected_archive(file: InputFile) -> tuple[str, _Reader]:
    with open_zip(file) as archive:
        if any(name in archive for name in INSPECT_HEADERS):
            return "inspect", partial(inspect_archive_answers, file)
        if WORKBOOK in archive:
            sheet = XlsxRecords.opened(file)
            return _detected_records(with_headers(sheet, {name: name.strip() for name in sheet.columns}))
    raise UnreadableFile(
        f"{file.name}: a zip archive that is neither a log of Inspect (.eval) nor an Excel workbook"
    )


def _reject_document(file: InputFile) -> None:
    """Raise if the file is one JSON object in several lines: no tool that is known writes that."""
    try:
        with translate_read_errors(file.name), file.open_text() as stream:
            if not _is_json_start(stream.readline(_FIRST_LINE_CHARACTERS)):
                return
        with translate_read_errors(file.name), file.open_text() as stream:
            scanner, names = JsonScanner(file.name, stream), []
            for name in scanner.members():
                names.append(name)
                scanner.value(file.name)
            if scanner.peek():
                return
    except UnreadableFile:
        return
    raise UnknownFormat(
        f"{file.name}: is one JSON object of no known tool; its fields are: {', '.join(names[:20])[:400]}"
    )


def _is_json_start(line: str) -> bool:
    """Whether a line begins an object and does not end it."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return len(line) < _FIRST_LINE_CHARACTERS
    return False


def _document_format(file: InputFile) -> str | None:
    """Whose document the file is, if it is one JSON object; ``None`` for objects in lines."""
    try:
        with translate_read_errors(file.name), file.open_text() as stream:
            scanner = JsonScanner(file.name, stream)
            for name in scanner.members():
                if name == "results" and scanner.peek() == "{":
                    return "promptfoo" if next(scanner.members(), None) in _PROMPTFOO_NAMES else None
                _, value = scanner.value(file.name)
                if name == "eval" and isinstance(value, dict) and "task" in value:
                    return "inspect"
    except UnreadableFile:
        pass
    return None


def battle_answers(path: str | os.PathLike[str], *, format: str | None = None) -> Iterator[Answer]:
    """Both answers of every battle that includes them and the prompt; other battles are skipped.

    Conversations of several turns are skipped, because their answers do not belong to one prompt.
    """
    records = open_records(path)
    found = detect(records) if format is None else find_format(format, records)
    found = found if found.answers_in else replace(found, answers_in=RESPONSES)
    for where, record in records.records():
        try:
            row = found.convert(record)
        except BadBattle as error:
            raise BadBattle(error.problem, where=where) from None
        prompt = _prompt(record)
        if isinstance(row, SkippedRecord) or prompt is None or row.get("question_id") is None:
            continue
        try:
            texts = found.answers(record)
        except BadBattle:
            continue
        for side, text in zip("ab", texts, strict=True):
            answer = {
                "prompt_id": str(row["question_id"]),
                "prompt": prompt,
                "model": row.get(f"model_{side}"),
                "response": text,
                "category": row.get("category"),
                "language": row.get("language"),
            }
            yield Answer.from_dict(answer, where)


def _prompt(record: Mapping[str, object]) -> str | None:
    """The prompt: a column, or the only question of a conversation."""
    for name in _PROMPTS:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            # The only turn of a prompt; the oldest data set stores prompts as a JSON list of turns.
            if value.lstrip().startswith("["):
                try:
                    listed = json.loads(value)
                except (ValueError, RecursionError):
                    return value
                if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
                    return listed[0] if len(listed) == 1 else None
            return value
    for name in _CONVERSATIONS:
        turns = _turns(record.get(name))
        asked = [turn.get("content") for turn in turns if turn.get("role") == "user"]
        if len(asked) == 1:
            return _text(asked[0])
    return None


def _turns(value: Any) -> list[Mapping[str, object]]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return [turn for turn in value if isinstance(turn, Mapping)] if isinstance(value, list) else []


def _text(content: Any) -> str | None:
    if isinstance(content, str):
        return content if content.strip() else None
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str)) or None
    return None
