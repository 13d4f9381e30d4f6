"""The command line: what it prints, and with which code it ends."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tiltyard
from support.command import run
from support.worlds import battles
from tiltyard.core.battles import Battle
from tiltyard.files import read_battles, write_battles
from tiltyard.simulation.demo.demo_roster import demo_battles

FIXTURES = Path(__file__).parents[1] / "files" / "fixtures"
MODULE = (sys.executable, "-m", "tiltyard")
pytestmark = pytest.mark.usefixtures("without_charts")


@pytest.fixture
def file(tmp_path):
    write_battles(tmp_path / "battles.jsonl", demo_battles(400))
    return tmp_path / "battles.jsonl"


@pytest.fixture
def small(tmp_path):
    write_battles(
        tmp_path / "small.jsonl",
        battles("a>b*4 a<b*2 b>a*2 b<c b>c*2 c>b a=c*2", question_id=[*"pqrstuvwxyzklm"]),
    )
    return tmp_path / "small.jsonl"


class TestRate:
    def test_the_board_is_printed(self, file):
        ran = run("rate", file)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("\nBradley–Terry · 400 battles · 8 models")
        assert " is settled, all at once at 95%" in " ".join(ran.out.split())
        assert "eaving" not in ran.out
        assert all(model in ran.out for model in ("argent-70b", "heron-1b"))

    def test_documents_are_alone_on_standard_output(self, small, tmp_path):
        table = run("rate", small, "--csv")
        assert next(csv.DictReader(io.StringIO(table.out)))["model"] == "a"
        assert table.out == tiltyard.rate(small).to_csv()
        assert "few-battles: " in table.err
        assert run("rate", small, "--markdown").out == tiltyard.rate(small).to_markdown()
        assert run("rate", small, "--latex").out == tiltyard.rate(small).to_latex()
        folder = tmp_path / "run"
        ran = run("rate", small, "--json", "--out", folder, "--n-bootstraps", "3")
        assert ran.out == (folder / "elo_ratings.json").read_text()
        assert f"Written to {folder}" in ran.err

    def test_at_most_one_form(self, small):
        ran = run("rate", small, "--json", "--latex")
        assert (ran.code, ran.out) == (2, "")
        assert "--json and --latex:" in ran.err

    def test_the_first_models_keep_their_ranks_and_the_rest_are_counted(self, file):
        whole = json.loads(run("rate", file, "--json").out)
        first = json.loads(run("rate", file, "--json", "--top", "3").out)
        assert first.pop("models_left_out") == 5
        assert first == whole | {"ratings": whole["ratings"][:3]}
        assert json.loads(run("rate", file, "--json", "--top", "99").out)["models_left_out"] == 0
        table = run("rate", file, "--csv", "--top", "3")
        assert len(table.out.splitlines()) == 4
        assert "5 more models" in table.err
        shown = run("rate", file, "--top", "7").out
        assert " 8 models " in shown
        assert "heron-1b" not in shown.split("The order of")[0]
        assert "1 more model" in shown
        groups = json.loads(run("rate", file, "--by", "language", "--json", "--top", "1").out)["groups"]
        assert [len(group["ratings"]) for group in groups.values()] == [1, 1, 1, 1]

    @pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "jsonl.gz"])
    def test_standard_input_is_a_file_like_any_other(self, ending, tmp_path, small):
        path = tmp_path / f"battles.{ending}"
        write_battles(path, read_battles(small))
        assert run("rate", "-", stdin=path.read_bytes()).out == run("rate", small).out

    def test_several_files_are_one_log(self, small, tmp_path):
        other = tmp_path / "other.jsonl"
        other.write_bytes(small.read_bytes())
        assert "28 battles" in run("rate", small, other).out

    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            (["--method", "elo", "--n-perms", "3", "--n-bootstraps", "3"], "Elo · 14 battles"),
            (["--method", "elo", "--n-perms", "0"], "Elo · 14 battles"),
            (["--method", "glicko-2"], "RD"),
            (["--ties", "davidson"], "Bradley–Terry"),
            (["--ties", "drop"], "Bradley–Terry"),
            (["--intervals", "battles"], "battle-level intervals for these prompts"),
            (["--intervals", "none"], "3 models\n"),
            (["--bootstrap", "--n-bootstraps", "5"], "intervals for prompts"),
            (["--anchor", "b=1000"], " 1000 "),
            (["--anchor", "b"], " 1500 "),
            (["--prior-sd", "50", "--scale", "100"], "Bradley–Terry"),
            (["--style", "position"], "Style, in logits per unit of its spread: position"),
            (["--soft", "--level", "0.5", "--seed", "3"], "Bradley–Terry"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_options(self, options, shown, small):
        ran = run("rate", small, *options)
        assert (ran.code, ran.err) == (0, "")
        assert shown in ran.out

    def test_a_name_may_hold_what_separates_it_from_its_rating(self):
        text = b"model_a,model_b,winner\nx=y,z,A\nz,x=y,A\n"
        assert run("rate", "-", "--anchor", "x=y", stdin=text).code == 0
        assert " 1000 " in run("rate", "-", "--anchor", "x=y=1000", stdin=text).out

    def test_headers_can_be_named(self, tmp_path):
        path = tmp_path / "votes.csv"
        path.write_text("left,right,who\nx,y,A\ny,x,a\nx,y,tie\n")
        ran = run("rate", path, "--columns", "model_a=left, model_b=right,winner=who")
        assert (ran.code, ran.err) == (0, "")
        assert "3 battles · 2 models" in ran.out

    def test_what_was_left_out_is_counted(self):
        ran = run("rate", FIXTURES / "judgearena.jsonl")
        assert ran.code == 0
        assert " left out: " in ran.err

    def test_no_name_reaches_the_terminal_raw(self, tmp_path):
        names = ("\x1b[2Jx", "y\u202e")
        rows = [{"model_a": a, "model_b": b, "winner": "A"} for a, b in (names, names[::-1], names)]
        write_battles(tmp_path / "battles.jsonl", map(Battle.from_dict, rows))
        for ran in (
            run("rate", tmp_path / "battles.jsonl"),
            run("compare", *names, tmp_path / "battles.jsonl"),
            run("compare", "z", names[0], tmp_path / "battles.jsonl"),
        ):
            assert "\\x1b[2Jx" in ran.out + ran.err
            assert all(character.isprintable() or character == "\n" for character in ran.out + ran.err)


class TestCompare:
    def test_the_sentence_comes_first(self, file):
        ran = run("compare", "argent-70b", "heron-1b", file)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("argent-70b is settled above heron-1b, by ")
        for line in ("Difference +", "Direct battles: ", "Prompts on which argent-70b did better: "):
            assert f"\n{line}" in ran.out

    def test_the_level_is_written_out(self, file):
        assert "(99.5% interval " in run("compare", "argent-70b", "heron-1b", file, "--level", "0.995").out

    def test_findings_follow(self, small):
        assert "few-prompts: " in run("compare", "a", "c", small).out

    def test_json_is_the_comparison_of_the_board_in_python(self, file):
        options = ("--style", "length", "--where", 'language = "en"', "--level", "0.9")
        ran = run("compare", "argent-70b", "heron-1b", file, "--json", *options)
        board = tiltyard.rate(file, style="length", where='language = "en"', level=0.9)
        assert json.loads(ran.out) == json.loads(
            json.dumps(board.compare("argent-70b", "heron-1b").to_dict())
        )
        assert "the condition is" in ran.err

    def test_each_group_is_compared(self, file):
        shown = run("compare", "argent-70b", "heron-1b", file, "--by", "language", "--by", "source")
        assert [line for line in shown.out.splitlines() if line.endswith(":") and "=" in line] == [
            "language=de:", "language=en:", "language=fr:", "source=human:"
        ]  # fmt: skip
        ran = run("compare", "argent-70b", "heron-1b", file, "--by", "language", "--json")
        groups = json.loads(ran.out)["groups"]
        board = tiltyard.rate(file, by="language")
        assert groups["en"]["difference"] == board.groups["en"].compare("argent-70b", "heron-1b").difference

    def test_a_group_without_one_of_the_models_says_so(self, tmp_path):
        rows = battles("a>b*9 b>a*9 a>c*3 c>a*3", language=["en"] * 18 + ["de"] * 6)
        write_battles(tmp_path / "b.jsonl", rows)
        ran = run("compare", "a", "b", tmp_path / "b.jsonl", "--by", "language")
        assert ran.code == 0
        assert "de:\nno battle names 'b'; the models are a, c\n" in ran.out
        found = json.loads(run("compare", "a", "b", tmp_path / "b.jsonl", "--by", "language", "--json").out)
        assert found["groups"]["de"] == {"problem": "no battle names 'b'; the models are a, c"}
        nobody = run("compare", "b", "z", tmp_path / "b.jsonl", "--by", "language")
        assert (nobody.code, nobody.out) == (2, "")

    def test_a_prior_compares_a_model_that_only_won_as_the_advice_says(self, tmp_path):
        write_battles(tmp_path / "b.jsonl", battles("a>b*9 b>c*5 c>b*5"))
        refused = run("compare", "a", "b", tmp_path / "b.jsonl")
        assert refused.code == 2
        assert "prior (--prior-sd)" in " ".join(refused.err.split())
        ran = run("compare", "a", "b", tmp_path / "b.jsonl", "--prior-sd", "300")
        assert ran.code == 0
        assert ran.out.startswith("The order of a and b is not settled: a is rated higher by ")
        assert "every battle: only" in ran.out

    def test_models_that_never_met_have_no_direct_battles(self, tmp_path):
        write_battles(
            tmp_path / "b.jsonl", battles("a>b*6 b>a*6 b>c*6 c>b*6", question_id=[f"p{k}" for k in range(24)])
        )
        out = run("compare", "a", "c", tmp_path / "b.jsonl").out
        assert "Direct battles: 0 " in out
        assert "Prompts on which" not in out


class TestBattleLines:
    def test_many_battles_are_written_as_lines_on_request(self, small, tmp_path, monkeypatch):
        monkeypatch.setattr("tiltyard.runs.run_folder.MAX_BATTLE_LINES", 10)
        ran = run("rate", small, "--out", tmp_path / "run", "--intervals", "none")
        assert "battles.jsonl was" in ran.err
        assert "; --jsonl writes it\n" in ran.err
        ran = run("rate", small, "--out", tmp_path / "run", "--intervals", "none", "--jsonl")
        assert ran.code == 0
        assert "left out" not in ran.err
        assert (tmp_path / "run" / "battles.jsonl").is_file()

    def test_without_a_folder_the_option_does_nothing(self, small):
        ran = run("rate", small, "--jsonl")
        assert ran.code == 2
        assert "effect without --out" in ran.err


class TestVerify:
    @pytest.fixture
    def folder(self, small, tmp_path):
        ran = run("rate", small, "--out", tmp_path / "run", "--n-bootstraps", "3", "--arena", "Garden")
        assert ran.code == 0
        assert ran.out.endswith(f"\nWritten to {tmp_path / 'run'}: tiltyard verify {tmp_path / 'run'}\n")
        return tmp_path / "run"

    def test_a_true_folder(self, folder):
        ran = run("verify", folder)
        assert (ran.code, ran.err) == (0, "")
        assert all(line.startswith("ok   ") for line in ran.out.splitlines()[:-1])
        assert ran.out.endswith("equal to the last bit.\n")

    def test_a_false_folder(self, folder):
        path = folder / "elo_ratings.json"
        path.write_text(path.read_text().replace("Garden", "Desert"))
        ran = run("verify", folder)
        assert (ran.code, ran.err) == (1, "")
        assert "FAIL elo_ratings.json: changed" in ran.out
        assert "elo_ratings.json: recomputed, differs" in ran.out
        assert ran.out.endswith("NOT verified: 2 of 22 checks failed.\n")

    def test_a_file_of_a_strange_name(self, folder):
        (folder / "\x1b[2J").touch()
        assert "\x1b" not in run("verify", folder).out

    def test_no_folder(self, tmp_path):
        ran = run("verify", tmp_path)
        assert (ran.code, ran.out) == (2, "")
        assert "no manifest.json" in ran.err


class TestDemo:
    @pytest.mark.parametrize("name", ["battles.jsonl", "battles.csv", "battles.parquet", "battles.jsonl.zst"])
    def test_the_ending_decides_the_format(self, name, tmp_path):
        ran = run("demo", "battles", tmp_path / name, "--n", "20", "--seed", "3")
        assert (ran.code, ran.out) == (0, "")
        assert ran.err.startswith("Wrote 20 battles to ")
        assert [battle.winner for battle in read_battles(tmp_path / name)] == [
            battle.winner for battle in demo_battles(20, 3)
        ]

    def test_the_default_is_a_file_here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert run("demo", "battles", "--n", "5").code == 0
        assert len(list(read_battles("battles.jsonl"))) == 5


def test_most_options_of_rate_are_advanced():
    first, advanced = run("rate", "--help").out.partition("Options:\n")[2].split("Advanced:\n")
    assert first.count("\n  --") + 1 <= 15
    assert {"--out", "--by", "--columns", "--help"} <= set(first.split())
    assert {"--method", "--n-perms", "--latex", "--anchor"} <= set(advanced.split())


@pytest.mark.parametrize("command", [[], ["rate"], ["compare"], ["verify"], ["demo"], ["demo", "battles"]])
def test_every_command_has_help(command):
    ran = run(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: {' '.join(['tiltyard', *command])} ")


@pytest.mark.parametrize("group", [["arena"], ["arena", "token"], ["demo"]])
def test_the_list_of_commands_fits_in_80_columns(group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(*group, "--help").out.partition("Commands:\n")[2].splitlines()
    assert listed
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_the_program_alone_shows_its_commands_by_way_in():
    ran = run()
    listed = re.findall(r"^(\w+):\n((?:  .*\.\n)+)", ran.out + ran.err + "\n", re.MULTILINE)
    assert {way: [line.split()[0] for line in lines.splitlines()] for way, lines in listed} == {
        "Options": ["--version", "--help"],
        "Ratings": ["ab", "check", "rate", "compare", "verify", "publish"],
        "Tournaments": ["init", "plan", "run", "read", "agree", "generate", "place"],
        "Arenas": ["simulate", "serve", "demo", "arena"],
    }


def test_the_version():
    assert run("--version").out == f"tiltyard {version('tiltyard')}\n"


def test_the_module_is_the_command():
    done = subprocess.run([*MODULE, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tiltyard {version('tiltyard')}\n"


def test_a_file_named_twice_would_count_twice(tmp_path, monkeypatch):
    write_battles(tmp_path / "battles.csv", demo_battles(60))
    monkeypatch.chdir(tmp_path)
    ran = run("rate", "battles.csv", "./battles.csv")
    assert (ran.code, ran.err) == (
        2,
        "tiltyard: ./battles.csv is named twice; its battles would count twice\n",
    )


def test_all_conditions_must_be_met(tmp_path):
    path = tmp_path / "battles.csv"
    write_battles(path, demo_battles(300))
    both = run(
        "rate", path, "--where", "language = 'en'", "--where", "category = 'maths' or category = 'prose'"
    )
    one = run("rate", path, "--where", "language = 'en' and (category = 'maths' or category = 'prose')")
    assert both.code == 0
    assert both.out == one.out
    assert (
        run("compare", "dunlin-pro", "gannet-3b", path, "--where", "language = 'en'", "--where", "x = 1").code
        == 2
    )


def test_options_that_map_may_be_repeated(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("l,r,w\n" + "x,y,1\ny,x,2\n" * 20)
    once = run("rate", path, "--columns", "model_a=l,model_b=r,winner=w", "--outcomes", "1=a,2=b")
    headers = [text for pair in ("model_a=l", "model_b=r", "winner=w") for text in ("--columns", pair)]
    assert once.code == 0
    assert run("rate", path, *headers, "--outcomes", "1=a", "--outcomes", "2=b") == once


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_outcomes_name_an_empty_value(tmp_path, kind):
    rows = [("oak", "elm", "oak"), ("elm", "oak", "elm"), ("oak", "elm", None), ("elm", "oak", None)]
    names = ("model_a", "model_b", "winner")
    path = tmp_path / f"battles.{kind}"
    if kind == "csv":
        lines = [",".join(names), *(",".join(cell or "" for cell in row) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path)
    refused = run("rate", path)
    assert refused.code == 2
    assert "--outcomes =…" in refused.err
    ran = run("rate", path, "--outcomes", "=tie", "--json")
    assert ran.code == 0, ran.err
    assert {row["model"]: row["ties"] for row in json.loads(ran.out)["ratings"]} == {"oak": 2, "elm": 2}


def test_preferences_that_contradict_their_winners_are_one_sentence(tmp_path):
    rows = [
        {"model_a": "oak", "model_b": "elm", "winner": ("model_a", "model_b", "tie")[k % 3], "pref": pref}
        for k, pref in enumerate((0.1, 0.9, 0.95, 0.2, 0.8, 0.05, 0.3, 0.7))
    ]
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused = run("rate", path)
    assert refused.code == 2
    assert refused.err.count("contradicts") == 1
    assert "8 rows like it" in refused.err
    good = [{"model_a": a, "model_b": b, "winner": "model_a"} for a, b in (("oak", "elm"), ("elm", "oak"))]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*good, *rows]))
    left_out = run("rate", path, "--skip-invalid")
    assert left_out.code == 0, left_out.err
    (note,) = [line for line in left_out.err.splitlines() if "contradicts" in line]
    assert "8 left out" in note


def test_a_full_disk_is_no_bug():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*MODULE, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (2, "tiltyard: cannot write: No space left on device\n")


class TestProgress:
    @pytest.mark.parametrize("name", ["battles.jsonl", "battles.parquet"])
    def test_a_bar_is_drawn_where_somebody_watches(self, name, tmp_path, monkeypatch):
        write_battles(tmp_path / name, demo_battles(50))
        seen = []
        monkeypatch.setattr("rich.progress.Progress.advance", lambda _, __, count: seen.append(count))
        assert run("rate", tmp_path / name, "--intervals", "none", watched=True).code == 0
        assert seen == [50]


class TestEnds:
    def test_an_internal_error_says_so(self, small, monkeypatch):
        def fails(*_, **__):
            raise RuntimeError("boom\x1b[2J")

        monkeypatch.setattr("tiltyard.runs.battle_rating.rate_files", fails)
        ran = run("rate", small)
        assert (ran.code, ran.out) == (70, "")
        assert ran.err == (
            "tiltyard: internal error: RuntimeError: boom\\x1b[2J\n"
            "This is a bug. Set TILTYARD_DEBUG=1 to see where it happened, and please report it.\n"
        )
        monkeypatch.setenv("TILTYARD_DEBUG", "1")
        with pytest.raises(RuntimeError, match="boom"):
            run("rate", small)

    def test_an_error_of_the_user_is_no_traceback_even_then(self, monkeypatch):
        monkeypatch.setenv("TILTYARD_DEBUG", "1")
        assert run("rate", "nowhere.jsonl").code == 2

    def test_an_interrupt_says_so(self, small, monkeypatch):
        def stops(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("tiltyard.runs.battle_rating.rate_files", stops)
        ran = run("rate", small)
        assert (ran.code, ran.out, ran.err) == (130, "", "tiltyard: stopped\n")

    def test_ctrl_c(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with subprocess.Popen(
            [*MODULE, "rate", tmp_path / "pipe"], stderr=subprocess.PIPE, text=True
        ) as process:
            with (tmp_path / "pipe").open("w"):
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == 130
            assert process.stderr.read() == "tiltyard: stopped\n"

    @pytest.mark.slow
    @pytest.mark.parametrize("command", [["demo", "battles", "-"], ["rate", "small.jsonl"]], ids=" ".join)
    def test_a_reader_who_goes_away(self, command, small):
        reads, writes = os.pipe()
        os.close(reads)
        done = subprocess.run(
            [*MODULE, *command], cwd=small.parent, stdout=writes, stderr=subprocess.PIPE, check=False
        )
        os.close(writes)
        assert (done.returncode, done.stderr) == (141, b"")
