"""A published evaluation's own configuration: planned and run unchanged, from the root of its repository."""

from __future__ import annotations

import pytest

from support.arranged import NO_CHECKS, PRICES, Arranged, read_lines
from support.paper_tournament import (
    CONFIG,
    ENTRANTS,
    FOREIGN_FIELDS,
    JUDGMENTS,
    RESPONSES,
    make_paper_tournament,
)


@pytest.fixture
def paper(tmp_path):
    return make_paper_tournament(tmp_path)


def test_the_configuration_is_planned_as_it_is(paper):
    ran = Arranged(paper.root).done("plan", CONFIG, "--mode", "pilot")
    (warning,) = [line for line in ran.err.splitlines() if "ignored" in line]
    assert set(warning.rstrip(".").split(": ")[-1].split(", ")) == set(FOREIGN_FIELDS)


def test_the_configuration_runs_from_the_root(paper, billed):
    judge = billed.judge("anthropic", pilot_model="judge-1")
    paper.write_config(judge=judge, checks=NO_CHECKS, prices={"judge-1": PRICES}, elo={"n_perms": 10})
    arranged = Arranged(paper.root)
    arranged.done("run", CONFIG, "--mode", "pilot", "--limit-pairs", 6, "--output-dir", "out")
    # Three dimensions, each pair in both orders, by batch.
    assert billed.since() == 3 * 6 * 2
    assert billed.since("live_calls") == 0
    manifest = arranged.document("manifest.json")
    assert {name: rubric["needs"] for name, rubric in manifest["config"]["rubrics"].items()} == {
        "factuality": "gold",
        "calibration": None,
        "clinical_utility": None,
    }
    assert manifest["config"]["judge"]["batch"] is True
    assert manifest["config"]["judge"]["prompt_cache"] == "1h"
    assert manifest["config"]["caches"] == {
        "responses_dir": f"../{RESPONSES}",
        "judgments_dir": f"../{JUDGMENTS}",
    }
    assert (paper.judgments / "ledger.sqlite").is_file()
    arranged.done("verify", "out")


@pytest.mark.slow(but="prompt-6")
@pytest.mark.parametrize(("rule", "dropped"), [("pair", 3), ("prompt", 6)])
def test_a_missing_response_drops_its_pairs_or_its_prompt(tmp_path, rule, dropped):
    prompt = "medmcqa_open_001"
    paper = make_paper_tournament(tmp_path, missing=[(ENTRANTS[1], prompt)])
    judge = {"pilot_model": "judge-1", "headline_model": "judge-1"}
    paper.write_config(missing=rule, judge=judge, checks=NO_CHECKS, elo={"n_perms": 10})
    paper.pay("judge-1", "calibration")
    arranged = Arranged(paper.root)
    options = ("--mode", "headline", "--skip-judging", "--limit-pairs", 9, "--output-dir", "out")
    arranged.done("run", CONFIG, *options)
    manifest = arranged.document("manifest.json")
    assert (manifest["missing_drops"], manifest["dropped"], manifest["missing"]) == (
        rule,
        dropped,
        {ENTRANTS[1]: 1},
    )
    battles = read_lines(paper.root / "out/battles.jsonl")
    assert sum(battle["question_id"] == prompt for battle in battles) == 6 - dropped
    arranged.done("verify", "out")
    arranged.done("plan", CONFIG, "--mode", "headline")
