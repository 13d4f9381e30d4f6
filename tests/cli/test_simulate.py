"""``tiltyard simulate``: forecasts, what is kept and written, and what is refused."""

import json
import re

import numpy as np
import pytest

from support.command import run
from tiltyard.core.battles import Kind
from tiltyard.core.battles.outcome import SPELLED
from tiltyard.report.forecast_report import simulation_page
from tiltyard.simulation import arena_forecast
from tiltyard.simulation.arena_forecast import Simulation
from tiltyard.simulation.studies import from_plain
from tiltyard.simulation.worlds import WorldSettings, draw_world_of

SMALL = ("--models", 4, "--prompts", 6, "--votes", 1000, "--processes", 0)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def kept_seeds(home):
    lines = [line for path in (home / "lab").glob("arena-*.jsonl") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["seed"] for line in lines)


def test_a_forecast_answers_first_and_shows_its_tables():
    ran = run("simulate", *SMALL, "--seeds", 2, "--votes-per-day", 100)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("4 models, 6 prompts, 100 votes a day: 2 simulated worlds\n\n")
    assert re.search(r"^(Settled|Nothing settles)", ran.out.split("\n\n")[1])
    assert re.search(r"^(Enough is collected|Not official within) ", ran.out, re.MULTILINE)
    for heading in ("When each rule holds", "Day by day", "Lanes"):
        assert heading in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_ctrl_c_keeps_what_is_finished(home, monkeypatch):
    made = arena_forecast.run_study

    def interrupted(study, settings, seeds, **options):
        made(study, settings, seeds[:1], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(arena_forecast, "run_study", interrupted)
    for watched in (False, True):
        ran = run("simulate", *SMALL, "--seeds", 2, watched=watched)
        assert ran.code == 130
        assert "Finished results are" in ran.err
    assert kept_seeds(home) == [0]


@pytest.mark.slow
def test_a_person_sees_how_many_worlds_are_done():
    ran = run("simulate", *SMALL, "--seeds", 1, watched=True)
    assert ran.code == 0
    assert "simulating worlds" in ran.err


@pytest.mark.slow
def test_out_holds_the_numbers_the_text_and_the_page(tmp_path):
    ran = run("simulate", *SMALL, "--seeds", 1, "--out", tmp_path / "a" / "b")
    assert ran.code == 0, ran.err
    out = tmp_path / "a" / "b"
    assert {path.name for path in out.iterdir()} == {
        "simulation.html",
        "simulation.json",
        "simulation.md",
        "validity.json",
    }
    assert json.loads((out / "validity.json").read_text())["n_models"] == 4
    document = json.loads((out / "simulation.json").read_text())
    assert from_plain(Simulation, document).settings.world.models == 4
    assert (out / "simulation.html").read_text() == simulation_page(document)
    assert (out / "simulation.md").read_text().startswith("# 4 models")
    assert "simulation.json, simulation.md, simulation.html" in ran.err


def written_log(path, battles=700):
    rng = np.random.default_rng(1)
    world = draw_world_of(WorldSettings(5, 30, close_top=False, voters=12), rng)
    codes = world.codes(battles, rng)
    lines = [
        {
            "model_a": world.models[a],
            "model_b": world.models[b],
            "winner": SPELLED[Kind(kind)][0],
            "question_id": str(prompt),
            "voter": str(voter),
        }
        for a, b, kind, prompt, voter in zip(
            codes.a, codes.b, codes.kind, codes.prompt, codes.voter, strict=True
        )
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
def test_a_world_like_a_log_has_its_models_prompts_and_voters(tmp_path):
    log = written_log(tmp_path / "votes.jsonl")
    options = ("--votes", 750, "--processes", 0, "--seeds", 1, "--ties", 0.1)
    ran = run("simulate", "--like", log, *options, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("5 models, 700 battles; ties ")
    assert "forecast after 233" in re.sub(r"\s+", " ", ran.out)
    assert "models, 30 prompts," in re.sub(r"\s+", " ", ran.out)
    assert max(map(len, ran.out.splitlines())) <= 80
    world = json.loads((tmp_path / "out" / "simulation.json").read_text())["settings"]["world"]
    assert (world["voters"], world["ties"], world["close_top"]) == (12, 0.1, False)
    kept = json.loads((tmp_path / "out" / "log_forecast.json").read_text())
    assert [one["battles"] for one in kept["forecasts"]] == [1400, 2100]
    assert kept["backtest"]["made_at"] == 233


def test_a_log_that_is_not_there_or_too_short_is_an_error(tmp_path):
    missing = run("simulate", "--like", "nothing.jsonl")
    assert missing.code == 2
    assert "nothing.jsonl" in missing.err
    neither = run("simulate", "--like", "votes")
    assert neither.code == 2
    assert "file votes, and" in re.sub(r"\s+", " ", neither.err)
    short = run("simulate", "--like", written_log(tmp_path / "short.jsonl", 50))
    assert short.code == 2
    assert "a forecast needs 200" in short.err


@pytest.mark.slow
def test_every_option_of_a_world_reaches_it(tmp_path):
    given = {
        "strength-sd": 150.0,
        "effect-sd": 0.25,
        "ties": 0.1,
        "both-bad": 0.05,
        "lazy": 0.01,
        "position-bias": -0.2,
        "dead": 0.2,
        "riggers": 0.1,
        "rigged-rank": 3,
        "newcomers": 1,
        "newcomers-after": 300,
        "retired": 1,
        "retired-after": 400,
        "drifting": 1,
        "drift": -50.0,
        "drift-after": 100,
        "drift-over": 200,
    }
    options = [part for name, value in given.items() for part in (f"--{name}", value)]
    arena = {"skips": 0.1, "expiries": 0.05, "sessions": 7}
    options += [part for name, value in arena.items() for part in (f"--{name}", value)]
    sizes = ("--models", 6, "--prompts", 10, "--votes", 750, "--processes", 0, "--seeds", 1)
    choices = ("--fairness", "scoped", "--rater", "literal", "--even-top", "--votes-per-day", 9)
    ran = run("simulate", *sizes, *options, *choices, "--out", tmp_path)
    assert ran.code == 0, ran.err
    document = json.loads((tmp_path / "simulation.json").read_text())
    settings = document["settings"]
    for name, value in given.items():
        assert settings["world"][name.replace("-", "_")] == value
    assert {name: settings[name] for name in arena} == arena
    assert (settings["volatility"], settings["policy"]["fairness"]) == (0.06, "scoped")
    assert (settings["world"]["close_top"], document["votes_per_day"]) == (False, 9)


WRONG = {
    "--models 1": "--models",
    "--models 1001": "--models",
    "--prompts 0": "--prompts",
    "--votes-per-day 0": "--votes-per-day",
    "--seeds 0": "--seeds",
    "--seed -1": "--seed",
    "--processes -1": "--processes",
    "--ties 1.5": "--ties",
    "--ties nan": "",
    "--effect-sd nan": "",
    "--strength-sd inf": "--strength-sd",
    "--votes 500": "no board can be official before 750",
    "--models 1000 --prompts 100000": "are too many to simulate: the product may be at most 2,000,000",
    "--ties 0.6 --both-bad 0.4": "leave no decisive votes",
    "--dead 1": "none of 100 prompts would be usable",
    "--riggers 0.1 --rigged-rank 30": "expected 1 to 20",
    "--rigged-rank 3": "--rigged-rank has no effect without --riggers; give both, or neither",
    "--newcomers-after 100": "--newcomers-after has no effect without --newcomers",
    "--newcomers 3": "--newcomers has no effect without --newcomers-after",
    "--retired 3": "--retired has no effect without --retired-after",
    "--drifting 2": "--drifting has no effect without --drift",
    "--drift 40": "--drift has no effect without --drifting",
    "--newcomers 19 --newcomers-after 10": "too many newcomers",
    "--voter-sd 1": "--voter-sd has no effect without --voters",
    "--voters 9 --sessions 3": "give one of the two",
    "--skips 0.6 --expiries 0.5": "expected shares that leave some votes",
    "--matchmaker elo": "--matchmaker",
    "--matchmaker v1 --fairness scoped": "--fairness has no effect with --matchmaker v1",
    "--out taken": "cannot write to taken",
    "stray": "",
}


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("arguments", WRONG)
def test_what_makes_no_sense_is_refused(arguments, tmp_path):
    (tmp_path / "taken").write_text("a file")
    ran = run("simulate", *arguments.split())
    assert ran.code == 2
    assert WRONG[arguments] in re.sub(r"\s+", " ", ran.err)
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.slow
def test_a_log_with_headers_and_words_of_its_own(tmp_path):
    log = written_log(tmp_path / "votes.jsonl", 400)
    renamed = tmp_path / "renamed.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    words = {"model_a": "left", "model_b": "right"}
    renamed.write_text(
        "".join(
            json.dumps(
                {
                    "l": row.pop("model_a"),
                    "r": row.pop("model_b"),
                    "w": words.get(row["winner"], row["winner"]),
                    **{name: value for name, value in row.items() if name != "winner"},
                }
            )
            + "\n"
            for row in rows
        )
        + '{"l": "x", "r": "y", "w": "nobody"}\n'
    )
    options = ("--votes", 1000, "--seeds", 1, "--processes", 0, "--prompts", 6)
    plain = run("simulate", "--like", log, *options)
    assert plain.code == 0, plain.err
    reading = ("--columns", "model_a=l,model_b=r,winner=w", "--outcomes", "left=a,right=b", "--skip-invalid")
    ran = run("simulate", "--like", renamed, *options, *reading)
    assert ran.code == 0, ran.err
    assert ran.out == plain.out
    assert "1 left out" in ran.err
    assert run("simulate", *options, "--columns", "model_a=l").code == 2
