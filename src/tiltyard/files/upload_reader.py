"""Reads a file of answers for an arena: of any format that tournaments read, or in a zip archive with images and audio.

Rows are read one by one, so that every bad row is reported, not only the first. What a table's columns hold is asked
unless its headers are documented ones.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answer import ANSWER_FIELDS, Answer
from tiltyard.files.answer_formats.answer_columns import (
    SAMPLED_ROWS,
    ColumnChoice,
    TableColumns,
    table_columns,
)
from tiltyard.files.answer_formats.answer_tables import AnswerTable
from tiltyard.files.answers import LOG_FORMATS, OWN_FORMAT, AnswerSource, is_own_table, open_answers
from tiltyard.files.format_detection import open_input_records
from tiltyard.files.input_file import BOM, COMPRESSED, InputFile, open_input, translate_read_errors
from tiltyard.files.json_records import JsonLinesRecords, JsonListRecords, parse_object
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.read_options import with_headers
from tiltyard.files.row_reader import CsvRecords
from tiltyard.files.xlsx_records import XlsxRecords
from tiltyard.files.zip_members import ZipMembers, open_zip

#: What messages call the file.
UPLOAD_NAME = "the file"

#: Parquet rows decoded at a time: a few bytes of a file can expand to a gigabyte.
_BATCH_ROWS = 32
#: Bytes of records that the columns of a table are proposed from.
_SAMPLED_BYTES = 16 << 20
_ZIP = b"PK\x03\x04"
#: Formats that libraries in native code read: archives, workbooks and logs in them, Parquet.
NATIVE_FORMATS = (b"PK", b"PAR1")
_BLANK = BOM + b" \t\r\n"
#: Files of an archive that can be its answers.
_ANSWER_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx")
#: Formats whose files do not name their model: it is in the name of a folder, which an upload has not.
_NAMELESS_FORMATS = frozenset({"lm-eval"})
#: What some programs add to archives.
_IGNORED_PREFIX = "__MACOSX/"
_ARCHIVED_FILE_LIMIT = 20_000
_MAX_PATH_CHARACTERS = 400
#: Unknown fields that an import looks at, and the columns that are read of a Parquet file of our own.
_KEPT_FIELDS = ("finish_reason", "stop_reason")
_READ_COLUMNS = ANSWER_FIELDS | set(_KEPT_FIELDS)

Line = TypeVar("Line")
#: Makes answers of a record and its place.
RecordReader = Callable[[str, dict[str, object]], Iterator[Answer]]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used. ``field`` is ``None`` if the row as a whole is bad."""

    where: str
    field: str | None
    problem: str
    #: Whether reading stopped at this row.
    last: bool = False


def _own_answers(where: str, record: dict[str, object]) -> Iterator[Answer]:
    yield Answer.from_dict(record, where)


def answer_rows(
    file: InputFile | Path, *, most: float, read: RecordReader = _own_answers
) -> Iterator[tuple[str, Answer] | BadRow]:
    """Every row of a file, good or bad, with its location; unless it is ``read`` otherwise, of our own format.

    The first bytes determine the file type. Reading stops when the rows exceed ``most`` bytes of text.
    """
    file, size = InputFile(UPLOAD_NAME, file, None) if isinstance(file, Path) else file, 0
    try:
        for where, record in _records(file, most, _READ_COLUMNS if read is _own_answers else None):
            size += _size(record)
            if size > most:
                raise _unfolding(most)
            try:
                if isinstance(record, InputError):
                    raise record
                for answer in read(where, record):
                    yield _plain(where), answer
            except InputError as error:
                yield bad_row(where, error)
    except InputError as error:
        yield bad_row(file.name, error, last=True)


def bad_row(where: str, error: InputError, *, last: bool = False) -> BadRow:
    """The location, field and problem of a bad row, taken from an error."""
    place, problem = _plain(where), str(error)
    found, colon, rest = problem.partition(": ")
    if colon and (found in (UPLOAD_NAME, where) or found.startswith(f"{UPLOAD_NAME}, ")):
        place, problem = _plain(found), rest
    return BadRow(place, problem_field(problem), problem, last)


def _records(
    file: InputFile, most: float, wanted: Collection[str] | None = None
) -> Iterator[tuple[str, dict[str, object] | InputError]]:
    """The records of any container; of Parquet the ``wanted`` columns."""
    start = file.first_bytes()
    if start.startswith(tuple(COMPRESSED)):
        raise UnreadableFile(f"{file.name}: the file is compressed; unpack it first")
    if start.startswith(b"PAR1"):
        return _parquet_rows(file.decompressed(), most, wanted)
    if start.startswith(b"PK"):
        sheet = XlsxRecords.opened(file.decompressed())
        return with_headers(sheet, {name: name.strip() for name in sheet.columns}).records()
    if start.startswith(b"["):
        return JsonListRecords.opened(file).records()
    if not start:
        raise UnreadableFile(f"{file.name}: the file is empty; expected answers")
    if start.startswith(b"{"):
        return _caught(JsonLinesRecords(file).lines(), parse_object)
    table = CsvRecords.opened(file)
    return _caught(table.lines(), table.record)


