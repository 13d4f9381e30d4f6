"""Runs that rate no battle: an exit code of their own, and what to do."""

from __future__ import annotations

import pytest

from support.arranged import PRICES, arrange, write_lines
from support.servers.paid_llm import paid_llm
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.settings.ready_tournaments import recorded_reply
from tiltyard.settings.tournament_config import shipped_rubric

#: Too few to call a judge unusable, which has an exit code of its own.
FEW = {"models": 2, "prompts": 2, "dimensions": 1}
NONE_RATED = "No battle was rated"


@pytest.mark.parametrize(
    ("model", "judge", "advice"),
    [
        ("ramble", {"form": "schema"}, "use another reply form (schema now)"),
        ("needs-90000", {"max_tokens": 100}, "raise max_tokens (100 now)"),
    ],
    ids=["unreadable", "truncated"],
)
def test_a_run_whose_replies_hold_no_verdict_ends_with_code_3(tmp_path, billed, model, judge, advice):
    arranged = arrange(
        tmp_path, **FEW, judge=billed.judge(pilot_model=model, **judge), prices={model: PRICES}
    )
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 3
    assert NONE_RATED in ran.err
    assert advice in ran.err
    arranged.done("verify", "out")


@pytest.mark.slow
def test_a_run_whose_judge_refuses_everything_ends_with_code_3(tmp_path):
    with paid_llm(refuse=1.0) as server:
        judge = {"provider": "openai", "base_url": server.openai}
        arranged = arrange(tmp_path, **FEW, judge=judge)
        ran = arranged.call("run", arranged.config)
    assert ran.code == 3
    assert NONE_RATED in ran.err
    assert "choose another judge" in ran.err


def test_a_run_whose_budget_covers_nothing_ends_with_code_3(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    ran = arranged.call("run", arranged.config, "--budget-usd", 0)
    assert ran.code == 3
    assert NONE_RATED in ran.err
    assert "48 questions were" in ran.err
    assert "higher --budget-usd" in ran.err
    assert billed.since() == 0


def test_a_run_whose_every_battle_is_dropped_ends_with_code_3(tmp_path):
    """A judge that prefers the first slot contradicts itself on every match."""
    judge = {"provider": "replay", "base_url": "replies.jsonl"}
    arranged = arrange(tmp_path, **FEW, judge=judge, ratings={"inconsistent": "drop", "n_bootstraps": 10})
    write_lines(tmp_path / "replies.jsonl", [])
    plan = arranged.prepared().plan
    rubric = shipped_rubric("factuality")
    shown = (plan.shown(question) for question in plan.questions())
    write_lines(
        tmp_path / "replies.jsonl",
        [recorded_reply(texts, rubric, VerdictStep.FIRST, False, "The first.") for texts in shown],
    )
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 3
    assert NONE_RATED in ran.err
    assert "preferred" in ran.err
    assert "to half" in ran.err
    arranged.change(ratings={"n_bootstraps": 10}).done("run", arranged.config, "--output-dir", "again")
