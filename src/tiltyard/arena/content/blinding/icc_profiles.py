"""Colour profiles, with their texts removed.

A profile changes the colours that are shown, so it stays; but it also has a description, a copyright, a
maker, a device and a date, which tell where a picture comes from.
"""

from __future__ import annotations

#: Bytes of a profile; real ones have at most three million.
MAX_PROFILE_BYTES = 4 * 1024 * 1024

_HEADER_BYTES = 128
_TAG_LIMIT = 200
#: Places of the header that say how colours are meant: version, class, spaces; the signature; the intent and
#: the light. Left out are who made it, when, for what device, and the hash of it all.
_KEPT_HEADER_OFFSETS = ((8, 24), (36, 40), (64, 80))
#: Tags from which colours are computed, and the types of numbers that they hold.
_TAGS = frozenset(
    b"rXYZ gXYZ bXYZ wtpt bkpt rTRC gTRC bTRC kTRC chad cicp lumi A2B0 A2B1 A2B2 B2A0 B2A1 B2A2 gamt "
    b"D2B0 D2B1 D2B2 D2B3 B2D0 B2D1 B2D2 B2D3".split()
)
_TYPES = frozenset({b"XYZ ", b"curv", b"para", b"sf32", b"cicp", b"mft1", b"mft2", b"mAB ", b"mBA ", b"mpet"})


def strip_profile_text(data: bytes) -> bytes | None:
    """An ICC profile of nothing but numbers; ``None`` if these bytes are no profile, and no browser uses them."""
    count = int.from_bytes(data[_HEADER_BYTES : _HEADER_BYTES + 4], "big")
    if (
        not _HEADER_BYTES + 4 <= len(data) <= MAX_PROFILE_BYTES
        or data[36:40] != b"acsp"
        or count > _TAG_LIMIT
    ):
        return None
    places: dict[bytes, tuple[int, int]] = {}
    for k in range(count):
        entry = data[_HEADER_BYTES + 4 + 12 * k : _HEADER_BYTES + 16 + 12 * k]
        at, size = int.from_bytes(entry[4:8], "big"), int.from_bytes(entry[8:12], "big")
        if len(entry) < 12 or at + size > len(data):
            return None
        if entry[:4] in _TAGS and data[at : at + 4] in _TYPES:
            places[entry[:4]] = (at, size)
    if sum(size for _, size in set(places.values())) > len(data):
        return None
    return _written(data, [(name, data[at : at + size]) for name, (at, size) in places.items()])


def _written(data: bytes, tags: list[tuple[bytes, bytes]]) -> bytes:
    """Header, table and values; a value that several tags share is written once."""
    places: dict[bytes, int] = {}
    end = _HEADER_BYTES + 4 + 12 * len(tags)
    for _, value in tags:
        if value not in places:
            places[value] = end
            end += len(value) + -len(value) % 4
    head = bytearray(_HEADER_BYTES)
    head[:4] = end.to_bytes(4, "big")
    for start, stop in _KEPT_HEADER_OFFSETS:
        head[start:stop] = data[start:stop]
    table = b"".join(
        name + places[value].to_bytes(4, "big") + len(value).to_bytes(4, "big") for name, value in tags
    )
    values = b"".join(value + bytes(-len(value) % 4) for value in places)
    return bytes(head) + len(tags).to_bytes(4, "big") + table + values
