"""What `tiltyard plan` says of calls, tokens and dollars, held against what the server then bills."""

from __future__ import annotations

import json

import pytest

from support.arranged import PRICES, arrange, read_lines, write_lines
from support.servers.paid_llm import paid_llm
from tiltyard.judges.ledger import Ledger
from tiltyard.report.run_documents import WAYS, CostRange
from tiltyard.settings.prices import to_picodollars
from tiltyard.tournaments.cost_estimate import estimate_plan, planned_questions

NOWHERE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}


def flat(ran):
    return " ".join(ran.out.split())


def test_a_plan_asks_nothing_and_names_every_question(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(), checks={"identical": 1, "repeats": 1, "planted": 0})
    rows = arranged.questions()
    assert billed.since() == 0
    plan = arranged.prepared().plan
    assert [row["question_id"] for row in rows] == [one.id for one in plan.questions()]
    assert [row["request_key"] for row in rows] == [plan.key(one) for one in plan.questions()]
    assert {row["standing"] for row in rows} == {"call"}
    told = []
    estimate_plan(plan, None, on_count=lambda done, total: told.append((done, total)))
    assert told[0] == (0, len(plan))
    assert sum(to_picodollars(row["worst_usd"]) for row in rows) == estimate_plan(plan, None).worst


@pytest.mark.slow
def test_the_number_of_calls_is_exact_before_between_and_after(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge())
    left = len(arranged.prepared().plan)
    for limit in (3, 7, None):
        options = () if limit is None else ("--limit-pairs", limit)
        plan = arranged.prepared(limit_pairs=limit)
        ledger = Ledger(plan.databases.ledger)
        expected = estimate_plan(plan.plan, ledger).calls
        ledger.close()
        before = billed.since()
        arranged.done("run", arranged.config, *options)
        assert billed.since() - before == expected
        left -= expected
    assert left == 0
    rows = arranged.questions()
    assert {row["standing"] for row in rows} == {"cached"}
    assert "48 48 0" in flat(arranged.done("plan", arranged.config))


def test_equal_responses_are_asked_about_once(tmp_path, billed):
    """Two models that answer alike: against a third, both are the same question."""
    arranged = arrange(tmp_path, judge=billed.judge(), dimensions=1)
    rows = read_lines(tmp_path / "answers.jsonl")
    for row in rows:
        if row["model"] == "model-1":
            row["response"] = next(
                one["response"]
                for one in rows
                if one["model"] == "model-0" and one["prompt_id"] == row["prompt_id"]
            )
    write_lines(tmp_path / "answers.jsonl", rows)
    questions = arranged.questions()
    standings = [row["standing"] for row in questions]
    # Of six questions on each prompt: 0 against 1 is one text in both orders, 0 and 1 against 2 are one pair.
    assert standings.count("call") == 4 * 3
    assert standings.count("same") == 4 * 3
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert billed.since() == 12
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    by_pair = {(row["prompt_id"], row["first"], row["second"]): row["verdict"] for row in arranged.verdicts()}
    for prompt in {row["prompt_id"] for row in questions}:
        assert by_pair[prompt, "model-0", "model-2"] == by_pair[prompt, "model-1", "model-2"]
    arranged.done("verify", "out")


@pytest.mark.slow(but="batch-anthropic")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
def test_the_bill_lies_between_low_and_worst(tmp_path, billed, provider, batch):
    arranged = arrange(tmp_path, dimensions=1, judge=billed.judge(provider, batch=batch))
    found = estimate_plan(arranged.prepared().plan, None)
    cost = found.total("batch" if batch else "live", "no cache hits")
    arranged.done("run", arranged.config, "--output-dir", "out")
    actual = billed.since("picodollars")
    assert cost.low <= actual <= cost.worst <= found.worst * (1 if batch else 2)
    assert cost.low <= cost.expected <= cost.worst
    costs = arranged.document("costs.json")
    assert to_picodollars(costs["actual"]["usd"]) == actual
    assert costs["estimate"]["calls"] == billed.since()


