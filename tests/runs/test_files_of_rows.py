"""Small parts: files of rows, in Parquet and on lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.parquet_tables import read_rows, write_row_table
from tiltyard.runs.manifest import json_line, parse_document, read_lines, write_lines

COLUMNS = {"name": str, "n": int, "x": float}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
    st.lists,
    max_leaves=9,
)


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.integers(-(2**63), 2**63 - 1)), max_size=9))
def test_rows_come_back_as_they_were_written(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    rows = [{"name": name, "n": n, "x": 0.5} for name, n in drawn]
    assert write_row_table(path, COLUMNS, iter(rows)) == len(rows)
    assert list(read_rows(path, COLUMNS)) == rows


def test_many_rows_come_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("tiltyard.files.parquet_tables._CHUNK_ROWS", 7)
    rows = [{"name": str(k), "n": k, "x": None} for k in range(50)]
    write_row_table(tmp_path / "rows.parquet", COLUMNS, rows)
    assert list(read_rows(tmp_path / "rows.parquet", COLUMNS)) == rows


@pytest.mark.parametrize(
    "row", [{"name": 3}, {"n": "three"}, {"n": True}, {"n": 0.5}, {"n": 2**63}, {"name": "\ud800"}]
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_left(row, tmp_path):
    with pytest.raises(BadOption, match=r"row.* 1"):
        write_row_table(tmp_path / "rows.parquet", COLUMNS, [{"name": "a", "n": 1, "x": 0.0} | row])
    assert list(tmp_path.iterdir()) == []


def test_other_columns_are_refused(tmp_path):
    write_row_table(tmp_path / "rows.parquet", COLUMNS, [])
    with pytest.raises(UnreadableFile, match="columns"):
        list(read_rows(tmp_path / "rows.parquet", {"name": str, "n": int}))
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadableFile):
        list(read_rows(tmp_path / "rows.parquet", COLUMNS))


@given(st.dictionaries(st.text(), values, max_size=5))
def test_lines_come_back_as_they_were_written(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("lines") / "more" / "rows.jsonl"
    write_lines(path, [row, {}])
    assert [found for _, found in read_lines(path)] == [row, {}]
    assert path.read_bytes() == json_line(row) + b"{}\n"


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"a": 1, "a": 2}', b"\xff", b"", b"[" * 100_000, b"{} {}"])
def test_what_is_no_object_is_named_with_its_line(line, tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(UnreadableFile, match=r"^rows\.jsonl, line 2: "):
        list(read_lines(tmp_path / "rows.jsonl"))


def test_a_missing_file_and_numbers_that_json_lacks_are_refused(tmp_path):
    with pytest.raises(UnreadableFile, match="No such file"):
        list(read_lines(tmp_path / "rows.jsonl"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_line({"x": float("nan")})
    assert parse_document("here", b"3") == 3
