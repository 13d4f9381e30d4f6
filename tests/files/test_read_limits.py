"""Bounds of readers: lines, expansion, JSON, zip archives and Parquet."""

import gzip
import io
import json
import warnings
import zipfile

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.log_archives import log, log_members
from tiltyard.errors import UnreadableFile
from tiltyard.files import input_file, open_battles, parquet_records
from tiltyard.files.answers import read_answers
from tiltyard.files.json_records import FINITE_DECODER, JsonScanner, parse_json_text
from tiltyard.files.parquet_records import check_parquet, read_parquet_sizes

BATTLE = b'{"model_a": "a", "model_b": "b", "winner": "model_a"}\n'
TABLE = pa.table(
    {
        "model_a": ["a", "b", "c"] * 400,
        "model_b": ["x", "y", "z"] * 400,
        "winner": ["model_a", "tie", "model_b"] * 400,
        "turns": [[{"role": "user", "content": f"turn {k}"}] for k in range(1200)],
        "mood": [k / 1200 for k in range(1200)],
    }
)


def battles(path):
    return list(open_battles(path).battles())


@pytest.mark.parametrize("size", [100, 101])
def test_a_line_has_a_limit(tmp_path, monkeypatch, size):
    monkeypatch.setattr(input_file, "LINE_BYTES", 100)
    path = tmp_path / "battles.jsonl"
    path.write_bytes(BATTLE + BATTLE.strip().ljust(size - 1) + b"\n")
    if size == 100:
        assert len(battles(path)) == 2
    else:
        with pytest.raises(UnreadableFile, match=r"line 2.*longer than 100"):
            battles(path)


def test_a_compressed_file_may_expand_only_so_much(tmp_path, monkeypatch):
    monkeypatch.setattr(input_file, "EXPANSION_FLOOR_BYTES", 1 << 16)
    monkeypatch.setattr(input_file, "is_bomb", lambda size, packed: size > max(1 << 16, 100 * packed))
    path = tmp_path / "battles.jsonl.gz"
    path.write_bytes(gzip.compress(BATTLE * 1000, mtime=0))
    assert len(battles(path)) == 1000
    path.write_bytes(gzip.compress(BATTLE * 100_000, mtime=0))
    with pytest.raises(UnreadableFile, match="trust it, unpack"):
        battles(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "the key 'c' occurs twice in an object; remove one"),
        ("[" * 201 + "]" * 201, "nested too deeply to be read; the limit is 200 levels"),
        ("[" * 100_000, "nested too deeply to be read"),
        ('{"a": ' + "9" * 5000 + "}", r"cannot be read \(Exceeds the limit \(4300 digits\) [^;]*\)$"),
        ("[" + "[]," * 1_000_001 + "0]", "more than 1,000,000 lists and objects"),
        ('{"a": NaN}', "NaN is not a number of JSON; write null"),
        ("{", "not JSON"),
    ],
)
def test_json_has_limits(text, told):
    with pytest.raises(UnreadableFile, match=f"^here: .*{told}"):
        parse_json_text("here", text, FINITE_DECODER)


def test_json_up_to_the_limits_is_read():
    value = json.loads("[" * 200 + "]" * 200)
    assert parse_json_text("here", json.dumps(value)) == value


@pytest.mark.parametrize(
    "text", ['[{"a": "\0', '[{"a": tru, "b": "' + "x" * 100, '[{"a": 1 "b": ' + "2" * 100]
)
def test_what_more_text_cannot_mend_is_not_read_further(text):
    stream = io.StringIO(text + " " * 1_000_000)
    scanner = JsonScanner("here", stream)
    values = (scanner.value(where) for where in scanner.elements())
    with pytest.raises(UnreadableFile, match="not JSON"):
        list(values)
    assert stream.tell() < 200_000


def test_a_long_number_is_not_decoded_again_for_every_chunk():
    text = "[0." + "9" * 3_000_000 + "]"
    scanner = JsonScanner("here", io.StringIO(text))
    assert [scanner.value(where)[1] for where in scanner.elements()] == [1.0]


def test_a_workbook_with_one_name_twice_is_refused_and_a_log_keeps_the_later(tmp_path):
    path = tmp_path / "book.xlsx"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        for name in ("xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/worksheets/sheet1.xml"):
            archive.writestr(name, "<a/>")
    with pytest.raises(UnreadableFile, match=r"'xl/worksheets/sheet1\.xml'"):
        list(read_answers(path))
    members = log_members(log())
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in members.items():
            archive.writestr(name, b"not JSON")
            archive.writestr(name, data)
    assert list(read_answers(tmp_path / "log.eval"))


def test_the_directory_of_an_archive_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("tiltyard.files.zip_members.ARCHIVE_READ_BYTES", 2000)
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(100):
            archive.writestr(f"samples/{number}", b"")
    with pytest.raises(UnreadableFile, match="directory"):
        list(read_answers(path))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "gzip"},
        {"data_page_version": "2.0"},
        {"use_dictionary": False},
        {"row_group_size": 100},
        {"write_page_index": True, "write_page_checksum": True},
        {"compression": "none", "data_page_size": 64},
    ],
    ids=str,
)
def test_sizes_of_parquet_are_those_that_arrow_states(tmp_path, options):
    path = tmp_path / "table.parquet"
    pq.write_table(TABLE, path, **options)
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    stated = sum(one.column(k).total_uncompressed_size for one in groups for k in range(one.num_columns))
    with path.open("rb") as file:
        sizes, rows = read_parquet_sizes("table", file)
    assert rows == 1200
    # Arrow counts the headers of pages as well.
    assert 0.2 * stated <= sizes.unpacked_bytes <= stated
    assert len(battles(path)) == 1200


def test_parquet_of_other_writers_is_read(tmp_path):
    pl.from_arrow(TABLE).write_parquet(tmp_path / "polars.parquet")
    duckdb.from_arrow(TABLE).write_parquet(str(tmp_path / "duckdb.parquet"))
    TABLE.to_pandas().to_parquet(tmp_path / "pandas.parquet")
    pq.write_table(TABLE.slice(0, 0), tmp_path / "empty.parquet")
    for name in ("polars", "duckdb", "pandas"):
        assert len(battles(tmp_path / f"{name}.parquet")) == 1200
    assert battles(tmp_path / "empty.parquet") == []


def test_a_page_of_parquet_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_records, "PAGE_BYTES", 1000)
    path = tmp_path / "battles.parquet"
    pq.write_table(TABLE, path, use_dictionary=False)
    with pytest.raises(UnreadableFile, match="1,000 bytes; write"):
        battles(path)


def test_a_repeated_text_is_delivered_in_small_batches_and_not_without_end(tmp_path, monkeypatch):
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 100_000]))
    path = tmp_path / "answers.parquet"
    columns = {
        name: pa.array([f"{name} {k}" for k in range(2000)]) for name in ("prompt_id", "prompt", "model")
    }
    pq.write_table(pa.table(columns | {"response": text}), path)
    monkeypatch.setattr(parquet_records, "_BATCH_BYTES", 1 << 20)
    assert len(list(read_answers(path))) == 2000
    monkeypatch.setattr(parquet_records, "DELIVERED_FLOOR_BYTES", 1 << 20)
    with pytest.raises(UnreadableFile, match="than 100 times"):
        list(read_answers(path))


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x19" * 5000,
        b"\x1f",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x16\x02\x19\xfc\xff\xff\xff\x0f",
        b"\x16" + b"\xff" * 30,
    ],
)
def test_a_footer_that_lies_is_one_error(footer):
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(UnreadableFile, match="damaged Parquet"):
        check_parquet("table", io.BytesIO(data))