@pytest.mark.slow
def test_cache_hits_make_it_cheaper_and_the_bill_agrees(tmp_path):
    with paid_llm(prompt_cache=True) as server:
        judge = {"provider": "anthropic", "base_url": server.anthropic, "prompt_cache": "5m"}
        arranged = arrange(tmp_path, dimensions=1, judge={**judge, "concurrency": 1})
        found = estimate_plan(arranged.prepared().plan, None)
        hits, none = found.total("live", "cache hits"), found.total("live", "no cache hits")
        assert hits.expected < none.expected
        arranged.done("run", arranged.config, "--output-dir", "out")
        assert hits.low <= server.settled_tally()["picodollars"] <= hits.worst


def test_what_is_not_read_from_a_cache_that_was_asked_for_is_written_to_it(tmp_path):
    costs = {}
    for ttl in ("off", "5m", "1h"):
        judge = {"provider": "anthropic", "base_url": "http://127.0.0.1:9", "prompt_cache": ttl}
        arranged = arrange(tmp_path / ttl, dimensions=1, judge=judge)
        costs[ttl] = estimate_plan(arranged.prepared().plan, None).total("live", "no cache hits").expected
    assert costs["off"] < costs["5m"] < costs["1h"]


def test_an_unknown_price_is_unknown_and_never_nothing(tmp_path):
    arranged = arrange(tmp_path, judge=NOWHERE, prices=None)
    arranged.change(prices=None)
    ran = arranged.done("plan", arranged.config)
    table = [line for line in ran.out.splitlines() if line.startswith(("live", "batch"))]
    assert len(table) == 4
    assert all(line.split()[-3:] == ["unknown"] * 3 for line in table)
    assert "price of judge-1" in flat(ran)
    assert {row["worst_usd"] for row in arranged.questions()} == {None}


def test_one_unknown_price_makes_the_whole_unknown(tmp_path):
    modes = {"pilot": {"judges": ["judge-1", "mystery"], "prompts": "all"}}
    found = estimate_plan(arrange(tmp_path, judge=NOWHERE, modes=modes).prepared().plan, None)
    assert all(found.total(*way) == CostRange(None, None, None) for way in WAYS)
    assert found.worst is None
    known = [line for line in found.lines if line.judge == "judge-1"]
    assert all(line.costs[way].expected > 0 for line in known for way in WAYS)
    text = json.dumps(found.to_dict())
    assert '"most_reserved_usd": null' in text


def test_the_shipped_prices_are_dated(tmp_path):
    ran = arrange(tmp_path, judge=NOWHERE).done("plan", "tournament.yaml")
    assert "built-in price" in flat(ran)
    judge = {"provider": "openai", "pilot_model": "gpt-6.1-sol"}
    ran = arrange(tmp_path, judge=judge).done("plan", "tournament.yaml")
    assert "2026-09-30 or later" in flat(ran)


def test_the_provider_counts_tokens_where_it_can(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge("anthropic"))
    ran = arranged.done("plan", arranged.config, "--count-tokens")
    assert "provider's count" in flat(ran)
    # Eight requests of each dimension at most, of twelve matches.
    assert 0 < billed.requests("count_tokens") <= 16
    assert billed.since() == 0
    told = flat(ran).split("bytes in a token: judge-1 ")[1]
    assert 4.0 <= float(told.split(")")[0]) <= 5.0


def test_a_provider_that_does_not_count_is_estimated(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge("openai"))
    assert "Tokens" in flat(arranged.done("plan", arranged.config, "--count-tokens"))


def test_counting_fails_in_one_sentence(tmp_path, billed):
    arranged = arrange(tmp_path, judge={"provider": "anthropic", "base_url": "http://127.0.0.1:9"})
    ran = arranged.call("plan", arranged.config, "--count-tokens")
    assert ran.code == 2
    assert "judge-1: cannot count" in ran.err
    assert "connection failed" in ran.err


