"""Conditions on battles: parsed without surprises, true for the battles that a plain reading of them gives."""

from __future__ import annotations

import json
import operator
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tiltyard
from support.command import run
from tiltyard.errors import BadOption, CannotRate
from tiltyard.files import open_battles
from tiltyard.files.battle_source import open_data
from tiltyard.files.conditions import parse_condition
from tiltyard.files.read_options import ReadOptions

SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(text: str, **row: object) -> bool:
    return parse_condition(text).holds(row.get)


class TestMeaning:
    @pytest.mark.parametrize(
        ("text", "row", "expected"),
        [
            ('language = "en"', {"language": "en"}, True),
            ("language == 'en'", {"language": "de"}, False),
            ("turn >= 2 and turn < 4", {"turn": 3}, True),
            ("a = 1 or b = 1 and c = 1", {"a": 1, "b": 0, "c": 0}, True),
            ("(a = 1 or b = 1) and c = 1", {"a": 1, "b": 0, "c": 0}, False),
            ("not a = 1 or b = 1", {"a": 1, "b": 1}, True),
            ("not not a = 1", {"a": 1}, True),
            ('x in ("a", "b")', {"x": "b"}, True),
            ("x NOT IN (1, 2.5)", {"x": 2.5}, False),
            ("x is null", {}, True),
            ("x is null", {"x": float("nan")}, True),
            ("x IS NOT NULL", {"x": ""}, True),
            ("ok = true", {"ok": True}, True),
            ("ok != TRUE", {"ok": " False "}, True),
            ("`two words` = 1", {"two words": 1}, True),
            ("`in` = 1", {"in": 1}, True),
            ("a.b = -1.5e1", {"a.b": -15}, True),
            ("größe = 1", {"größe": 1}, True),
            ("""x = 'it''s "so"'""", {"x": 'it\'s "so"'}, True),
            ("turn > 9", {"turn": "10"}, True),
            ("score = .5", {"score": Decimal("0.5")}, True),
            ('time >= "2026-05-01"', {"time": datetime(2026, 5, 1, tzinfo=UTC)}, True),
            ('time < "2026-05-01T02:00+02:00"', {"time": datetime(2026, 5, 1)}, False),
            ('day = "2026-05-01"', {"day": date(2026, 5, 1)}, True),
            ('winner = "A"', {"winner": "model_a"}, True),
            ('winner != "tie (bothbad)"', {"winner": "both_bad"}, False),
            ('winner = "nobody"', {"winner": "nobody"}, True),
        ],
    )
    def test_examples(self, text, row, expected):
        assert holds(text, **row) is expected

    @pytest.mark.parametrize("text", ["x = 1", "x != 1", "not x = 1", "x in (1)", "x not in (1)", "x > 1"])
    @pytest.mark.parametrize("value", [None, float("nan"), "nan"])
    def test_a_missing_value_meets_no_comparison(self, text, value):
        assert not holds(text, x=value)
        assert holds(f"({text}) or y = 1", x=value, y=1)

    @pytest.mark.parametrize(
        ("text", "value", "message"),
        [
            (
                "x > 1",
                "three",
                "column x holds text such as 'three'; it cannot be compared with the number 1",
            ),
            ('x = "1"', 1, "column x holds numbers such as 1; it cannot be compared with the text '1'"),
            ("x = true", 1, "holds numbers such as 1; it cannot be compared with true or false"),
            ("x = true", "yes", "holds text such as 'yes'; it cannot be compared with true or false"),
            ("x = 1", True, "holds true or false such as True"),
            ("x = 1", datetime(2026, 5, 1), "holds times such as 2026-05-01T00:00:00; it cannot"),
            ("x = 1", [1] * 99, "holds lists, objects or bytes such as [1, 1"),
            ('x = "may"', date(2026, 5, 1), "holds times; write 'may' as \"2026-05-31\""),
        ],
    )
    def test_kinds_that_cannot_be_compared_are_named(self, text, value, message):
        with pytest.raises(BadOption, match="where=: column x ") as caught:
            holds(text, x=value)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 200


