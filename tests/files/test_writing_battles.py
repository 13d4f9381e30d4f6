"""Written files: nothing is lost on the way there and back, and nothing is half written."""

from __future__ import annotations

import io
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.format_samples import FIXTURES
from support.sizes import sized
from tiltyard.core.battles import Label, Outcome
from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files import (
    battle_writer,
    open_battles,
    read_battles,
    write_batches,
    write_battles,
)
from tiltyard.files.canonical_columns import CANONICAL

WINNERS = [
    (Outcome.MODEL_A, None, 0.75),
    (Outcome.MODEL_A, Label.LEAN, None),
    (Outcome.MODEL_B, Label.WIN, 0.0),
    (Outcome.TIE, None, 0.5),
    (Outcome.TIE, Label.INCONSISTENT, 1.0),
    (Outcome.BOTH_BAD, None, None),
]
KNOWN = {*CANONICAL, "outcome"}

# Outer spaces are removed on reading.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(str.strip)
names = text.filter(bool)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=4,
)
keys = text.filter(lambda key: key not in KNOWN) | st.sampled_from(
    ["length_a", "extra_json", "response_a", "a.b"]
)


@st.composite
def battles(draw: st.DrawFn) -> Battle:
    winner, label, pref = draw(st.sampled_from(WINNERS))
    optional = {
        name: draw(st.none() | text)
        for name in ("source", "question_id", "judge_model", "dimension", "category", "language", "voter")
    }
    return Battle(
        model_a=draw(names),
        model_b=draw(names),
        winner=winner,
        label=label,
        both_bad=draw(st.sampled_from([None, False, True])),
        pref=pref,
        time=draw(st.none() | st.datetimes(timezones=st.just(UTC))),
        position=draw(st.none() | st.integers(0, 2**63 - 1)),
        weight=draw(st.none() | st.floats(0, 1e12)),
        extra=draw(st.dictionaries(keys, values, max_size=3)),
        **optional,
    )


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@settings(max_examples=sized(12, 120), deadline=None)
@given(rows=st.lists(battles(), min_size=1, max_size=6), size=st.integers(1, 4))
def test_round_trip(ending: str, rows: list[Battle], size: int, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("trip") / f"battles.{ending}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(battle_writer, "_CHUNK_BATTLES", size)
        write_battles(path, rows)
    assert list(open_battles(path, format=f"tiltyard-{ending}").battles()) == rows


@settings(max_examples=sized(8, 60), deadline=None)
@given(rows=st.lists(battles(), min_size=1, max_size=5))
def test_batches_copy_a_parquet_file(rows: list[Battle], tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("copy")
    write_battles(folder / "a.parquet", rows)
    write_batches(folder / "b.parquet", open_battles(folder / "a.parquet").batches(batch_size=2))
    assert list(read_battles(folder / "b.parquet")) == rows


def test_a_file_reads_the_same_in_every_container(tmp_path) -> None:
    rows = list(read_battles(FIXTURES / "own.jsonl"))
    for ending in ("jsonl", "jsonl.gz", "jsonl.zst", "parquet"):
        write_battles(tmp_path / f"b.{ending}", rows)
        assert list(read_battles(tmp_path / f"b.{ending}")) == rows
    write_battles(tmp_path / "b.csv.gz", rows)
    plain = [Battle.from_dict({**row.to_dict(), **dict.fromkeys(row.extra, "x")}) for row in rows]
    from_csv = list(read_battles(tmp_path / "b.csv.gz"))
    assert [Battle.from_dict({**row.to_dict(), **dict.fromkeys(row.extra, "x")}) for row in from_csv] == plain
    assert from_csv[3].extra == {"tokens": '{"a": 12, "b": 30}'}


def test_the_same_battles_make_the_same_bytes(tmp_path) -> None:
    rows = list(read_battles(FIXTURES / "own.jsonl"))
    for ending in ("jsonl.gz", "parquet"):
        for name in "ab":
            write_battles(tmp_path / f"{name}.{ending}", rows)
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_parquet_has_canonical_columns_first_and_unknown_ones_after(tmp_path) -> None:
    rows = [
        Battle(model_a="x", model_b="y", winner=Outcome.TIE, extra={"n": 1, "mixed": 1, "gone": None}),
        Battle(model_a="x", model_b="y", winner=Outcome.TIE, extra={"n": None, "mixed": "1", "tag": "t"}),
    ]
    write_battles(tmp_path / "b.parquet", rows)
    schema = pq.read_schema(tmp_path / "b.parquet")
    assert schema.names == ["model_a", "model_b", "winner", "n", "tag", "extra_json"]
    assert schema.field("n").type == pa.int64()
    assert list(read_battles(tmp_path / "b.parquet")) == rows
    assert open_battles(tmp_path / "b.parquet").columns == (
        "model_a",
        "model_b",
        "winner",
        "n",
        "tag",
        "extra_json",
    )


def test_standard_output(monkeypatch) -> None:
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    write_battles(
        "-", [Battle(model_a="x", model_b="y", winner=Outcome.TIE, extra={"day": date(2026, 1, 2)})]
    )
    line = out.buffer.getvalue().decode()
    assert line.startswith('{"model_a": "x", "model_b": "y", "winner": "tie"')
    assert line.endswith('"day": "2026-01-02"}\n')


def batch(**columns: list) -> pa.RecordBatch:
    base = {"model_a": ["x"], "model_b": ["y"], "winner": ["tie"]}
    return pa.RecordBatch.from_pydict(base | columns)


def test_batches_are_brought_to_canonical_types(tmp_path) -> None:
    path = tmp_path / "b.parquet"
    odd = pa.RecordBatch.from_pydict(
        {
            "score": pa.array([1, 2, 3]),
            "winner": pa.array(["tie (bothbad)", "BothBad", "A"]).dictionary_encode(),
            "question_id": pa.array([1, None, 3]),
            "model_b": pa.array(["y"] * 3, pa.large_string()),
            "model_a": pa.array(["x"] * 3, pa.string_view()),
            "pref": pa.array([None, None, 1], pa.float32()).dictionary_encode(),
            "position": pa.array([0, 1, 2], pa.uint8()),
            "time": pa.array([datetime(2026, 1, 1)] * 3, pa.timestamp("ns")),
            "weight": pa.array([None] * 3),
        }
    )
    write_batches(path, iter([odd, odd]))
    schema = pq.read_schema(path)
    assert schema.names == [*(n for n in CANONICAL if n in odd.schema.names), "score"]
    assert schema.field("time").type == pa.timestamp("us", tz="UTC")
    table = pq.read_table(path)
    assert table.column("winner").to_pylist() == ["tie (bothbad)", "both_bad", "model_a"] * 2
    assert table.column("question_id").to_pylist() == ["1", None, "3"] * 2


@pytest.mark.parametrize(
    ("second", "error", "message"),
    [
        (batch(mood=["m"]), BadOption, "after row 1: a batch's columns differ from those of the first: mood"),
        (batch(winner=["draw"], n=[1]), BadBattle, "row 2: winner is 'draw'"),
        (batch(winner=pa.array([None], pa.string()), n=[1]), BadBattle, "row 2: winner is missing"),
        (batch(n=["two"]), BadOption, "after row 1: column n has type string, but the first batch had int64"),
    ],
)
def test_batches_that_do_not_fit(second: pa.RecordBatch, error: type, message: str, tmp_path) -> None:
    first = batch(n=[1]) if "mood" not in second.schema.names else batch()
    with pytest.raises(error) as caught:
        write_batches(tmp_path / "b.parquet", [first, second])
    assert str(caught.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_spelling_that_no_row_uses_is_no_error(tmp_path) -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), pa.array(["draw", "tie"]))
    write_batches(
        tmp_path / "b.parquet",
        [pa.RecordBatch.from_pydict({"model_a": ["x"], "model_b": ["y"], "winner": codes})],
    )
    assert next(read_battles(tmp_path / "b.parquet")).winner is Outcome.TIE


def test_no_batches_make_a_file_without_battles(tmp_path) -> None:
    write_batches(tmp_path / "b.parquet", [])
    assert open_battles(tmp_path / "b.parquet").rows == 0


def test_what_fails_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text("old")

    def broken() -> object:
        yield Battle(model_a="x", model_b="y", winner=Outcome.TIE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_battles(path, broken())
    assert path.read_text() == "old"
    assert [place.name for place in tmp_path.iterdir()] == ["b.jsonl"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("b.txt", "b.txt: unknown file extension; use one of .jsonl, .jsonl.gz,"),
        ("no/such/folder/b.jsonl", "cannot write no/such/folder/b.jsonl: No such file or directory"),
        ("no/such/folder/b.parquet", "cannot write no/such/folder/b.parquet: No such file or directory"),
    ],
)
def test_paths_that_cannot_be_written(path: str, message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadOption) as caught:
        write_battles(path, [])
    assert str(caught.value).startswith(message)


def test_a_disk_that_is_full(tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadOption, match="device"):
        write_battles(tmp_path / "b.jsonl", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_text_that_no_file_can_hold(ending: str, tmp_path) -> None:
    row = Battle(model_a="x\ud800", model_b="y", winner=Outcome.TIE)
    with pytest.raises((BadBattle, BadOption), match=r"row 1|battle 1|model_a"):
        write_battles(tmp_path / f"b.{ending}", [row])
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_do_not_fit(tmp_path) -> None:
    row = Battle(model_a="x", model_b="y", winner=Outcome.TIE, position=2**70)
    with pytest.raises(BadBattle, match="written to Parquet"):
        write_battles(tmp_path / "b.parquet", [row])
    row = Battle(model_a="x", model_b="y", winner=Outcome.TIE, extra={"f": {1, 2}})
    with pytest.raises(BadBattle, match="row 1: cannot"):
        write_battles(tmp_path / "b.jsonl", [row])


def test_csv_refuses_fields_that_come_too_late(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(battle_writer, "_CHUNK_BATTLES", 1)
    rows = [Battle(model_a="x", model_b="y", winner=Outcome.TIE, extra=extra) for extra in ({}, {"late": 1})]
    with pytest.raises(BadOption, match="2: CSV cannot"):
        write_battles(tmp_path / "b.csv", rows)


def test_only_one_batch_can_leave_out_columns() -> None:
    rows = [Battle(model_a="x", model_b="y", winner=Outcome.TIE, language="fr")] * 2
    (made,) = battle_writer.battle_batches(rows, 2)
    assert made.schema.names == ["model_a", "model_b", "winner", "language"]
    made, _ = battle_writer.battle_batches(rows, 1)
    assert made.schema.names == [*CANONICAL, "extra_json"]
