"""Filling prompt caches beforehand: a live call, reserved and priced as one, also in a run that goes by batch."""

from decimal import Decimal
from pathlib import Path

import pytest

from support.arranged import arrange
from support.servers.paid_llm import paid_llm
from tiltyard.files.parquet_tables import read_columns

MODES = {"pilot": {"judges": ["judge-1"], "prompts": "all", "prewarm": True}}
PRICES = {"judge-1": {"input": 3, "output": 15, "cache_read": 0.3, "batch": 0.5}}


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
        plan = arrange(tmp_path / str(batch), judge=judge, modes=MODES, prices=PRICES).prepared().plan
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
            arranged = arrange(tmp_path / str(batch), judge=judge, modes=MODES, prices=PRICES, dimensions=1)
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
