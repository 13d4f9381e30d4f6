"""Changes seeds as a fuzzer does: bytes, pieces, numbers and words, and the members of archives."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence

#: Numbers at the edges of what parsers count with.
_NUMBERS = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
)
_WORDS = (
    b"NaN", b"-Infinity", b"null", b"true", b"{}", b"[]", b'""', b"\\ud800", b"\\u0000", b"1e999", b"-0", b"9" * 400,
    b"[" * 300, b'{"a":' * 60, b'"' * 3, b"\xff\xfe", b"\xef\xbb\xbf", b"\0", b"\r", b"\n", b"\r\n", b",", b"\t", b"../",
    b"/etc/passwd", b"model_a", b"tie", b"PAR1", b"PK\3\4", b"\x1f\x8b", b"<!DOCTYPE a>", b"&a;", b"data:image/png;base64,",
)  # fmt: skip
_MOST_BYTES = 1 << 16


def mutate(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """One of the seeds, changed a few times; of archives mostly a member."""
    data = rng.choice(seeds)
    if data.startswith(b"PK") and rng.random() < 0.7:
        return _with_changed_member(data, seeds, rng)
    changed = _changed(data, seeds, rng)
    if data.startswith(b"\x1f\x8b") and rng.random() < 0.5:
        return _repacked_gzip(data, seeds, rng)
    return _mended_png(changed) if data.startswith(b"\x89PNG") and rng.random() < 0.8 else changed


def _changed(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    for _ in range(1 << rng.randrange(5)):
        data = rng.choice(_CHANGES)(data, seeds, rng)
    return data[:_MOST_BYTES]


def _flip(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]


def _set(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return (
        data[:at]
        + bytes((rng.choice((0, 1, 0x20, 0x22, 0x7F, 0x80, 0xFF, rng.randrange(256))),))
        + data[at + 1 :]
    )


def _number(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    size, at = rng.choice((1, 2, 4, 8)), rng.randrange(len(data) + 1)
    order = rng.choice(("little", "big"))
    value = (rng.choice(_NUMBERS) % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]
    return data[:at] + value + data[at + size :]


def _cut(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randrange(1, 64) :]


def _truncate(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data


def _repeat(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.randrange(1, 200)]
    return data[:start] + piece * rng.choice((2, 3, 20)) + data[start + len(piece) :]


def _word(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_WORDS) + data[at + rng.randrange(3) :]


def _digits(data: bytes, _seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Another number in the place of one that is written out."""
    places = [at for at, byte in enumerate(data) if 48 <= byte < 58]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + str(rng.choice((-1, *_NUMBERS, 10**400, 1e308))).encode() + data[at + 1 :]


def _splice(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(seeds)
    start, end = sorted((rng.randrange(len(other) + 1), rng.randrange(len(other) + 1)))
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[start:end] + data[at:]


_Change = Callable[[bytes, Sequence[bytes], random.Random], bytes]
_CHANGES: tuple[_Change, ...] = (
    _flip,
    _flip,
    _set,
    _number,
    _number,
    _cut,
    _truncate,
    _repeat,
    _word,
    _digits,
    _splice,
)


def _with_changed_member(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """The archive with one member changed, under its name or another, and its checksum right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, NotImplementedError, zlib.error, OSError, EOFError):
        return _changed(data, seeds, rng)
    stream, chosen = io.BytesIO(), rng.randrange(max(1, len(members)))
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore")
        for number, (name, held) in enumerate(members):
            new = _changed(held, [held for _, held in members], rng) if number == chosen else held
            method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            archive.writestr(zipfile.ZipInfo(name), new, method)
            if rng.random() < 0.05:
                archive.writestr(zipfile.ZipInfo(name + rng.choice(("", "x", "/../x"))), new, method)
    return stream.getvalue()


def _repacked_gzip(data: bytes, seeds: Sequence[bytes], rng: random.Random) -> bytes:
    try:
        plain = zlib.decompress(data, 31)
    except zlib.error:
        return data
    packer = zlib.compressobj(wbits=31)
    return packer.compress(_changed(plain, seeds[:1], rng)) + packer.flush()


def _mended_png(data: bytes) -> bytes:
    """Checksums that fit: without them, nothing behind them is ever read."""
    kept, at = [data[:8]], 8
    while at + 12 <= len(data):
        size = struct.unpack(">I", data[at : at + 4])[0]
        if at + 12 + size > len(data):
            break
        body = data[at + 4 : at + 8 + size]
        kept.append(data[at : at + 4] + body + struct.pack(">I", zlib.crc32(body)))
        at += 12 + size
    return b"".join(kept) + data[at:]
