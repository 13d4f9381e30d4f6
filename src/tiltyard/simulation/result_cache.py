"""A cache of simulation results, one JSON line each, so that a run can be stopped, resumed and extended.

A result is reused if everything it depends on is the same: study, version, settings, seed, the source code of
the packages, and the versions of the numerical libraries. An incomplete line, left by a killed process, is
ignored, and its seed is run again.
"""

from __future__ import annotations

import enum
import errno
import hashlib
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from tiltyard.errors import BadOption
from tiltyard.settings.environment import read_environment

#: The packages that a result may depend on.
DEPENDENCY_PACKAGES = (
    "tiltyard.core.battles",
    "tiltyard.core.ratings",
    "tiltyard.core.policy",
    "tiltyard.simulation",
)

_LIBRARIES = ("numpy", "scipy", "numba")


def lab_folder() -> Path:
    """The default folder of the cache: ``lab`` in ``TILTYARD_HOME``."""
    return read_environment().home / "lab"


class ResultCache:
    """The results of one study with one set of settings: a JSON Lines file."""

    def __init__(self, folder: Path, study: str, settings: object, made_by: Mapping[str, object]) -> None:
        about = {"study": study, "settings": to_plain(settings)}
        self.path = folder / f"{study}-{_hash(canonical_text(about))[:16]}.jsonl"
        self._about = {**about, **made_by}
        self._results = self._read()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, seed: int) -> Any:
        """The cached result of a seed as plain values, or ``None``."""
        return self._results.get(self.key(seed))

    def add(self, seed: int, result: Any) -> None:
        """Append one result in a single write; an incomplete line is ignored when reading."""
        key = self.key(seed)
        line = canonical_text({"key": key, "seed": seed, "result": result, **self._about}) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                _append(file, line.encode())
        except OSError as error:
            raise self._unusable(error) from None
        self._results[key] = result

    def key(self, seed: int) -> str:
        return _hash(canonical_text({**self._about, "seed": seed}))

    def _read(self) -> dict[str, object]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error) from None
        results: dict[str, object] = {}
        for line in lines:
            try:
                row = json.loads(line)
                results[row["key"]] = row["result"]
            except (ValueError, KeyError, TypeError):
                continue
        return results

    def _unusable(self, error: OSError) -> BadOption:
        return BadOption(
            f"cannot write results to {self.path}: {error.strerror or error}; name another folder, "
            "or set TILTYARD_HOME to a writable folder"
        )


def versions(rooms: Sequence[str] = DEPENDENCY_PACKAGES) -> dict[str, str | None]:
    """What a result depends on besides its settings: our source code and the library versions."""
    return {"code": code_hash(tuple(rooms)), **{name: _version(name) for name in _LIBRARIES}}


@cache
def code_hash(rooms: tuple[str, ...] = DEPENDENCY_PACKAGES) -> str:
    """A hash of the source files of packages and modules."""
    digest = hashlib.sha256()
    for room in sorted(rooms):
        for name, path in _sources(room):
            digest.update(f"{name}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(room: str) -> list[tuple[str, Path]]:
    """The source files of a package or module, with names that do not depend on the machine."""
    try:
        spec = find_spec(room)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise BadOption(f"no module named {room}; use the dotted names of packages or modules")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return [(room, origin)]
    root = origin.parent
    return [(f"{room}/{path.relative_to(root).as_posix()}", path) for path in sorted(root.rglob("*.py"))]


def canonical_text(value: Any) -> str:
    """The canonical JSON text of a plain value: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_plain(value: object, where: str = "") -> Any:
    """Convert a frozen dataclass to values that JSON represents exactly.

    The class name is included: two methods with the same fields are not the same settings.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"class": type(value).__name__, **to_plain(named, where)}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: to_plain(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part, f"{where}[{k}]") for k, part in enumerate(value)]
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise BadOption(
        f"{where.lstrip('.') or 'the value'} is {value!r} ({type(value).__name__}), which JSON cannot represent; "
        "use dataclasses, str, int, finite float, bool, None, tuples, and dicts by name"
    )


def from_plain(kind: Any, value: Any) -> Any:
    """The reverse of `to_plain`, by the types of the fields."""
    origin, parts = get_origin(kind), get_args(kind)
    if value is None:
        return None
    if origin in (UnionType, Union):
        return from_plain(next(part for part in parts if part is not NoneType), value)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{name: from_plain(hints[name], part) for name, part in value.items() if name != "class"}
        )
    if origin in (tuple, list, dict):
        return _restored_parts(origin, parts, value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[value]
    return float(value) if kind is float else value


def _restored_parts(origin: type, parts: tuple[Any, ...], value: Any) -> Any:
    if origin is dict:
        return {name: from_plain(parts[1], part) for name, part in value.items()}
    if origin is list or parts[-1] is Ellipsis:
        return origin(from_plain(parts[0], part) for part in value)
    return tuple(from_plain(part, item) for part, item in zip(parts, value, strict=True))


def _append(file: io.FileIO, line: bytes) -> None:
    """Append a line in one write; an incomplete last line is terminated first."""
    size = file.seek(0, io.SEEK_END)
    if size:
        file.seek(size - 1)
        line = line if file.read(1) == b"\n" else b"\n" + line
    if file.write(line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
