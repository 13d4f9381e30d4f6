"""Whatever is wrong with a file, one message says what, where, and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.format_samples import as_json_lines, records
from tiltyard.errors import BadBattle, InputError, UnreadableFile
from tiltyard.files import open_battles
from tiltyard.files.battle_tables import count_table

GOOD = '{"model_a": "oak", "model_b": "elm", "winner": "tie"}\n'
HEADER = "model_a,model_b,winner,pref\n"


def message(path: Path, **options: object) -> str:
    """What is said when a file is read, by battles and by batches alike."""
    said = []
    for read in ("battles", "batches"):
        with pytest.raises(InputError) as caught:
            for _ in getattr(open_battles(path, **options), read)():
                pass
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GOOD + '{"model_a": "oak", "model_b": "elm", "winner": "sloe"}',
            "line 2: winner is 'sloe'; expected model_a,",
        ),
        (GOOD + "\n" + GOOD.replace('"tie"', "null"), "line 3: winner is None; expected"),
        (GOOD.replace('"oak"', '" "'), "line 1: model_a is ' '; expected the name of a model"),
        (
            GOOD.replace("tie", "model_a").replace("}", ', "pref": 0.2}'),
            "line 1: pref 0.2 (the probability that A is better) contradicts winner model_a; if pref is the probability that B is better, read the file with format='judgearena'",
        ),
        (GOOD.replace("}", ', "label": "huge"}'), "line 1: label is 'huge'; expected one of win,"),
        (GOOD.replace("}", ', "weight": -1}'), "line 1: weight is -1; expected a number from 0"),
        (GOOD.replace("}", ', "time": "noon"}'), "line 1: time is 'noon'; expected ISO 8601"),
        (GOOD + "{oops}\n", "line 2: not JSON (Expecting property name enclosed in double quotes, column 2)"),
        (GOOD + "[1]\n", "line 2: not a JSON object; expected one object per line"),
        (GOOD + '{"a": "\\ud800"}\n', "line 2: contains a lone surrogate, which is not a character"),
        (GOOD + '{"a": ' + "[" * 100_000 + "\n", "line 2: nested too deeply to be read"),
        (GOOD + '{"a": ' + "9" * 5000 + "}\n", "line 2: cannot be read (Exceeds the limit"),
        (GOOD.replace("}", ', "position": 99999999999999999999}') + GOOD, None),
    ],
)
def test_json_lines(text: str, expected: str | None, tmp_path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(text)
    if expected is None:
        with pytest.raises(BadBattle, match=r"line 1.*99999999999999999999"):
            list(open_battles(path).batches())
    else:
        assert message(path).startswith(f"{path}, {expected}")


def test_bytes_that_are_no_text(tmp_path) -> None:
    path = tmp_path / "votes"
    for data, line in (
        (GOOD.encode() + b'{"model_a": "\xff"}\n', 2),
        ("model_a,model_b,winner\n".encode("utf-16"), 1),
        (b"model_a,model_b,winner\n" + b"oak,elm,tie\n" * 2000 + b"oak,\xff,tie\n", 2002),
        (b'[{"model_a":\n "\xff', 2),
    ):
        path.write_bytes(data)
        assert message(path).startswith(f"{path}, line {line}: not UTF-8 text")


def test_half_characters_matter_only_where_they_are_used(tmp_path) -> None:
    half = [{"role": "assistant", "content": "\ud83d"}]
    path = as_json_lines(changed("lmarena_100k.jsonl", 1, conversation_a=half), tmp_path / "votes.jsonl")
    source = open_battles(path)
    assert len(list(source.battles())) == 3
    with pytest.raises(UnreadableFile, match=r"line 2.*lone surrogate"):
        list(source.batches(["length_a"]))
    as_json_lines(changed("lmarena_100k.jsonl", 1, model_b="\ud83d"), path)
    assert message(path).startswith(f"{path}, line 2: contains a lone")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"[{GOOD}", ", after record 1: expected ']', found the end of the file"),
        (f"[{GOOD} {GOOD}]", ", after record 1: expected ']', found '{'"),
        (f"[{GOOD}] x", ": more text after the list of 1 records"),
        (f"[{GOOD}, 7]", ", record 2: not a JSON object; expected a list of objects"),
        (f"[{GOOD}, {GOOD[:-5]}", ", record 2: not JSON (Unterminated string starting at)"),
        (f"[{GOOD}, " + '{"a":' * 100_000, ", record 2: nested too deeply to be read"),
        (f"[{GOOD}, " + '{"a": ' + "9" * 5000 + "}]", ", record 2: cannot be read (Exceeds the limit"),
        (f"[{GOOD}, " + '{"a": "\\udfff"}]', ", record 2: contains a lone surrogate"),
        (f"[{GOOD}, " + GOOD.replace("tie", "draw") + "]", ", record 2: winner is 'draw'"),
    ],
)
def test_json_lists(text: str, expected: str, tmp_path) -> None:
    path = tmp_path / "votes.json"
    path.write_text(text)
    assert message(path).startswith(f"{path}{expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER + 'oak,"e\nlm",tie,\noak,elm\n', "line 4: 2 fields where the header has 4; quote a field"),
        (HEADER + "oak,elm,tie,half\n", "line 2: pref is 'half'; expected a number from 0 to 1"),
        (HEADER + '\noak,"elm"x,tie,\n', "line 3: broken CSV (',' expected after '\"')"),
        (HEADER + 'oak,"elm', "line 2: broken CSV (unexpected end of data)"),
        ("model_a,model_a,model_b,winner\n", "line 1: duplicate column 'model_a'; rename one"),
        ('model_a,"model_b"x\n', "line 1: broken CSV"),
    ],
)
def test_csv(text: str, expected: str, tmp_path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(text)
    assert message(path).startswith(f"{path}, {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER + "oak,elm,draw,\n", "line 2: winner is 'draw'"),
        (HEADER + "oak,elm,,\n", "line 2: winner is None"),
        (HEADER + "oak,elm,tie,nan\n", "line 2: pref is nan; expected"),
    ],
)
def test_values_in_csv(text: str, expected: str, tmp_path) -> None:
    """Read by column for a table, and by row for battles."""
    path = tmp_path / "votes.csv"
    path.write_text(text)
    for read in (lambda source: list(source.battles()), lambda source: count_table([source])):
        with pytest.raises(InputError) as caught:
            read(open_battles(path))
        assert str(caught.value).startswith(f"{path}, {expected}")


def parquet(path: Path, **columns: object) -> Path:
    base = {"model_a": ["oak", "oak"], "model_b": ["elm", "elm"], "winner": ["tie", "tie"]}
    pq.write_table(pa.table(base | columns), path)
    return path


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"model_a": [1.5, 2.0]}, ": column model_a has type double; expected text"),
        ({"label": [[1], [2]]}, ": column label has type list<element: int64>; expected text"),
        ({"pref": ["a", "b"]}, ": column pref has type string; expected double"),
        ({"time": [True, False]}, ": column time has type bool; expected timestamp[us, tz=UTC]"),
        ({"time": ["2026-01-01", "noon"]}, ", row 2: time is noon; expected timestamp[us, tz=UTC]"),
        ({"time": [0, 10**18]}, ", row 2: time is 1000000000000000000; expected timestamp"),
        ({"time": [0, 10**12]}, ", row 2: time is 1000000000000; expected timestamp"),
        ({"time": [0.0, float("inf")]}, ", row 2: time is inf; expected timestamp"),
        (
            {"time": pa.array([0, 2**60], pa.timestamp("us"))},
            ", row 2: time is out of range; expected timestamp",
        ),
        ({"position": [0.0, 1.5]}, ", row 2: position is 1.5; expected int64"),
    ],
)
def test_parquet_columns_of_the_wrong_type(columns: dict, expected: str, tmp_path) -> None:
    path = parquet(tmp_path / "votes.parquet", **columns)
    assert message(path).startswith(f"{path}{expected}")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"winner": ["tie", "draw"]}, ", row 2: winner is 'draw'"),
        ({"model_b": ["elm", None]}, ", row 2: model_b is None; expected the name of a model"),
        ({"extra_json": [None, "{"]}, ", row 2, column extra_json: not JSON"),
        ({"extra_json": [None, "[]"]}, ", row 2: extra_json is not a JSON object"),
    ],
)
def test_parquet_rows(columns: dict, expected: str, tmp_path) -> None:
    path = parquet(tmp_path / "votes.parquet", **columns)
    with pytest.raises(InputError) as caught:
        list(open_battles(path).battles())
    assert str(caught.value).startswith(f"{path}{expected}")


def test_parquet_answers_that_are_missing(tmp_path) -> None:
    path = parquet(tmp_path / "votes.parquet", response_a=["x", None], response_b=["y", "z"])
    with pytest.raises(BadBattle, match=r"row 2: an answer"):
        list(open_battles(path).batches(["length_a"]))
    path = parquet(tmp_path / "styled.parquet", length_a=["x", "y"])
    with pytest.raises(UnreadableFile, match="column length_a"):
        list(open_battles(path).batches(["length_a"]))


def test_two_columns_for_the_outcome(tmp_path) -> None:
    path = parquet(tmp_path / "votes.parquet", outcome=["model_a", "tie"])
    assert message(path).endswith("columns={'winner': '…'}")
    assert [battle.winner for battle in open_battles(path, columns={"winner": "outcome"}).battles()] == [
        "model_a",
        "tie",
    ]
    row = json.loads(GOOD) | {"outcome": "model_a"}
    path = as_json_lines([row], tmp_path / "votes.jsonl")
    assert message(path).startswith(f"{path}, line 1: winner 'tie'")


def test_bytes_that_are_no_text_in_parquet(tmp_path) -> None:
    """Arrow itself hands them out without a word."""
    bytes_ = pa.array([b"elm", b"\xff"])
    text = pa.StringArray.from_buffers(2, *bytes_.buffers()[1:])
    path = parquet(tmp_path / "votes.parquet", model_b=text)
    assert message(path).startswith(f"{path}, rows 1 to 2: column model_b")


def test_twin_columns_in_parquet(tmp_path) -> None:
    path = tmp_path / "votes.parquet"
    table = pa.Table.from_arrays([pa.array(["x"])] * 4, names=["model_a", "model_a", "model_b", "winner"])
    pq.write_table(table, path)
    assert message(path).startswith(f"{path}: duplicate column 'model_a'")


def test_damaged_files(tmp_path) -> None:
    path = tmp_path / "votes.parquet"
    data = parquet(path).read_bytes()
    path.write_bytes(data[:-20])
    assert message(path).startswith(f"{path}: ")
    path.write_bytes(gzip.compress(GOOD.encode() * 100)[:-10])
    assert message(path).startswith(f"{path}: broken gzip data (")
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(GOOD.encode() * 100)
    path.write_bytes(path.read_bytes()[:-8])
    assert "damaged or truncated" in message(path)


def test_files_that_cannot_be_opened(tmp_path, monkeypatch) -> None:
    assert message(tmp_path / "none.jsonl").startswith(f"{tmp_path}/none.jsonl: no such")
    assert "null byte" in message(Path("a\0b"))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = as_json_lines([{}], tmp_path / "secret.jsonl")
    monkeypatch.setattr(Path, "open", refuse)
    assert message(path).startswith(f"{path}: permission denied")


def changed(name: str, row: int, **fields: object) -> list[dict]:
    rows = records(name)
    rows[row].update(fields)
    return rows


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("lmarena_100k.jsonl", {"winner": "oak-7b"}, "line 2: winner is 'oak-7b'"),
        ("lmarena_100k.jsonl", {"tstamp": "yesterday"}, "line 2: time is 'yesterday'"),
        ("lmarena_140k.jsonl", {"timestamp": {}}, "line 2: time is {}"),
        ("comparia_votes.jsonl", {"both_equal": "maybe"}, "line 2: both_equal is 'maybe'"),
        (
            "comparia_votes.jsonl",
            {"chosen_model_name": "frêne"},
            "line 2: both_equal is true, but chosen_model_name is 'frêne'",
        ),
        ("comparia_turns.jsonl", {"choice": "neither"}, "line 2: choice is 'neither'; expected a_better,"),
        ("judgearena.jsonl", {"pref": 1.5}, "line 2: pref is 1.5; expected a number from 0 to 1"),
        ("judgearena.jsonl", {"winner": "elm"}, "line 2: winner is 'elm'"),
        ("judgearena.jsonl", {"winner": "model_a"}, "line 2: pref "),
        (
            "arena_hard/model_judgment/judge-one/oak.jsonl",
            {"baseline": None},
            "line 2: baseline is missing; older judgments",
        ),
        (
            "arena_hard/model_judgment/judge-one/oak.jsonl",
            {"games": "none"},
            "line 2: games is not a list of two games",
        ),
        (
            "arena_hard/model_judgment/judge-one/oak.jsonl",
            {"games": [1, 2]},
            "line 2: a game is int; expected an object",
        ),
        (
            "arena_hard/model_judgment/judge-one/oak.jsonl",
            {"games": [{"score": "A"}] * 2},
            "line 2: score is 'A'; expected one of A>>B,",
        ),
        (
            "mt_bench.jsonl",
            {"g1_winner": "oak"},
            "line 2: g1_winner is 'oak'; expected model_1, model_2, tie or error",
        ),
        ("mt_bench.jsonl", {"g2_winner": None}, "line 2: g2_winner is None"),
        ("alpaca_eval.json", {"preference": 2.5}, "line 2: preference is 2.5; expected a number from 1 to 2"),
        ("alpaca_eval.json", {"preference": True}, "line 2: preference is True"),
        ("alpaca_eval.json", {"instruction": 7}, "line 2: the prompt is int; expected text"),
        ("fastchat_battles.json", {"anony": None}, "line 2: anony is None; expected true or false"),
    ],
)
def test_foreign_records(name: str, fields: dict, expected: str, tmp_path) -> None:
    path = as_json_lines(changed(name, 1, **fields), tmp_path / "changed.jsonl")
    assert message(path).startswith(f"{path}, {expected}")


@pytest.mark.parametrize(
    ("winners", "expected"),
    [
        ("1,1,0", "line 2: 2 of winner_model_a, winner_model_b, winner_tie are 1; expected exactly one"),
        ("0,0,0", "line 2: 0 of winner_model_a,"),
        ("1,0,yes", "line 2: winner_tie is 'yes'; expected 0 or 1"),
    ],
)
def test_one_hot_winners(winners: str, expected: str, tmp_path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(
        "id,model_a,model_b,winner_model_a,winner_model_b,winner_tie\n1,oak,elm," + winners + "\n"
    )
    assert message(path).startswith(f"{path}, {expected}")


def test_a_question_judged_three_times(tmp_path) -> None:
    rows = records("judgearena.jsonl")
    path = as_json_lines([rows[0]] * 3, tmp_path / "battles.jsonl")
    assert message(path).startswith(f"{path}, line 1: question q1")


def test_answers_that_style_cannot_be_counted_in(tmp_path) -> None:
    path = as_json_lines(
        changed("lmarena_100k.jsonl", 1, conversation_b={"no": "list"}), tmp_path / "x.jsonl"
    )
    with pytest.raises(BadBattle, match=r"line 2.*conversation_b contains"):
        list(open_battles(path).batches(["length_a"]))
    row = json.loads(GOOD)
    path = as_json_lines([row | {"response_a": "x", "response_b": 7}], tmp_path / "own.jsonl")
    with pytest.raises(BadBattle, match=r"line 1.*response_b"):
        list(open_battles(path).batches(["bold_a"]))
