"""Reads an upload in a process of its own, with limits: ``python -m tiltyard.files.upload_process``

Parquet, zip and XML are read by libraries in native code. What a file makes of them ends with the process:
its memory, its time, a crash. The process gets no environment, and writes its rows as JSON Lines, which the parent
checks like those of any stranger.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tiltyard.errors import InputError, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.files.answer_formats.answer_columns import ColumnChoice, TableColumns
from tiltyard.files.input_file import bounded_lines, format_bytes
from tiltyard.files.json_records import load_json
from tiltyard.files.upload_reader import UPLOAD_NAME, BadRow, UploadReader

#: What a process may take: address space (libraries reserve half a gigabyte), CPU time, time, one file, open files.
ADDRESS_SPACE_BYTES = 2 << 30
CPU_SECONDS = 60
PROCESS_SECONDS = 120.0
FILE_BYTES = 1 << 30
_DESCRIPTOR_LIMIT = 64
#: Processes at the same time, of one server process; more uploads wait.
_PROCESS_LIMIT = 2
_MODULE = "tiltyard.files.upload_process"
_ROWS = "rows.jsonl"
_FILES = "files"
#: Variables that are no secrets, and that Python may need to start.
_PASSED_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")

_slots = threading.BoundedSemaphore(_PROCESS_LIMIT)


def rows_from_process(reader: UploadReader) -> Iterator[tuple[str, Answer] | BadRow]:
    """The rows of an upload, read by another process; as `UploadReader.rows`, and sets the same fields."""
    assert reader.folder is not None
    with _slots:
        problem = _run(reader)
    if problem is not None:
        yield BadRow(UPLOAD_NAME, None, problem, last=True)
        return
    try:
        with (reader.folder / _ROWS).open("rb") as file:
            for line in bounded_lines(UPLOAD_NAME, file):
                row = load_json(UPLOAD_NAME, line)
                if "bad" in row:
                    yield BadRow(**row["bad"])
                elif "answer" in row:
                    yield row["where"], Answer.from_dict(row["answer"], row["where"])
                elif "format" in row:
                    reader.format = str(row["format"])
                    reader.beside = _inside(reader.folder / _FILES, row["beside"])
                    columns = row.get("columns")
                    reader.columns = columns and TableColumns.from_dict(columns)
                else:
                    reader.left_out += [(str(reason), int(count)) for reason, count in row["left_out"]]
    except (InputError, AttributeError, KeyError, TypeError, ValueError, OSError):
        yield BadRow(UPLOAD_NAME, None, "its reader failed; split it, or save it as JSON Lines", last=True)


def _run(reader: UploadReader) -> str | None:
    """Read the file into the folder; return what went wrong."""
    command = [sys.executable, "-m", _MODULE, str(reader.path), str(reader.folder), str(reader.most)]
    command.append(json.dumps(None if reader.choice is None else asdict(reader.choice)))
    passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603  our own module
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=passed | {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
            timeout=PROCESS_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"reading it takes longer than {PROCESS_SECONDS:.0f} seconds; split it"
    if done.returncode == 0:
        return None
    return (
        f"reading it takes more than {format_bytes(ADDRESS_SPACE_BYTES)} of memory or {CPU_SECONDS} seconds, or "
        "it is damaged; split it, or save it as JSON Lines"
    )


def _inside(files: Path, stated: str | None) -> Path | None:
    """The folder that the process states, if it lies in the one that it was given."""
    if stated is None:
        return None
    root, place = files.resolve(), (files / stated).resolve()
    if not place.is_relative_to(root):
        raise UnreadableFile(f"{UPLOAD_NAME}: its reader names a folder of others")
    return place


def main() -> None:
    """Read the file that the arguments name."""
    path, folder, most = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    chosen = json.loads(sys.argv[4])
    _limit()
    files = folder / _FILES
    files.mkdir()
    reader = UploadReader(path, files, most, None if chosen is None else ColumnChoice(**chosen))
    try:
        with (folder / _ROWS).open("wb") as file:
            rows = reader.rows()
            first = list(itertools.islice(rows, 1))
            beside = None if reader.beside is None else str(reader.beside.relative_to(files))
            columns = reader.columns and asdict(reader.columns)
            file.write(_written({"format": reader.format, "beside": beside, "columns": columns}))
            for row in itertools.chain(first, rows):
                file.write(_line(row))
            file.write(_written({"left_out": reader.left_out}))
    except (MemoryError, OSError):
        os._exit(3)


def _line(row: tuple[str, Answer] | BadRow) -> bytes:
    if isinstance(row, BadRow):
        return _written({"bad": asdict(row)})
    return _written({"where": row[0], "answer": row[1].to_dict()})


def _written(row: dict[str, object]) -> bytes:
    return json.dumps(row, default=str).encode() + b"\n"


def _limit() -> None:
    wanted = {
        resource.RLIMIT_AS: ADDRESS_SPACE_BYTES,
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: _DESCRIPTOR_LIMIT,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in wanted.items():
        _, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))


if __name__ == "__main__":
    main()
