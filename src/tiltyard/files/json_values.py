"""Parses JSON values from files: bounded in depth and size, without duplicate keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from tiltyard.errors import UnreadableFile
from tiltyard.files.read_limits import (
    JSON_DEPTH_LIMIT,
    JSON_PART_LIMIT,
    JSON_VALUE_BYTES,
    format_bytes,
)

#: A shorter text cannot be nested more deeply than the limit: each level takes two characters.
_SHALLOW_CHARACTERS = 2 * JSON_DEPTH_LIMIT


class DuplicateKey(ValueError):
    """A JSON object has a key twice."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (key, _), *_rest = Counter(key for key, _ in pairs).most_common()
        raise DuplicateKey(f"the key {key[:80]!r} occurs twice in an object; remove one")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; write null")


#: Readers disagree about which of two equal keys counts: both raise `DuplicateKey`. Other tools write NaN.
DECODER = json.JSONDecoder(object_pairs_hook=_distinct)
FINITE_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)


def parse_json_text(where: str, text: str, decoder: json.JSONDecoder = DECODER) -> Any:
    """Parse one JSON value; raises `UnreadableFile` if it is not JSON, or beyond the limits."""
    if len(text) > _SHALLOW_CHARACTERS:
        check_parts(where, text.count("[") + text.count("{"))
    if len(text) > JSON_VALUE_BYTES:
        raise UnreadableFile(f"{where}: longer than {format_bytes(JSON_VALUE_BYTES)}; split it")
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"{where}: not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise _too_deep(where) from None
    except DuplicateKey as error:
        raise UnreadableFile(f"{where}: {error}") from None
    except ValueError as error:
        raise UnreadableFile(f"{where}: cannot be read ({_brief(error)})") from None
    if len(text) > _SHALLOW_CHARACTERS:
        check_depth(where, value)
    return value


def check_parts(where: str, count: int) -> None:
    """Raise if a value may have too many lists and objects: each takes many times its text."""
    if count > JSON_PART_LIMIT:
        raise UnreadableFile(
            f"{where}: more than {JSON_PART_LIMIT:,} lists and objects in one value; split it"
        )


def check_depth(where: str, value: Any) -> None:
    """Raise if a value is nested too deeply for those who walk it."""
    layer, depth = [value], 0
    while layer := [one for one in layer if isinstance(one, dict | list)]:
        depth += 1
        if depth > JSON_DEPTH_LIMIT:
            raise _too_deep(where)
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, Mapping) else one)]


def _brief(error: ValueError) -> str:
    """Python names its own setting where a number has too many digits."""
    return str(error).partition("; use sys.")[0][:300]


def _too_deep(where: str) -> UnreadableFile:
    return UnreadableFile(f"{where}: nested too deeply to be read; the limit is {JSON_DEPTH_LIMIT} levels")
