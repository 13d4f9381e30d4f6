"""A corpus of messy tables: each is rated, or ends in one error that names the option to use."""

import json
from zipfile import ZipFile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.command import run
from support.messy_logs import write_csv, write_lines
from tiltyard.errors import BadBattle, BadOption, InputError
from tiltyard.files import open_battles
from tiltyard.files.battle_tables import count_table

A, B, TIE, BOTH_BAD = "model_a", "model_b", "tie", "both_bad"

#: Text, options, and the outcomes of the battles between x and y that must be read.
READ = {
    "spaces and capitals": ("Model A,Model B,Winner\nx,y,model_a\nx,y,tie\n", {}, [A, TIE]),
    "shouting": ("MODEL_A,MODEL_B,WINNER\nx,y,MODEL_B\n", {}, [B]),
    "no underscore": ("modelA,modelB,winner\nx,y,a\n", {}, [A]),
    "numbers": ("model_1,model_2,winner\nx,y,b\n", {}, [B]),
    "numbers, spaced": ("Model 1;Model 2;Outcome\nx;y;Tie\n", {}, [TIE]),
    "dashes": ("model-a\tmodel-b\twinner\nx\ty\tmodel-b\n", {}, [B]),
    "winner by name": ("model_a,model_b,winner\nx,y,x\nx,y,y\nx,y,tie\n", {}, [A, B, TIE]),
    "winner by name, JSON": ('{"model_a": "x", "model_b": "y", "winner": "y"}\n', {}, [B]),
    "outcome by name": ("model_a,model_b,outcome\nx,y,y\n", {}, [B]),
    "left and right": ("model_a,model_b,winner\nx,y,left\nx,y,right\n", {"outcomes": {"left": "a", "right": "b"}}, [A, B]),
    "an empty value in CSV": ("model_a,model_b,winner\nx,y,\nx,y,x\n", {"outcomes": {"": "tie"}}, [TIE, A]),
    "an empty value in JSON": ('[{"model_a": "x", "model_b": "y", "winner": ""}, {"model_a": "x", "model_b": "y", "winner": null}, {"model_a": "x", "model_b": "y", "winner": "b"}]', {"outcomes": {"": "both_bad"}}, [BOTH_BAD, BOTH_BAD, B]),
    "draws": ("model_a,model_b,winner\nx,y,draw\nx,y,x\n", {"outcomes": {"draw": "tie"}}, [TIE, A]),
    "1, 0 and 0.5": ("model_a,model_b,winner\nx,y,1\nx,y,0\nx,y,0.5\n", {"outcomes": {1: "a", "0": "b", 0.5: "tie"}}, [A, B, TIE]),
    "JSON numbers": ('[{"model_a": "x", "model_b": "y", "winner": 1}, {"model_a": "x", "model_b": "y", "winner": 0.0}]', {"outcomes": {"1": "a", "0": "b"}}, [A, B]),
    "JSON booleans": ('[{"model_a": "x", "model_b": "y", "winner": true}]', {"outcomes": {"true": "a", "false": "b"}}, [A]),
    "winner and loser": ("winner,loser\nx,y\n", {}, [A]),
    "Winner and Loser": ("Winner;Loser;Voter\nx;y;v\n", {}, [A]),
    "winner and loser, JSON": ('{"winner": "x", "loser": "y", "question_id": 3, "time": 1700000000}\n', {}, [A]),
    "own headers beside odd ones": ("left,Model B,who\nx,y,tie\n", {"columns": {"model_a": "left", "winner": "who"}}, [TIE]),
    "own headers and words": ("l,r,w\nx,y,1\n", {"columns": {"model_a": "l", "model_b": "r", "winner": "w"}, "outcomes": {"1": "b"}}, [B]),
    "exact names win": ("model_a,model_b,winner,Winner\nx,y,tie,model_a\n", {}, [TIE]),
    "bad rows left out": ("model_a,model_b,winner\nx,y,model_a\n,y,model_a\nx,y,?\nx,y,tie\n", {"skip_invalid": True}, [A, TIE]),
    "a byte order mark": ("\ufeffModel A,Model B,Winner\nx,y,tie\n", {}, [TIE]),
    "Windows lines": ("Model A,Model B,Winner\r\nx,y,x\r\n", {}, [A]),
    "models called A and B": ("model_a,model_b,winner\nA,B,A\nA,B,B\n", {}, [A, B]),
    "a name that another side's outcome has, explained": ("model_a,model_b,winner\nB,A,A\n", {"outcomes": {"A": "a"}}, [A]),
}  # fmt: skip

