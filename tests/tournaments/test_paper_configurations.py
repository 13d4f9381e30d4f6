"""A published evaluation's own configuration: planned and run unchanged, from the root of its repository."""

from __future__ import annotations

import pytest

from support.arranged import NO_CHECKS, PRICES, Arranged
from support.paper_tournament import CONFIG, FOREIGN_FIELDS, JUDGMENTS, RESPONSES, make_paper_tournament


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