def _parquet_rows(
    file: InputFile, most: float, wanted: Collection[str] | None
) -> Iterator[tuple[str, dict[str, object]]]:
    """Row by row. Repeated values stay dictionary codes until their row is read."""
    opened, number = ParquetRecords.opened(file), 0
    if opened.unpacked() > most:
        raise _unfolding(most)
    columns = [name for name in opened.columns if wanted is None or name in wanted]
    for batch in opened.batches(columns, _BATCH_ROWS, columns):
        for k in range(batch.num_rows):
            number += 1
            where = f"{file.name}, row {number}"
            with translate_read_errors(where):
                (row,) = batch.slice(k, 1).to_pylist()
            yield where, {name: value for name, value in row.items() if value is not None}


def _caught(
    lines: Iterable[tuple[str, Line]], parse: Callable[[str, Line], dict[str, object]]
) -> Iterator[tuple[str, dict[str, object] | InputError]]:
    """Parse each line; what is wrong with one is an error in its place."""
    for where, line in lines:
        try:
            yield where, parse(where, line)
        except InputError as error:
            yield where, error


def _size(record: dict[str, object] | InputError) -> int:
    if isinstance(record, InputError):
        return 0
    return sum(len(text.encode(errors="surrogatepass")) for text in record.values() if isinstance(text, str))


def _unfolding(most: float) -> UnreadableFile:
    return UnreadableFile(
        f"{UPLOAD_NAME}: it expands to more than {most} bytes; split it, or import it with tiltyard serve"
    )


def _plain(where: str) -> str:
    return where.removeprefix(f"{UPLOAD_NAME}, ")


def problem_field(problem: str) -> str | None:
    """The field that a message is about: messages about a row begin with it."""
    word = problem.removeprefix("the ").partition(" ")[0]
    if word in ANSWER_FIELDS:
        return word
    return "response" if problem.startswith("these bytes") else None


def has_native_format(data: bytes) -> bool:
    """Whether a file is read by native code; its first bytes say so. Text is read by Python."""
    return data[:4096].lstrip(_BLANK).startswith(NATIVE_FORMATS)


