"""Files made to harm whoever opens them: they expand, lie about their size, nest, or never end. All are small on disk."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.media_files import png_chunk

GIBIBYTE = 1 << 30
BATTLE = b'{"model_a": "a", "model_b": "b", "winner": "model_a"}\n'
ANSWER = b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "r"}\n'


def gzip_of(data: bytes, times: int) -> bytes:
    """The same bytes many times, as one gzip file: members may follow each other."""
    return gzip.compress(data, mtime=0) * times


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def _relations(kind: str, target: str) -> bytes:
    return f'<Relationships><Relationship Id="r1" Type="{RELATION}/{kind}" Target="{target}"/></Relationships>'.encode()


def workbook(sheet: str, strings: str = "<sst/>") -> bytes:
    return zipped(
        {
            "_rels/.rels": _relations("officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns:r="{RELATION}"><sheets><sheet name="A" r:id="r1"/></sheets></workbook>'.encode(),
            "xl/_rels/workbook.xml.rels": _relations("worksheet", "worksheets/sheet1.xml"),
            "xl/worksheets/sheet1.xml": sheet.encode(),
            "xl/sharedStrings.xml": strings.encode(),
        }
    )


def inspect_log(sample: bytes, **members: bytes) -> bytes:
    header = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}
    return zipped({"header.json": json.dumps(header).encode(), "samples/1_epoch_1.json": sample} | members)


def parquet(table: pa.Table, **options: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def overlapping_zip(copies: int, size: int) -> bytes:
    """One compressed member that the directory lists many times."""
    packed = zlib.compress(bytes(size), 9)[2:-4]
    checksum = zlib.crc32(bytes(size))
    facts = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, checksum, len(packed), size, 20, 0)
    body = b"PK\3\4" + facts + b"samples/0_epoch_0000" + packed
    directory = b""
    for number in range(copies):
        name = b"samples/0_epoch_%04d.json" % number if number else b"header.json"
        entry = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, checksum, len(packed), size, len(name), 0)
        directory += b"PK\1\2\x14\0" + entry + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<HHHHIIH", 0, 0, copies, copies, len(directory), len(body), 0)
    return body + directory + b"PK\5\6" + end


def sparse(start: bytes, size: int) -> Callable[[Path], None]:
    """A file that begins with some bytes, and has a hole up to its end."""

    def make(path: Path) -> None:
        path.write_bytes(start)
        os.truncate(path, size)

    return make


def big_dictionary_parquet() -> bytes:
    """A text of 16 MB, which every one of 100,000 rows names."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * (1 << 24)]))
    columns = {name: pa.array([name] * 100_000) for name in ("model_a", "model_b", "winner")}
    return parquet(
        pa.table(columns | {"prompt_id": text, "prompt": text, "model": text, "response": text}),
        write_statistics=False,
    )


def bomb_parquet(size: int) -> bytes:
    """Texts of zeros, which a few bytes hold."""
    text = pa.array(["\0" * (1 << 20)] * (size >> 20), pa.large_string())
    names = ("model_a", "model_b", "winner", "prompt_id", "prompt", "model", "response")
    columns = dict.fromkeys(names, text)
    return parquet(pa.table(columns), compression="zstd", use_dictionary=False)


def lying_parquet() -> bytes:
    """Pages that state another size than they have: every 32-bit number of a page header is made the largest."""
    data = bytearray(parquet(pa.table({name: ["x" * 3000] * 9 for name in ("model_a", "model_b", "winner")})))
    # A page header (Thrift, compact) begins with its type, and then states both sizes as variable integers.
    at = data.find(b"\x15", 4)
    data[at + 2 : at + 8] = b"\x15\xfe\xff\xff\xff\x0f"
    return bytes(data)


def many_rows_parquet(rows: int) -> bytes:
    """Rows that are all alike take next to nothing."""
    stream = io.BytesIO()
    names = ("model_a", "model_b", "winner")
    values = pa.table({name: pa.array([name] * 1_000_000).dictionary_encode() for name in names})
    with pq.ParquetWriter(stream, values.schema) as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(values)
    return stream.getvalue()


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def tar_entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def sparse_tar(size: int) -> bytes:
    """An entry in GNU's sparse format: a few bytes stand for as many zeros as it states."""
    info = tarfile.TarInfo("manifest.json")
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[156:157] = tarfile.GNUTYPE_SPARSE
    head[386:398] = b"%011o\0" % (size - 512 if size < 8**11 else 8**11 - 1)
    head[398:410] = b"%011o\0" % 0
    head[483:495] = b"%011o\0" % min(size, 8**11 - 1)
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + bytes(1024)


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 16, 6, 0, 0, 0)
    data = zlib.compress(bytes(1 << 24), 9)
    return png(png_chunk(b"IHDR", header), png_chunk(b"IDAT", data), png_chunk(b"IEND", b""))


