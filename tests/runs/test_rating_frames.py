"""`tiltyard.rate`: every form of the same battles gives the numbers of the command line."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tiltyard
from support.command import run
from support.framed_battles import FORMS, demo_rows, relation
from support.sizes import sized
from tiltyard.core.board.board_rows import SHRUNK
from tiltyard.errors import BadBattle, BadOption, CannotRate, UnknownFormat, UnreadableFile

ROWS = demo_rows()


def written(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def expected():
    return tiltyard.rate(ROWS).to_json()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_numbers(form, expected):
    assert tiltyard.rate(FORMS[form](ROWS)).to_json() == expected


def test_paths_patterns_and_lists_of_paths(tmp_path, expected):
    path = written(tmp_path / "votes [1].jsonl")
    assert tiltyard.rate(path).to_json() == expected
    assert tiltyard.rate(str(path)).to_json() == expected
    written(tmp_path / "half-1.jsonl", ROWS[:200])
    written(tmp_path / "half-2.jsonl", ROWS[200:])
    assert tiltyard.rate(str(tmp_path / "half-*.jsonl")).to_json() == expected
    assert tiltyard.rate([tmp_path / "half-1.jsonl", str(tmp_path / "half-2.jsonl")]).to_json() == expected
    assert tiltyard.rate(tiltyard.open_battles(path)).to_json() == expected
    assert tiltyard.rate(tiltyard.read_battles(path)).to_json() == expected
    with pytest.raises(UnreadableFile, match="no file"):
        tiltyard.rate(str(tmp_path / "third-*.jsonl"))


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "elo", "n_perms": 3, "n_bootstraps": 5, "seed": 2, "scale": 200.0, "k": 8.0},
        {"method": "glicko-2"},
        {"ties": "davidson", "prior_sd": 300.0, "level": 0.8},
        {"style": "length,position", "intervals": "battles"},
        {"by": "category", "anchor": "heron-1b=1000"},
        {"bootstrap": True, "n_bootstraps": 4, "max_share": 1.0, "soft": True},
        {"intervals": "none", "anchor": "heron-1b"},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_numbers_are_those_of_the_command(tmp_path, options):
    path, out = written(tmp_path / "battles.jsonl"), tmp_path / "run"
    words = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    result = run("rate", path, "--out", out, *words)
    assert result.code == 0, result.err
    theirs = json.loads((out / "elo_ratings.json").read_text())
    board = tiltyard.rate(pd.DataFrame(ROWS), **options)
    ours = json.loads((board.groups or board).to_json())
    for document in [theirs, *theirs.get("groups", {}).values()]:
        for entry in document.get("ratings", ()):
            for extra in ("source", "bootstrap_low", "bootstrap_high"):
                entry.pop(extra, None)
        for unit in ("votes", "prompts", "voters"):
            document.pop(f"{unit}_to_flip", None)
    theirs["n_bootstraps"] = 0
    assert ours == theirs


def test_groups_are_boards_of_their_own():
    board = tiltyard.rate(ROWS, by="category")
    assert sorted(board.groups) == ["advice", "code", "maths", "writing"]
    assert sum(group.n_battles for group in board.groups.values()) == board.n_battles == len(ROWS)
    of_code = tiltyard.rate([row for row in ROWS if row["category"] == "code"])
    alone = of_code.to_columns()
    grouped = board.groups["code"].to_columns()
    assert {name: grouped.pop(name) for name in SHRUNK}.keys().isdisjoint(alone)
    assert grouped == alone
    assert json.loads(board.groups.to_json())["groups"].keys() == {"Overall", *board.groups}
    assert "ratings" in json.loads(board.groups["code"].to_json())


@pytest.mark.slow(but="options1")
@pytest.mark.parametrize("options", [{}, {"by": "category"}, {"by": ["category", "language"]}])
def test_exports_are_those_of_the_command(options, tmp_path):
    path = written(tmp_path / "battles.jsonl")
    names = options.get("by", [])
    words = [word for name in ([names] if isinstance(names, str) else names) for word in ("--by", name)]
    rated = tiltyard.rate(path, **options)
    board = rated.groups or rated
    assert board.to_csv() == run("rate", path, *words, "--csv").out
    assert board.to_markdown() == run("rate", path, *words, "--markdown").out
    assert board.to_latex() == run("rate", path, *words, "--latex").out
    assert board.to_json() + "\n" == run("rate", path, *words, "--json").out
    printed = run("rate", path, *words).out
    titles = [line.split(" models")[0] for line in printed.splitlines() if " battles · " in line]
    shown = [line.split(" models")[0] for line in str(rated).splitlines() if " battles · " in line]
    assert [title.removeprefix("Overall: ") for title in titles] == shown
    assert len(titles) == 1 + len(rated.groups)


def test_a_board_is_all_battles_whatever_its_groups():
    board, plain = tiltyard.rate(ROWS, by="category"), tiltyard.rate(ROWS)
    assert board.to_columns() == plain.to_columns()
    assert board.to_json() == plain.to_json()
    assert board.methods() == plain.methods()
    assert len(board) == len(board.to_pandas()) == len(set(board.to_columns()["model"]))
    assert [row.model for row in board] == board.to_columns()["model"]
    assert board[board.rows[2].model] == board.rows[2]
    with pytest.raises(KeyError, match="nobody"):
        board["nobody"]
    with pytest.raises(KeyError, match="verse"):
        board.groups["verse"]
    with pytest.raises(BadOption, match="by="):
        plain.groups.to_pandas()
    # Printed, all battles come first.
    assert str(board).startswith(str(plain).split(" battles")[0])


def test_frames_and_lists_name_the_groups():
    board = tiltyard.rate(ROWS, by="category")
    columns = board.groups.to_columns()
    assert list(columns)[:3] == ["by", "rank", "model"]
    assert list(dict.fromkeys(columns["by"])) == ["Overall", *board.groups]
    code = [rating for name, rating in zip(columns["by"], columns["rating"], strict=True) if name == "code"]
    assert code == [row.rating for row in board.groups["code"].rows]
    assert board.groups.to_pandas().to_csv(index=False) == board.groups.to_csv()
    assert board.groups.to_polars()["by"].to_list() == columns["by"]
    assert "by" not in board.groups["code"].to_columns()


@pytest.mark.parametrize("missing", [float("nan"), pd.NA, pd.NaT])
def test_what_is_missing_is_missing(missing):
    rows = [{**row, "voter": missing if k % 3 else row["voter"]} for k, row in enumerate(ROWS)]
    bare = [{**row, "voter": None if k % 3 else row["voter"]} for k, row in enumerate(ROWS)]
    want = tiltyard.rate(bare).to_json()
    assert tiltyard.rate(rows).to_json() == want
    assert tiltyard.rate(pd.DataFrame(rows)).to_json() == want


def test_numbers_that_pandas_made_floating_are_whole_again():
    rows = [{**row, "question_id": None if k == 7 else k % 50} for k, row in enumerate(ROWS)]
    frame = pd.DataFrame(rows)
    assert frame["question_id"].dtype == float
    assert tiltyard.rate(frame).to_json() == tiltyard.rate(rows).to_json()
    with pytest.raises(UnreadableFile, match="column question_id"):
        tiltyard.rate(frame.assign(question_id=frame["question_id"] + 0.5))


def test_frames_of_other_formats_are_read_as_their_files_are(tmp_path):
    rows = [
        {"model_a": row["model_a"], "model_b": row["model_b"], "winner": row["winner"].replace("both_bad", "tie (bothbad)"),
         "judge": row["voter"], "anony": k % 10 > 0, "tstamp": 1.7e9 + k, "turn": 1, "language": "English"}
        for k, row in enumerate(ROWS)
    ]  # fmt: skip
    (tmp_path / "clean.json").write_text(json.dumps(rows))
    want = tiltyard.rate(tmp_path / "clean.json")
    (said,) = want.left_out
    assert said.startswith(f"{tmp_path}/clean.json: 40 left out: ")
    for data in (rows, pd.DataFrame(rows), pl.DataFrame(rows), relation(rows)):
        board = tiltyard.rate(data)
        assert board.to_json() == want.to_json()
        assert board.left_out[0].endswith(said.removeprefix(f"{tmp_path}/clean.json: "))
        assert "40 left out" in str(board)
        assert "40 left out" in board._repr_html_()


def test_columns_of_any_name_and_of_no_text():
    frame = pd.DataFrame(ROWS)[["model_a", "model_b", "winner", "question_id", "voter"]]
    odd = frame.set_axis(["left one", 2, "who won", "question_id", "voter"], axis=1)
    board = tiltyard.rate(odd, columns={"model_a": "left one", "model_b": 2, "winner": "who won"})
    assert board.to_columns() == tiltyard.rate(frame).to_columns()
    mapped = {name: frame[name].tolist() for name in frame} | {"note": [{"x": [1]}] * len(frame)}
    assert tiltyard.rate(mapped).to_columns() == board.to_columns()


ERRORS = {
    "no columns of battles": (
        lambda: pd.DataFrame({"left": ["x"], "right": ["y"], "won": ["x"]}),
        {},
        UnknownFormat,
        ("the DataFrame: no known format has these columns: 'left', 'right', 'won'; name them with "
        "columns={'model_a': '…', 'model_b': '…', 'winner': '…'}"),
    ),
    "one column lacks": (
        lambda: pl.DataFrame({"left": ["x"], "model_b": ["y"], "won": ["x"]}),
        {"columns": {"model_a": "left"}},
        UnknownFormat,
        ("the DataFrame: no column for winner among: 'left', 'model_b', 'won'; name the headers with "
        "columns={'winner': '…'}"),
    ),
    "a header that is not there": (
        lambda: pl.DataFrame({"left": ["x"]}),
        {"columns": {"model_a": "lft"}},
        BadOption,
        "columns={'model_a': 'lft'}: the DataFrame has no column 'lft'; it has: 'left'",
    ),
    "rows without the columns": (
        lambda: [{"left": "x"}],
        {},
        UnknownFormat,
        ("the list: no known format has these columns: 'left'; name them with "
        "columns={'model_a': '…', 'model_b': '…', 'winner': '…'}"),
    ),
    "both winner and outcome": (
        lambda: pd.DataFrame({"model_a": ["x"], "model_b": ["y"], "winner": ["tie"], "outcome": ["tie"]}),
        {},
        UnknownFormat,
        "the DataFrame: has both winner and outcome; choose one with columns={'winner': '…'}",
    ),
    "mixed types": (
        lambda: pd.DataFrame({"model_a": ["x", "x"], "model_b": ["y", 3], "winner": ["tie", "tie"]}),
        {},
        UnreadableFile,
        "the DataFrame: column model_b cannot be read (",
    ),
    "mixed types in a mapping": (
        lambda: {"model_a": ["x", "x"], "model_b": ["y", 3], "winner": ["tie", "tie"]},
        {},
        UnreadableFile,
        "the dict: column model_b cannot be read (",
    ),
    "columns of different lengths": (
        lambda: {"model_a": ["x", "x"], "model_b": ["y"], "winner": ["tie"]},
        {},
        BadOption,
        "the dict: the columns differ in length (model_a 2, model_b 1, winner 1); give one value for each battle",
    ),
    "a single row": (
        lambda: {"model_a": "x", "model_b": "y", "winner": "tie"},
        {},
        BadOption,
        "the dict: 'model_a' holds 'x'; expected a list of values, one for each battle",
    ),
    "two columns of one name": (
        lambda: pd.DataFrame([["x", "y", "tie"]], columns=["model_a", "model_a", "winner"]),
        {},
        UnreadableFile,
        "the DataFrame: duplicate column 'model_a'; rename one",
    ),
    "an unknown outcome": (
        lambda: pd.DataFrame({"model_a": ["x", "x"], "model_b": ["y", "y"], "winner": ["tie", "left"]}),
        {},
        BadBattle,
        "the DataFrame, row 2: winner is 'left'; expected model_a, model_b, tie or both_bad",
    ),
    "a missing name": (
        lambda: pl.DataFrame({"model_a": ["x", None], "model_b": ["y", "y"], "winner": ["tie", "tie"]}),
        {},
        BadBattle,
        "the DataFrame, row 2: model_a is None; expected the name of a model",
    ),
    "no rows": (list, {}, CannotRate, "no battles: the list is empty"),
    "an empty frame": (
        lambda: pd.DataFrame({"model_a": [], "model_b": [], "winner": []}, dtype=object),
        {},
        CannotRate,
        "no battles in the DataFrame",
    ),
    "numbers": (lambda: 17, {}, BadOption, "cannot read battles from int; give a path, "),
    "bytes": (lambda: b"x", {}, BadOption, "cannot read battles from bytes; give a path, "),
    "a list of numbers": (lambda: [1, 2], {}, BadOption, "the list, row 1: is of type int; expected a mapping"),
    "a lazy frame": (
        lambda: pl.LazyFrame({"model_a": ["x"]}),
        {},
        BadOption,
        "the LazyFrame is not computed yet; pass what its collect() returns",
    ),
    "a series": (
        lambda: pl.Series(["x"]),
        {},
        UnreadableFile,
        "the Series: no table of columns (",
    ),
    "an unknown option": (lambda: ROWS, {"methods": "elo"}, BadOption, "rate has no option 'methods'; it has method"),
    "an unknown method": (lambda: ROWS, {"method": "trueskill"}, BadOption, "method is 'trueskill'; expected one of"),
    "a class": (lambda: ROWS, {"method": tiltyard.Elo}, BadOption, "expected a name or a method, such as"),
    "an unused option": (lambda: ROWS, {"k": 8}, BadOption, "k= has no effect with bradley-terry; use it with elo"),
    "a parameter beside a method": (
        lambda: ROWS,
        {"method": tiltyard.Elo(), "level": 0.9},
        BadOption,
        "level has no effect with a method of your own; set it there: Elo(",
    ),
    "unknown intervals": (lambda: ROWS, {"intervals": "all"}, BadOption, "intervals is 'all'; expected one of"),
    "a level out of range": (lambda: ROWS, {"level": 95}, BadOption, "level is 95; expected a number, from 0.01 to 0.9999"),
    "a level that is text": (lambda: ROWS, {"level": "0.9"}, BadOption, "level is '0.9'; expected a number, from 0.01 to 0.9999"),
    "a level that no battles reach": (lambda: ROWS, {"level": 0.99999}, BadOption, "level is 0.99999; expected a number, from 0.01"),
    "a scale below zero": (lambda: ROWS, {"scale": -1}, BadOption, "scale is -1; expected a number, from 1 to 1e+06"),
    "orders below zero": (lambda: ROWS, {"method": "elo", "n_perms": -1}, BadOption, "n_perms is -1; expected a whole number, 0 or more"),
    "a seed with a fraction": (lambda: ROWS, {"seed": 1.5}, BadOption, "seed is 1.5; expected a whole number, 0 or more"),
    "a seed below zero": (lambda: ROWS, {"seed": -1}, BadOption, "seed is -1; expected a whole number, 0 or more"),
    "a seed that is true": (lambda: ROWS, {"seed": True}, BadOption, "seed is True; expected a whole number, 0 or more"),
    "no seed": (lambda: ROWS, {"seed": None}, BadOption, "seed is None; expected a whole number"),
    "a prior that is none": (lambda: ROWS, {"prior_sd": 1e9}, BadOption, "prior_sd is 1000000000.0; expected a number, from 1 to 1e+06"),
    "a prior that is no number": (lambda: ROWS, {"prior_sd": float("nan")}, BadOption, "prior_sd is nan; expected a number"),
    "a yes for true": (lambda: ROWS, {"bootstrap": "yes"}, BadOption, "bootstrap is 'yes'; expected True or False"),
    "a no for false": (lambda: ROWS, {"skip_invalid": "no"}, BadOption, "skip_invalid is 'no'; expected True or False"),
    "a group that is not there": (lambda: ROWS, {"by": "mood"}, BadOption, "by='mood': the battles have no column mood; they have 'model_a', "),
    "two groups in one text": (lambda: ROWS, {"by": "category, language"}, BadOption, "by='category, language': the battles have no column of this name; name each of several columns: by=['category', 'language']"),
    "an anchor out of range": (lambda: ROWS, {"anchor": "x=1e9"}, BadOption, "the rating must lie between"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(case):
    data, options, kind, message = ERRORS[case]
    with pytest.raises(kind) as raised:
        tiltyard.rate(data(), **options)
    assert str(raised.value).startswith(message) or message in str(raised.value)


def test_numbers_of_numpy_and_methods_of_ones_own_are_taken():
    board = tiltyard.rate(ROWS, level=np.float64(0.5), seed=np.int64(3), prior_sd=None, max_share=None)
    assert board.parameters()["seed"] == 3
    board = tiltyard.rate(ROWS, method=tiltyard.BradleyTerry(level=0.8))
    assert board.to_columns() == tiltyard.rate(ROWS, level=0.8).to_columns()
    styled = tiltyard.rate(ROWS, method=tiltyard.BradleyTerry(), style=["length"])
    assert styled.to_columns() == tiltyard.rate(ROWS, style="length").to_columns()


class Broken:
    """An object whose library fails in its own way."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise KeyError("who knows")


