"""Tells addresses from paths, and fetches what they name."""

from __future__ import annotations

import os
import re

from tiltyard.errors import BadOption
from tiltyard.files.input_file import FetchedFiles, check_no_page
from tiltyard.foundation.fetch_listener import fetch_listener

_ADDRESS = re.compile(r"(hf|https?)://", re.IGNORECASE)
#: What a path object makes of an address: it joins slashes.
_JOINED = re.compile(r"(hf|https?):[/\\]", re.IGNORECASE)


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address, if it is one: a text that begins with ``hf://``, ``https://`` or ``http://``.

    A path object never is, so that only what was named as an address is ever fetched.
    """
    text = os.fspath(path)
    if isinstance(path, str):
        return text if _ADDRESS.match(text) else None
    if _JOINED.match(text):
        raise BadOption(
            f"{text}: a path, where an address is not read; in Python give it as a str, "
            "or download the file and name that"
        )
    return None


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path or an address as it may be shown: without what may be a key."""
    address = address_of(path)
    if address is None or _is_dataset(address):
        return os.fspath(path)
    from tiltyard.files.web_files import shown_address

    return shown_address(address)


def fetch_address(address: str) -> FetchedFiles:
    """Fetch the files of an address, and say which they were."""
    if _is_dataset(address):
        from tiltyard.files.hub_files import fetch_dataset as fetch
    else:
        from tiltyard.files.web_files import fetch_web_file as fetch
    fetched = fetch(address)
    for file in fetched.files:
        check_no_page(file)
    fetch_listener().finish(fetched.note)
    return fetched


def _is_dataset(address: str) -> bool:
    return address[:3].lower() == "hf:"