#: Text, options, and what the error must say.
REFUSED = {
    "left and right": ("model_a,model_b,winner\nx,y,left\nx,y,right\nx,y,left\n", {}, "line 2: winner is 'left'; expected model_a, model_b, tie or both_bad; the row's models are 'x' and 'y'; 2 rows like it; winner is 'right' (1 row, first: line 3); say what words mean with outcomes={'left': '…', 'right': '…'} (a, b, tie or both_bad), or leave out invalid rows with skip_invalid=True"),
    "numbers": ("model_a,model_b,winner\nx,y,1\nx,y,0\n", {}, "outcomes={'1': '…', '0': '…'}"),
    "numbers in JSON": ('{"model_a": "x", "model_b": "y", "winner": 1}\n', {}, "outcomes={'1': '…'} (a, b"),
    "a missing name": ("model_a,model_b,winner\n,y,tie\n", {}, "line 2: model_a is None; expected the name of a model; leave out invalid rows with skip_invalid=True"),
    "several kinds": ("model_a,model_b,winner\n,y,tie\nx,,tie\nx,,a\n", {}, "line 2: model_a is None; expected the name of a model; model_b is None (2 rows, first: line 3); leave out"),
    "a name in another case": ("model_a,model_b,winner\nclaude,gpt-4,GPT-4\ngpt-4 ,claude,gpt-4\n", {}, "line 2: winner is 'GPT-4'; expected model_a, model_b, tie or both_bad; the row's models are 'claude' and 'gpt-4'; let names count in any spelling with rename=['gpt-4'], or leave out invalid rows with skip_invalid=True"),
    "a name in another case, and a word": ("model_a,model_b,winner\nclaude,gpt-4,left\ngpt-4,claude,GPT-4\n", {}, "; let names count in any spelling with rename=['gpt-4'], or say what words mean with outcomes={'left': '…'} (a, b, tie or both_bad), or leave out"),
    "a third name": ("model_a,model_b,winner\nx,y,z\n", {}, "line 2: winner is 'z'; expected"),
    "many words": ("model_a,model_b,winner\n" + "".join(f"x,y,w{k}\n" for k in range(12)), {}, "6 more rows with other problems; leave out invalid rows"),
    "unknown headers": ("left,right,who\nx,y,x\n", {}, "no known format has these columns: 'left', 'right', 'who'; name them with columns={'model_a': '…', 'model_b': '…', 'winner': '…'}"),
    "two headers for one field": ("Model A,MODEL_A,model_b,winner\nx,x,y,tie\n", {}, "no known format has these columns"),
    "a wide table": ("prompt,gpt,claude,llama\nq1,1,2,3\n", {}, "no known format has these columns: 'prompt', 'gpt', 'claude', 'llama'; it seems to have one column of numbers for each model ('gpt', 'claude', 'llama'); expected one row for each battle, with model_a, model_b and winner"),
    "a table of wins": (",x,y\nx,0,3\ny,4,0\n", {}, "one column of numbers for each model ('x', 'y')"),
    "one row for each model": ("Model,wins,losses\nx,3,4\ny,4,3\n", {}, "if each row is about one model alone (column 'Model'), it does not say which other it was compared with: expected one row"),
    "one row for each response": ("prompt,model,score\nq1,x,3\nq1,y,4\n", {}, "about one model alone (column 'model')"),
    "a header used for another field": ("model_a,model_b,winner\nx,y,tie\n", {"columns": {"model_a": "model_b"}}, "no column for model_b among: 'model_a', 'model_b', 'winner'; name the headers with "),
    "a word without meaning": ("model_a,model_b,winner\nx,y,left\n", {"outcomes": {"left": "x"}}, "outcomes: left is said to mean 'x'; expected a, b, tie or both_bad"),
    "a name that is the other side's outcome": ("model_a,model_b,winner\nB,A,A\n", {}, "line 2: winner is 'A (the name of model_b)'; expected"),
    "one name on both sides": ("model_a,model_b,winner\nx,x,x\n", {}, "line 2: winner is 'x'; expected"),
    "a winner without a loser": ("winner,loser\nx,\n", {}, "line 2: model_b is None; expected the name of a model"),
    "a broken row": ("model_a,model_b,winner\nx,y\n", {}, "line 2: 2 fields where the header has 3"),
    "an odd weight": ('{"model_a": "x", "model_b": "y", "winner": "tie", "weight": "heavy"}\n', {}, "line 1: weight is 'heavy'; expected a number"),
}  # fmt: skip


