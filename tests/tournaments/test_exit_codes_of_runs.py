"""Runs that rate no battle: an exit code of their own, and what to do."""

from __future__ import annotations

import pytest
import yaml

from support.arranged import NO_CHECKS, PRICES, Arranged, arrange, write_lines
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
    assert "higher --budget-usd" in ran.err


def test_a_run_of_an_empty_cache_ends_with_code_3(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    ran = arranged.call("run", arranged.config, "--skip-judging")
    assert ran.code == 3
    assert NONE_RATED in ran.err
    assert "without --skip-judging" in ran.err


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


def placed(folder, server, **sections):
    """A placement of one model that answers by the server, against two that people ranked."""
    rows = [
        {
            "model_a": "elm",
            "model_b": "oak",
            "winner": ("model_a", "model_b")[k % 2],
            "source": "human",
            "question_id": f"q{k}",
            "prompt": f"What is {k} and {k}?",
            "response_a": f"elm says {k}.",
            "response_b": f"oak says {k}.",
        }
        for k in range(4)
    ]
    write_lines(folder / "human.jsonl", rows)
    document = {
        "judge": {"provider": "openai", "base_url": server.openai, "headline_model": "judge-1"},
        "generate": {"provider": "openai", "base_url": server.openai, "model": "author"},
        "checks": NO_CHECKS,
        "elo": {"n_perms": 5, "k_factor_sweep": [16]},
        "ratings": {"n_bootstraps": 10},
        "prices": {"judge-1": PRICES, "author": PRICES, "ramble": PRICES},
    }
    for name, fields in sections.items():
        document[name] = {**document[name], **fields}
    (folder / "place.yaml").write_text(yaml.safe_dump(document))
    return Arranged(folder)


def place(yard, *options):
    fixed = ("--model", "new", "--config", "place.yaml", "--output-dir", "out")
    return yard.call("place", "human.jsonl", *fixed, *options)


def test_a_placement_that_rates_no_judged_battle_ends_with_code_3(tmp_path, billed):
    """The human battles are rated all the same, and say nothing of the new model."""
    yard = placed(tmp_path, billed.server, judge={"headline_model": "ramble", "form": "schema"})
    ran = place(yard, "--n", 2)
    assert ran.code == 3
    assert NONE_RATED in ran.err
    assert "use another reply" in ran.err


@pytest.mark.slow
def test_a_placement_with_cut_off_answers_is_written_and_ends_with_code_3(tmp_path, billed):
    yard = placed(tmp_path, billed.server, generate={"max_tokens": 3})
    ran = place(yard)
    assert ran.code == 3
    assert "max_tokens (3 now)" in ran.err
    assert NONE_RATED not in ran.err
    assert [one["name"] for one in yard.document("diagnostics.json")["findings"]].count(
        "truncated-answers"
    ) == 1
    yard.done("verify", "out")


def test_a_placement_whose_model_answers_nothing_ends_with_code_3(tmp_path, billed):
    yard = placed(tmp_path, billed.server, generate={"base_url": "http://127.0.0.1:9/v1", "retries": 0})
    ran = place(yard)
    assert ran.code == 3
    assert "connection failed" in ran.err
    assert "Nothing was judged" in ran.err
    assert not (tmp_path / "out").exists()