def profile_bomb_png() -> bytes:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    profile = b"x\0\0" + zlib.compress(bytes(1 << 26), 9)
    parts = (
        png_chunk(b"IHDR", header),
        png_chunk(b"iCCP", profile),
        png_chunk(b"IDAT", zlib.compress(b"\0\0\0\0")),
    )
    return png(*parts, png_chunk(b"IEND", b""))


def lying_wav() -> bytes:
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 2, 44100, 2**32 - 1, 65535, 65535)
    return (
        b"RIFF"
        + struct.pack("<I", 2**32 - 1)
        + b"WAVE"
        + form
        + b"data"
        + struct.pack("<I", 2**32 - 1)
        + b"\0\0"
    )


def deep(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * levels + closing * levels).encode()


def battle(more: bytes) -> bytes:
    return BATTLE.rstrip().removesuffix(b"}") + b", " + more + b"}\n"


def answer(more: bytes) -> bytes:
    return ANSWER.rstrip().removesuffix(b"}") + b", " + more + b"}\n"


TEXTUAL = ("battles-jsonl", "answers-jsonl", "upload", "import-body")
ZIPPED = ("answers-xlsx", "upload")

#: By name: the parsers that are given the file, and its bytes or what writes it.
HOSTILE_FILES: dict[str, tuple[tuple[str, ...], Callable[[], bytes] | Callable[[Path], None]]] = {
    "gzip bomb without lines": (TEXTUAL[:3], lambda: gzip_of(bytes(1 << 24), 128)),
    "gzip bomb of empty lines": (TEXTUAL[:3], lambda: gzip_of(b"\n" * (1 << 24), 128)),
    "gzip bomb after a battle": (TEXTUAL[:3], lambda: gzip.compress(BATTLE) + gzip_of(bytes(1 << 24), 128)),
    "gzip in gzip": (TEXTUAL[:3], lambda: gzip.compress(gzip_of(bytes(1 << 24), 64))),
    "zip in gzip": (("answers-xlsx", "upload"), lambda: gzip.compress(workbook("<worksheet/>"))),
    "zstd bomb": (TEXTUAL[:3], lambda: pa.compress(BATTLE + bytes(GIBIBYTE >> 2), codec="zstd", asbytes=True)),
    "zip bomb": (("answers-inspect-eval", "upload"), lambda: inspect_log(bytes(GIBIBYTE >> 3))),
    "zip bomb of media": (("upload",), lambda: zipped({"answers.jsonl": ANSWER, "x.png": bytes(1 << 29 >> 1)})),
    "zip with overlapping members": (("answers-inspect-eval", "upload"), lambda: overlapping_zip(4000, 1 << 22)),
    "zip with parent names": (("upload",), lambda: zipped({"answers.jsonl": ANSWER, "../../x.png": b"x"})),
    "zip with absolute names": (("upload",), lambda: zipped({"answers.jsonl": ANSWER, "/tmp/x.png": b"x"})),
    "zip with zip": (("upload",), lambda: zipped({"a.zip": zipped({"answers.jsonl": ANSWER})})),
    "zip compressed by lzma": (("upload", "answers-xlsx"), lambda: zipped({"xl/workbook.xml": b"<a/>"}, zipfile.ZIP_LZMA)),
    "xlsx bomb": (ZIPPED, lambda: workbook("<worksheet><sheetData>" + "<row><c><v>1</v></c></row>" * 3_000_000)),
    "xlsx strings bomb": (ZIPPED, lambda: workbook("<a/>", "<sst>" + "<si><t>x</t></si>" * 5_000_000 + "</sst>")),
    "xlsx with nested elements": (ZIPPED, lambda: workbook("<worksheet>" + "<v>x" * (1 << 20))),
    "xlsx with entities": (
        ZIPPED,
        lambda: workbook('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><worksheet>&a;</worksheet>'),
    ),
    "xlsx with a number of many digits": (ZIPPED, lambda: workbook(f'<worksheet><row r="{"9" * 100_000}"><c><v>{"9" * 100_000}</v></c></row></worksheet>')),
    "xlsx with a cell far away": (ZIPPED, lambda: workbook('<worksheet><sheetData><row r="1"><c r="A1"><v>1</v></c><c r="XFD1048576"><v>1</v></c></row></sheetData></worksheet>')),
    "xlsx that states many texts": (ZIPPED, lambda: workbook("<worksheet><sheetData/></worksheet>", '<sst uniqueCount="999999999999"/>')),
    "json nested in a line": (TEXTUAL, lambda: battle(b'"prompt_id": "p", "prompt": "?", "model": "m", "response": "r", "x": ' + deep(100_000))),
    "json nested a little": (TEXTUAL, lambda: battle(b'"prompt_id": "p", "prompt": "?", "model": "m", "response": "r", "x": ' + deep(900))),
    "json nested in messages": (TEXTUAL, lambda: b'{"prompt_id": "p", "model": "m", "messages": [{"role": "user", "content": ' + deep(950) + b"}]}\n"),
    "json document nested": (("answers-inspect-json", "battles-json", "run-manifest", "board-document"), lambda: b'{"eval": ' + deep(100_000) + b"}"),
    "json list nested": (("battles-json",), lambda: deep(100_000)),
    "json of empty lists": (TEXTUAL, lambda: battle(b'"x": [' + b"[]," * (1 << 23) + b"0]")),
    "json number of many digits": (TEXTUAL, lambda: battle(b'"weight": ' + b"9" * 10_000_000)),
    "json fraction of many digits": (TEXTUAL, lambda: battle(b'"weight": 0.' + b"9" * 10_000_000)),
    "json duplicate keys": (TEXTUAL, lambda: battle(b'"winner": "model_b"')),
    "answers duplicate keys": (TEXTUAL[1:], lambda: answer(b'"model": "n"')),
    "json not a number": (TEXTUAL, lambda: battle(b'"pref": NaN')),
    "answers not a number": (TEXTUAL[1:], lambda: answer(b'"category": NaN')),
    "json infinity": (TEXTUAL, lambda: battle(b'"weight": Infinity')),
    "manifest duplicate keys": (("run-manifest",), lambda: b'{"format": 1, "format": 1}'),
    "manifest not a number": (("run-manifest",), lambda: b'{"format": NaN}'),
    "bytes that are no text": (TEXTUAL, lambda: BATTLE + b'{"model_a": "\xff\xfe"}\n'),
    "byte-order mark of UTF-16": (TEXTUAL, lambda: BATTLE.decode().encode("utf-16")),
    "lone surrogates": (TEXTUAL, lambda: battle(b'"category": "\\ud800"')),
    "sparse lines": (TEXTUAL, sparse(BATTLE, 64 * GIBIBYTE)),
    "sparse csv": (("battles-csv", "answers-table", "upload"), sparse(b"model_a,model_b,winner\na,b,model_a\n", 64 * GIBIBYTE)),
    "csv quote that does not end": (("battles-csv", "answers-table"), sparse(b'model_a,model_b,winner\na,b,"', 64 * GIBIBYTE)),
    "csv of delimiters": (("battles-csv", "answers-table", "upload"), lambda: b"model_a,model_b,winner\n" + b"," * (1 << 25)),
    "sparse json": (("battles-json", "answers-inspect-json", "upload"), sparse(b'[{"model_a": "', 64 * GIBIBYTE)),
    "sparse parquet": (("battles-parquet", "run-columns"), sparse(b"PAR1", 64 * GIBIBYTE)),
    "sparse manifest": (("run-manifest",), sparse(b'{"format": 1', 64 * GIBIBYTE)),
    "sparse backup": (("backup",), sparse(b"", 64 * GIBIBYTE)),
    "sparse replies": (("recorded-replies",), sparse(b"{}\n", 64 * GIBIBYTE)),
    "sparse dump": (("dump",), sparse(b"PGDMP\1\x10\0\4\x08\1" + b"\xff" * 40, 1 << 20)),
    "parquet bomb": (("battles-parquet", "answers-parquet", "upload", "run-columns"), lambda: bomb_parquet(GIBIBYTE >> 3)),
    "parquet of a repeated text": (("battles-parquet", "answers-parquet", "upload"), big_dictionary_parquet),
    "parquet of many rows": (("battles-parquet", "run-columns"), lambda: many_rows_parquet(20_000_000)),
    "parquet with lying pages": (("battles-parquet", "run-columns"), lying_parquet),
    "tar that links to itself": (
        ("backup",),
        lambda: tar_of(
            tar_entry("manifest.json", type=tarfile.SYMTYPE, linkname="other"),
            tar_entry("other", type=tarfile.SYMTYPE, linkname="manifest.json"),
        ),
    ),
    "tar with holes": (("backup",), lambda: sparse_tar(4 * GIBIBYTE)),
    "tar with an entry for a device": (("backup",), lambda: tar_of(tar_entry("manifest.json", type=tarfile.CHRTYPE))),
    "backup with nested manifest": (("backup",), lambda: tar_of(tar_entry("manifest.json", deep(100_000)))),
    "backup with other values": (("backup",), lambda: tar_of(tar_entry("manifest.json", b'{"format": 1, "made_at": 1, "tiltyard": 1, "postgresql": 1, "arenas": 1, "members": [1]}'))),
    "image of giant dimensions": (("image",), huge_png),
    "image with a profile bomb": (("image",), profile_bomb_png),
    "audio with lying sizes": (("audio",), lying_wav),
}  # fmt: skip