def read(path, options):
    with_kinds = count_table([open_battles(path, **options)])
    return [battle.winner.value for battle in open_battles(path, **options).battles()], with_kinds


@pytest.mark.parametrize("case", READ)
def test_messy_files_are_read(case, tmp_path):
    text, options, expected = READ[case]
    (tmp_path / "votes").write_text(text, encoding="utf-8", newline="")
    outcomes, table = read(tmp_path / "votes", options)
    assert outcomes == expected
    assert table.n_battles == len(expected)


@pytest.mark.parametrize("case", REFUSED)
def test_others_end_in_one_error_that_says_what_to_do(case, tmp_path):
    text, options, message = REFUSED[case]
    (tmp_path / "votes").write_text(text, encoding="utf-8", newline="")
    with pytest.raises(InputError) as raised:
        count_table([open_battles(tmp_path / "votes", **options)])
    assert message in str(raised.value)


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("coded", [False, True])
def test_columns_are_read_as_rows_are(tmp_path, coded):
    text = pa.array(["x", "y", "tie", "model_b", "left"])
    winner = text.dictionary_encode() if coded else text
    path = parquet(tmp_path / "b.parquet", **{"Model A": ["x"] * 5, "Model B": ["y"] * 5, "Winner": winner})
    outcomes, table = read(path, {"outcomes": {"left": "a"}})
    assert outcomes == [A, B, TIE, B, A]
    assert table.n_battles == 5
    with pytest.raises(BadBattle, match=r"row 5.*'left'"):
        count_table([open_battles(path)])
    skipping = open_battles(path, skip_invalid=True)
    assert count_table([skipping]).n_battles == 4
    assert skipping.notes == (("winner is 'left' (first: row 5)", 1),)


@pytest.mark.parametrize("values", [[1, 0, 2], [1.0, 0.0, 2.0], [True, False, True]])
def test_numbers_in_columns_are_words(tmp_path, values):
    path = parquet(tmp_path / "b.parquet", model_a=["x"] * 3, model_b=["y"] * 3, winner=values)
    words = {"1": "a", "0": "b", "2": "tie", "true": "a", "false": "b"}
    outcomes, _ = read(path, {"outcomes": words})
    assert outcomes[:2] == [A, B]
    with pytest.raises(BadBattle, match=r"row 1: winner is '(1|true)'; .*outcomes="):
        count_table([open_battles(path)])


def test_invalid_rows_of_columns_are_found_by_their_values(tmp_path):
    path = parquet(
        tmp_path / "b.parquet",
        model_a=["x", None, " ", "x", "x", "x"],
        model_b=["y"] * 6,
        winner=["tie", "tie", "tie", None, "model_a", "model_a"],
        pref=[None, None, None, None, 0.1, 0.9],
        weight=[None, None, None, None, 1.0, 2.0],
    )
    source = open_battles(path, skip_invalid=True)
    assert count_table([source]).n_battles == 2
    assert sum(number for _, number in source.notes) == 4
    assert [battle.pref for battle in source.battles()] == [None, 0.9]
    assert sum(number for _, number in source.notes) == 4
    with pytest.raises(BadBattle, match="row 2: model_a"):
        count_table([open_battles(path)])


