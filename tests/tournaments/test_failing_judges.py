"""Judges that cannot be reached or will not serve: what a person is told, and how it goes on."""

from __future__ import annotations

from collections import Counter

import pytest

from support.arranged import arrange
from support.servers.paid_llm import paid_llm
from tiltyard.files.parquet_tables import read_columns


def test_a_provider_that_is_down_is_told_of_and_the_next_run_completes(tmp_path, billed):
    judge = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "retries": 0}
    arranged = arrange(tmp_path, judge=judge)
    ran = arranged.call("run", arranged.config, "--output-dir", "out")
    assert ran.code == 3
    assert "resume. Errors" in ran.err
    assert ran.err.count("connection failed") == 1
    # After so many that reached nobody the others are not even tried; a few are under way by then.
    states = Counter(row["state"] for row in arranged.verdicts())
    assert 32 <= states["provider_error"] < 48
    assert states["provider_error"] + states["unasked"] == 48
    failed = [row for row in arranged.verdicts() if row["state"] == "provider_error"]
    assert all("connection failed" in row["problem"] for row in failed)
    arranged.done("verify", "out")


@pytest.mark.slow
def test_a_provider_that_comes_back_serves_the_rest(tmp_path):
    with paid_llm(drop_before=1.0, times=1) as server:
        judge = {"provider": "openai", "base_url": server.openai, "retries": 0}
        arranged = arrange(tmp_path, judge=judge)
        # Every question's first call is dropped. A run in which nothing was answered stops soon; the next one goes on.
        ran = arranged.call("run", arranged.config)
        assert ran.code == 3
        assert "questions have" in ran.err
        for _ in range(8):
            ran = arranged.call("run", arranged.config)
            assert "Resuming" in ran.err
            if ran.code == 0:
                break
            assert ran.code == 3
        assert ran.code == 0, ran.err
        assert server.settled_tally()["paid_calls"] == 48
    [out] = (tmp_path / "runs").iterdir()
    out = f"runs/{out.name}"
    assert {row["state"] for row in arranged.verdicts(out)} == {"ok"}
    attempts = Counter(read_columns(tmp_path / out / "attempts.parquet")["state"])
    assert attempts == {"lost": 48, "ok": 48}
    arranged.done("verify", out)


@pytest.mark.slow(but="openai")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_wrong_key_is_named_after_a_few_calls(tmp_path, provider):
    with paid_llm(key="the-right-one") as server:
        judge = {"provider": provider, "base_url": server.base_url(provider), "api_key_env": "MY_KEY"}
        arranged = arrange(tmp_path, prompts=8, judge=judge, shard_size=20)
        arranged.environment = {"MY_KEY": "a-wrong-one"}
        ran = arranged.call("run", arranged.config, "--output-dir", "out")
        assert ran.code == 3
        assert ran.err.count("status 401") == 1
        assert "api_key_env" in ran.err
        assert "a-wrong-one" not in ran.out + ran.err
        assert server.settled_tally()["paid_calls"] == 0
        assert len(read_columns(tmp_path / "out" / "attempts.parquet")["state"]) <= 8 + 16
        arranged.environment = {"MY_KEY": "the-right-one"}
        arranged.done("run", arranged.config, "--output-dir", "out")
        assert server.settled_tally()["paid_calls"] == 96
    arranged.done("verify", "out")


def test_a_judge_that_takes_no_batches_is_not_asked_by_batch(tmp_path):
    judge = {"provider": "replay", "base_url": "replies.jsonl", "batch": True}
    arranged = arrange(tmp_path, judge=judge)
    (tmp_path / "replies.jsonl").write_text("")
    ran = arranged.call("run", arranged.config)
    assert ran.code == 2
    assert "judge-1: replay does" in ran.err
