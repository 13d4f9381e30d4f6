"""Exif: keeps only the orientation."""

from __future__ import annotations

from typing import Literal

#: The prefix of Exif data in JPEG, and sometimes elsewhere.
EXIF = b"Exif\0\0"

_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II*\0": "little", b"MM\0*": "big"}
_ORIENTATION_TAG, _SHORT_CODE = 0x0112, 3
_UPRIGHT_CODE = 1


def keep_orientation_only(data: bytes) -> bytes:
    """Exif with the orientation only; empty if the image is upright."""
    start = EXIF if data.startswith(EXIF) else b""
    turned = _orientation(data[len(start) :])
    if turned == _UPRIGHT_CODE:
        return b""
    entry = b"".join(
        number.to_bytes(2, "little") for number in (_ORIENTATION_TAG, _SHORT_CODE, 1, 0, turned, 0)
    )
    return start + b"II*\0\x08\0\0\0\x01\0" + entry + bytes(4)


def _orientation(tiff: bytes) -> int:
    order = _ORDERS.get(tiff[:4])
    if order is None:
        return _UPRIGHT_CODE
    at = int.from_bytes(tiff[4:8], order)
    for k in range(int.from_bytes(tiff[at : at + 2], order)):
        entry = tiff[at + 2 + 12 * k : at + 14 + 12 * k]
        if len(entry) < 12:
            break
        tag, kind = int.from_bytes(entry[:2], order), int.from_bytes(entry[2:4], order)
        if (tag, kind, int.from_bytes(entry[4:8], order)) == (_ORIENTATION_TAG, _SHORT_CODE, 1):
            turned = int.from_bytes(entry[8:10], order)
            return turned if 2 <= turned <= 8 else _UPRIGHT_CODE
    return _UPRIGHT_CODE