def test_the_commands_take_the_same_words(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("Model 1,Model 2,Winner\n" + "x,y,left\nx,y,right\ny,x,draw\n" * 20 + "x,y,?\n")
    words = ("--outcomes", "left=a,right=b,draw=tie")
    refused = run("rate", path, *words)
    assert refused.code == 2
    assert "expected model_a" in refused.err
    rated = run("rate", path, *words, "--skip-invalid", "--out", tmp_path / "run")
    assert rated.code == 0, rated.err
    assert "votes.csv: 1 left" in rated.err
    assert run("compare", "x", "y", path, *words, "--skip-invalid").code == 0
    assert (
        run("rate", path, "--outcomes", "left").err
        == "tiltyard: --outcomes: 'left' is not of the form word=outcome\n"
    )
    lines = (tmp_path / "run" / "battles.jsonl").read_text().splitlines()
    assert [json.loads(line)["winner"] for line in lines[:3]] == [A, B, TIE]
    assert run("verify", tmp_path / "run").code == 0


def test_other_archives_are_no_workbooks(tmp_path):
    with ZipFile(tmp_path / "votes.zip", "w") as archive:
        archive.writestr("votes.csv", "model_a,model_b,winner\nx,y,tie\n")
    with pytest.raises(InputError, match="a zip archive"):
        open_battles(tmp_path / "votes.zip")


@pytest.mark.parametrize("orient", ["columns", "index", "split", "list"])
@pytest.mark.parametrize("indent", [None, 2])
def test_whole_tables_of_pandas_are_named_as_such(orient, indent, tmp_path):
    frame = pd.DataFrame({"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["tie", "tie"]})
    path = tmp_path / "votes.json"
    path.write_text(json.dumps(frame.to_dict("list"), indent=indent))
    if orient != "list":
        frame.to_json(path, orient=orient, indent=indent or 0)
    with pytest.raises(InputError, match=r'orient="records", lines=True'):
        open_battles(path)


#: Headers and options by which the same table is read.
HEADERS = {
    "padded": (" model_a ,model_b,\twinner", {}),
    "no-break spaces": ("model_a\u00a0,\u00a0MODEL_B,Winner", {}),
    "chosen in another case": (
        "LEFT ,right,Who",
        {"columns": {"model_a": "left", "model_b": "RIGHT", "winner": "who"}},
    ),
    "of another tool": (" Winner_Model_A,WINNER_MODEL_B,winner_tie,Model_A,MODEL_B", {}),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_match_without_case_and_padding(case, tmp_path):
    headers, options = HEADERS[case]
    row = "0,0,1,x,y" if "winner_tie" in headers else "x,y,tie"
    path = tmp_path / "votes.csv"
    path.write_text(f"{headers}\n{row}\n")
    outcomes, table = read(path, options)
    assert (outcomes, table.models) == ([TIE], ("x", "y"))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_outer_spaces_are_removed_and_told(form, tmp_path):
    rows = [
        {"model_a": "x ", "model_b": "y", "winner": "x", "voter": " "},
        {"model_a": "y", "model_b": "\u3000x", "winner": "tie", "voter": "v"},
    ]
    path = tmp_path / "votes"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        {"csv": write_csv, "jsonl": write_lines}[form](path, rows)
    source = open_battles(path)
    assert [(one.model_a, one.model_b, one.winner.value, one.voter) for one in source.battles()] == [
        ("x", "y", A, None),
        ("y", "x", TIE, "v"),
    ]
    told = source.remarks
    assert count_table([source]).models == ("x", "y")
    assert source.remarks == told
    assert len(told) == 3


def test_long_values_and_headers_are_cut(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(f"model_a,model_b,winner\nx,y,{'z' * 1000}\n")
    with pytest.raises(InputError) as raised:
        count_table([open_battles(path)])
    assert "z" * 81 not in str(raised.value).partition(";")[0]
    path.write_text(f"{'h' * 1000},b\nx,y\n")
    with pytest.raises(InputError) as raised:
        open_battles(path)
    assert "h" * 81 not in str(raised.value)


@pytest.mark.parametrize("name", ["columns", "outcomes"])
def test_a_text_is_no_mapping(name, tmp_path):
    with pytest.raises(BadOption, match=f"{name}=: expected a mapping such as .*, not 'left=a'"):
        open_battles(tmp_path / "b.csv", **{name: "left=a"})


def test_numbers_may_be_names(tmp_path):
    path = tmp_path / "battles.parquet"
    pq.write_table(pa.table({"model_a": [1, 2], "model_b": [2, 1], "winner": ["model_a", "tie"]}), path)
    assert count_table([open_battles(path)]).models == ("1", "2")
    lines = tmp_path / "battles.jsonl"
    lines.write_text('{"model_a": 1, "model_b": 2, "winner": "model_b"}\n')
    assert [battle.model_b for battle in open_battles(lines).battles()] == ["2"]


def test_words_must_mean_outcomes(tmp_path):
    with pytest.raises(BadOption, match="'draw'"):
        open_battles(tmp_path / "b.csv", outcomes={0.5: "draw"})


#: Headers beside those of the models, and the ids of questions that must be read.
QUESTIONS = {
    "prompt_id": (["prompt_id"], ["p"]),
    "Prompt ID": (["Prompt ID"], ["p"]),
    "the documented name wins": (["prompt_id", "question_id"], ["other", "p"]),
    "the documented name wins, spelled otherwise": (["prompt_id", "Question ID"], ["other", "p"]),
    "two that could be meant": (["prompt_id", "Prompt ID"], None),
}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("case", QUESTIONS)
def test_questions_may_be_called_prompts(case, form, tmp_path):
    headers, cells = QUESTIONS[case]
    row = {"model_a": "x", "model_b": "y", "winner": "tie"}
    rows = [row | dict(zip(headers, cells or ["p", "q"], strict=True))] * 2
    path = tmp_path / f"battles.{form}"
    if form == "csv":
        cell_lines = [",".join(one) for one in (rows[0], *(each.values() for each in rows))]
        path.write_text("\n".join(cell_lines) + "\n")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    source = open_battles(path)
    found = list(source.battles())
    assert [one.question_id for one in found] == ([None] * 2 if cells is None else ["p"] * 2)
    if cells == ["p"]:
        assert "prompt_id" not in found[0].extra
        assert source.column_name("prompt_id") == "question_id"
    else:
        # What is not the question stays what it is, and can be chosen by its name.
        assert found[0].extra["prompt_id"] == (cells or ["p"])[0]
        assert source.column_name("prompt_id") == "prompt_id"


def test_a_condition_may_name_the_question_as_the_file_does(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text("model_a,model_b,winner,prompt_id\nx,y,tie,p1\nx,y,model_a,p2\n")
    done = run("rate", str(path), "--where", "prompt_id = 'p2'")
    assert done.code == 0, done.err
    assert "1/0/0" in done.out


def test_the_caller_may_say_that_prompts_are_something_else(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text("model_a,model_b,winner,prompt_id\nx,y,tie,p1\n")
    (battle,) = open_battles(path, columns={"category": "prompt_id"}).battles()
    assert (battle.question_id, battle.category) == (None, "p1")


def test_many_values_that_mean_nothing_are_one_line(tmp_path):
    path = tmp_path / "battles.csv"
    words = "".join(f"x,y,w{k % 40}\n" for k in range(80))
    path.write_text(f"model_a,model_b,winner\nx,y,tie\n{words},y,tie\nx,y,model_a\n")
    done = run("rate", str(path), "--skip-invalid")
    left_out = [line for line in (done.out + done.err).splitlines() if "left out" in line]
    assert left_out == [
        f"{path}: 80 left out: winner is 'w0', 'w1', 'w2' or one of 37 more (first: line 3)",
        f"{path}: 1 left out: model_a is None (first: line 83)",
    ]
