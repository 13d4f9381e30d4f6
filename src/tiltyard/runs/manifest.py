"""Manifests: what a run folder or an arena's release contains, and how and on which platform it was made.

The JSON of manifests and of the files beside them is written and read here too: the same value gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tiltyard.core.board.board_rows import parameters_of
from tiltyard.core.board.win_rates import BaselineChoice, BaselineRule
from tiltyard.errors import BrokenArtifact, InputError, UnreadableFile
from tiltyard.files.battle_source import BattleSource
from tiltyard.files.input_file import bounded_lines
from tiltyard.files.json_records import FINITE_DECODER, parse_json_text
from tiltyard.foundation.local_files import atomic_write, open_regular, read_regular
from tiltyard.runs.battle_rating import RateSettings, method_of

MANIFEST = "manifest.json"
MANIFEST_HASH = "manifest.sha256"
BATTLES = "battles.parquet"
BATTLE_LINES = "battles.jsonl"
RATINGS = "elo_ratings.json"
#: The ratings of all dimensions of a tournament.
DIMENSION_RATINGS = "dimension_ratings.json"
BOOTSTRAP = "bootstrap_ratings.parquet"
#: Of `rate`; a tournament has `WINRATES`, which counts as tournament scripts do.
PAIRS = "pairs.csv"
WINRATES = "pairwise_winrates.csv"
REPORT = "report.html"
#: The earliest date of a zip entry. All entries have it, so that equal content makes equal bytes.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_LIBRARIES = ("tiltyard", "numpy", "scipy", "pyarrow", "numba", "altair", "vl-convert-python")

_Model = TypeVar("_Model", bound="ManifestDocument")
_STATED_NAMES = (
    "method",
    "parameters",
    "by",
    "overlapping",
    "style",
    "where",
    "n_bootstraps",
    "arena",
    "model",
    "baseline",
)
#: The kind that the manifest names.
RELEASE = "release"
#: The board that the battles give, if it was published.
BOARD = "board.json"
ReleaseTable = Literal["ordered", "voters"]
_CONTAINERS = ("parquet", "jsonl", "csv")


class ManifestModel(BaseModel):
    """A part of a manifest: unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ManifestDocument(ManifestModel):
    """A complete manifest, including how its battles were rated."""

    def settings(self) -> RateSettings:
        raise NotImplementedError


class ManifestInput(ManifestModel):
    """A file that the battles were read from; ``-`` is standard input.

    The path of a file that was fetched is its address; of a dataset, with the commit.
    """

    #: As it was named; of an address, the address of each file that was fetched, without its query.
    path: str
    format: str
    #: Of its bytes, as they were fetched; ``None`` for folders and pipes.
    sha256: str | None

    @classmethod
    def of(cls, source: BattleSource) -> list[ManifestInput]:
        """The files of a source."""
        named = [(file.name, file.path) for file in source.fetched] or [(source.path, Path(source.path))]
        return [
            cls(path=name, format=source.format, sha256=file_hash(path) if path.is_file() else None)
            for name, path in named
        ]


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


class ManifestBaseline(ManifestModel):
    """The baseline of win rates; ``model`` is ``None`` if it is the one that the battles share."""

    model: str | None
    rule: BaselineRule


class RunManifest(ManifestDocument):
    """Everything needed to make the folder again, and a hash of every file in it."""

    manifest_schema: Literal[1] = 1
    created_at: str
    platform: Platform
    inputs: list[ManifestInput]
    method: str
    parameters: dict[str, object]
    by: str | list[str] | None
    #: Whether a battle counts in every group that its value joins by ``+``.
    overlapping: bool
    style: list[str]
    #: ``battles.parquet`` holds only the battles that meet it.
    where: str | None
    n_bootstraps: int
    arena: str | None
    model: str | None
    baseline: ManifestBaseline | None
    #: Models whose ``source`` is ``evaluated``.
    evaluated: list[str]
    #: What identifies the run: see `run_identity`.
    identity: str
    #: Every file except the manifest and its hash, with its SHA-256.
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
        stated = _stated(settings)
        return cls(
            created_at=created_at,
            platform=Platform.here(),
            inputs=inputs,
            **stated,
            evaluated=sorted(evaluated),
            identity=_hash_stated(stated, files[BATTLES]),
            files=files,
        )

    def has_own_identity(self) -> bool:
        """Whether the identity is that of the battles and settings which this manifest states."""
        stated = self.model_dump(mode="json", include=set(_STATED_NAMES))
        return self.identity == _hash_stated(stated, self.files[BATTLES])

    def settings(self) -> RateSettings:
        """The settings of the original run."""
        method = method_of(self.method, self.parameters)
        TypeAdapter(type(method)).validate_python(self.parameters)
        return RateSettings(
            method=method,
            by=tuple(self.by) if isinstance(self.by, list) else self.by,
            overlapping=self.overlapping,
            style=tuple(self.style),
            where=self.where,
            n_bootstraps=self.n_bootstraps,
            arena=self.arena,
            model=self.model,
            baseline=None
            if self.baseline is None
            else BaselineChoice(self.baseline.model, self.baseline.rule),
        )


def _stated(settings: RateSettings) -> dict[str, Any]:
    special = {
        "method": settings.method.name,
        "parameters": parameters_of(settings.method),
        "style": list(settings.style),
        "by": list(settings.by) if isinstance(settings.by, tuple) else settings.by,
        "baseline": None if settings.baseline is None else asdict(settings.baseline),
    }
    return {name: special[name] if name in special else getattr(settings, name) for name in _STATED_NAMES}


