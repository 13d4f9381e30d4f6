"""NumPy columns in Parquet: what is written is read again, and nothing else is read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.parquet_tables import read_arrays, write_arrays

KINDS = {"n": "integer", "at": "time", "flag": "flag", "x": "number", "name": "text"}
COLUMNS = {
    "n": np.array([0, -1, 2**63 - 1]),
    "at": np.array([1_700_000_000_123_456, -1, 0]),
    "flag": np.array([0, 1, -1]),
    "x": np.array([np.nan, -1.0, 0.1]),
    "name": ["", "é\u0000", "-1"],
}


def written(path, kinds=KINDS, columns=COLUMNS):
    with path.open("wb") as file:
        assert write_arrays(file, kinds, columns) == len(columns["n"])
    return path


def test_what_is_written_is_read_again(tmp_path):
    path = written(tmp_path / "one.parquet")
    for name, values in read_arrays(path, KINDS).items():
        expected = np.array(COLUMNS[name], dtype=values.dtype)
        np.testing.assert_array_equal(values, expected)


def test_other_programs_see_nulls_times_and_flags(tmp_path):
    table = pq.read_table(written(tmp_path / "one.parquet"))
    assert table.schema.types == [
        pa.int64(),
        pa.timestamp("us", "UTC"),
        pa.bool_(),
        pa.float64(),
        pa.string(),
    ]
    assert [column.null_count for column in table.columns] == [1, 1, 1, 1, 0]
    assert table.column("flag").to_pylist() == [False, True, None]


def test_tables_without_rows_keep_their_types(tmp_path):
    empty = {name: np.array([]) for name in KINDS}
    columns = read_arrays(written(tmp_path / "none.parquet", columns=empty), KINDS)
    assert [len(values) for values in columns.values()] == [0] * len(KINDS)
    assert columns["n"].dtype == columns["at"].dtype == columns["flag"].dtype == np.int64


def test_the_same_columns_are_the_same_bytes(tmp_path):
    made = [written(tmp_path / name).read_bytes() for name in ("a", "b")]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "kinds",
    [{"n": "integer"}, {**KINDS, "more": "text"}, {**KINDS, "n": "number"}, dict(reversed(KINDS.items()))],
)
def test_other_columns_are_refused(tmp_path, kinds):
    with pytest.raises(UnreadableFile, match="columns are not"):
        read_arrays(written(tmp_path / "one.parquet"), kinds)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 100])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "one.parquet").write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"one\.parquet"):
        read_arrays(tmp_path / "one.parquet", KINDS)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n", [1, 2]),
        ("n", ["x", "y", "z"]),
        ("n", [2**63, 0, 0]),
        ("name", ["\ud800", "", ""]),
        ("name", [1, 2, 3]),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path, name, values):
    with (
        (tmp_path / "one.parquet").open("wb") as file,
        pytest.raises(BadOption, match="does not fit"),
    ):
        write_arrays(file, KINDS, {**COLUMNS, name: values})
