"""Reads YAML files as plain values, with the line number of each."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.errors import BadConfig
from tiltyard.foundation.local_files import check_no_device

#: The location of a value: the keys and indexes that lead to it.
Place = tuple[str | int, ...]

_MAX_FILE_BYTES = 1 << 20
_VALUE_LIMIT = 100_000
_NESTING_LIMIT = 50
_TAG = "tag:yaml.org,2002:"

# YAML 1.2 (core schema): ``off`` and ``no`` are words and a date is text, unlike in YAML 1.1.
_PLAIN = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
}


@dataclass(frozen=True)
class YamlFile:
    """A YAML file as plain values. ``name`` is used in messages."""

    name: str
    value: dict[str, Any]
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int:
        """The line of a value, or of its nearest parent if the file does not contain it."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]

    def where(self, place: Place) -> str:
        """File, line and field, for messages."""
        field = ".".join(str(part) for part in place)
        return f"{self.name}, line {self.line(place)}" + (f", {field}" if field else "")


def read_yaml(path: Path) -> YamlFile:
    """Read a file whose top level is a mapping; raises `BadConfig` if it is invalid."""
    name = str(path)
    try:
        check_no_device(path)
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise BadConfig(f"{name}: no such file; check the path") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise BadConfig(f"{name}: cannot be read: {problem}") from None
    if len(raw) > _MAX_FILE_BYTES:
        raise BadConfig(f"{name}: larger than 1 MiB; keep prompts and answers in files of their own")
    try:
        return parse_yaml(raw.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadConfig(f"{name}, line {line}: not UTF-8 text; save the file as UTF-8") from None


def parse_yaml(text: str, name: str) -> YamlFile:
    """Parse YAML text whose top level is a mapping."""
    reading = _Reading(name)
    root = _compose(text, name)
    if root is None:
        raise BadConfig(f"{name}: the file is empty")
    value = reading.value(root, (), root.start_mark.line + 1)
    if not isinstance(value, dict):
        raise BadConfig(
            f"{name}, line {root.start_mark.line + 1}: expected fields, one on each line: name: value"
        )
    return YamlFile(name, value, reading.lines)


def write_yaml(value: Mapping[str, object]) -> str:
    """Serialize plain values as YAML; both `parse_yaml` and a YAML 1.1 reader read the same values back."""
    text: str = _yaml().dump(
        dict(value),
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=110,
    )
    return text


def _yaml() -> Any:
    import yaml

    return yaml


@functools.cache
def _loader() -> Any:
    class Loader(_yaml().SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    _add_plain(Loader)
    return Loader


@functools.cache
def _dumper() -> Any:
    class Dumper(_yaml().SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
            return True

    def text(dumper: Any, value: str) -> Any:
        # PyYAML writes other line endings as they are, and reads them back as spaces.
        style = '"' if re.search("[\x85\u2028\u2029]", value) else None
        return dumper.represent_scalar(f"{_TAG}str", value, style=style)

    Dumper.add_representer(str, text)
    _add_plain(Dumper)
    return Dumper


def _add_plain(side: Any) -> None:
    for kind, (pattern, starts) in _PLAIN.items():
        firsts = ["" if start == "\0" else start for start in starts]
        side.add_implicit_resolver(_TAG + kind, re.compile(rf"(?:{pattern})\Z"), firsts)


def _compose(text: str, name: str) -> Any:
    yaml = _yaml()
    try:
        return yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        if "'\\t'" in problem:
            problem = "a tab; indent with spaces"
        elif "single document" in (error.context or ""):
            problem = "a second document begins here; a file may contain only one"
        raise BadConfig(f"{name}, line {mark.line + 1 if mark else 1}: not YAML: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadConfig(
            f"{name}, line {line}: the character {error.character!r} is not allowed here"
        ) from None
    except RecursionError:
        raise BadConfig(f"{name}: nested too deeply; the limit is {_NESTING_LIMIT} levels") from None
    except (ValueError, OverflowError) as error:
        raise BadConfig(f"{name}: not YAML: {error}") from None


class _Reading:
    """One traversal of a file's nodes: the values, and the line of each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Place, int] = {}
        self._values = 0

    def value(self, node: Any, place: Place, line: int) -> Any:
        """The node's value; ``line`` is where it is used, which an alias node does not record."""
        self.lines[place] = line
        self._values += 1
        if self._values > _VALUE_LIMIT:
            self._refuse(line, f"more than {_VALUE_LIMIT:,} values; aliases may repeat too much")
        if len(place) > _NESTING_LIMIT:
            self._refuse(line, "nested too deeply, or an alias that contains itself")
        kind = node.tag.removeprefix(_TAG)
        if node.id == "mapping" and kind == "map":
            return {key: self.value(child, (*place, key), at) for key, child, at in self._fields(node, place)}
        if node.id == "sequence" and kind == "seq":
            return [
                self.value(child, (*place, index), max(line, child.start_mark.line + 1))
                for index, child in enumerate(node.value)
            ]
        if node.id == "scalar" and kind in _SCALARS:
            text = self._text(node.value, line)
            try:
                value = _SCALARS[kind](text)
            except (ValueError, KeyError):
                return self._refuse(line, f"{text[:40]!r} is not a valid {kind}")
            if isinstance(value, float) and not abs(value) < float("inf"):
                self._refuse(line, f"{text[:40]!r} is not a finite number")
            return value
        return self._refuse(line, f"the tag {node.tag!r} is not supported; write a plain value")

    def _fields(self, node: Any, place: Place) -> Iterator[tuple[str, Any, int]]:
        seen: dict[str, int] = {}
        for key, child in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                self._refuse(line, "the name of a field must be a word")
            field = self._text(key.value, line)
            if field in seen:
                named = ".".join(str(part) for part in (*place, field))
                self._refuse(line, f"duplicate field {named}, first on line {seen[field]}")
            seen[field] = line
            yield field, child, line

    def _text(self, text: str, line: int) -> str:
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            self._refuse(line, "a lone surrogate is not a character")
        return text

    def _refuse(self, line: int, problem: str) -> Any:
        raise BadConfig(f"{self.name}, line {line}: {problem}")


def _int(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "int": _int,
    "float": float,
    "str": str,
}
