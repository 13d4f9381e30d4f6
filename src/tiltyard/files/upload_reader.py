"""Reads an uploaded file of any format that tournaments read, or a zip archive of answers with images and audio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answer_file_rows import BadRow, answer_rows, bad_row
from tiltyard.files.answers import LOG_FORMATS, OWN_FORMAT, AnswerSource, answer_columns, open_answers
from tiltyard.files.input_file import InputFile
from tiltyard.files.zip_members import ZipMembers, open_zip

#: What messages call the file.
UPLOAD_NAME = "the file"

_ZIP = b"PK\x03\x04"
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
#: Formats that libraries in native code read: archives, workbooks and logs in them, Parquet.
_NATIVE = (b"PK", b"PAR1")
_BLANK = b"\xef\xbb\xbf \t\r\n"
#: Files of an archive that can be its answers.
_ANSWER_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
#: What some programs add to archives.
_IGNORED_PREFIX = "__MACOSX/"
_ARCHIVED_FILE_LIMIT = 20_000
_MAX_PATH_CHARACTERS = 400
#: Unknown fields that an import looks at.
_KEPT_FIELDS = ("finish_reason", "stop_reason")


def has_native_format(data: bytes) -> bool:
    """Whether a file is read by native code; its first bytes say so. Text is read by Python."""
    return data[:4096].lstrip(_BLANK).startswith(_NATIVE)


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
            return self._archive_rows()
        source = None if start.startswith(_PACKED) else self._foreign_source()
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

    def _archive_rows(self) -> Iterator[tuple[str, Answer] | BadRow]:
        """Unpack an archive and read its answers; responses that are not text are files beside them."""
        with open_zip(InputFile(UPLOAD_NAME, self.path, None)) as archive:
            members = [one for one in archive.names if not one.endswith("/") and not _is_ignored(one)]
            answers = _answers_member(members)
            self._unpack(archive, members)
        self.format, self.beside = "zip", (self.folder / answers).parent
        return answer_rows(self.folder / answers, most=self.most)

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
            place = self.folder / _checked_path(member)
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


def _answers_member(members: list[str]) -> str:
    """The one file of answers, which lies nearest to the root."""
    found = [one for one in members if one.lower().endswith(_ANSWER_SUFFIXES)]
    depth = min((one.count("/") for one in found), default=0)
    nearest = [one for one in found if one.count("/") == depth]
    if len(nearest) != 1:
        listed = ", ".join(repr(one[:100]) for one in nearest[:5]) or "none"
        raise UnreadableFile(
            f"{UPLOAD_NAME}: an archive needs one file of answers (JSON Lines, CSV or Parquet) beside its images and "
            f"audio; there are: {listed}"
        )
    return nearest[0]


def _checked_path(member: str) -> PurePosixPath:
    path = PurePosixPath(member)
    wrong = path.is_absolute() or ".." in path.parts or "\\" in member or not member.isprintable()
    if wrong or len(member) > _MAX_PATH_CHARACTERS:
        raise UnreadableFile(
            f"{UPLOAD_NAME}: {member[:100]!r} is no name of a file below the archive; rename it"
        )
    return path


def _is_ignored(member: str) -> bool:
    return member.startswith(_IGNORED_PREFIX) or PurePosixPath(member).name.startswith(".")
