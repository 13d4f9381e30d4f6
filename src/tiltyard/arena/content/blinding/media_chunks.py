"""Shared by all media parsers: limits, and the error for a file that cannot be parsed."""

from __future__ import annotations

from collections.abc import Iterator

from tiltyard.errors import InputError

#: Chunks, segments, blocks, frames or pages of one file.
PART_LIMIT = 1_000_000


def broken_media_error(what: str, at: int, problem: str) -> InputError:
    """What is wrong with a file, and where. ``what`` is what the file should be."""
    return InputError(f"these bytes are not a whole {what}: at byte {at}, {problem}; save it again")


def count_parts(what: str) -> Iterator[int]:
    """Counts the parts of one file; beyond `PART_LIMIT` it is an `InputError`."""
    yield from range(PART_LIMIT)
    raise InputError(
        f"these bytes are a {what} of more than {PART_LIMIT} parts; save it again in fewer, larger ones"
    )


def riff_chunks(
    what: str, data: bytes, at: int, end: int, counted: Iterator[int]
) -> Iterator[tuple[bytes, int, int]]:
    """Chunks between two places: the name of each, and where what it holds begins and ends."""
    for _ in counted:
        if at >= end:
            return
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if size > end - at - 8:
            raise broken_media_error(what, at, "a chunk runs past the end")
        yield data[at : at + 4], at + 8, at + 8 + size
        at += 8 + size + size % 2


def riff_chunk(name: bytes, held: bytes) -> bytes:
    """A chunk as it is written; it has an even length."""
    return name + len(held).to_bytes(4, "little") + held + bytes(len(held) % 2)


def riff_file(form: bytes, chunks: list[bytes]) -> bytes:
    """A whole file of these chunks."""
    size = len(form) + sum(map(len, chunks))
    return b"".join((b"RIFF", size.to_bytes(4, "little"), form, *chunks))
