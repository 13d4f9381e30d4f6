"""Tournaments plant spoilt answers: what they prove is kept, and nothing that is rated or counted knows of them."""

from __future__ import annotations

from collections import Counter

import pytest

from support.arranged import NO_CHECKS, PRICES, arrange

#: The files that a paper's scripts write, and what they are made of.
RATED = (
    "elo_results.json",
    "matches/matches.jsonl",
    "verdicts/factuality.jsonl",
    "battles.jsonl",
    "pairwise_winrates.csv",
)
SPOILT = ("empty", "garbage", "swapped", "truncated")


def planted_run(folder, billed, model="likes-model-1", **checks):
    # The number of planted ones is the default.
    own = {name: count for name, count in NO_CHECKS.items() if name != "planted"} | checks
    judge = billed.judge() | {"pilot_model": model}
    return arrange(
        folder, models=2, prompts=12, dimensions=1, judge=judge, checks=own, prices={model: PRICES}
    )


def purposes(arranged, out):
    found = Counter(row["purpose"] for row in arranged.verdicts(out))
    return found["match"], sum(found[kind] for kind in SPOILT)


def test_sixteen_are_planted_and_then_four_and_nothing_rated_knows_of_them(tmp_path, billed):
    arranged = planted_run(tmp_path, billed)
    arranged.done("run", arranged.config, "--output-dir", "out")
    assert purposes(arranged, "out") == (24, 16)
    assert billed.since() == 40
    arranged.done("verify", "out")
    # A proof is kept: other answers need four, which are among these here.
    arranged.done("run", arranged.config, "--output-dir", "later")
    assert purposes(arranged, "later") == (24, 4)
    arranged.done("run", arranged.config, "--output-dir", "skipped", "--skip-judging")
    assert purposes(arranged, "skipped") == (24, 0)
    arranged.change(checks=NO_CHECKS).done("run", arranged.config, "--output-dir", "none")
    assert billed.since() == 40
    for name in RATED:
        files = {(tmp_path / out / name).read_bytes() for out in ("out", "later", "skipped", "none")}
        assert len(files) == 1, name
    for out in ("later", "skipped"):
        arranged.done("verify", out)


@pytest.mark.slow(but_every=2)
@pytest.mark.parametrize(("model", "names"), [("likes-model-1", set()), ("ties", {"fails-canaries"})])
def test_a_judge_that_misses_them_has_a_finding(tmp_path, billed, model, names):
    arranged = planted_run(tmp_path, billed, model)
    arranged.done("run", arranged.config, "--output-dir", "out")
    found = {one["name"] for one in arranged.document("diagnostics.json")["findings"]}
    assert found & {"fails-canaries"} == names
    again = arranged.done("run", arranged.config, "--output-dir", "later")
    assert again.code == 0
    assert purposes(arranged, "later")[1] == (4 if not names else 16)


@pytest.mark.slow
def test_a_run_is_resumed_whatever_is_kept_meanwhile(tmp_path, billed):
    arranged = planted_run(tmp_path, billed)
    arranged.call("run", arranged.config, "--output-dir", "out", "--budget-usd", 0.6)
    assert 0 < billed.since() < 40
    arranged.done("run", arranged.config, "--output-dir", "other")
    arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", 20)
    assert purposes(arranged, "out") == (24, 16)
    assert billed.since() == 40
    arranged.done("verify", "out")
