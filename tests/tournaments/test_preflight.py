"""A few calls before a run: what they find, what they cost, and when they stop it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from support.arranged import PRICES, arrange, killing, read_lines
from tiltyard.files.parquet_tables import read_columns
from tiltyard.settings.yaml_file import read_yaml


def judged(folder, billed, model, *, prompts=8, dimensions=1, **judge):
    return arrange(
        folder,
        dimensions=dimensions,
        prompts=prompts,
        judge=billed.judge(pilot_model=model, **judge),
        prices={model: PRICES},
    )


def found_form(arranged):
    document = read_yaml(arranged.folder / "out" / "config.yaml").value
    return document["modes"]["pilot"]["judges"][0]["found_form"]


def test_a_judge_that_answers_is_asked_nothing_twice(tmp_path, billed):
    arranged = judged(tmp_path, billed, "any", dimensions=2)
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert billed.since() == len(arranged.verdicts())
    assert found_form(arranged) is None
    assert "factuality: replies" in ran.err
    assert "calls left, about $" in ran.err
    # What was measured is in the plan from then on, and nothing is asked for it.
    plan = arranged.done("plan", arranged.config)
    assert billed.since() == len(arranged.verdicts())
    assert "assumed" not in plan.out


def test_the_form_that_works_is_found_kept_and_verified(tmp_path, billed):
    """The judge rambles, but calls the tool that it is given."""
    arranged = judged(tmp_path, billed, "ramble")
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert "ramble" in ran.err
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    assert billed.since() == len(arranged.verdicts()) + 1
    assert found_form(arranged) == "tool"
    arranged.done("verify", "out")
    # A worker, the same run again and a new one know the form by then.
    arranged.done("run", arranged.config, "--output-dir", "out")
    arranged.done("run", arranged.config, "--output-dir", "again")
    arranged.done("run", arranged.config, "--output-dir", "cached", "--skip-judging")
    assert billed.since() == len(arranged.verdicts()) + 1


def test_an_endpoint_without_schemas_and_tools_is_asked_for_text(tmp_path, billed):
    arranged = judged(tmp_path, billed, "plain")
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert "(schema: response_format" in ran.err
    # Rejected requests cost nothing.
    assert billed.since() == len(arranged.verdicts())
    assert found_form(arranged) == "text"
    arranged.done("verify", "out")


@pytest.mark.parametrize(("form", "asked"), [("auto", 3), ("schema", 1)])
def test_a_judge_that_rejects_every_question_stops_the_run_at_once(tmp_path, billed, form, asked):
    arranged = judged(tmp_path, billed, "closed", form=form)
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 4
    assert "rejected an ordinary" in ran.err
    assert "'temperature'" in ran.err
    assert billed.since() == 0
    assert len(read_columns(tmp_path / "out" / "attempts.parquet")["state"]) == asked
    arranged.done("verify", "out")


def test_a_pair_too_long_for_the_judge_is_named_and_the_others_are_judged(tmp_path, billed):
    arranged = judged(tmp_path, billed, "context-3000", max_tokens=200)
    rows = read_lines(tmp_path / "answers.jsonl")
    rows[0]["response"] = "word " * 4000
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert f"did not answer the longest pair (prompt {rows[0]['prompt_id']}, " in ran.err
    assert ran.code == 3
    states = Counter(row["state"] for row in arranged.verdicts())
    assert states["ok"] > states["provider_error"] > 0


@pytest.mark.slow
def test_a_run_killed_in_its_preflight_goes_on(tmp_path, billed):
    """Its call counts as lost, and does not keep the question from being asked."""
    arranged = judged(tmp_path, billed, "any")
    billed.server.change(latency=20.0)
    with killing(arranged.start("run", arranged.config, "--output-dir", "out")):
        billed.wait_for(lambda tally: tally["in_flight"])
    billed.server.change(latency=0.0)
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    assert arranged.document("costs.json")["actual"]["paid_and_lost"]["calls"] == 1


@pytest.mark.slow
def test_a_judge_by_batch_is_tried_by_a_small_run_whose_replies_the_batches_use(tmp_path, billed):
    arranged = judged(tmp_path, billed, "any", batch=True)
    untried = arranged.done("run", arranged.config, "--output-dir", "untried", home="other")
    assert "preflight" in untried.err
    assert (billed.since("live_calls"), billed.since("batch_calls")) == (0, 48)
    arranged.change(judge=billed.judge(pilot_model="any", headline_model="any"))
    arranged.done("run", arranged.config, "--output-dir", "small", "--limit-pairs", 2)
    tried = billed.since("live_calls")
    arranged.change(judge=billed.judge(pilot_model="any", headline_model="any", batch=True))
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert "without a preflight" not in ran.err
    assert (tried, billed.since("batch_calls")) == (4, 48 + 48 - 4)
    arranged.done("verify", "out")
