"""Ogg audio: Vorbis and Opus, with empty comments."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tiltyard.arena.content.blinding.media_chunks import broken_media_error, count_parts
from tiltyard.errors import InputError

_OGG = "Ogg sound"
_CONTINUED_FLAG, _FIRST_PAGE_FLAG = 0x01, 0x02
_NO_PACKET_ENDS = b"\xff" * 8
#: By the first bytes of a stream: how its headers begin, one of them the comments; and empty comments.
_CODECS: dict[bytes, tuple[tuple[bytes, ...], bytes]] = {
    b"\x01vorbis": ((b"\x01vorbis", b"\x03vorbis", b"\x05vorbis"), b"\x03vorbis" + bytes(8) + b"\x01"),
    b"OpusHead": ((b"OpusHead", b"OpusTags"), b"OpusTags" + bytes(8)),
}
_COMMENT_HEADER_INDEX = 1
#: Every byte with its bits in the other order.
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class _Page:
    at: int
    flags: int
    granule: bytes
    serial: bytes
    lacing: bytes
    body: bytes


@dataclass(slots=True)
class _Stream:
    """One sound. Its headers are gathered, and written anew; then its pages follow, numbered on."""

    serial: bytes
    starts: tuple[bytes, ...]
    comments: bytes
    headers: list[bytes] = field(default_factory=list)
    #: The start of a header that continues on the next page.
    begun: bytearray = field(default_factory=bytearray)
    pages: int = 0

    def is_headed(self) -> bool:
        return len(self.headers) == len(self.starts)

    def take(self, page: _Page) -> Iterator[bytes]:
        """What is written once this page is known."""
        if self.is_headed():
            yield self._written(page.flags, page.granule, page.lacing, page.body)
            return
        self._gather(page)
        if self.is_headed():
            first, *others = self.headers
            others[_COMMENT_HEADER_INDEX - 1] = self.comments
            yield self._written(_FIRST_PAGE_FLAG, bytes(8), _lacing(first), first)
            yield from self._packed(others)

    def _gather(self, page: _Page) -> None:
        at = 0
        for size in page.lacing:
            if self.is_headed():
                raise broken_media_error(_OGG, page.at, "sound begins on the page of its headers")
            self.begun += page.body[at : at + size]
            at += size
            if size < 255:
                packet = bytes(self.begun)
                if not packet.startswith(self.starts[len(self.headers)]):
                    raise broken_media_error(_OGG, page.at, "a header is missing, or not in its place")
                self.headers.append(packet)
                self.begun.clear()

    def _packed(self, packets: list[bytes]) -> Iterator[bytes]:
        """Packets one after another, on as many pages as they need."""
        lacing, body, at, flags = b"".join(map(_lacing, packets)), b"".join(packets), 0, 0
        for start in range(0, len(lacing), 255):
            part = lacing[start : start + 255]
            size = sum(part)
            granule = bytes(8) if min(part) < 255 else _NO_PACKET_ENDS
            yield self._written(flags, granule, part, body[at : at + size])
            at += size
            flags = _CONTINUED_FLAG if part[-1] == 255 else 0

    def _written(self, flags: int, granule: bytes, lacing: bytes, body: bytes) -> bytes:
        head = b"OggS\0" + bytes((flags,)) + granule + self.serial + self.pages.to_bytes(4, "little")
        tail = bytes((len(lacing),)) + lacing + body
        self.pages += 1
        return head + _checksum(head + bytes(4) + tail) + tail


def strip_ogg_metadata(data: bytes) -> bytes:
    """An Ogg sound, or several one after another, whose comments are empty."""
    kept = list[bytes]()
    stream: _Stream | None = None
    for page in _pages(data):
        if page.flags & _FIRST_PAGE_FLAG:
            _check_headed(stream, page.at)
            stream = _opened(page)
        if stream is None or page.serial != stream.serial:
            raise broken_media_error(_OGG, page.at, "a page belongs to no stream, or to a second one at once")
        kept += stream.take(page)
    _check_headed(stream, len(data))
    return b"".join(kept)


def _check_headed(stream: _Stream | None, at: int) -> None:
    if stream is not None and not stream.is_headed():
        raise broken_media_error(_OGG, at, "a stream ends before its headers do")


def _opened(page: _Page) -> _Stream:
    for start, (starts, comments) in _CODECS.items():
        if page.body.startswith(start):
            return _Stream(page.serial, starts, comments)
    raise InputError(
        f"these bytes are Ogg with something other than Vorbis or Opus in it, at byte {page.at}; "
        "convert the sound to one of these"
    )


def _pages(data: bytes) -> Iterator[_Page]:
    at = 0
    for _ in count_parts(_OGG):
        head = data[at : at + 27]
        if not head.startswith(b"OggS\0") or len(head) < 27:
            raise broken_media_error(_OGG, at, "there is no page")
        start = at + 27 + head[26]
        lacing = data[at + 27 : start]
        end = start + sum(lacing)
        if len(lacing) < head[26] or end > len(data):
            raise broken_media_error(_OGG, at, "a page runs past the end")
        if _checksum(data[at : at + 22] + bytes(4) + data[at + 26 : end]) != head[22:26]:
            raise broken_media_error(_OGG, at, "the checksum of a page is wrong")
        yield _Page(at, head[5], head[6:14], head[14:18], lacing, data[start:end])
        at = end
        if at == len(data):
            return


def _lacing(packet: bytes) -> bytes:
    return b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,))


def _checksum(page: bytes) -> bytes:
    """Ogg's checksum is zlib's with all bits in the other order, from zero to zero."""
    found = zlib.crc32(page.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return found.to_bytes(4, "big").translate(_MIRRORED)