@pytest.mark.slow
def test_an_earlier_run_says_how_wide_intervals_will_be(tmp_path, billed):
    arranged = arrange(tmp_path, prompts=12, judge=billed.judge(), modes={"pilot": {"prompts": {"n": 6}}})
    arranged.done("run", arranged.config, "--output-dir", "out")
    ran = arranged.done("plan", arranged.config, "--mode", "headline", "--earlier", "out")
    for dimension in ("factuality", "calibration"):
        assert f"Based on the earlier run, {dimension}: ±" in flat(ran)
    assert "(it had 6 prompts)" in flat(ran)


def test_a_pilot_that_is_no_run_is_refused_in_one_sentence(tmp_path):
    arranged = arrange(tmp_path, judge=NOWHERE)
    (tmp_path / "out").mkdir()
    for content in (None, "[]", '{"groups": {"x": {}}}', "\xff"):
        if content is not None:
            (tmp_path / "out" / "dimension_ratings.json").write_bytes(content.encode("latin-1"))
        ran = arranged.call("plan", arranged.config, "--earlier", "out")
        assert ran.code == 2, ran.err
        assert "dimension_ratings.json" in ran.err


def test_prompt_caching_of_a_short_rubric_is_noted(tmp_path):
    (tmp_path / "mine.txt").write_text("# version: v1\nPrefer the right one.\n")
    judge = {"provider": "anthropic", "base_url": "http://127.0.0.1:9", "prompt_cache": "5m"}
    arranged = arrange(tmp_path, judge=judge, rubrics={"mine": {"path": "mine.txt"}})
    assert "rubric's" in flat(arranged.done("plan", arranged.config))


def test_the_budget_is_shown_beside_what_would_be_set_aside(tmp_path):
    arranged = arrange(tmp_path, judge=NOWHERE)
    ran = arranged.done("plan", arranged.config, "--budget-usd", "0.5")
    assert "Budget: $0.50, never exceeded" in flat(ran)


def test_costs_of_lines_add_up(tmp_path):
    modes = {"pilot": {"judges": ["judge-1", "judge-2"], "prompts": "all"}}
    prices = {"judge-1": PRICES, "judge-2": {"input": 1, "output": 1}}
    found = estimate_plan(arrange(tmp_path, judge=NOWHERE, modes=modes, prices=prices).prepared().plan, None)
    assert len(found.lines) == 4
    for way in WAYS:
        assert found.total(*way).expected == sum(line.costs[way].expected for line in found.lines)
        for line in found.lines:
            cost = line.costs[way]
            assert 0 < cost.low <= cost.expected <= cost.worst
    assert found.calls == sum(line.calls for line in found.lines) == 96


def test_a_question_that_was_answered_badly_once_is_to_be_asked_once_more(tmp_path):
    """An unreadable reply is asked for again once; two of them are an end."""
    arranged = arrange(tmp_path, dimensions=1, judge=NOWHERE)
    plan = arranged.prepared().plan
    question = next(plan.questions())
    bad = {"choices": [{"message": {"role": "assistant", "content": "no idea"}, "finish_reason": "stop"}]}

    class OneReply:
        def __init__(self, times):
            self.times = times

        def replies(self, keys):
            return {key: [bad] * self.times for key in keys if key == plan.key(question)}

    once = [one.standing for one in planned_questions(plan, OneReply(1)) if one.question == question]
    twice = [one.standing for one in planned_questions(plan, OneReply(2)) if one.question == question]
    assert (once, twice) == (["call"], ["cached"])


def test_a_plan_of_one_prompt_says_that_nothing_can_be_expected(tmp_path):
    arranged = arrange(tmp_path, prompts=1, judge=NOWHERE)
    assert "cannot be estimated" in flat(arranged.done("plan", arranged.config))
