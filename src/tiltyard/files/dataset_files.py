"""Decides which files of a dataset a path means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from glob import has_magic

from tiltyard.errors import UnreadableFile

#: The end of a shard's name: ``train-00000-of-00007``, formerly with a hash.
_SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?$")
_DATA_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".csv", ".csv.gz")
#: What the hub calls a split of which it converted the first gigabytes only.
_PARTIAL = "partial-"
_LISTED_COUNT = 10


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
    _check_splits(place, tables)
    return tables


def list_files(names: Sequence[str]) -> str:
    """The data files of a dataset, for messages."""
    files = sorted(name for name in names if name.endswith(_DATA_ENDINGS))
    if not files:
        return "the dataset has no files of data that can be read"
    rest = f" and {len(files) - _LISTED_COUNT} more" if len(files) > _LISTED_COUNT else ""
    return f"the dataset has {', '.join(files[:_LISTED_COUNT])}{rest}"


def _check_splits(place: str, tables: Sequence[str]) -> None:
    """Raise if the files are of several splits or subsets, or of a split that is not complete."""
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
