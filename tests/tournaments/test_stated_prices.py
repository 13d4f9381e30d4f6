"""Prices given with --price: where they are offered, used, recorded and remembered; names that were retired."""

from __future__ import annotations

import pytest
import yaml

from support.arranged import arrange, write_lines
from tiltyard.settings.prices import to_picodollars
from tournaments.test_answer_generation import author, generating

NOWHERE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}
#: The paid server's own prices.
PRICE = ("--price", "judge-1=3,15")


def flat(text):
    return " ".join(text.split())


def unpriced(folder, billed, **settings):
    return arrange(folder, models=2, prompts=3, dimensions=1, judge=billed.judge(**settings)).change(
        prices=None
    )


def test_a_plan_with_an_unknown_price_offers_the_option_and_takes_it(tmp_path):
    arranged = arrange(tmp_path, judge=NOWHERE).change(prices=None)
    ran = arranged.done("plan", arranged.config)
    assert "judge-1=INPUT,OUTPUT" in flat(ran.out)
    assert "unknown" in ran.out
    ran = arranged.done("plan", arranged.config, "--price", "judge-1=3,15", "--budget-usd", "1")
    assert "unknown" not in ran.out
    assert "built-in price" in flat(ran.out)
    stated = arranged.change(prices={"judge-1": {"input": 3, "output": 15}}).done("plan", arranged.config)
    assert stated.out.splitlines()[:8] == ran.out.splitlines()[:8]


def test_what_is_no_price_is_refused(tmp_path):
    arranged = arrange(tmp_path, judge=NOWHERE)
    ran = arranged.call("plan", arranged.config, "--price", "judge-1")
    assert ran.code == 2
    assert "'judge-1'" in ran.err
    ran = arranged.call("plan", arranged.config, "--price", "judge-1=1,2", "--price", "judge-1=1,3")
    assert ran.code == 2
    assert "prices for judge-1" in ran.err


def test_a_price_is_recorded_and_holds_when_the_run_is_resumed_without_it(tmp_path, billed):
    arranged = unpriced(tmp_path, billed, max_tokens=200)
    run = ("run", arranged.config, "--output-dir", "out")
    refused = arranged.call(*run, "--budget-usd", "0.005")
    assert refused.code == 2
    assert "judge-1=INPUT,OUTPUT" in refused.err
    assert not (tmp_path / "out").exists()
    arranged.call(*run, "--budget-usd", "0.03", *PRICE)
    first = billed.since("picodollars")
    assert 0 < first <= to_picodollars("0.03")
    recorded = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["prices"]
    assert (recorded["judge-1"]["input"], recorded["judge-1"]["output"]) == (3, 15)
    # The price of the run that is resumed still holds, and so does its budget.
    ran = arranged.done(*run, "--budget-usd", "1")
    assert f"Paid: {'$'}" in ran.out
    assert "unknown" not in ran.out
    paid = to_picodollars(arranged.document("costs.json")["actual"]["usd"])
    assert paid == billed.since("picodollars") > first
    recorded = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["prices"]
    assert recorded["judge-1"]["input"] == 3
    arranged.done("verify", "out")


@pytest.mark.slow
def test_answers_are_generated_within_a_budget_at_a_stated_price(tmp_path, billed):
    arranged = author(generating(tmp_path, billed.server, prompts=2, models=("a",)), max_tokens=100).change(
        prices=None
    )
    refused = arranged.call("generate", arranged.config, "--budget-usd", "1")
    assert refused.code == 2
    assert "a-model=INPUT,OUTPUT" in refused.err
    ran = arranged.done("generate", arranged.config, "--budget-usd", "1", "--price", "a-model=3,15")
    assert "Paid: $" in ran.out
    assert billed.since("picodollars") > 0


@pytest.mark.slow
def test_a_placement_takes_prices_and_records_them(tmp_path, billed):
    battle = {"model_a": "elm", "model_b": "oak", "winner": "tie", "source": "human", "question_id": "q"}
    texts = {"prompt": "Why?", "response_a": "Elm.", "response_b": "Oak."}
    write_lines(tmp_path / "human.jsonl", [{**battle, **texts}])
    write_lines(
        tmp_path / "mine.jsonl", [{"prompt_id": "q", "prompt": "Why?", "model": "new", "response": "So."}]
    )
    (tmp_path / "place.yaml").write_text(yaml.safe_dump({"judge": billed.judge(headline_model="judge-1")}))
    yard = arrange(tmp_path / "other", judge=NOWHERE)
    yard.folder = tmp_path
    ran = yard.call(
        *("place", "human.jsonl", "--model", "new", "--answers", "mine.jsonl", "--config", "place.yaml"),
        *("--output-dir", "out", "--budget-usd", "5", *PRICE),
    )
    assert ran.code == 0, ran.err
    assert "Paid: $" in ran.out
    assert yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["prices"]["judge-1"]["input"] == 3


def test_a_plan_with_a_retired_name_says_so_and_which_follows(tmp_path):
    for model, said in (
        ("gpt-4-turbo", "gpt-4-turbo was retired on 2026-10-23; its provider recommends gpt-5.6-sol"),
        ("grok-3", None),
    ):
        judge = {"provider": "openai", "pilot_model": model}
        arranged = arrange(tmp_path / model, judge=judge).change(prices=None)
        ran = arranged.done("plan", arranged.config)
        if said is None:
            # Another host's name: of what is served here under it nothing is known.
            assert "retired" not in ran.out
        else:
            assert said in flat(ran.out)
            assert "2026-" in flat(ran.out)
