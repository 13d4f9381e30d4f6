"""Reads an uploaded file of any format that tournaments read, or a zip archive of answers with images and audio.

Rows are read one by one, so that every bad row is reported, not only the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answers import LOG_FORMATS, OWN_FORMAT, AnswerSource, answer_columns, open_answers
from tiltyard.files.csv_reader import CsvRecords
from tiltyard.files.input_file import BOM, COMPRESSED, InputFile, translate_read_errors
from tiltyard.files.json_records import JsonLinesRecords, JsonListRecords, parse_object
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.zip_members import ZipMembers, open_zip

#: What messages call the file.
UPLOAD_NAME = "the file"

#: Parquet rows decoded at a time: a few bytes of a file can expand to a gigabyte.
_BATCH_ROWS = 32
#: Fields that the first word of a message (or the second, after "the") may name.
_FIELDS = frozenset({"prompt_id", "prompt", "model", "response", "kind", "category", "language"}) | {
    "gold",
    "expected_behavior",
    "source",
    "family",
    "maker",
    "truncated",
}
#: Columns that are read of a Parquet file.
_READ_COLUMNS = _FIELDS | {"messages", "trace", "system", "scores", "repeat", "finish_reason", "stop_reason"}
_ZIP = b"PK\x03\x04"
#: Formats that libraries in native code read: archives, workbooks and logs in them, Parquet.
NATIVE_FORMATS = (b"PK", b"PAR1")
_BLANK = BOM + b" \t\r\n"
#: Files of an archive that can be its answers.
_ANSWER_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
#: What some programs add to archives.
_IGNORED_PREFIX = "__MACOSX/"
_ARCHIVED_FILE_LIMIT = 20_000
_MAX_PATH_CHARACTERS = 400
#: Unknown fields that an import looks at.
_KEPT_FIELDS = ("finish_reason", "stop_reason")

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used. ``field`` is ``None`` if the row as a whole is bad."""

    where: str
    field: str | None
    problem: str
    #: Whether reading stopped at this row.
    last: bool = False


def answer_rows(path: Path, *, most: int) -> Iterator[tuple[str, Answer] | BadRow]:
    """Every row of an uncompressed file (JSON Lines, a JSON list, CSV or Parquet), good or bad, with its location.

    The first bytes determine the file type. Compressed files are rejected, because their size is
    unknown until they are unpacked. Reading stops when the rows exceed ``most`` bytes of text.
    """
    file, size = InputFile(UPLOAD_NAME, path, None), 0
    try:
        for where, record in _records(file, most):
            size += _size(record)
            if size > most:
                raise _unfolding(most)
            yield _answer_row(where, record)
    except InputError as error:
        yield bad_row(UPLOAD_NAME, error, last=True)


def bad_row(where: str, error: InputError, *, last: bool = False) -> BadRow:
    """The location, field and problem of a bad row, taken from an error."""
    place, problem = _plain(where), str(error)
    found, colon, rest = problem.partition(": ")
    if colon and (found == UPLOAD_NAME or found.startswith(f"{UPLOAD_NAME}, ")):
        place, problem = _plain(found), rest
    return BadRow(place, problem_field(problem), problem, last)


def _records(file: InputFile, most: int) -> Iterator[tuple[str, dict[str, object] | InputError]]:
    start = file.first_bytes()
    if start.startswith(tuple(COMPRESSED)):
        raise UnreadableFile(f"{UPLOAD_NAME}: the file is compressed; unpack it first")
    if start.startswith(b"PAR1"):
        return _parquet_rows(file, most)
    if start.startswith(b"["):
        return JsonListRecords.opened(file).records()
    if not start:
        raise UnreadableFile(f"{UPLOAD_NAME}: the file is empty; expected answers")
    if start.startswith(b"{"):
        return _caught(JsonLinesRecords(file).lines(), parse_object)
    table = CsvRecords.opened(file)
    return _caught(table.lines(), table.record)


