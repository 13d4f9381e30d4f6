"""Opens whatever holds battles: paths, patterns of paths, frames of other libraries, rows."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Any

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadOption, CannotRate, UnreadableFile
from tiltyard.files.battle_source import BattleSource, open_memory, open_path
from tiltyard.files.frame_records import FrameRecords, column_table, is_frame
from tiltyard.files.input_address import address_of
from tiltyard.files.list_records import ListRecords
from tiltyard.files.read_options import ReadOptions

#: A path or a pattern, a frame (any object with ``__arrow_c_stream__``), a mapping of columns, or an
#: iterable of paths, of rows or of battles.
BattleData = (
    str | os.PathLike[str] | BattleSource | Mapping[str, Any] | Iterable[Mapping[str, Any] | Battle] | Any
)

_ACCEPTED = (
    "a path, an address, or a pattern such as 'votes/*.parquet', a frame of pandas, polars, DuckDB or Arrow, "
    "a mapping of columns, or a list of rows"
)


def open_data(data: BattleData, options: ReadOptions) -> list[BattleSource]:
    """Open battles, wherever they are; several paths are several sources."""
    if isinstance(data, BattleSource):
        return [data]
    if isinstance(data, str | os.PathLike):
        return [open_path(path, options) for path in _matching_paths(data)]
    if is_frame(data):
        return [open_memory(FrameRecords.opened(data), options)]
    name = f"the {type(data).__name__}"
    if isinstance(data, Mapping):
        table = column_table(name, data)
        return [open_memory(FrameRecords.opened(table, name), options)]
    if hasattr(data, "collect"):
        raise BadOption(f"{name} is not computed yet; pass what its collect() returns")
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise BadOption(f"cannot read battles from {type(data).__name__}; give {_ACCEPTED}")
    rows = tuple(data)
    if not rows:
        raise CannotRate(f"no battles: {name} is empty")
    if rows and all(isinstance(row, str | os.PathLike) for row in rows):
        return [source for path in rows for source in open_data(path, options)]
    return [open_memory(ListRecords.opened(rows, name), options)]


def _matching_paths(path: str | os.PathLike[str]) -> list[str]:
    """The files that a pattern matches; a path that exists is not a pattern."""
    text = os.fspath(path)
    if address_of(path) is not None:
        return [text]
    if text == "-" or not glob.has_magic(text) or os.path.lexists(text):
        return [text]
    paths = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - a pattern may be absolute
    if not paths:
        raise UnreadableFile(f"{text}: no file matches; check the pattern")
    return paths
