"""Makes zip archives as other tools do, also with zstd, which Python's module cannot write before 3.14."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.format_samples import FIXTURES

LOG = FIXTURES / "answers/inspect_log.json"
ZSTD = 93


def write_zip(path: Path, members: Mapping[str, bytes], *, method: int = ZSTD, **lies: int) -> Path:
    """Write an archive. ``lies`` are wrong values of ``size`` or ``crc`` in the directory."""
    body, directory = b"", b""
    for name, data in members.items():
        packed = _packed(data, method)
        label = name.encode()
        facts = struct.pack(
            "<HHHHHIIIHH",
            63,
            0x800,
            method,
            0,
            33,
            lies.get("crc", zlib.crc32(data)),
            len(packed),
            lies.get("size", len(data)),
            len(label),
            0,
        )
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + facts
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + label
        body += b"PK\x03\x04" + facts + label + packed
    count = len(members)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


def _packed(data: bytes, method: int) -> bytes:
    if method == zipfile.ZIP_STORED:
        return data
    if method == zipfile.ZIP_DEFLATED:
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(data) + packer.flush()
    # Two frames, as Inspect writes large members.
    half = len(data) // 2
    return b"".join(pa.compress(part, codec="zstd", asbytes=True) for part in (data[:half], data[half:]))


def log_members(log: Mapping[str, Any]) -> dict[str, bytes]:
    """The members of an ``.eval`` log with the contents of a ``.json`` log."""
    header = {name: value for name, value in log.items() if name != "samples"}
    members = {"_journal/start.json": {"version": 2, "eval": log["eval"], "plan": log.get("plan")}}
    members |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in log["samples"]}
    members |= {"summaries.json": [], "header.json": header}
    return {name: json.dumps(value).encode() for name, value in members.items()}


def log() -> dict[str, Any]:
    return json.loads(LOG.read_text(encoding="utf-8"))
