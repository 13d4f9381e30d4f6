"""The manifest: the contents of a run folder, and how and on which platform it was made."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tiltyard.core.board.board_rows import parameters_of
from tiltyard.errors import BrokenArtifact, InputError
from tiltyard.runs.battle_rating import RateSettings, method_of
from tiltyard.settings.regular_files import open_regular, read_regular

__all__ = [
    "MANIFEST",
    "MANIFEST_HASH",
    "ManifestDocument",
    "ManifestInput",
    "ManifestModel",
    "Platform",
    "RunManifest",
    "bytes_hash_line",
    "file_hash",
    "hash_line",
    "manifest_kind",
    "read_manifest",
    "read_manifest_as",
]

MANIFEST = "manifest.json"
MANIFEST_HASH = "manifest.sha256"
_LIBRARIES = ("tiltyard", "numpy", "scipy", "pyarrow", "numba", "altair", "vl-convert-python")


class ManifestModel(BaseModel):
    """A part of a manifest: unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ManifestDocument(ManifestModel):
    """A complete manifest, including how its battles were rated."""

    def settings(self) -> RateSettings:
        raise NotImplementedError


_Model = TypeVar("_Model", bound="ManifestDocument")


class ManifestInput(ManifestModel):
    """A file that the battles were read from; ``-`` is standard input."""

    path: str
    format: str
    sha256: str | None


class Platform(ManifestModel):
    """The platform on which numbers were computed. They are bit-for-bit reproducible only on an equal one."""

    python: str
    system: str
    machine: str
    libraries: dict[str, str]

    @classmethod
    def here(cls) -> Platform:
        libraries = {}
        for name in _LIBRARIES:
            try:
                libraries[name] = version(name)
            except PackageNotFoundError:
                continue
        return cls(
            python=".".join(map(str, sys.version_info[:3])),
            system=platform.system(),
            machine=platform.machine(),
            libraries=libraries,
        )


class RunManifest(ManifestDocument):
    """Everything needed to make the folder again, and a hash of every file in it."""

    manifest_schema: Literal[1] = 1
    created_at: str
    platform: Platform
    inputs: list[ManifestInput]
    method: str
    parameters: dict[str, object]
    by: str | None
    style: list[str]
    n_bootstraps: int
    arena: str | None
    model: str | None
    evaluated: list[str]
    files: dict[str, str]

    @classmethod
    def of(
        cls,
        settings: RateSettings,
        *,
        created_at: str,
        inputs: list[ManifestInput],
        evaluated: frozenset[str],
        files: dict[str, str],
    ) -> RunManifest:
        return cls(
            created_at=created_at,
            platform=Platform.here(),
            inputs=inputs,
            method=settings.method.name,
            parameters=parameters_of(settings.method),
            by=settings.by,
            style=list(settings.style),
            n_bootstraps=settings.n_bootstraps,
            arena=settings.arena,
            model=settings.model,
            evaluated=sorted(evaluated),
            files=files,
        )

    def settings(self) -> RateSettings:
        """The settings of the original run."""
        method = method_of(self.method, self.parameters)
        TypeAdapter(type(method)).validate_python(self.parameters)
        return RateSettings(
            method=method,
            by=self.by,
            style=tuple(self.style),
            n_bootstraps=self.n_bootstraps,
            arena=self.arena,
            model=self.model,
        )


def read_manifest(folder: Path) -> RunManifest:
    """Read the manifest of a folder written by `rate`; raises `BrokenArtifact` if it is invalid."""
    return read_manifest_as(RunManifest, folder)


def manifest_kind(folder: Path) -> str | None:
    """The kind of run that the manifest names; ``None`` if it names none or cannot be read."""
    try:
        document = json.loads(read_regular(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    kind = document.get("kind") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else None


def read_manifest_as(model: type[_Model], folder: Path) -> _Model:
    """Read the manifest as the given kind, with valid settings."""
    path = folder / MANIFEST
    try:
        manifest = model.model_validate_json(read_regular(path))
        manifest.settings()
    except FileNotFoundError:
        raise BrokenArtifact(
            f"{folder} has no {MANIFEST}: it was not written by `tiltyard rate --out` or `tiltyard run`"
        ) from None
    except OSError as error:
        raise BrokenArtifact(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise BrokenArtifact(f"{path}: {where}: {first['msg']}") from None
    except InputError as error:
        raise BrokenArtifact(f"{path}: {error}") from None
    return manifest


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_line(folder: Path) -> bytes:
    """The content of `manifest.sha256`, in the format of sha256sum."""
    return f"{file_hash(folder / MANIFEST)}  {MANIFEST}\n".encode()


def bytes_hash_line(data: bytes) -> bytes:
    """The same, for a manifest that is not written yet."""
    return f"{hashlib.sha256(data).hexdigest()}  {MANIFEST}\n".encode()
