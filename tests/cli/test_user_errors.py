"""What a user can do wrong ends in one message and exit code 2; what is wrong with files is in `tests/files`."""

import pytest

from support.command import run

FILES = {
    "good.csv": "model_a,model_b,winner\nx,y,model_a\ny,x,model_a\n",
    "empty.jsonl": "",
    "outcome.jsonl": '{"model_a": "x", "model_b": "y", "winner": "A"}\n\n{"model_a": "x", "model_b": "y", "winner": "win"}\n',
    "weight.csv": "model_a,model_b,winner,weight\nx,y,A,-1\n",
    "style.csv": "model_a,model_b,winner,tone\nx,y,A,warm\ny,x,A,cold\n",
    "gaps.jsonl": '{"model_a": "x", "model_b": "y", "winner": "A", "tone": 1}\n{"model_a": "y", "model_b": "x", "winner": "A"}\n',
    "islands.csv": "model_a,model_b,winner\na,b,A\nb,a,A\nx,y,A\ny,x,A\n",
}  # fmt: skip

WRONG = {
    "rate nowhere.jsonl": "nowhere.jsonl: no such file",
    "rate good.csv --by colour": "--by colour: the battles have no column colour; they have 'model_a', 'model_b', 'winner'",
    "rate empty.jsonl": "empty.jsonl: the file is empty",
    "rate outcome.jsonl": "outcome.jsonl, line 3: winner is 'win'; expected model_a",
    "rate weight.csv": "weight.csv, line 2: weight is -1; expected",
    "rate .": "",
    "rate -": "standard input: the file is empty",
    "rate good.csv nowhere.csv": "nowhere.csv: no such file",
    "rate good.csv --columns model_a=left": "--columns model_a=left: good.csv has no column 'left'; it has: 'model_a'",
    "rate good.csv --columns nonsense": "--columns: 'nonsense' is not of the form name=header",
    "rate good.csv --columns colour=x": "--columns: 'colour' is not a column of a battle",
    "rate good.csv --format sealed": "unknown format 'sealed'; known formats: tiltyard-jsonl",
    "rate good.csv --format mt-bench": "good.csv",
    "rate good.csv --by language": "--by language: the battles have no column language",
    "rate good.csv --style length": "--style length: the battles have neither length_a and length_b",
    "rate style.csv --style tone": "--style tone: the column is not numeric",
    "rate gaps.jsonl --style tone": "a style column has missing values",
    "rate good.csv --style position --method elo": "--style has no effect with elo; use it with bradley-terry",
    "rate good.csv --k 20": "--k has no effect with bradley-terry; use it with elo",
    "rate good.csv --soft --method glicko-2": "--soft has no effect with glicko-2",
    "rate good.csv --style position --ties davidson": "style control takes ties as half wins",
    "rate good.csv --style position --bootstrap": "style control takes ties as half wins",
    "rate good.csv --ties davidson --soft": "soft preferences have no ties",
    "rate good.csv --ties davidson --method elo": "ties is 'davidson'; expected half or drop",
    "rate good.csv --anchor z": "anchor 'z' is not among the models",
    "rate good.csv --anchor x=inf": "--anchor x=inf: the rating must lie between",
    "rate good.csv --out good.csv": "--out good.csv is a file",
    "rate good.csv --out .": "--out . contains other files",
    "rate good.csv --out good.csv/run": "cannot write good.csv/run",
    "compare x z good.csv": "no battle names 'z'; the models are x, y",
    "compare x x good.csv": "compare needs two different models",
    "compare a x islands.csv": "a and x cannot be compared by these battles",
    "compare x y nowhere.csv": "nowhere.csv: no such file",
    "verify nowhere": "nowhere has no manifest.json",
    "verify good.csv": "good.csv/manifest.json: Not a directory",
    "demo battles battles.xml": "battles.xml: unknown file extension",
    "demo battles no/such/battles.csv": "cannot write no/such/battles.csv",
}

USAGE = {
    "rate": "Missing argument",
    "compare x y": "Missing argument",
    "verify": "Missing argument",
    "fly": "No such command 'fly'",
    "rate good.csv --speed 3": "No such option",
    "rate good.csv --method trueskill": "'--method'",
    "rate good.csv --ties won": "'--ties'",
    "rate good.csv --intervals wide": "'--intervals'",
    "rate good.csv --seed -1": "'--seed'",
    "rate good.csv --seed one": "'--seed'",
    "rate good.csv --level 2": "'--level'",
    "rate good.csv --level nan": "'--level'",
    "rate good.csv --n-bootstraps 1": "'--n-bootstraps'",
    "rate good.csv --n-perms -3": "'--n-perms'",
    "rate good.csv --k 0": "'--k'",
    "rate good.csv --scale inf": "'--scale'",
    "rate good.csv --prior-sd 0": "'--prior-sd'",
    "compare x y good.csv --level 0": "'--level'",
    "demo battles --n 0": "'--n'",
    "demo battles --seed -4": "'--seed'",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow(but_every=7)
@pytest.mark.parametrize(("line", "message"), WRONG.items(), ids=WRONG)
def test_one_message_says_what_was_wrong(line, message):
    ran = run(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("tiltyard: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err


@pytest.mark.parametrize(("line", "message"), USAGE.items(), ids=USAGE)
def test_a_wrong_call_is_explained(line, message):
    ran = run(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: tiltyard ")
    assert message in ran.err


@pytest.mark.parametrize("name", ["rate outcome.jsonl", "rate good.csv --by language", "rate weight.csv"])
def test_a_refused_run_leaves_no_folder(name, tmp_path):
    before = sorted(tmp_path.iterdir())
    assert run(*name.split(), "--out", "run").code == 2
    assert sorted(tmp_path.iterdir()) == before
