"""Our own files, in every container: battles, batches, mapped columns, compression, pipes, folders."""

from __future__ import annotations

import io
import os
import sys
import threading
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.format_samples import FIXTURES, as_json_lines, records
from tiltyard.core.battles import Outcome
from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadOption, UnknownFormat, UnreadableFile
from tiltyard.files import open_battles, read_battles, write_batches, write_battles
from tiltyard.files.canonical_columns import CANONICAL

ROWS = [
    {"model_a": "oak", "model_b": "elm", "winner": "model_a", "question_id": "q1"},
    {"model_a": "elm", "model_b": "ash", "winner": "tie", "question_id": "q2"},
]
BATTLES = [Battle.from_dict(row) for row in ROWS]


def test_json_lines() -> None:
    first, second, third, fourth = open_battles(FIXTURES / "own.jsonl").battles()
    assert first.time == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert (second.winner, second.question_id, second.extra) == (Outcome.BOTH_BAD, "2", {"mood": "grumpy"})
    assert (third.label, third.weight) == ("inconsistent", 0.5)
    assert (fourth.winner, fourth.extra) == (Outcome.MODEL_B, {"tokens": {"a": 12, "b": 30}})


def test_json_list() -> None:
    assert [battle.question_id for battle in read_battles(FIXTURES / "own.json")] == ["q1", "q2"]


def test_csv() -> None:
    first, second, third = open_battles(FIXTURES / "own.csv").battles()
    assert (first.pref, first.weight, first.position, first.extra) == (0.75, None, 0, {"room": "blue"})
    assert (second.model_b, second.time) == ("ash, the old", datetime(2026, 1, 1, tzinfo=UTC))
    assert third.question_id == "a question\nin two lines"


@pytest.mark.parametrize(
    ("text", "year"),
    [("20260301", 2026), ("2026-03-01", 2026), ("1767225600", 2026), ("1767225600.5", 2026), ("-1e9", 1938)],
)
def test_times_in_csv(text: str, year: int, tmp_path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(f"model_a,model_b,winner,time\noak,elm,tie,{text}\n")
    assert next(read_battles(path)).time.year == year


@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_other_delimiters(delimiter: str, tmp_path) -> None:
    path = tmp_path / "votes.tsv"
    lines = [["model_a", "model_b", "winner", "question_id"], *([*row.values()] for row in ROWS)]
    path.write_text("\n".join(delimiter.join(line) for line in lines))
    assert list(read_battles(path)) == BATTLES


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path) -> None:
    for name in ("own.jsonl", "own.json", "own.csv"):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + (FIXTURES / name).read_bytes())
        assert list(read_battles(path)) == list(read_battles(FIXTURES / name))


def test_a_list_longer_than_one_piece(tmp_path) -> None:
    path = tmp_path / "long.json"
    text = as_json_lines([{**row, "note": "x" * 70_000} for row in ROWS * 3], path).read_text()
    path.write_text("[" + ",".join(text.splitlines()) + "]")
    assert [battle.model_a for battle in read_battles(path)] == ["oak", "elm"] * 3


def test_a_field_longer_than_the_csv_module_allows(tmp_path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"model_a,model_b,winner,answer\noak,elm,tie,{'x' * 200_000}\n")
    (battle,) = read_battles(path)
    assert len(battle.extra["answer"]) == 200_000


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst", "csv", "csv.gz", "csv.zst", "parquet"])
def test_compression_is_found_by_content(ending: str, tmp_path) -> None:
    path = tmp_path / f"votes.{ending}"
    write_battles(path, BATTLES)
    other = tmp_path / "data"
    path.rename(other)
    assert list(read_battles(other)) == BATTLES


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_compressed_parquet_file(compression: str, tmp_path) -> None:
    write_battles(tmp_path / "votes.parquet", BATTLES)
    packed = tmp_path / "packed"
    data = (tmp_path / "votes.parquet").read_bytes()
    with pa.CompressedOutputStream(str(packed), compression) as stream:
        stream.write(data)
    source = open_battles(packed)
    assert list(source.battles()) == BATTLES
    assert list(source.battles()) == BATTLES