class TestParsing:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "found the end; expected the name of a column"),
            ("x", "found the end; expected =, !=, <, <=, >, >=, in or is after x"),
            ("x = ", "found the end; expected a value"),
            ("x = en", "found 'en' at character 5; expected a value; put text in quotes: \"en\""),
            ("x = null", "expected a value; write: is null, or: is not null"),
            ("x = 1 y = 2", "found 'y' at character 7; expected and, or, or the end"),
            ("x = 'a", "cannot read a quote that is not closed at character 5"),
            ("x = 1; drop", "cannot read ';' at character 6"),
            ("x is 1", "found '1' at character 6; expected null"),
            ("x in 1", "expected ("),
            ("x in ()", "expected a value"),
            ("x in (1", "expected )"),
            ('x in (1, "a")', "the values must be all text, all numbers, or all true or false"),
            ("x not 1", "expected in"),
            ("x < true", "true and false have no order; use = or !="),
            ("and = 1", "expected the name of a column"),
            ("x = 1e999", "the number at character 5 is too large"),
            ("x = " + "9" * 5000, "is too large"),
            ("(" * 60 + "x = 1" + ")" * 60, "nested more than 50 deep"),
            ("not " * 1000 + "x = 1", "nested more than 50 deep"),
            ("x = 1 and " * 2000 + "x = 1", "longer than 10,000 characters"),
            (None, "expected text such as 'language = \"en\"', not NoneType"),
        ],
    )
    def test_errors_say_what_was_expected_and_where(self, text, message):
        with pytest.raises(BadOption) as caught:
            parse_condition(text)
        assert str(caught.value).startswith("where=: ")
        assert message in str(caught.value)

    @example("`")
    @example('x = "')
    @example("x = 1e+")
    @given(
        st.text()
        | st.lists(
            st.sampled_from(
                [
                    "x",
                    "`y z`",
                    "=",
                    "<=",
                    "in",
                    "is",
                    "not",
                    "null",
                    "(",
                    ")",
                    ",",
                    "and",
                    "or",
                    "'a'",
                    '"',
                    "1",
                    "-",
                    ".5",
                    "true",
                ]
            )
        ).map(" ".join)
    )
    def test_any_text_parses_or_is_refused(self, text):
        try:
            condition = parse_condition(text)
        except BadOption:
            return
        assert condition.columns
        condition.holds(lambda _: None)

    def test_columns_are_named_once_in_order(self):
        assert parse_condition("b = 1 and (a = 1 or b is null)").columns == ("b", "a")


NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2.0])
TEXTS = st.sampled_from(["", "a", "b", "A", "it's", 'say "so"', "ü"])
KINDS = {"n": NUMBERS, "t": TEXTS, "f": st.booleans()}


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


@st.composite
def leaves(draw):
    """A test's text, and what it says of a row: true, false, or neither."""
    column = draw(st.sampled_from("ntf"))
    kind = draw(st.sampled_from(["sign", "in", "null"]))
    if kind == "null":
        negated = draw(st.booleans())
        return f"{column} is {'not ' * negated}null", lambda row: (row[column] is None) is not negated
    if kind == "in":
        values, negated = draw(st.lists(KINDS[column], min_size=1, max_size=3)), draw(st.booleans())
        text = f"{column} {'not ' * negated}in ({', '.join(map(_literal, values))})"
        return text, lambda row: None if row[column] is None else (row[column] in values) is not negated
    sign = draw(st.sampled_from(["=", "!="] if column == "f" else list(SIGNS)))
    value = draw(KINDS[column])
    text = f"{column} {sign} {_literal(value)}"
    return text, lambda row: None if row[column] is None else SIGNS[sign](row[column], value)


def _joined(word, pair):
    (first_text, first), (second_text, second) = pair
    strong = word == "or"

    def both(row):
        sides = (first(row), second(row))
        return strong if strong in sides else None if None in sides else not strong

    return f"({first_text}) {word} ({second_text})", both


def _negated(part):
    text, inner = part
    return f"not ({text})", lambda row: None if inner(row) is None else not inner(row)


CONDITIONS = st.recursive(
    leaves(),
    lambda parts: (
        st.tuples(parts, parts).map(lambda pair: _joined("and", pair))
        | st.tuples(parts, parts).map(lambda pair: _joined("or", pair))
        | parts.map(_negated)
    ),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in KINDS.items()}), max_size=8
)


