"""Reads the files that answers name: ``data:`` URLs, and files in the folder of the answers. Nothing is fetched."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path

from tiltyard.errors import InputError

#: Maximum bytes of a response; of a conversation with its messages and images.
MAX_RESPONSE_BYTES = 32 * 1024 * 1024

_SHOWN_NAME_CHARACTERS = 200
_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,", re.ASCII)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_network_address(stated: str) -> bool:
    """Whether it is the address of something elsewhere, such as ``https://…``."""
    return stated.startswith("//") or _ADDRESS.match(stated) is not None


def read_answer_file(stated: str, folder: Path | None) -> bytes:
    """The bytes of a ``data:`` URL, or of a file in the folder or below; other values are an `InputError`."""
    start = _DATA.match(stated)
    if start is not None:
        try:
            return base64.b64decode(stated[start.end() :], validate=True)
        except binascii.Error:
            raise InputError("the response is a data: URL with invalid base64") from None
    if folder is None or _ADDRESS.match(stated):
        expected = "a data: URL with base64" if folder is None else "the path of a file"
        raise InputError(f"the response is {stated[:_SHOWN_NAME_CHARACTERS]!r}; expected {expected}")
    return _file(stated, folder)


def _file(stated: str, folder: Path) -> bytes:
    """Read a file below the folder. Links that lead outside are not followed."""
    try:
        root = folder.resolve(strict=True)
        place = (root / stated).resolve(strict=True)
        if not place.is_relative_to(root):
            raise InputError(
                f"{stated!r} is outside {folder}; put the file in the folder of the answers, or below"
            )
        if not place.is_file():
            raise InputError(f"{stated!r} is not a file")
        with place.open("rb") as file:
            return file.read(MAX_RESPONSE_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else "no such file"
        raise InputError(f"{stated[:_SHOWN_NAME_CHARACTERS]!r} cannot be read: {problem}") from None
