"""Files of datasets on the Hugging Face Hub: which of them a path means, fetched into huggingface_hub's own cache."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tiltyard.errors import BadOption, MissingExtra, TiltyardError, UnreadableFile
from tiltyard.files.input_file import FetchedFiles, open_input

_FORM = "hf://datasets/OWNER/NAME, followed by @REVISION and /FILE if you like"
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The branch on which the hub keeps every dataset that it could convert as Parquet.
_CONVERTED = "refs/convert/parquet"
_SIGN_IN = "set HF_TOKEN to a token that may read it, or sign in with `hf auth login`"
_STATUSES = {
    401: f"the hub refused access (401); {_SIGN_IN}",
    403: f"the hub refused access (403); {_SIGN_IN}",
    404: "the hub has nothing at this address (404); check the name",
    429: "the hub's rate limit is reached (429); wait some minutes, or set HF_TOKEN, which raises the limit",
}
#: How the client says that a file has another size than announced.
_WRONG_SIZE = "onsistency check failed"
#: The end of a shard's name: ``train-00000-of-00007``, formerly with a hash.
_SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?$")
_DATA_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".csv", ".csv.gz")
#: What the hub calls a split of which it converted the first gigabytes only.
_PARTIAL = "partial-"
_LISTED_COUNT = 10


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


def explain_hub_error(error: BaseException, repo: str) -> str:
    """The problem and the remedy. Nothing that the server sent is repeated."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        return explain_hub_error(error.__cause__, repo)
    endpoint = constants.ENDPOINT
    # The first that fits: some are subclasses of others.
    status = getattr(getattr(error, "response", None), "status_code", None)
    explained: tuple[tuple[type[BaseException], str], ...] = (
        (
            errors.GatedRepoError,
            f"the dataset is gated; accept its conditions at {endpoint}/datasets/{repo}, then {_SIGN_IN}",
        ),
        (errors.DisabledRepoError, "the hub has disabled this dataset; use another"),
        (
            errors.RevisionNotFoundError,
            "the dataset has no such revision; check what follows @ (a slash in it is written %2F)",
        ),
        (
            errors.RepositoryNotFoundError,
            f"no such dataset, or a private one; check the name (models and spaces are not read), or {_SIGN_IN}",
        ),
        (
            errors.OfflineModeIsEnabled,
            f"HF_HUB_OFFLINE is set; unset it, or name what the cache has: hf://datasets/{repo}@COMMIT/FILE",
        ),
        (errors.HFValidationError, "no valid name of a dataset; expected hf://datasets/OWNER/NAME"),
        (errors.HfHubHTTPError, _STATUSES.get(status or 0, f"{endpoint} failed ({status}); try again later")),
        (errors.EntryNotFoundError, "the dataset has no such file; check the name"),
        (ValueError, f"{endpoint} did not answer as a hub does; check HF_ENDPOINT, or try again later"),
    )
    for kind, sentence in explained:
        if isinstance(error, kind):
            return sentence
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space left for the cache of huggingface_hub; free some, or move the cache with HF_HOME"
    if _WRONG_SIZE in str(error):
        return "the download was cut off; run the command again: what arrived whole is not fetched again"
    return (
        f"{endpoint} could not be reached, or the connection broke ({type(error).__name__}); "
        "check the network and HF_ENDPOINT, and run the command again"
    )


def choose_files(place: str, names: Sequence[str], path: str) -> list[str]:
    """The files that ``path`` means: a file, a pattern, a folder, or, if empty, the whole dataset.

    Of a folder these are its Parquet files (of the whole dataset those in ``data``, if there are any),
    unless they are of several splits. None if the whole dataset has no Parquet file.
    """
    if path in names:
        return [path]
    if has_magic(path):
        found = [name for name in names if _matches(name.split("/"), path.split("/"))]
        if not found:
            raise UnreadableFile(f"{place}/{path}: no file matches; {list_files(names)}")
        return sorted(found)
    inside = [name for name in names if not path or name.startswith(f"{path}/")]
    if not inside and path:
        raise UnreadableFile(f"{place}/{path}: no such file or folder; {list_files(names)}")
    tables = sorted(name for name in inside if name.endswith(".parquet"))
    if not path:
        tables = [name for name in tables if name.startswith("data/")] or tables
    if not tables and path:
        raise UnreadableFile(f"{place}/{path}: no Parquet files in this folder; {list_files(inside)}")
    # Raise if the files are of several splits or subsets, or of a split that is not complete.
    patterns = list(dict.fromkeys(map(_pattern, tables)))
    addresses = " or ".join(f"'{place}/{pattern}'" for pattern in patterns[:_LISTED_COUNT])
    if len(patterns) > 1:
        rest = f" (or {len(patterns) - _LISTED_COUNT} more)" if len(patterns) > _LISTED_COUNT else ""
        raise UnreadableFile(
            f"{place}: has {len(patterns)} splits or subsets, which may not belong together; "
            f"name one: {addresses}{rest}"
        )
    if any(part.startswith(_PARTIAL) for pattern in patterns for part in pattern.split("/")):
        raise UnreadableFile(
            f"{place}: the hub has converted only the beginning of this dataset to Parquet; "
            f"name its own files, or the beginning: {addresses}"
        )
    return tables


def list_files(names: Sequence[str]) -> str:
    """The data files of a dataset, for messages."""
    files = sorted(name for name in names if name.endswith(_DATA_ENDINGS))
    if not files:
        return "the dataset has no files of data that can be read"
    rest = f" and {len(files) - _LISTED_COUNT} more" if len(files) > _LISTED_COUNT else ""
    return f"the dataset has {', '.join(files[:_LISTED_COUNT])}{rest}"


def _pattern(name: str) -> str:
    """The pattern that a file's shards have in common; the name itself if it is no shard."""
    folder, slash, base = name.rpartition("/")
    stem = base.removesuffix(".parquet")
    if stem.isdecimal():
        return f"{folder}{slash}*.parquet"
    shard = _SHARD.search(stem)
    return name if shard is None else f"{folder}{slash}{stem[: shard.start()]}-*.parquet"


def _matches(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern, both in parts: ``*`` stays within a part, ``**`` is any number of them."""
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(_matches(name[start:], pattern[1:]) for start in range(len(name) + 1))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])