class Pipe(io.TextIOWrapper):
    """Standard input that can be read only once, from its start."""

    def seek(self, *_: object) -> int:
        raise OSError("a pipe")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "parquet"])
def test_standard_input(ending: str, tmp_path, monkeypatch) -> None:
    path = tmp_path / f"votes.{ending}"
    write_battles(path, BATTLES)
    monkeypatch.setattr(sys, "stdin", Pipe(io.BytesIO(path.read_bytes())))
    source = open_battles("-")
    assert source.path == "-"
    assert list(source.battles()) == BATTLES
    assert list(source.battles()) == BATTLES


def test_standard_input_is_named_in_errors(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", Pipe(io.BytesIO(b'{"model_a": "x", "model_b": "y", "winner": "?"}')))
    with pytest.raises(Exception, match="input, line 1"):
        list(open_battles("-").battles())


def test_the_spool_goes_with_its_source(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", Pipe(io.BytesIO((FIXTURES / "own.jsonl").read_bytes())))
    source = open_battles("-")
    assert len(list(tmp_path.iterdir())) == 1
    del source
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_filled_is_removed(tmp_path, monkeypatch) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError("unplugged")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", Pipe(Broken()))
    with pytest.raises(UnreadableFile, match="standard input: unplugged"):
        open_battles("-")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe(tmp_path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    data = (FIXTURES / "own.csv").read_bytes()
    feeder = threading.Thread(target=path.write_bytes, args=(data,))
    feeder.start()
    source = open_battles(path)
    feeder.join()
    assert list(source.battles()) == list(read_battles(FIXTURES / "own.csv"))


def test_a_folder_of_parquet_files_is_read_in_order(tmp_path) -> None:
    write_battles(tmp_path / "part-1.parquet", BATTLES[:1])
    write_battles(tmp_path / "part-0.parquet", [Battle.from_dict({**ROWS[1], "label": "tie", "mood": 1})])
    source = open_battles(tmp_path)
    assert (source.format, source.rows) == ("tiltyard-parquet", 2)
    assert [battle.model_a for battle in source.battles()] == ["elm", "oak"]
    first, second = source.batches()
    assert first.schema.names == second.schema.names
    assert second.column("label").to_pylist() == [None]
    assert second.column("mood").to_pylist() == [None]
    write_battles(tmp_path / "copy.parquet", source.battles())
    write_batches(tmp_path / "columns.parquet", [second, first])
    assert [battle.extra for battle in read_battles(tmp_path / "columns.parquet")] == [{}, {"mood": 1}]


def test_a_folder_of_compressed_lines(tmp_path) -> None:
    write_battles(tmp_path / "b.jsonl.gz", BATTLES[1:])
    (tmp_path / "a").mkdir()
    write_battles(tmp_path / "a" / "c.jsonl", BATTLES[:1])
    (tmp_path / "README.md").write_text("not read")
    assert list(read_battles(tmp_path)) == BATTLES


def test_a_folder_of_other_things(tmp_path) -> None:
    with pytest.raises(UnreadableFile, match="this folder"):
        open_battles(tmp_path)
    for name in ("mt_bench.jsonl", "own.jsonl"):
        (tmp_path / name).write_bytes((FIXTURES / name).read_bytes())
    with pytest.raises(UnknownFormat, match=r"formats \(mt-bench, tiltyard-jsonl\)"):
        open_battles(tmp_path)


MAPPED = {"model_a": "left", "model_b": "right", "winner": "who", "time": "when"}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_mapped_columns(kind: str, tmp_path) -> None:
    row = {
        "left": "oak",
        "right": "elm",
        "who": "B",
        "when": "2026-01-01",
        "winner": "?",
        "outcome": "?",
        "x": "y",
    }
    path = tmp_path / f"votes.{kind}"
    if kind == "jsonl":
        as_json_lines([row], path)
    elif kind == "csv":
        path.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)
    source = open_battles(path, columns=MAPPED)
    assert source.format == f"tiltyard-{kind}"
    (battle,) = source.battles()
    expected = Battle(
        model_a="oak",
        model_b="elm",
        winner=Outcome.MODEL_B,
        time=datetime(2026, 1, 1, tzinfo=UTC),
        extra={"x": "y"},
    )
    assert battle == expected
    (batch,) = source.batches(["winner", "time", "model_a", "x"])
    assert batch.to_pylist() == [
        {"winner": "B" if kind == "parquet" else "model_b", "time": expected.time, "model_a": "oak", "x": "y"}
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_one_header_for_two_columns(kind: str, tmp_path) -> None:
    path = tmp_path / f"votes.{kind}"
    write_battles(path, BATTLES)
    source = open_battles(path, columns={"question_id": "question_id", "voter": "question_id"})
    assert [battle.voter for battle in source.battles()] == ["q1", "q2"]
    assert next(source.batches(["voter", "question_id"])).num_columns == 2


def test_mapping_with_a_foreign_format(tmp_path) -> None:
    rows = [{**row, "arena": row.pop("model_a")} for row in records("lmarena_100k.jsonl")]
    path = as_json_lines(rows, tmp_path / "renamed.jsonl")
    source = open_battles(path, format="lmarena-100k", columns={"model_a": "arena"})
    assert [battle.model_a for battle in source.battles()] == ["oak-7b", "ash-2", "oak-7b"]
    assert "model_a" in source.columns


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"modell": "left"}, "columns=: 'modell' is not a column of a battle; choose from model_a, "),
        (
            {"model_a": "lft"},
            "columns={{'model_a': 'lft'}}: {path} has no column 'lft'; it has: 'left', 'right', 'who'",
        ),
        ({"label": "mark"}, "columns={{'label': 'mark'}}: {path} has no column 'mark'"),
    ],
)
def test_a_mapping_that_makes_no_sense(columns: dict, message: str, tmp_path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("left,right,who\nx,y,A\n")
    with pytest.raises(BadOption) as caught:
        open_battles(path, columns=columns)
    assert str(caught.value).startswith(message.format(path=path))


def test_a_mapping_that_is_not_enough(tmp_path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("left,right,who\nx,y,A\n")
    with pytest.raises(
        UnknownFormat,
        match="'winner'",
    ):
        open_battles(path, columns={"model_a": "left"})


def test_optional_fields_of_json_may_appear_late(tmp_path) -> None:
    late = {**ROWS[1], "label": "tie"}
    path = as_json_lines([ROWS[0]] * 150 + [late], tmp_path / "votes.jsonl")
    source = open_battles(path, columns={"category": "topic"})
    assert "label" not in source.columns
    (batch,) = source.batches(["model_a", "label"])
    assert batch.column("label").to_pylist() == [None] * 150 + ["tie"]
    (batch,) = source.batches()
    assert set(CANONICAL) <= set(batch.schema.names)


def test_columns_that_nobody_has() -> None:
    source = open_battles(FIXTURES / "own.csv")
    with pytest.raises(BadOption, match="'moood'"):
        source.batches(["model_a", "moood"])
    (batch,) = source.batches(["language", "room", "room"])
    assert batch.schema.names == ["room"]


def test_unknown_fields_as_columns(tmp_path) -> None:
    rows = [
        {**ROWS[0], "n": 1, "x": 1.5, "flag": True, "tag": "a", "mixed": 1, "deep": [1], "big": 2**70},
        {**ROWS[1], "n": 2, "x": 2, "flag": False, "tag": "b", "mixed": "1", "deep": None, "big": 1},
    ]
    source = open_battles(as_json_lines(rows, tmp_path / "votes.jsonl"))
    (batch,) = source.batches(["n", "x", "flag", "tag", "mixed", "deep", "big"])
    assert batch.schema.types == [pa.int64(), pa.float64(), pa.bool_(), *[pa.string()] * 4]
    assert batch.column("mixed").to_pylist() == ["1", '"1"']
    assert batch.column("deep").to_pylist() == ["[1]", None]


def test_style_columns_of_our_own_files(tmp_path) -> None:
    row = {**ROWS[0], "response_a": "# One\n\n- two\n", "response_b": "**three**", "lists_b": 7}
    battle = Battle.from_dict(row)
    wanted = ["length_a", "headers_a", "lists_a", "lists_b", "bold_b"]
    for ending in ("jsonl", "csv", "parquet"):
        path = tmp_path / f"styled.{ending}"
        write_battles(path, [battle])
        source = open_battles(path)
        assert set(wanted) <= set(source.columns)
        (batch,) = source.batches(wanted)
        assert batch.schema.types == [pa.float64()] * 5
        assert batch.to_pylist() == [dict(zip(wanted, [13.0, 1.0, 1.0, 7.0, 1.0], strict=True))]
        assert next(source.battles()).extra["lists_b"] == 7


def test_parquet_columns_of_other_types(tmp_path) -> None:
    path = tmp_path / "votes.parquet"
    columns = {
        "model_a": pa.array(["oak", "elm"], pa.large_string()),
        "model_b": pa.array(["elm", "ash"]).dictionary_encode(),
        "outcome": pa.array(["A", "tie"]),
        "question_id": pa.array([7, 8]).dictionary_encode(),
        "pref": pa.array([1.0, 0.5], pa.float32()).dictionary_encode(),
        "weight": pa.array([2, None], pa.int8()),
        "position": pa.array([3.0, None]),
        "time": pa.array([date(2026, 1, 1), None]),
    }
    pq.write_table(pa.table(columns), path)
    source = open_battles(path)
    first, second = source.battles()
    assert first == Battle(
        model_a="oak",
        model_b="elm",
        winner=Outcome.MODEL_A,
        question_id="7",
        pref=1.0,
        weight=2.0,
        position=3,
        time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert (second.time, second.position) == (None, None)
    (batch,) = source.batches(["winner", "pref", "time"])
    assert batch.schema.types[1:] == [pa.float64(), pa.timestamp("us", tz="UTC")]


def test_times_in_parquet(tmp_path) -> None:
    expected = datetime(2026, 1, 1, 12, tzinfo=UTC)
    seconds = int(expected.timestamp())
    naive = expected.replace(tzinfo=None)
    for times in (
        pa.array([naive, None], pa.timestamp("s")),
        pa.array([naive, None], pa.timestamp("ns")),
        pa.array([expected, None], pa.timestamp("ms", tz="Europe/Paris")),
        pa.array([seconds, None]),
        pa.array([float(seconds), None]),
        pa.array(["2026-01-01T14:00:00+02:00", None]),
        pa.array(["2026-01-01T12:00", None], pa.large_string()),
    ):
        pq.write_table(
            pa.table({"model_a": ["x"] * 2, "model_b": ["y"] * 2, "winner": ["tie"] * 2, "time": times}),
            tmp_path / "t.parquet",
        )
        source = open_battles(tmp_path / "t.parquet")
        assert [battle.time for battle in source.battles()] == [expected, None]
        assert next(source.batches(["time"])).column("time").to_pylist() == [expected, None]


def test_an_explicit_format_reads_an_empty_file_as_no_battles(tmp_path) -> None:
    path = tmp_path / "battles.jsonl"
    write_battles(path, [])
    source = open_battles(path, format="tiltyard-jsonl")
    assert list(source.battles()) == []
    assert list(source.batches()) == []
    path.write_text("[ ]")
    assert list(open_battles(path, format="comparia-votes").battles()) == []
    path = tmp_path / "battles.parquet"
    write_battles(path, [])
    source = open_battles(path)
    assert (source.rows, list(source.battles())) == (0, [])


def test_of_a_run_folder_only_the_battles_are_read(tmp_path):
    battles = [Battle.from_dict({"model_a": "a", "model_b": "b", "winner": "tie"})]
    write_battles(tmp_path / "battles.parquet", battles)
    (tmp_path / "bootstrap_ratings.parquet").write_bytes(b"not to be opened")
    assert list(read_battles(tmp_path)) == battles


def test_memory_does_not_grow_with_the_length_of_a_parquet_file(tmp_path):
    rng = np.random.default_rng(1)
    columns = {name: rng.integers(0, 50, 400_000).astype(str) for name in ("model_a", "model_b")}
    table = pa.table({**columns, "winner": ["tie"] * 400_000})
    pq.write_table(table, tmp_path / "long.parquet", row_group_size=20_000)
    del table, columns
    held = [
        pa.total_allocated_bytes()
        for _ in open_battles(tmp_path / "long.parquet").batches(["model_a", "model_b", "winner"], 20_000)
    ]
    assert max(held[10:]) < 1.5 * max(held[:3])