def _parquet_rows(file: InputFile, most: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Row by row. Repeated values stay dictionary codes until their row is read."""
    opened, number = ParquetRecords.opened(file), 0
    if opened.unpacked() > most:
        raise _unfolding(most)
    columns = [name for name in opened.columns if name in _READ_COLUMNS]
    for batch in opened.batches(columns, _BATCH_ROWS, columns):
        for k in range(batch.num_rows):
            number += 1
            where = f"{UPLOAD_NAME}, row {number}"
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


def _answer_row(where: str, record: dict[str, object] | InputError) -> tuple[str, Answer] | BadRow:
    if isinstance(record, InputError):
        return bad_row(where, record)
    try:
        return _plain(where), Answer.from_dict(record, where)
    except InputError as error:
        return bad_row(where, error)


def _size(record: dict[str, object] | InputError) -> int:
    if isinstance(record, InputError):
        return 0
    return sum(len(text.encode(errors="surrogatepass")) for text in record.values() if isinstance(text, str))


def _unfolding(most: int) -> UnreadableFile:
    return UnreadableFile(
        f"{UPLOAD_NAME}: it expands to more than {most} bytes; split it, or import it with tiltyard serve"
    )


def _plain(where: str) -> str:
    return where.removeprefix(f"{UPLOAD_NAME}, ")


def problem_field(problem: str) -> str | None:
    """The field that a message is about: messages about a row begin with it."""
    word = problem.removeprefix("the ").partition(" ")[0]
    if word in _FIELDS:
        return word
    return "response" if problem.startswith("these bytes") else None


def has_native_format(data: bytes) -> bool:
    """Whether a file is read by native code; its first bytes say so. Text is read by Python."""
    return data[:4096].lstrip(_BLANK).startswith(NATIVE_FORMATS)


@dataclass
class UploadReader:
    """Reads one file. ``folder`` is an empty one, where the files of an archive are put.

    ``most`` limits the bytes that the file may unpack to. The other fields are set by `rows`: from the first row on,
    but for what was left out, which is known at the end.
    """

    path: Path
    folder: Path
    most: int
    format: str = OWN_FORMAT
    #: The folder of files that rows may name.
    beside: Path | None = None
    #: Reasons why records were left out, with how many.
    left_out: list[tuple[str, int]] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, Answer] | BadRow]:
        """The answers with their places, and what is wrong with others. Nothing is raised."""
        try:
            for row in self._rows():
                yield row if isinstance(row, BadRow) else (row[0], _without_unused(row[1]))
        except InputError as error:
            problem = str(error).replace(str(self.path), UPLOAD_NAME)
            yield bad_row(UPLOAD_NAME, InputError(problem), last=True)

    def _rows(self) -> Iterator[tuple[str, Answer] | BadRow]:
        with self.path.open("rb") as file:
            start = file.read(4)
        if start == _ZIP and self._is_answers_archive():
            # Unpack an archive and read its answers; responses that are not text are files beside them.
            with open_zip(InputFile(UPLOAD_NAME, self.path, None)) as archive:
                members = [one for one in archive.names if not one.endswith("/") and not _is_ignored(one)]
                # The one file of answers, which lies nearest to the root.
                found = [one for one in members if one.lower().endswith(_ANSWER_SUFFIXES)]
                depth = min((one.count("/") for one in found), default=0)
                nearest = [one for one in found if one.count("/") == depth]
                if len(nearest) != 1:
                    listed = ", ".join(repr(one[:100]) for one in nearest[:5]) or "none"
                    raise UnreadableFile(
                        f"{UPLOAD_NAME}: an archive needs one file of answers (JSON Lines, CSV or Parquet) beside its images and "
                        f"audio; there are: {listed}"
                    )
                answers = nearest[0]
                self._unpack(archive, members)
            self.format, self.beside = "zip", (self.folder / answers).parent
            return answer_rows(self.folder / answers, most=self.most)
        source = None if start.startswith(tuple(COMPRESSED)) else self._foreign_source()
        return answer_rows(self.path, most=self.most) if source is None else self._foreign_rows(source)

    def _foreign_source(self) -> AnswerSource | None:
        """The answers of another tool's file; ``None`` for our own, also if it lacks columns or cannot be read."""
        try:
            source = open_answers(self.path)
            if source.format == OWN_FORMAT:
                return None
            is_log = source.format in LOG_FORMATS
            return source if is_log or "prompt_id" not in answer_columns(self.path) else None
        except InputError:
            return None

    def _foreign_rows(self, source: AnswerSource) -> Iterator[tuple[str, Answer]]:
        self.format = source.format
        skipped = size = 0
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
                yield f"answer {number}", answer
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

    def _unpack(self, archive: ZipMembers, members: list[str]) -> None:
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
            place = self.folder / path
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