@dataclass
class UploadReader:
    """Reads one file. ``folder`` is an empty one, where the files of an archive are put.

    ``most`` limits the bytes that the file may unpack to; a ``local`` file is trusted: it may be compressed, and messages
    have its name. ``choice`` says what the columns hold. The other fields are set by `rows`: from the first row on, but
    for what was left out, which is known at the end.
    """

    path: Path
    folder: Path | None
    most: float
    choice: ColumnChoice | None = None
    local: bool = False
    format: str = OWN_FORMAT
    #: The folder of files that rows may name.
    beside: Path | None = None
    #: What is known of the columns of a table; nothing of our own format.
    columns: TableColumns | None = None
    #: Reasons why records were left out, with how many.
    left_out: list[tuple[str, int]] = field(default_factory=list)

    @property
    def shown_name(self) -> str:
        """What messages call the file."""
        return str(self.path) if self.local else UPLOAD_NAME

    def rows(self) -> Iterator[tuple[str, Answer] | BadRow]:
        """The answers with their places, and what is wrong with others. Nothing is raised.

        If its `columns` ask, they are what the proposed columns give, to be looked at.
        """
        try:
            for row in self._rows():
                yield row if isinstance(row, BadRow) else (row[0], _without_unused(row[1]))
        except InputError as error:
            problem = str(error).replace(str(self.path), self.shown_name)
            yield bad_row(self.shown_name, InputError(problem), last=True)

    def _rows(self) -> Iterator[tuple[str, Answer] | BadRow]:
        path = self._answers_path()
        file = open_input(path) if self.local else InputFile(UPLOAD_NAME, path, None)
        source = self._log(path, file)
        if source is not None:
            return self._log_rows(source)
        try:
            opened = open_input_records(file)
            names = [name.strip() if opened.kind == "xlsx" else name for name in opened.columns]
        except InputError:
            names = []
        sample = [] if is_own_table(names) else self._sample(file)
        names = [name for name in dict.fromkeys(itertools.chain(names, *sample)) if name.strip()]
        if not names or is_own_table(names):
            return answer_rows(file, most=self.most)
        if len(names) == 1:
            raise UnreadableFile(
                f"{self.shown_name}: has one column; an answer has a prompt, a model and a response"
            )
        self.format, self.columns = "table", table_columns(names, sample, self.choice)
        return iter(()) if self.columns.problem else self._table_rows(file, self.columns.table())

    def _answers_path(self) -> Path:
        """The file of answers: this one, or that of an archive, which is unpacked."""
        with self.path.open("rb") as stream:
            start = stream.read(4)
        if start != _ZIP or self.folder is None or not self._is_answers_archive():
            return self.path
        with open_zip(InputFile(UPLOAD_NAME, self.path, None)) as archive:
            members = [one for one in archive.names if not one.endswith("/") and not _is_ignored(one)]
            # The one file of answers, which lies nearest to the root.
            found = [one for one in members if one.lower().endswith(_ANSWER_SUFFIXES)]
            depth = min((one.count("/") for one in found), default=0)
            nearest = [one for one in found if one.count("/") == depth]
            if len(nearest) != 1:
                listed = ", ".join(repr(one[:100]) for one in nearest[:5]) or "none"
                raise UnreadableFile(
                    f"{UPLOAD_NAME}: an archive needs one file of answers (JSON Lines, CSV, Excel or Parquet) beside its images "
                    f"and audio; there are: {listed}"
                )
            self._unpack(archive, members, self.folder)
        self.format, self.beside = "zip", (self.folder / nearest[0]).parent
        return self.folder / nearest[0]

    def _log(self, path: Path, file: InputFile) -> AnswerSource | None:
        """The answers of a log of another tool; ``None`` for tables, and for what cannot be read."""
        if not self.local and file.first_bytes().startswith(tuple(COMPRESSED)):
            return None
        try:
            source = open_answers(path, model=self.choice.only_model if self.choice else None)
        except InputError:
            return None
        if source.format not in LOG_FORMATS:
            return None
        if source.format in _NAMELESS_FORMATS and not self.local:
            problem = None if source.model else "the file does not name its model; name it"
            self.columns = TableColumns(clear=True, only_model=source.model, problem=problem)
        return source

    def _sample(self, file: InputFile) -> list[dict[str, object]]:
        """The first records that can be read."""
        sample, size = [], 0
        for _, record in itertools.islice(_records(file, self.most), SAMPLED_ROWS):
            size += _size(record)
            if not isinstance(record, InputError):
                sample.append(record)
            if size > _SAMPLED_BYTES:
                break
        return sample

    def _table_rows(self, file: InputFile, table: AnswerTable) -> Iterator[tuple[str, Answer] | BadRow]:
        tally, repeats = Counter[str](), Counter[tuple[str, str]]()

        def read(where: str, record: dict[str, object]) -> Iterator[Answer]:
            for answer in table.read(where, record, table.only_model or "", tally, repeats):
                if answer.comparable:
                    yield answer
                else:
                    tally["is another response of the same model to the same prompt"] += 1

        try:
            yield from answer_rows(file, most=self.most, read=read)
        finally:
            self.left_out += tally.most_common()

    def _log_rows(self, source: AnswerSource) -> Iterator[tuple[str, Answer]]:
        self.format = source.format
        skipped = size = 0
        if self.columns is not None and self.columns.problem:
            return
        try:
            for number, answer in enumerate(source.answers(), start=1):
                if not answer.comparable:
                    skipped += 1
                    continue
                size += len(answer.prompt) + len(answer.response)
                if size > self.most:
                    raise UnreadableFile(
                        f"{UPLOAD_NAME}: it has more than {self.most} bytes of answers; split it"
                    )
                yield f"{self.path}, answer {number}" if self.local else f"answer {number}", answer
        finally:
            self.left_out += source.notes
            if skipped:
                self.left_out.append(("repetitions, and answers with scores only", skipped))

    def _is_answers_archive(self) -> bool:
        """Whether a zip archive has a file of answers; a log of Inspect and a workbook have their own readers."""
        try:
            open_answers(self.path)
        except InputError:
            return True
        return False

    def _unpack(self, archive: ZipMembers, members: list[str], folder: Path) -> None:
        if len(members) > _ARCHIVED_FILE_LIMIT:
            raise UnreadableFile(f"{UPLOAD_NAME}: it has more than {_ARCHIVED_FILE_LIMIT} files; split it")
        if archive.repeated is not None:
            raise UnreadableFile(
                f"{UPLOAD_NAME}: it has two files with the name {archive.repeated[:100]!r}; remove one"
            )
        if sum(map(archive.stated_size, members)) > self.most:
            raise UnreadableFile(f"{UPLOAD_NAME}: it expands to more than {self.most} bytes; split it")
        for member in members:
            path = PurePosixPath(member)
            wrong = path.is_absolute() or ".." in path.parts or "\\" in member or not member.isprintable()
            if wrong or len(member) > _MAX_PATH_CHARACTERS:
                raise UnreadableFile(
                    f"{UPLOAD_NAME}: {member[:100]!r} is no name of a file below the archive; rename it"
                )
            place = folder / path
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(archive.read(member))
            except OSError as error:
                raise UnreadableFile(
                    f"{UPLOAD_NAME}: {member[:100]!r} cannot be unpacked: {error.strerror or 'wrong name'}"
                ) from None


def _without_unused(answer: Answer) -> Answer:
    kept = {name: answer.extra[name] for name in _KEPT_FIELDS if isinstance(answer.extra.get(name), str)}
    return replace(answer, extra=kept)


def _is_ignored(member: str) -> bool:
    return member.startswith(_IGNORED_PREFIX) or PurePosixPath(member).name.startswith(".")