class Selfish(Broken):
    columns = ("model_a", "model_b", "winner")

    def __getitem__(self, keys):
        return self


def test_errors_of_other_libraries_are_translated():
    with pytest.raises(UnreadableFile, match="the Broken"):
        tiltyard.rate(Broken())
    with pytest.raises(UnreadableFile, match="column model_a"):
        tiltyard.rate(Selfish())


def test_no_frame_library_is_needed(tmp_path):
    code = """
import sys

class Absent:
    @staticmethod
    def find_spec(name, *_):
        if name in ("pandas", "polars", "duckdb"):
            raise ImportError(name)

sys.meta_path.insert(0, Absent)
import json, pyarrow as pa, tiltyard
board = tiltyard.rate(pa.Table.from_pylist([json.loads(line) for line in open(sys.argv[1])]))
board._repr_html_(), board.to_markdown(), board.to_json(), str(board)
for method in (board.to_pandas, board.to_polars):
    try:
        method()
    except tiltyard.TiltyardError as error:
        print(error)
print("altair" in sys.modules)
"""
    command = [sys.executable, "-c", code, written(tmp_path / "b.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pandas, polars, drew = done.stdout.splitlines()
    assert pandas.endswith("pip install pandas")
    assert polars.endswith("pip install polars")
    assert drew == "False"


TEXTS = st.sampled_from(
    ["x", "y", "z", "", " ", "tie", "model_a", "model_b", "both_bad", "A", "\ud800", "é", "q1"]
)
ANYTHING = st.one_of(
    TEXTS, st.none(), st.integers(-3, 3), st.floats(), st.booleans(), st.binary(max_size=2),
    st.lists(st.integers(0, 1), max_size=1), st.dictionaries(TEXTS, st.integers(), max_size=1), st.datetimes(),
    st.just(pd.NA), st.just(pd.NaT),
)  # fmt: skip
NAMES = ["model_a", "model_b", "winner", "outcome", "label", "both_bad", "question_id", "voter", "weight", "pref", "category", "blind", "length_a", "length_b", "response_a", "response_b", "judge", "anony", "tstamp", "odd"]  # fmt: skip


@st.composite
def columns_of_anything(draw):
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    names = list(dict.fromkeys([*(["model_a", "model_b", "winner"] if draw(st.booleans()) else []), *names]))
    n = draw(st.integers(0, 6))
    good = {"model_a": st.sampled_from("xy"), "model_b": st.sampled_from("yz"), "winner": st.sampled_from(["tie", "model_a", "model_b"])}  # fmt: skip
    return {
        name: draw(st.lists(good[name] if name in good and draw(st.booleans()) else draw(st.sampled_from([TEXTS, ANYTHING])), min_size=n, max_size=n))
        for name in names
    }  # fmt: skip


OPTIONS = st.sampled_from([{}, {}, {"method": "glicko-2"}, {"method": "elo", "n_perms": 2, "n_bootstraps": 2}, {"style": "length"}, {"by": "category"}, {"prior_sd": 200.0}])  # fmt: skip


@settings(max_examples=sized(20, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(columns_of_anything(), OPTIONS, st.sampled_from(["columns", "rows", "pandas", "polars", "arrow"]))
def test_whatever_the_frame_there_are_ratings_or_one_error(columns, options, form):
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    try:
        data = {
            "columns": lambda: columns,
            "rows": lambda: rows,
            "pandas": lambda: pd.DataFrame(columns),
            "polars": lambda: pl.DataFrame(columns, strict=False),
            "arrow": lambda: pa.Table.from_pylist(rows),
        }[form]()
    except Exception:  # the other library refuses
        return
    try:
        board = tiltyard.rate(data, **options)
    except tiltyard.TiltyardError:
        return
    assert board.n_battles <= len(rows)
    shown = [board._repr_html_(), str(board), repr(board), board.to_markdown(), board.to_latex()]
    assert all(shown)
    json.loads(board.to_json())
