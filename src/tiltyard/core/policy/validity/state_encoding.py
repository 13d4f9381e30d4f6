"""Arrays and plain values as few bytes: the same values always make the same bytes.

Whole numbers are kept as narrow as they are, bytes of one weight stand together, and the rest is left
to zlib. The digest is that of what was packed, whatever zlib makes of it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.errors import BadOption

__all__ = ["decode_state", "encode_state", "state_digest"]

Array = npt.NDArray[Any]

_MAGIC = b"tiltyard state 1\n"
_DIGEST_BYTES = 32
#: Fast: a stronger one takes ten times as long for a tenth less.
_COMPRESSION_LEVEL = 1
_WHOLE = ("<u1", "<u2", "<u4", "<i1", "<i2", "<i4", "<i8")


def encode_state(arrays: Mapping[str, Array], values: Mapping[str, object]) -> bytes:
    """One run of bytes: what it is, its digest, and its contents."""
    body = _body(arrays, values)
    return b"".join((_MAGIC, hashlib.sha256(body).digest(), zlib.compress(body, _COMPRESSION_LEVEL)))


def state_digest(packed: bytes) -> bytes:
    """The digest of what was packed."""
    return packed[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]


def decode_state(packed: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays, in the types that they had, and the values that were given with them."""
    if not packed.startswith(_MAGIC):
        raise BadOption(f"these bytes do not begin with {_MAGIC!r}: they are no saved state of this version")
    try:
        body = zlib.decompress(packed[len(_MAGIC) + _DIGEST_BYTES :])
    except zlib.error as error:
        raise BadOption(f"a saved state cannot be unpacked ({error}); use an older one") from None
    if hashlib.sha256(body).digest() != state_digest(packed):
        raise BadOption("a saved state does not have the digest that it names; use an older one")
    size = int.from_bytes(body[:8], "little")
    head = json.loads(body[8 : 8 + size])
    arrays: dict[str, Array] = {}
    place = 8 + size
    for name, dtype, kept, shape in head["arrays"]:
        stop = place + int(np.prod(shape, dtype=np.int64)) * np.dtype(kept).itemsize
        planes = np.frombuffer(body[place:stop], dtype=np.uint8).reshape(np.dtype(kept).itemsize, -1)
        arrays[name] = np.ascontiguousarray(planes.T).view(kept).reshape(shape).astype(dtype)
        place = stop
    return arrays, head["values"]


def _body(arrays: Mapping[str, Array], values: Mapping[str, object]) -> bytes:
    narrow = {name: _narrowed(arrays[name]) for name in sorted(arrays)}
    listed = [
        [name, arrays[name].dtype.newbyteorder("<").str, array.dtype.str, list(array.shape)]
        for name, array in narrow.items()
    ]
    head = json.dumps(
        {"arrays": listed, "values": values}, sort_keys=True, ensure_ascii=True, allow_nan=False
    ).encode()
    return b"".join((len(head).to_bytes(8, "little"), head, *(_planes(array) for array in narrow.values())))


def _narrowed(array: Array) -> Array:
    """The same numbers in the narrowest type that holds them all."""
    if array.dtype.kind not in "iu":
        return array.astype(array.dtype.newbyteorder("<"), copy=False)
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    kept = next(one for one in _WHOLE if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    return array.astype(kept)


def _planes(array: Array) -> bytes:
    """The lowest byte of every number, then the next of every number, and so on."""
    plain = np.ascontiguousarray(array).reshape(-1)
    return plain.view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()
