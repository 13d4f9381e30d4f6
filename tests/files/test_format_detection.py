"""Formats are told apart by their columns, containers by their bytes."""

from __future__ import annotations

import pytest

from support.format_samples import FIXTURES, FORMATS, as_parquet
from tiltyard.errors import BadOption, UnknownFormat, UnreadableFile
from tiltyard.files import format_detection
from tiltyard.files.format_detection import FOREIGN, is_native, matching_formats, open_records


@pytest.mark.parametrize("name", FORMATS)
def test_every_fixture_is_recognised_by_exactly_one_format(name: str) -> None:
    (found,) = matching_formats(open_records(FIXTURES / name))
    assert found.name == FORMATS[name]


@pytest.mark.parametrize("name", FORMATS)
def test_no_foreign_format_takes_the_fixture_of_another(name: str) -> None:
    columns = open_records(FIXTURES / name).columns
    takers = [one.name for one in FOREIGN if one.recognises(columns)]
    assert takers == ([] if FORMATS[name].startswith("tiltyard") else [FORMATS[name]])


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.startswith("autoarena")])
def test_parquet_is_recognised_alike(name: str, tmp_path) -> None:
    (found,) = matching_formats(open_records(as_parquet(name, tmp_path)))
    assert found.name.removesuffix("-parquet") in FORMATS[name]


def test_the_name_of_a_file_does_not_matter(tmp_path) -> None:
    path = tmp_path / "votes.parquet"
    path.write_bytes((FIXTURES / "own.csv").read_bytes())
    assert open_records(path).kind == "csv"


def test_unknown_columns_are_shown_with_the_way_out(tmp_path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("left,right,who\nx,y,left\n")
    with pytest.raises(UnknownFormat) as caught:
        format_detection.detect(open_records(path))
    assert str(caught.value) == (
        f"{path}: no known format has these columns: 'left', 'right', 'who'; "
        "name them with columns={'model_a': '…', 'model_b': '…', 'winner': '…'}"
    )


def test_many_columns_are_cut_short(tmp_path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(100)) + "\n")
    with pytest.raises(UnknownFormat, match="'c29', …;"):
        format_detection.detect(open_records(path))


def test_two_takers_are_an_error_that_names_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(format_detection, "FOREIGN", (*FOREIGN, FOREIGN[0]))
    with pytest.raises(UnknownFormat, match="lmarena-55k, lmarena-55k"):
        format_detection.detect(open_records(FIXTURES / "lmarena_55k.csv"))


def test_an_empty_file_is_an_error(tmp_path) -> None:
    path = tmp_path / "nothing.jsonl"
    path.write_text("  \n\n")
    with pytest.raises(UnreadableFile, match="file is empty"):
        format_detection.detect(open_records(path))


def test_a_format_by_name() -> None:
    table = open_records(FIXTURES / "mt_bench.jsonl")
    assert format_detection.find_format("mt-bench", table).name == "mt-bench"
    with pytest.raises(UnknownFormat, match="autoarena requires csv"):
        format_detection.find_format("autoarena", table)
    with pytest.raises(BadOption, match="'elo'; known formats"):
        format_detection.find_format("elo", table)


def test_our_own_columns() -> None:
    assert is_native(["model_b", "outcome", "model_a"])
    assert not is_native(["model_a", "winner"])
