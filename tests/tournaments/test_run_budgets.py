"""Budgets end to end: never exceeded, and what was left unasked can be asked later."""

from __future__ import annotations

from collections import Counter

import pytest

from support.arranged import arrange
from tiltyard.settings.prices import to_picodollars

BUDGET = "0.09"


@pytest.mark.slow(but="live")
@pytest.mark.parametrize("batch", [False, True], ids=["live", "batch"])
def test_a_budget_that_is_reached_ends_the_run_normally_and_a_higher_one_completes_it(
    tmp_path, billed, batch
):
    arranged = arrange(tmp_path, judge=billed.judge(batch=batch, max_tokens=1024))
    ran = arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", BUDGET)
    spent = billed.since("picodollars")
    assert 0 < spent <= to_picodollars(BUDGET)
    states = Counter(row["state"] for row in arranged.verdicts())
    assert states["ok"] == billed.since()
    assert states["ok"] + states["unasked"] == 48
    assert f"{states['unasked']} questions were not asked: the budget does not cover them" in ran.err
    assert "--output-dir out" in ran.err
    assert to_picodollars(arranged.document("costs.json")["actual"]["usd"]) == spent
    arranged.done("verify", "out")

    # The same budget again: what was spent counts.
    arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", BUDGET)
    assert billed.since("picodollars") <= to_picodollars(BUDGET)

    ran = arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", "5")
    assert "Resuming out" in ran.err
    assert "of $5.00 spent" in ran.err
    assert billed.since() == 48
    assert {row["state"] for row in arranged.verdicts()} == {"ok"}
    arranged.done("verify", "out")


@pytest.mark.slow
def test_without_a_folder_the_run_whose_budget_was_reached_is_gone_on_with(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge(max_tokens=1024), budget_usd=float(BUDGET))
    for _ in range(3):
        arranged.done("run", arranged.config)
    assert 0 < billed.since("picodollars") <= to_picodollars(BUDGET)
    arranged.done("run", arranged.config, "--budget-usd", "1")
    assert billed.since() == 48
    assert len([*(tmp_path / "runs").iterdir()]) == 1
    # All is asked: whoever runs it again wants a new folder.
    arranged.done("run", arranged.config)
    assert len([*(tmp_path / "runs").iterdir()]) == 2


def test_what_asks_nothing_works_with_a_budget_and_an_unknown_price(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge()).change(prices=None)
    assert "unknown" in arranged.done("plan", arranged.config, "--budget-usd", "5").out
    assert arranged.call("run", arranged.config, "--budget-usd", "5", "--skip-judging").code == 3
    assert billed.since() == 0


def test_a_budget_with_an_unknown_price_is_refused_before_anything_is_asked(tmp_path, billed):
    arranged = arrange(tmp_path, judge=billed.judge()).change(prices=None)
    ran = arranged.call("run", arranged.config, "--budget-usd", "5")
    assert ran.code == 2
    assert "enforced" in ran.err
    assert billed.since() == 0
    assert not (tmp_path / "runs").exists()
    # Without a budget it runs, and says that nobody knows what it cost.
    ran = arranged.done("run", arranged.config)
    assert "Paid: unknown" in ran.out
