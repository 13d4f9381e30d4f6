"""Reads members of zip archives that nobody vouches for: sizes are limited, checksums are checked."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import (
    ARCHIVE_BYTES,
    ARCHIVE_READ_BYTES,
    MEMBER_BYTES,
    MEMBER_LIMIT,
    InputFile,
    check_expansion,
    format_bytes,
    translate_read_errors,
)

_CHUNK_BYTES = 1 << 20
#: Zip's number of zstd, which Python's module reads from 3.14 on.
_ZSTD_CODE = 93
#: How members may be compressed. Decoders of others, LZMA and bzip2, take as much memory as a member tells them to.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTD_CODE)
#: A local header: its first four bytes, and where the lengths of name and extra field are.
_LOCAL = struct.Struct("<4s22xHH")
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError)


class ZipMembers:
    """An open archive. ``names`` are its members in order; of two with one name the later counts."""

    def __init__(self, name: str, stream: BinaryIO, archive: zipfile.ZipFile) -> None:
        self.name = name
        self._stream = stream
        self._packed_size = stream.seek(0, 2)
        self._archive = archive
        self._infos: Mapping[str, zipfile.ZipInfo] = {info.filename: info for info in archive.infolist()}
        self._size = 0
        self.names = tuple(self._infos)
        #: A name that two members have.
        names = archive.namelist()
        self.repeated = None if len(set(names)) == len(names) else Counter(names).most_common(1)[0][0]

    def __contains__(self, member: str) -> bool:
        return member in self._infos

    def where(self, member: str) -> str:
        """The location of a member, for messages."""
        return f"{self.name}, {member}"

    def stated_size(self, member: str) -> int:
        """The bytes that a member unpacks to, as the archive says; `read` checks that."""
        return self._infos[member].file_size

    def read(self, member: str) -> bytes:
        """The bytes of a member; raises if they are too many or not those that the archive lists."""
        info, where = self._infos[member], self.where(member)
        if info.file_size > MEMBER_BYTES:
            raise _too_large(where, MEMBER_BYTES)
        if info.compress_type not in _METHODS:
            raise UnreadableFile(f"{where}: compressed by a method that is not read; use Deflate or zstd")
        self._check_size(info.file_size)
        with translate_read_errors(where), _translate_zip_errors(where):
            data = b"".join(self._chunks(info, where))
            if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
                raise zipfile.BadZipFile("its checksum or size is wrong")
        return data

    def _chunks(self, info: zipfile.ZipInfo, where: str) -> Iterator[bytes]:
        size = 0
        with self._opened(info) as source:
            while chunk := source.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > MEMBER_BYTES:
                    raise _too_large(where, MEMBER_BYTES)
                self._check_size(len(chunk))
                self._size += len(chunk)
                yield chunk

    def _check_size(self, more: int) -> None:
        size = self._size + more
        if size > ARCHIVE_BYTES:
            raise _too_large(self.name, ARCHIVE_BYTES)
        check_expansion(self.name, size, self._packed_size, "if you trust it, compress it less")

    @contextmanager
    def _opened(self, info: zipfile.ZipInfo) -> Iterator[BinaryIO]:
        if info.compress_type != _ZSTD_CODE:
            with self._archive.open(info) as opened:
                yield opened  # type: ignore[misc]
            return
        if info.flag_bits & 1:
            raise RuntimeError("it is encrypted")
        with pa.CompressedInputStream(pa.BufferReader(self._packed(info)), "zstd") as unpacked:
            yield unpacked

    def _packed(self, info: zipfile.ZipInfo) -> bytes:
        """The compressed bytes, which follow the local header."""
        self._stream.seek(info.header_offset)
        magic, name_size, extra_size = _LOCAL.unpack(self._stream.read(_LOCAL.size))
        if magic != b"PK\x03\x04":
            raise zipfile.BadZipFile("no local header")
        if info.compress_size > MEMBER_BYTES:
            raise zipfile.BadZipFile(f"it has more than {format_bytes(MEMBER_BYTES)}")
        self._stream.seek(name_size + extra_size, 1)
        return self._stream.read(info.compress_size)


class _BoundedReads:
    """A stream for `zipfile`, which reads the directory in one piece, however large that states to be."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self._name = name
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int = -1, /) -> bytes:
        if size > ARCHIVE_READ_BYTES:
            raise UnreadableFile(f"{self._name}: the directory of the archive is too large; split it")
        return self._stream.read(ARCHIVE_READ_BYTES if size < 0 else size)

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Left to who opened the stream."""


def _too_large(where: str, limit: int) -> UnreadableFile:
    return UnreadableFile(f"{where}: unpacks to more than {format_bytes(limit)}; split it")


@contextmanager
def open_zip(file: InputFile) -> Iterator[ZipMembers]:
    """Open an uncompressed file as a zip archive."""
    with translate_read_errors(file.name), file.open() as stream:
        with _translate_zip_errors(file.name):
            archive = zipfile.ZipFile(_BoundedReads(file.name, stream))
            if len(archive.infolist()) > MEMBER_LIMIT:
                raise UnreadableFile(f"{file.name}: more than {MEMBER_LIMIT} members")
        with archive:
            yield ZipMembers(file.name, stream, archive)


@contextmanager
def _translate_zip_errors(where: str) -> Iterator[None]:
    try:
        yield
    except UnreadableFile:
        raise
    except _BROKEN as error:
        raise UnreadableFile(f"{where}: broken zip archive ({error}); the file may be truncated") from None
