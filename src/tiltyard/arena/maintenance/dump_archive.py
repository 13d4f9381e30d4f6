"""Archives of pg_dump, without the column options that only one server understands.

PostgreSQL 15.20 keeps an option of its own, ``pg_attver``, with every column. A pg_dump that does not
know it writes ``ALTER TABLE … ALTER COLUMN … SET (pg_attver=…)``, which other servers refuse.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

#: Column options that PostgreSQL documents: every supported server takes them.
_PUBLIC_OPTIONS = (b"n_distinct", b"n_distinct_inherited")
_STATEMENTS = (b"ALTER TABLE ONLY ", b"ALTER FOREIGN TABLE ONLY ")
_SET = b" SET ("
_MAGIC = b"PGDMP"
_CUSTOM_FORMAT_CODE = 1
#: Versions of the archive format that pg_dump 15 to 18 write; see pg_backup_archiver.c, ReadHead and ReadToc.
_ARCHIVE_VERSIONS = ((1, 14), (1, 15), (1, 16))
_BYTE_COMPRESSION_VERSION = (1, 15)
_STORED_KIND_VERSION = (1, 16)


def remove_private_options(archive: Path) -> None:
    """Take such options out of an archive made by ``pg_dump -Fc``.

    The text is overwritten by as many spaces, so that everything else stays where it is. An archive of
    an unknown version is left alone: pg_restore says what is wrong with it.
    """
    with archive.open("r+b") as file:
        try:
            definitions = _read_definitions(file)
        except (EOFError, ValueError, OverflowError):
            return
        for offset, definition in definitions:
            kept = without_private_options(definition)
            if kept != definition:
                file.seek(offset)
                file.write(kept)


def without_private_options(sql: bytes) -> bytes:
    """The same statements, as long as before, with spaces in place of options that are a server's own."""
    return b"\n".join(_without_options(line) for line in sql.split(b"\n"))


def _without_options(line: bytes) -> bytes:
    head, found, tail = line.rpartition(_SET)
    if not (found and line.startswith(_STATEMENTS) and b" ALTER COLUMN " in head and tail.endswith(b");")):
        return line
    options = tail[:-2].split(b", ")
    public = [option for option in options if option.partition(b"=")[0] in _PUBLIC_OPTIONS]
    if public == options:
        return line
    kept = head + found + b", ".join(public) + b");" if public else b""
    return kept.ljust(len(line))


def _read_definitions(file: BinaryIO) -> list[tuple[int, bytes]]:
    """The SQL that defines each entry of the table of contents, and where in the file it is."""
    archive = _Archive(file)
    found = []
    for _ in range(archive.read_integer()):
        archive.read_integer()  # its number
        archive.read_integer()  # whether it has data
        for _name in ("table's oid", "oid", "tag", "description"):
            archive.read_text()
        archive.read_integer()  # section
        size = archive.read_integer()
        if size > 0:
            found.append((file.tell(), archive.read(size)))
        for _name in ("drop", "copy", "schema", "tablespace", "access method"):
            archive.read_text()
        if archive.version >= _STORED_KIND_VERSION:
            archive.read_integer()
        for _name in ("owner", "with oids"):
            archive.read_text()
        while archive.read_text() is not None:
            pass  # what it depends on
        archive.read(1 + archive.offset_size)
    return found


class _Archive:
    """The head of an archive, and the values that follow it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, 2)
        file.seek(0)
        if self.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("not an archive of pg_dump")
        major, minor, _, self._integer_size, self.offset_size, kind = self.read(6)
        self.version = (major, minor)
        if self.version not in _ARCHIVE_VERSIONS or kind != _CUSTOM_FORMAT_CODE:
            raise ValueError("an archive of another version or format")
        if self.version >= _BYTE_COMPRESSION_VERSION:
            self.read(1)
        else:
            self.read_integer()
        for _ in range(7):
            self.read_integer()  # when it was made
        for _name in ("database", "version of the server", "version of pg_dump"):
            self.read_text()

    def read(self, size: int) -> bytes:
        # Memory is taken for as much as is asked for, and a damaged archive may ask for anything.
        if not 0 <= size <= self._size - self._file.tell():
            raise EOFError
        return self._file.read(size)

    def read_integer(self) -> int:
        negative, *digits = self.read(1 + self._integer_size)
        value = int.from_bytes(bytes(digits), "little")
        return -value if negative else value

    def read_text(self) -> bytes | None:
        size = self.read_integer()
        return None if size < 0 else self.read(size)
