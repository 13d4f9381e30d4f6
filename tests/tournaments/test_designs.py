"""Runs that judge fewer pairs, or in one order: resumed, verified, within their budget, and never paid twice."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from pathlib import Path

import pytest

import tiltyard
from support.arranged import arrange
from support.command import run
from tiltyard.settings.prices import to_picodollars


class Judge:
    """Prefers higher numbers, more surely the further apart; may fail from some call on."""

    def __init__(self, slope=1.2, fails_after=None):
        self.slope, self.fails_after, self.asked = slope, fails_after, []

    @property
    def function(self):
        def graded(prompt: str, first: str, second: str) -> str:
            if self.fails_after is not None and len(self.asked) >= self.fails_after:
                raise OSError("gone")
            self.asked.append((prompt, first, second))
            a, b = (int(one.split()[-1]) if one[-1:].isdigit() else -9 for one in (first, second))
            drawn = int(hashlib.sha256(repr((prompt, a, b)).encode()).hexdigest()[:8], 16) / 16**8
            return "A" if drawn < 1.0 / (1.0 + math.exp(-self.slope * (a - b))) else "B"

        return graded


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return tmp_path


def answers(models=4, prompts=40):
    return [
        {"prompt_id": f"q{p}", "prompt": f"Question {p}?", "model": f"m{k}", "response": f"It is {p} by {k}"}
        for k in range(models)
        for p in range(prompts)
    ]


def judged(judge, *others, out="out", rows=None, **options):
    functions = [judge.function, *others]
    given = answers() if rows is None else rows
    return tiltyard.tournament(answers=given, judge=functions, judge_version="1", output_dir=out, **options)


def lines(name, out="out"):
    return [json.loads(line) for line in (Path(out) / name).read_text().splitlines()]


def verified(out="out"):
    return run("verify", out).code == 0


def design_finding(result):
    (found,) = [one for one in result.boards["preference"].findings if one.name == "adaptive-design"]
    return found.values


def test_an_adaptive_run_ends_when_the_order_is_settled_and_can_be_repeated():
    judge = Judge(slope=3.0)
    found = judged(judge, design="adaptive")
    asked = lines("matches/matches.jsonl")
    assert 30 <= len(asked) < 240
    assert design_finding(found) == {"pairs_settled": 6, "pairs": 6}
    assert found.complete
    assert len(judge.asked) == found.questions["ok"]
    assert verified()
    # The same again asks nothing, and judges the same.
    again = judged(judge, design="adaptive", out="again")
    assert len(judge.asked) == found.questions["ok"]
    assert lines("battles.jsonl", "again") == lines("battles.jsonl")
    assert design_finding(again) == design_finding(found)


@pytest.mark.slow
def test_a_judge_that_dies_in_the_second_round_is_resumed_to_the_same_result():
    whole = judged(Judge(), design="adaptive", out="whole")
    calls = whole.questions["ok"]
    rounds = len(lines("matches/matches.jsonl", "whole"))
    Path("home").rename("other-home")
    broken = Judge(fails_after=100)
    found = judged(broken, design="adaptive")
    assert not found.complete
    assert found.problems
    assert 30 < len(lines("matches/matches.jsonl")) < rounds
    assert verified()
    broken.fails_after = None
    resumed = judged(broken, design="adaptive")
    assert resumed.folder == found.folder
    assert resumed.complete
    assert len(broken.asked) == calls
    assert lines("battles.jsonl") == lines("battles.jsonl", "whole")
    assert verified()


@pytest.mark.slow
def test_a_folder_that_leaves_out_a_round_or_a_match_does_not_verify():
    judged(Judge(), design="adaptive")
    path = Path("out/matches/matches.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert not verified()


@pytest.mark.slow(but="2")
@pytest.mark.parametrize("models", [2, 3])
def test_random_orders_halve_the_calls_and_a_share_tells_of_the_slot(models):
    judge = Judge()
    found = judged(judge, rows=answers(models, 40), orders="random")
    pairs = 40 * models * (models - 1) // 2
    rows = [row for row in lines("questions/preference.jsonl") if row["purpose"] == "match"]
    orders = Counter(Counter(row["match_id"] for row in rows).values())
    assert orders[1] + orders[2] == pairs
    assert 0 < orders[2] < 0.3 * pairs
    assert {row["label"] for row in lines("battles.jsonl")} <= {"win", "tie", "lean", "inconsistent"}
    document = json.loads(Path("out/diagnostics.json").read_text())
    assert document["matches"]["preference"]["settled"] == pairs
    assert found.complete
    assert verified()


@pytest.mark.slow
def test_two_dimensions_are_judged_in_rounds_of_their_own():
    rubrics = ["factuality", "instruction_following"]
    found = judged(Judge(slope=9.0), design="adaptive", rubric=rubrics, orders="random", out="out")
    assert found.complete
    counts = Counter(row["dimension"] for row in lines("matches/matches.jsonl"))
    assert set(counts) == set(rubrics)
    assert verified()


@pytest.mark.slow
def test_a_budget_that_ends_within_a_round_is_kept_and_can_be_raised(tmp_path, billed):
    arranged = arrange(
        tmp_path,
        models=3,
        prompts=40,
        dimensions=1,
        judge=billed.judge(max_tokens=256),
        modes={"pilot": {"prompts": "all", "design": "adaptive"}},
    )
    arranged.done("run", arranged.config, "--limit-pairs", 1, "--design", "all", "--output-dir", "one")
    each = float(arranged.document("costs.json", "one")["actual"]["usd"]) / 2
    budget = f"{100 * each:.6f}"
    ran = arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", budget)
    assert "--budget-usd" in ran.err
    part = len(lines("matches/matches.jsonl"))
    assert 30 < part < 120
    assert to_picodollars(arranged.document("costs.json")["actual"]["usd"]) <= to_picodollars(budget)
    arranged.done("verify", "out")
    arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", "10")
    rows = arranged.verdicts()
    # The judge draws lots: nothing is settled, and all pairs are judged, each question paid once.
    assert len(rows) == billed.since() == 240
    arranged.done("verify", "out")
    refused = arranged.call("run", "--join", "out")
    assert refused.code != 0
    assert "adaptive" in refused.err


def test_every_design_is_planned_beside_the_others(tmp_path):
    nowhere = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}
    arranged = arrange(tmp_path, models=6, prompts=50, dimensions=1, judge=nowhere)
    shown = arranged.done("plan", arranged.config).out
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert rows["all"][0] == "1,500"
    assert rows["baseline"][0] == "500"
    assert rows["sparse"][0] == "600"
    assert [rows["adaptive"][0], rows["adaptive"][2]] == ["150", "1,500"]
    detects = [int(rows[name][-1]) for name in ("all", "sparse", "baseline")]
    assert detects == sorted(detects)
    half = arranged.done("plan", arranged.config, "--orders", "random", "--design", "baseline").out
    assert "275" in half
    wrong = arranged.call("plan", arranged.config, "--design", "few")
    assert wrong.code == 2
    assert "adaptive" in wrong.err


def test_a_baseline_must_be_an_entrant(tmp_path):
    arranged = arrange(tmp_path, modes={"pilot": {"design": "baseline", "baseline": "nobody"}})
    assert "nobody" in arranged.call("plan", arranged.config).err
    arranged.change(modes={"pilot": {"design": "baseline", "baseline": "model-1", "orders": "random"}})
    plan = arranged.prepared().plan
    assert {"model-1"} == set.intersection(*({one.model_a, one.model_b} for one in plan.matches.matches))


@pytest.mark.slow
def test_an_answer_that_is_missing_and_rating_again_without_the_judge():
    rows = [one for one in answers(3, 40) if one["model"] != "m1" or one["prompt_id"] > "q2"]
    judge = Judge()
    judged(judge, rows=rows, design="adaptive")
    asked = len(judge.asked)
    (config,) = Path("runs").glob("quick-*/tournament.yaml")
    done = run(
        "run", config, "--mode", "quick", "--design", "adaptive", "--skip-judging", "--output-dir", "b"
    )
    assert done.code == 0
    assert len(judge.asked) == asked
    assert lines("battles.jsonl", "b") == lines("battles.jsonl")
    assert verified("b")


@pytest.mark.slow
def test_labels_of_people_are_drawn_from_such_a_run():
    judged(Judge(), design="adaptive", orders="random")
    assert run("agree", "out", "--labels", "20", "--to", "sheet.csv").code == 0
    assert len(Path("sheet.csv").read_text().splitlines()) == 21
