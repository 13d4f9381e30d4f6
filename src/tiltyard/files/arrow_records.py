"""Arrow files in the streaming format, as ``datasets.Dataset.save_to_disk`` writes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.ipc

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import Record, reject_duplicate_columns, translate_read_errors

_STATE = "state.json"
_SPLITS = "dataset_dict.json"
_STATE_BYTES = 1 << 24
#: Rows converted to Python objects at a time: conversations are large.
_BATCH_ROWS = 256


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return (folder / _STATE).is_file() or (folder / _SPLITS).is_file()


@dataclass(frozen=True)
class ArrowRecords:
    """The files of one saved data set, in order; absent values are left out of the records."""

    name: str
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    kind: ClassVar[str] = "arrow"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, folder: Path) -> ArrowRecords:
        """Open a saved data set, or one with a single split."""
        home = _split(folder)
        listed = _read(home / _STATE).get("_data_files")
        named = listed if isinstance(listed, list) else []
        names = [one.get("filename") for one in named if isinstance(one, Mapping)]
        files = tuple(home / Path(name).name for name in names if isinstance(name, str))
        if not files:
            raise UnreadableFile(f"{folder}: {_STATE} lists no files")
        with translate_read_errors(str(files[0])), pa.memory_map(str(files[0])) as source:
            columns = pa.ipc.open_stream(source).schema.names
        reject_duplicate_columns(str(files[0]), columns)
        return cls(str(folder), files, tuple(columns))

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        number = 0
        for path in self.files:
            with translate_read_errors(str(path)), pa.memory_map(str(path)) as source:
                for batch in pa.ipc.open_stream(source):
                    batch.validate(full=True)
                    wanted = [name for name in batch.schema.names if columns is None or name in columns]
                    chosen = batch.select(wanted)
                    for start in range(0, batch.num_rows, _BATCH_ROWS):
                        for row in chosen.slice(start, _BATCH_ROWS).to_pylist():
                            number += 1
                            yield (
                                f"{self.name}, row {number}",
                                {k: v for k, v in row.items() if v is not None},
                            )


def _split(folder: Path) -> Path:
    if (folder / _STATE).is_file():
        return folder
    splits = _read(folder / _SPLITS).get("splits")
    names = [name for name in splits if isinstance(name, str)] if isinstance(splits, list) else []
    if len(names) != 1:
        raise UnreadableFile(f"{folder}: has the splits {', '.join(names)}; name the folder of one of them")
    return folder / Path(names[0]).name


def _read(path: Path) -> Mapping[str, Any]:
    with translate_read_errors(str(path)), path.open("rb") as stream:
        try:
            found = json.loads(stream.read(_STATE_BYTES))
        except RecursionError:
            found = None
    return found if isinstance(found, dict) else {}
