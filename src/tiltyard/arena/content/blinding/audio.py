"""WAV and FLAC audio; dispatches to MP3 and Ogg."""

from __future__ import annotations

from tiltyard.arena.content.blinding.media_chunks import (
    broken_media_error,
    count_parts,
    riff_chunk,
    riff_file,
)

_WAV = "WAV sound"
#: Maximum bytes of a format chunk; and the bytes that matter in common formats: integer, floating point,
#: A-law, mu-law, and extensible.
_MAX_FORMAT_BYTES = 64
_FORMAT_BYTES = {1: 16, 3: 16, 6: 16, 7: 16, 0xFFFE: 40}


def strip_wav_metadata(data: bytes) -> bytes:
    """Keep only the format and the samples of a WAV file.

    Programs that write to a pipe do not know the length in advance, and write a very large one: then the data
    end with the file.
    """
    kept, at = dict[bytes, bytes](), 12
    for _ in count_parts(_WAV):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if name == b"data" and at + 8 < len(data) and size:
            kept[name] = data[at + 8 : at + 8 + size]
            break
        if at + 8 + size > len(data):
            raise broken_media_error(_WAV, at, "a chunk runs past the end")
        if name == b"data":
            raise broken_media_error(_WAV, at, "there are no samples")
        if name == b"fmt " and 16 <= size <= _MAX_FORMAT_BYTES:
            kept.setdefault(name, _wav_format(data[at + 8 : at + 8 + size]))
        elif name == b"fact" and size >= 4:
            kept.setdefault(name, data[at + 8 : at + 12])
        at += 8 + size + size % 2
    if b"fmt " not in kept:
        raise broken_media_error(_WAV, at, "the samples come before what says how they are written")
    return riff_file(b"WAVE", [riff_chunk(name, held) for name, held in kept.items()])


def _wav_format(held: bytes) -> bytes:
    return held[: _FORMAT_BYTES.get(int.from_bytes(held[:2], "little"), _MAX_FORMAT_BYTES)]


_FLAC = "FLAC sound"
_STREAM_INFO_CODE, _SEEK_TABLE_CODE = 0, 3
_LAST_BLOCK_FLAG = 0x80
_FRAME = (b"\xff\xf8", b"\xff\xf9")


def strip_flac_metadata(data: bytes) -> bytes:
    """A FLAC sound of what says how it is written, places to seek, and its frames."""
    kept, at = dict[int, bytes](), 4
    for _ in count_parts(_FLAC):
        head = data[at : at + 4]
        end = at + 4 + int.from_bytes(head[1:], "big")
        if len(head) < 4 or end > len(data):
            raise broken_media_error(_FLAC, at, "a block runs past the end")
        kind, held = head[0] & ~_LAST_BLOCK_FLAG, data[at + 4 : end]
        if (kind == _STREAM_INFO_CODE and len(held) == 34) or (
            kind == _SEEK_TABLE_CODE and len(held) % 18 == 0
        ):
            kept.setdefault(kind, held)
        at = end
        if head[0] & _LAST_BLOCK_FLAG:
            break
    frames = data[at : _before_tags(data, at)]
    if _STREAM_INFO_CODE not in kept or frames[:2] not in _FRAME:
        raise broken_media_error(_FLAC, at, "there is no frame after the blocks that describe it")
    blocks = [
        bytes((kind | _LAST_BLOCK_FLAG * (kind == max(kept)),)) + len(held).to_bytes(3, "big") + held
        for kind, held in sorted(kept.items())
    ]
    return b"".join((b"fLaC", *blocks, frames))


def _before_tags(data: bytes, start: int) -> int:
    """Where the tags begin that end a file, ID3v1 and APE: frames of FLAC do not say how long they are."""
    end = len(data)
    while True:
        if end >= start + 128 and data[end - 128 : end - 125] == b"TAG":
            end -= 128
        elif end >= start + 32 and data[end - 32 : end - 24] == b"APETAGEX":
            is_header = data[end - 9] & 0x20
            end -= 32 if is_header else max(32, int.from_bytes(data[end - 20 : end - 16], "little"))
        else:
            break
    cut = data.find(b"APETAGEX", start, max(start, end))
    return end if cut < 0 else cut
