"""Whole runs on a server that bills: what is asked, what is left out, what the folder then says."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from support.arranged import arrange, read_lines, write_lines
from support.servers.paid_llm import paid_llm
from tiltyard.files.parquet_tables import read_columns


def ratings(arranged, out="out"):
    return arranged.document("dimension_ratings.json", out)["groups"]


def test_a_run_asks_everything_once_and_verifies(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    ran = arranged.done("run", "--config", arranged.config, "--output-dir", "out", "--n-perms", 7)
    assert "48 calls" in ran.err
    assert billed.since() == 48
    manifest = arranged.document("manifest.json")
    assert manifest["mode"] == "pilot"
    assert manifest["n_perms"] == 7
    assert manifest["entrants"] == ["model-0", "model-1", "model-2"]
    assert list(ratings(arranged)) == ["factuality", "calibration"]
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    arranged.done("verify", "out")


def test_two_models_that_share_no_prompt_are_refused(tmp_path, billed):
    arranged = arrange(tmp_path, models=2, judge=billed.judge())
    rows = read_lines(tmp_path / "answers.jsonl")
    write_lines(tmp_path / "answers.jsonl", [row for k, row in enumerate(rows) if (k // 2) % 2 == k % 2])
    ran = arranged.call("run", arranged.config)
    assert ran.code == 2
    assert "missing answers: model-0" in ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow(but="2")
@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_a_panel_needs_its_quorum(tmp_path, billed, quorum):
    modes = {"pilot": {"judges": ["judge-1", "judge-2", "judge-3"], "quorum": quorum, "prompts": "all"}}
    arranged = arrange(tmp_path, dimensions=1, judge=billed.judge(), modes=modes)
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert billed.since() == 3 * 2 * 12
    assert arranged.document("manifest.json")["quorum"] == quorum
    matches = arranged.document("diagnostics.json")["matches"]["factuality"]
    assert matches["settled"] == len(read_lines(tmp_path / "out" / "battles.jsonl"))
    assert matches["matches"] == 12
    arranged.done("verify", "out")


def test_unreadable_replies_are_asked_for_once_more_and_kept_apart(tmp_path):
    with paid_llm(garble=0.5) as server:
        judge = {"provider": "openai", "base_url": server.openai, "form": "schema"}
        arranged = arrange(tmp_path, dimensions=1, prompts=6, judge=judge)
        arranged.done("run", arranged.config, "--output-dir", "out")
        states = Counter(row["state"] for row in arranged.verdicts())
        assert states["ok"]
        assert states["unparseable"]
        assert set(states) == {"ok", "unparseable"}
        assert server.settled_tally()["paid_calls"] == states["ok"] + 2 * states["unparseable"]
        arranged.done("run", arranged.config, "--output-dir", "again")
        assert server.settled_tally()["paid_calls"] == states["ok"] + 2 * states["unparseable"]
    incomplete = arranged.document("diagnostics.json")["matches"]["factuality"]["incomplete"]
    assert incomplete
    assert len(read_lines(tmp_path / "out" / "battles.jsonl")) == 18 - incomplete
    arranged.done("verify", "out")


def test_checks_are_asked_and_looked_at_and_rated_by_nobody(tmp_path, billed):
    checks = {"identical": 2, "truncated": 2, "garbage": 2, "repeats": 4, "planted": 0}
    arranged = arrange(tmp_path, dimensions=1, judge=billed.judge(), checks=checks)
    arranged.done("run", arranged.config, "--output-dir", "out")
    purposes = Counter(row["purpose"] for row in arranged.verdicts())
    assert purposes == {"match": 24, "identical": 2, "truncated": 2, "garbage": 2, "repeat": 4}
    # The server's reply is a function of the texts: a repeat is asked anew all the same.
    assert billed.since() == 24 + 10
    assert len(read_lines(tmp_path / "out" / "battles.jsonl")) == 12
    diagnostics = json.dumps(arranged.document("diagnostics.json"))
    for name in ("identical", "truncated", "garbage"):
        assert name in diagnostics
    arranged.done("verify", "out")


def test_skipping_the_judges_rates_what_the_cache_holds_and_says_what_is_missing(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(api_key_env="NO_SUCH_KEY"))
    arranged.environment = {"NO_SUCH_KEY": "key"}
    arranged.done("run", arranged.config, "--limit-pairs", 6, "--output-dir", "part")
    arranged.environment = {}
    ran = arranged.done("run", arranged.config, "--skip-judging", "--output-dir", "out")
    assert billed.since() == 24
    assert "0 calls to make" in ran.err
    assert "24 questions have" in ran.err
    states = Counter(row["state"] for row in arranged.verdicts())
    assert states == {"ok": 24, "unasked": 24}
    for dimension, group in ratings(arranged).items():
        assert group == ratings(arranged, "part")[dimension]
    arranged.done("verify", "out")


def test_skipping_the_judges_with_nothing_in_the_cache_still_writes_a_folder(tmp_path):
    arranged = arrange(tmp_path, judge={"provider": "openai", "base_url": "http://127.0.0.1:9/v1"})
    ran = arranged.call("run", arranged.config, "--skip-judging", "--output-dir", "out")
    assert ran.code == 3
    assert "48 questions have" in ran.err
    assert "No battle was rated" in ran.err
    assert "without --skip-judging" in ran.err
    assert "nothing to rate" in ran.out
    arranged.done("verify", "out")


def test_the_cache_serves_another_roster_and_other_settings(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    arranged.done("run", arranged.config)
    document = yaml.safe_load(arranged.config.read_text())
    arranged.change(entrants=document["entrants"][1:], judge=billed.judge(pilot_model="judge-1", batch=True))
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert billed.since() == 48
    assert len(read_lines(tmp_path / "out" / "matches" / "matches.jsonl")) == 8


@pytest.mark.slow(but="anthropic")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_by_batch_and_live_come_to_the_same(tmp_path, billed, provider):
    live = arrange(tmp_path / "live", judge=billed.judge(provider))
    batch = arrange(tmp_path / "batch", judge=billed.judge(provider, batch=True), shard_size=20)
    live.done("run", live.config, "--output-dir", "out")
    batch.done("run", batch.config, "--output-dir", "out")
    assert billed.since("live_calls") == billed.since("batch_calls") == 48
    for name in ("battles.jsonl", "verdicts/calibration.jsonl", "elo_results.json"):
        assert (live.folder / "out" / name).read_bytes() == (batch.folder / "out" / name).read_bytes()
    modes = set(read_columns(batch.folder / "out" / "attempts.parquet")["mode"])
    assert modes == {"batch"}


@pytest.mark.slow
def test_prompt_caches_are_filled_beforehand_once_for_each_judge_and_dimension(tmp_path):
    with paid_llm(prompt_cache=True) as server:
        judge = {"provider": "anthropic", "base_url": server.anthropic, "prompt_cache": "5m"}
        modes = {"headline": {"judges": ["judge-1", "judge-2"]}}
        prices = {name: {"input": 3, "output": 15, "cache_read": 0.3} for name in ("judge-1", "judge-2")}
        arranged = arrange(tmp_path, judge=judge, modes=modes, prices=prices)
        ran = arranged.done("run", arranged.config, "--mode", "headline", "--output-dir", "out")
        tally = server.settled_tally()
        assert tally["prewarms"] == 4
        assert tally["paid_calls"] == 96
        costs = arranged.document("costs.json")
        # Written once each, by the pre-warming; read by all questions.
        for place in costs["by_judge_and_dimension"]:
            assert place["cache_read_tokens"] == place["cache_write_tokens"] * 24
        assert "prompt-cache-idle" not in ran.out
        arranged.done("verify", "out")
        # Nothing is left to ask: nothing is warmed either.
        arranged.done("run", arranged.config, "--mode", "headline", "--output-dir", "again")
        assert server.settled_tally()["prewarms"] == 4


@pytest.mark.slow
def test_a_prompt_cache_that_did_nothing_is_a_finding(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge("anthropic", prompt_cache="5m"), dimensions=1)
    ran = arranged.done("run", arranged.config, "--output-dir", "out")
    assert "prompt-cache-idle" in ran.out
    assert "caching was requested" in (tmp_path / "out" / "report.html").read_text()
    assert billed.since("prewarms") == 0


def test_answers_in_the_seeds_files(tmp_path, billed):
    """``responses_<entrant>.jsonl`` beside a bank whose texts are called prompt; more answers than prompts."""
    arranged = arrange(tmp_path, judge=billed.judge(), caches={"responses_dir": "responses"})
    rows = read_lines(tmp_path / "answers.jsonl")
    (tmp_path / "responses").mkdir()
    for name in ("model-0", "model-1", "model-2"):
        mine = [
            {"entrant_id": name, "prompt_id": row["prompt_id"], "response_text": row["response"]}
            for row in rows
            if row["model"] == name
        ]
        mine.append({"entrant_id": name, "prompt_id": "p9999", "response_text": "To something else."})
        write_lines(tmp_path / "responses" / f"responses_{name}.jsonl", mine)
    plain = [one["request_key"] for one in arranged.questions()]
    bank = read_lines(tmp_path / "prompts.jsonl")
    for row in bank:
        row["prompt"] = row.pop("text")
    write_lines(tmp_path / "prompts.jsonl", bank)
    arranged.change(answers=None)
    assert [one["request_key"] for one in arranged.questions()] == plain
    (tmp_path / "responses" / "responses_model-2.jsonl").write_text("")
    ran = arranged.done("plan", arranged.config)
    assert "model-2 lacks 4" in ran.err


def test_two_answers_of_one_model_to_one_prompt_are_refused(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    rows = read_lines(tmp_path / "answers.jsonl")
    write_lines(tmp_path / "answers.jsonl", [*rows, rows[0]])
    arranged.done("plan", arranged.config)
    write_lines(tmp_path / "answers.jsonl", [*rows, {**rows[0], "response": "Another."}])
    ran = arranged.call("plan", arranged.config)
    assert ran.code == 2
    assert "p0000" in ran.err


def test_answers_that_are_no_text_are_refused(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    rows = read_lines(tmp_path / "answers.jsonl")
    write_lines(tmp_path / "answers.jsonl", [*rows[1:], {**rows[0], "kind": "image"}])
    ran = arranged.call("plan", arranged.config)
    assert ran.code == 2
    assert "image; judges can" in ran.err


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([], "no prompts"),
        ([{"text": "without a name"}], "line 1: expected the fields prompt_id"),
        ([{"prompt_id": "p1"}], "line 1: expected the fields prompt_id"),
        ([{"prompt_id": "p1", "text": "x", "gold": 3}], "line 1: gold is int; expected text"),
        ([{"prompt_id": "p1", "text": "x"}, {"prompt_id": "p1", "text": "y"}], "line 2: duplicate prompt_id"),
    ],
)
def test_a_broken_bank_is_named_with_its_line(tmp_path, billed, rows, problem):
    arranged = arrange(tmp_path, judge=billed.judge())
    write_lines(tmp_path / "prompts.jsonl", rows)
    ran = arranged.call("plan", arranged.config)
    assert ran.code == 2
    assert "prompts.jsonl" in ran.err
    assert problem in ran.err


@pytest.mark.slow
def test_human_battles_are_rated_together_with_the_judged(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(), overall={"factuality": 1.0}, anchors="human.jsonl")
    human = [
        {
            "model_a": "model-0",
            "model_b": "old",
            "winner": "model_b",
            "question_id": f"h{k}",
            "source": "human",
        }
        for k in range(6)
    ]
    write_lines(tmp_path / "human.jsonl", human)
    arranged.done("run", arranged.config, "--output-dir", "out")
    sources = Counter(battle["source"] for battle in read_lines(tmp_path / "out" / "battles.jsonl"))
    assert sources["human"] == 6
    assert len(sources) == 2
    assert "overall" in ratings(arranged)
    arranged.done("verify", "out")


# A sample of the pairs: spread, nested, recomputed from the folder.


def pairs(folder):
    rows = read_lines(folder / "matches" / "matches.jsonl")
    return {(row["dimension"], row["prompt_id"], row["entrant_a"], row["entrant_b"]) for row in rows}


@pytest.mark.slow
def test_a_larger_sample_pays_only_for_what_is_new(tmp_path, billed):
    arranged = arrange(tmp_path, models=4, prompts=6, judge=billed.judge())
    arranged.done("run", arranged.config, "--sample-pairs", 6, "--output-dir", "six")
    assert billed.since() == 2 * 2 * 6
    six = pairs(tmp_path / "six")
    for name in ("factuality", "calibration"):
        own = [pair[1:] for pair in six if pair[0] == name]
        assert set(Counter(pair[0] for pair in own).values()) == {1}
        assert len({pair[1:] for pair in own}) == 6
    arranged.done("run", arranged.config, "--sample-pairs", 9, "--output-dir", "nine")
    assert six < pairs(tmp_path / "nine")
    assert billed.since() == 2 * 2 * 9
    assert arranged.document("manifest.json", "nine")["sample_pairs"] == 9
    arranged.done("verify", "nine")
    # What the folder says makes the same run again, and the same command resumes it.
    config = yaml.safe_load((tmp_path / "six" / "config.yaml").read_text())
    assert config["modes"]["pilot"]["sample_pairs"] == 6
    arranged.done("run", "six/config.yaml", "--output-dir", "again")
    assert pairs(tmp_path / "again") == six
    arranged.done("run", arranged.config, "--sample-pairs", 6, "--output-dir", "six")
    assert billed.since() == 2 * 2 * 9


@pytest.mark.slow
def test_the_plan_says_what_a_sample_shows_and_the_file_may_ask_for_it(tmp_path, billed):
    arranged = arrange(tmp_path, models=4, prompts=40, dimensions=1, judge=billed.judge())
    arranged.change(modes={"pilot": {"prompts": "all", "sample_pairs": 60}})

    def detectable(*options):
        return arranged.prepared(**dict(options)).plan, arranged.done(
            "plan", arranged.config, *(word for name, value in options for word in ("--sample-pairs", value))
        ).out

    small, said = detectable()
    assert len(small) == 120
    assert "(95% interval, 40 prompts)" in " ".join(said.split())
    large, more = detectable(("sample_pairs", 240))
    assert len(large) == 480
    points = [int(" ".join(text.split()).split("a difference of ")[1].split()[0]) for text in (said, more)]
    # The whole of 240 pairs shows differences about half as large as a quarter of them.
    assert 1.2 < points[0] / points[1] < 2.1
    first = arranged.prepared(limit_pairs=60, sample_pairs=1000).plan
    assert len({match.prompt_id for match in first.matches.matches}) == 10


# Filling prompt caches beforehand: a live call, reserved and priced as one, also in a run that goes by batch.


WARMED = {"pilot": {"judges": ["judge-1"], "prompts": "all", "prewarm": True}}
WARM_PRICES = {"judge-1": {"input": 3, "output": 15, "cache_read": 0.3, "batch": 0.5}}


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_the_worst_case_of_warming_is_that_of_a_live_call(tmp_path: Path, ttl: str) -> None:
    worst = {}
    for batch in (False, True):
        judge = {
            "provider": "anthropic",
            "base_url": "http://127.0.0.1:9",
            "prompt_cache": ttl,
            "batch": batch,
        }
        plan = arrange(tmp_path / str(batch), judge=judge, modes=WARMED, prices=WARM_PRICES).prepared().plan
        worst[batch] = [request.worst for request in plan.prewarm_requests()]
        first = plan.request(next(plan.questions()))
        assert first.worst * (2 if batch else 1) == pytest.approx(worst[batch][0], abs=2)
    assert worst[True] == worst[False]


@pytest.mark.slow
def test_warming_writes_the_cache_only_where_the_preflight_has_not(tmp_path: Path) -> None:
    costs = {}
    for batch in (False, True):
        with paid_llm(prompt_cache=True) as server:
            judge = {
                "provider": "anthropic",
                "base_url": server.anthropic,
                "prompt_cache": "5m",
                "batch": batch,
            }
            arranged = arrange(
                tmp_path / str(batch), judge=judge, modes=WARMED, prices=WARM_PRICES, dimensions=1
            )
            arranged.done("run", arranged.config, "--output-dir", "out")
            assert server.settled_tally()["prewarms"] == 1
        rows = read_columns(arranged.folder / "out" / "attempts.parquet")
        costs[batch] = [
            (mode, Decimal(usd))
            for ask, mode, usd in zip(rows["ask"], rows["mode"], rows["usd"], strict=True)
            if ask < 0
        ]
    # A live run has asked its judge before: warming reads the cache that those calls wrote, at a tenth of the price.
    [(mode, by_batch)], [(live_mode, live)] = costs[True], costs[False]
    assert mode == live_mode == "live"
    assert live < by_batch / 4