def run_identity(settings: RateSettings, battles_sha256: str) -> str:
    """The SHA-256 of what determines every number: the hash of the file of battles, and the settings.

    A report can state it; it cannot state the hash of the manifest, which lists the report's own hash. It depends on
    neither versions nor the date.
    """
    return _hash_stated(_stated(settings), battles_sha256)


def _hash_stated(stated: Mapping[str, object], battles_sha256: str) -> str:
    known = {name: value for name, value in stated.items() if value is not None}
    text = json.dumps({**known, BATTLES: battles_sha256}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_manifest(folder: Path) -> RunManifest:
    """Read the manifest of a folder written by `rate`; raises `BrokenArtifact` if it is invalid."""
    return read_manifest_as(RunManifest, folder)


def locate_run(folder: Path) -> Path:
    """The folder of a run: that of `ab`, and of a tournament from answers, is beside their configuration."""
    inner = folder / "run"
    around = (folder / "tournament.yaml").is_file() and not (folder / MANIFEST).exists()
    return inner if around and (inner / MANIFEST).is_file() else folder


def manifest_kind(folder: Path) -> str | None:
    """The kind of run that the manifest names; ``None`` if it names none or cannot be read."""
    try:
        document = parse_document(MANIFEST, read_regular(folder / MANIFEST))
    except (OSError, UnreadableFile):
        return None
    kind = document.get("kind") if isinstance(document, dict) else None
    return kind if isinstance(kind, str) else None


def read_manifest_as(model: type[_Model], folder: Path) -> _Model:
    """Read the manifest as the given kind, with valid settings."""
    path = folder / MANIFEST
    try:
        data = read_regular(path)
        parse_document(str(path), data)
        manifest = model.model_validate_json(data)
        manifest.settings()
    except FileNotFoundError:
        raise BrokenArtifact(
            f"{folder} has no {MANIFEST}: it was not written by `tiltyard rate --out`, `run` or `ab`"
        ) from None
    except OSError as error:
        raise BrokenArtifact(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        raise _invalid(path, error) from None
    except UnreadableFile as error:
        raise BrokenArtifact(str(error)) from None
    except InputError as error:
        raise BrokenArtifact(f"{path}: {error}") from None
    return manifest


def _invalid(path: Path, error: ValidationError) -> BrokenArtifact:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return BrokenArtifact(f"{path}: {where}: {first['msg']}")


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


def json_bytes(document: Mapping[str, object]) -> bytes:
    """Serialize a document, indented; raises for numbers that JSON cannot represent."""
    return _encoded(document, indent=2)


def json_line(row: Mapping[str, object]) -> bytes:
    """Serialize a row on one line."""
    return _encoded(row, indent=None)


def _encoded(value: Mapping[str, object], *, indent: int | None) -> bytes:
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A model may emit a lone surrogate, which UTF-8 cannot encode; JSON escapes preserve it.
        return json.dumps(value, indent=indent, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with atomic_write(str(path)) as file:
        file.write(data)


def write_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one row per line; the folder is created if missing."""
    path.parent.mkdir(exist_ok=True)
    with atomic_write(str(path)) as file:
        file.writelines(map(json_line, rows))


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Each line's location and row; raises if a line is not a JSON object."""
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(path.name, file), start=1):
                where = f"{path.name}, line {number}"
                row = parse_document(where, line)
                if not isinstance(row, dict):
                    raise UnreadableFile(f"{where}: not a JSON object")
                yield where, row
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror}") from None


def parse_document(where: str, data: bytes) -> Any:
    """Parse JSON; duplicate keys, about which readers disagree, and NaN are errors."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{where}: not JSON (not UTF-8 text)") from None
    return parse_json_text(where, text, FINITE_DECODER)


class ReleaseManifest(ManifestModel):
    """What a release holds, and the hash of each file."""

    kind: Literal["release"] = "release"
    release_schema: Literal[1] = 1
    arena: str
    source: str
    #: The last position of the log that was released.
    position: int = Field(ge=0)
    #: Counts the exclusions and restorations of votes behind it.
    generation: int = Field(ge=0)
    #: The hash of the board's document; ``None`` if none had been published.
    snapshot: str | None
    votes: int = Field(ge=0)
    #: Votes that were not rated, and are in neither table, by reason.
    left_out: dict[str, int]
    files: dict[str, str]

    def table_name(self, table: ReleaseTable) -> str:
        """The file of a table; `BrokenArtifact` unless exactly one is listed."""
        names = [name for one in _CONTAINERS if (name := table_file(table, one)) in self.files]
        if len(names) != 1:
            listed = f"lists {' and '.join(names)}" if names else f"lists no table {table}"
            raise BrokenArtifact(f"{MANIFEST}: {listed}; expected one file")
        return names[0]

    def expected_files(self) -> Sequence[str]:
        """The files that belong to it, apart from the manifest."""
        board = [] if self.snapshot is None else [BOARD]
        return [self.table_name("ordered"), self.table_name("voters"), *board]


def table_file(table: ReleaseTable, container: str) -> str:
    """The name of a table's file."""
    return f"{table}.{container}"


def read_release_manifest(folder: Path) -> ReleaseManifest:
    """Read the manifest of a release; raises `BrokenArtifact` if it is invalid."""
    path = folder / MANIFEST
    try:
        return ReleaseManifest.model_validate_json(read_regular(path))
    except OSError as error:
        raise BrokenArtifact(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        raise _invalid(path, error) from None