@given(CONDITIONS, ROWS)
def test_rows_and_columns_agree_with_a_plain_reading(condition, rows):
    text, oracle = condition
    expected = [oracle(row) is True for row in rows]
    parsed = parse_condition(text)
    assert [parsed.holds(row.get) for row in rows] == expected
    columns = {
        "n": pa.array([row["n"] for row in rows], pa.float64()),
        "t": pa.array([row["t"] for row in rows], pa.string()),
        "f": pa.array([row["f"] for row in rows], pa.bool_()),
    }
    assert parsed.rows(columns, len(rows)).tolist() == expected
    coded = columns | {"t": columns["t"].dictionary_encode()}
    assert parsed.rows(coded, len(rows)).tolist() == expected


def test_columns_of_every_kind():
    day = pa.array([datetime(2026, 5, 1), None], pa.timestamp("ns"))
    nested = pa.array([[1], None])
    assert parse_condition('x < "2026-06-01"').rows({"x": day}, 2).tolist() == [True, False]
    assert parse_condition("x is null").rows({"x": nested}, 2).tolist() == [False, True]
    assert parse_condition("x is null").rows({}, 2).tolist() == [True, True]
    far = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(BadOption, match="cannot be compared"):
        parse_condition('x < "2026-06-01"').rows({"x": far}, 1)


def test_values_that_no_row_has_do_not_matter():
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["1", "word"]))
    assert parse_condition("x = 1").rows({"x": coded}, 2).tolist() == [True, True]


@pytest.fixture
def rows():
    """Battles with columns of many kinds, some of them missing in some rows."""
    return [
        {
            "model_a": "x" if k % 3 else "y",
            "model_b": "z",
            "winner": ("model_a", "model_b", "tie", "both_bad")[k % 4],
            "language": ("en", "de", None)[k % 3],
            "question_id": f"q{k % 5}",
            "time": f"2026-05-{k + 1:02}T12:00:00+00:00",
            "turn": k % 4,
            "easy": k % 2 == 0,
            "user name": f"u{k % 6}",
        }
        for k in range(24)
    ]


TEXTS_OF_ROWS = {
    "language = 'en'": lambda row: row["language"] == "en",
    "language is null": lambda row: row["language"] is None,
    "turn > 1": lambda row: row["turn"] > 1,
    "easy = true": lambda row: row["easy"],
    "`user name` in ('u1', 'u2')": lambda row: row["user name"] in ("u1", "u2"),
    "winner = 'tie'": lambda row: row["winner"] == "tie",
    "time >= '2026-05-10' and not (turn = 2)": lambda row: row["time"] >= "2026-05-10" and row["turn"] != 2,
}


