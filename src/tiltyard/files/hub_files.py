"""Fetches files of datasets from the Hugging Face Hub, into huggingface_hub's own cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tiltyard.errors import BadOption, MissingExtra, TiltyardError, UnreadableFile
from tiltyard.files.dataset_files import choose_files, list_files
from tiltyard.files.fetched_files import FetchedFiles
from tiltyard.files.hub_errors import explain_hub_error
from tiltyard.files.input_file import open_input

_FORM = "hf://datasets/OWNER/NAME, followed by @REVISION and /FILE if you like"
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The branch on which the hub keeps every dataset that it could convert as Parquet.
_CONVERTED = "refs/convert/parquet"


@dataclass(frozen=True)
class DatasetAddress:
    """A dataset, a revision of it if one was named, and a file, folder or pattern in it, or nothing."""

    repo: str
    revision: str | None
    path: str

    @classmethod
    def parse(cls, text: str) -> DatasetAddress:
        """Read ``hf://datasets/OWNER/NAME[@REVISION][/PATH]``; a slash in a revision is written ``%2F``."""
        kind, *parts = text[len("hf://") :].rstrip("/").split("/")
        if kind != "datasets":
            raise BadOption(f"{text}: only datasets are read; expected {_FORM}")
        if len(parts) < 2 or not all(parts) or {".", ".."} & set(parts):
            raise BadOption(f"{text}: expected {_FORM}")
        owner, named, *rest = parts
        name, at, revision = named.partition("@")
        if at and revision == "refs" and len(rest) >= 2:
            revision, rest = "/".join(["refs", *rest[:2]]), rest[2:]
        if not name or (at and not revision):
            raise BadOption(f"{text}: expected {_FORM}")
        return cls(f"{owner}/{name}", unquote(revision) if at else None, "/".join(rest))

    def at(self, revision: str | None) -> str:
        """The address of the dataset at a revision."""
        return f"hf://datasets/{self.repo}" + (f"@{revision}" if revision else "")


def fetch_dataset(text: str) -> FetchedFiles:
    """Fetch what an address names; files that the cache has are not fetched again."""
    address = DatasetAddress.parse(text)
    try:
        import huggingface_hub as hub
    except ImportError:
        raise MissingExtra("hf", f"Reading {text}") from None
    with _translate_hub_errors(text, address.repo):
        commit, files = _cached(hub, address) or _download(hub, address)
    place = address.at(commit)
    named = ((f"{place}/{name}", path) for name, path in files.items())
    return FetchedFiles(text, place, tuple(open_input(path, name=name) for name, path in named))


def _cached(hub: Any, address: DatasetAddress) -> tuple[str, dict[str, Path]] | None:
    """A commit and a file that were named exactly and are in the cache: the hub is not asked."""
    commit = address.revision
    if commit is None or not _COMMIT.fullmatch(commit) or not address.path or has_magic(address.path):
        return None
    path = hub.try_to_load_from_cache(address.repo, address.path, revision=commit, repo_type="dataset")
    return (commit, {address.path: Path(path)}) if isinstance(path, str) else None


def _download(hub: Any, address: DatasetAddress) -> tuple[str, dict[str, Path]]:
    """The commit, and where the cache has its files."""
    commit, names = _resolve(hub, address)
    files = {
        name: Path(hub.hf_hub_download(address.repo, name, repo_type="dataset", revision=commit))
        for name in names
    }
    return commit, files


def _resolve(hub: Any, address: DatasetAddress) -> tuple[str, list[str]]:
    """The commit that the revision is now, and the files that the path means in it."""
    commit, names = _listed(hub, address.repo, address.revision)
    chosen = choose_files(address.at(address.revision), names, address.path)
    if not chosen and address.revision is None:
        commit, chosen = _converted(hub, address)
    if not chosen:
        place = address.at(address.revision)
        raise UnreadableFile(f"{place}: no Parquet files; {list_files(names)}; name a file: {place}/FILE")
    return commit, chosen


def _converted(hub: Any, address: DatasetAddress) -> tuple[str, list[str]]:
    """The files to which the hub has converted the dataset, if it has."""
    from huggingface_hub.errors import RevisionNotFoundError

    try:
        commit, names = _listed(hub, address.repo, _CONVERTED)
    except RevisionNotFoundError:
        return "", []
    return commit, choose_files(address.at(_CONVERTED), names, "")


def _listed(hub: Any, repo: str, revision: str | None) -> tuple[str, Sequence[str]]:
    api = hub.HfApi()
    commit = api.dataset_info(repo, revision=revision).sha
    if not commit:
        raise UnreadableFile(f"hf://datasets/{repo}: the hub does not say its commit; check HF_ENDPOINT")
    return commit, api.list_repo_files(repo, repo_type="dataset", revision=commit)


@contextmanager
def _translate_hub_errors(text: str, repo: str) -> Iterator[None]:
    """Translate whatever the hub's client raises; its HTTP library differs from version to version."""
    try:
        yield
    except TiltyardError:
        raise
    except Exception as error:  # noqa: BLE001
        raise UnreadableFile(f"{text}: {explain_hub_error(error, repo)}") from None