class TestReaders:
    @pytest.mark.parametrize("text", TEXTS_OF_ROWS)
    @pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "list", "frame"])
    def test_every_reader_keeps_the_same_battles(self, text, kind, rows, tmp_path):
        wanted = [k for k, row in enumerate(rows) if TEXTS_OF_ROWS[text](row)]
        source = opened(kind, rows, tmp_path).choosing(parse_condition(text))
        assert [battle.time.day - 1 for battle in source.battles()] == wanted
        assert sum(count for _, count in source.notes) == len(rows) - len(wanted)
        read = [row for batch in source.batches(["model_a", "time"]) for row in batch.to_pylist()]
        assert [row["time"].day - 1 for row in read] == wanted
        assert dict(source.notes) == {f"the condition is not met: {text}": len(rows) - len(wanted)}

    def test_csv_that_ends_row_by_row_counts_once(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tiltyard.files.row_reader._BLOCK_BYTES", 1 << 10)
        path = tmp_path / "rows.csv"
        good = "x,y,tie,1,en\nx,y,tie,1,de\n" * 3000
        path.write_text(f"model_a,model_b,winner,weight,language\n{good}x,y,tie, 2 ,en\n")
        source = open_battles(path).choosing(parse_condition("language = 'en'"))
        read = list(source.batches(["model_a", "weight"]))
        assert len(read) > 1
        assert sum(batch.num_rows for batch in read) == 3001
        assert read[-1].column("weight")[-1].as_py() == 2.0
        assert dict(source.notes) == {"the condition is not met: language = 'en'": 3000}

    def test_an_invalid_row_that_is_not_asked_for_does_not_matter(self, tmp_path):
        path = tmp_path / "rows.jsonl"
        lines = [
            {"model_a": "a", "model_b": "b", "winner": "model_a", "language": "en"},
            {"model_a": "a", "model_b": "b", "winner": "whoever", "language": "de"},
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        source = open_battles(path).choosing(parse_condition('language = "en"'))
        assert len(list(source.battles())) == 1
        table = pa.Table.from_pylist(lines)
        pq.write_table(table, tmp_path / "rows.parquet")
        source = open_battles(tmp_path / "rows.parquet").choosing(parse_condition('language = "en"'))
        assert len(list(source.battles())) == 1

    def test_columns_that_a_foreign_format_does_not_use(self, tmp_path):
        path = tmp_path / "mt.jsonl"
        record = {
            "model_1": "a",
            "model_2": "b",
            "g1_winner": "model_1",
            "g2_winner": "model_1",
            "judge": "j",
        }
        path.write_text(
            "".join(
                json.dumps(record | {"question_id": k, "turn": 1 + k % 2, "judge": ["gpt-4", "pair"]}) + "\n"
                for k in range(10)
            )
        )
        source = open_battles(path)
        assert "turn" not in source.columns
        assert source.column_name("turn") == "turn"
        assert source.column_name("judge") == "judge_model"
        chosen = source.choosing(parse_condition("turn = 2 and judge = 'gpt-4'"))
        assert [battle.extra["turn"] for battle in chosen.battles()] == [2] * 5
        assert "turn" in chosen.columns
        assert sum(batch.num_rows for batch in chosen.batches(["model_a"])) == 5
        assert Counter(battle.judge_model for battle in chosen.battles()) == {"gpt-4": 5}


def opened(kind, rows, tmp_path):
    if kind == "list":
        return open_data(rows, ReadOptions())[0]
    if kind == "frame":
        return open_data(pa.Table.from_pylist(rows), ReadOptions())[0]
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "csv":
        heads = list(rows[0])
        lines = [heads, *(["" if row[head] is None else str(row[head]) for head in heads] for row in rows)]
        path.write_text("".join(",".join(line) + "\n" for line in lines))
    else:
        text = json.dumps(rows) if kind == "json" else "".join(json.dumps(row) + "\n" for row in rows)
        path.write_text(text)
    return open_battles(path)


class TestRating:
    def test_only_battles_that_meet_the_condition_are_rated(self, rows):
        board = tiltyard.rate(rows, where="turn >= 2")
        assert board.n_battles == 12
        assert board.left_out == ("the list: 12 left out: the condition is not met: turn >= 2",)
        assert json.loads(board.to_json())["where"] == "turn >= 2"
        assert tiltyard.rate(rows, where="turn >= 2", by="language").groups["en"].n_battles == 4

    def test_errors_speak_python(self, rows):
        with pytest.raises(BadOption, match="lang"):
            tiltyard.rate(rows, where='lang = "en"')
        with pytest.raises(CannotRate, match="for which language"):
            tiltyard.rate(rows, where='language = "zz"')
        with pytest.raises(BadOption, match="found the end"):
            tiltyard.rate("nowhere.csv", where="x =")

    def test_errors_speak_the_command_line(self, tmp_path, rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ran = run("rate", path, "--where", 'lang = "en"')
        assert (ran.code, ran.out) == (2, "")
        assert "lang" in ran.err
        assert "such as 0" in run("rate", path, "--where", "turn = 'x'").err

    def test_a_folder_holds_the_battles_that_were_rated(self, tmp_path, rows):
        path, folder = tmp_path / "rows.jsonl", tmp_path / "run"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        condition = "turn >= 2"
        ran = run("rate", path, "--where", condition, "--out", folder, "--intervals", "none")
        assert ran.code == 0
        assert ran.err == f"{path}: 12 left out: the condition is not met: turn >= 2\n"
        assert {battle.extra["turn"] for battle in tiltyard.read_battles(folder / "battles.parquet")} == {
            2,
            3,
        }
        assert json.loads((folder / "manifest.json").read_text())["where"] == condition
        assert tiltyard.verify(folder).exact
