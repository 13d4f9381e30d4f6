"""Whole tournaments on a real LLM server: llama.cpp with a tiny model of random weights."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from support.arranged import arrange, read_lines
from support.servers.paid_llm import paid_llm
from support.servers.tiny_llm import tiny_llm
from tiltyard.files.parquet_tables import read_columns

pytestmark = pytest.mark.slow

MODELS, PROMPTS, DIMENSIONS = 3, 3, 1
SIZES = {"models": MODELS, "prompts": PROMPTS, "dimensions": DIMENSIONS}
STATES = {"ok", "truncated", "unparseable", "provider_error", "unasked"}


@pytest.fixture(scope="module")
def llm():
    with tiny_llm() as url:
        yield url


def judge_all(arranged, *codes):
    """Run it, to one of these codes: 3 if the server answered with a 500, 4 if no reply had a verdict."""
    done = arranged.run("run", arranged.config, "--output-dir", "out", check=False)
    assert done.returncode in codes, done.stderr


def check_run(arranged):
    """Every question has its row and its state; what is settled is a battle; the folder verifies."""
    out = arranged.folder / "out"
    rows = [row for path in sorted((out / "questions").iterdir()) for row in read_lines(path)]
    asked = Counter(row["purpose"] for row in rows)
    assert asked["match"] == MODELS * (MODELS - 1) * PROMPTS * DIMENSIONS
    states = Counter(row["state"] for row in rows)
    assert set(states) <= STATES, states
    assert all((row["verdict"] is None) == (row["state"] != "ok") for row in rows)
    complete = Counter(row["match_id"] for row in rows if row["purpose"] == "match" and row["state"] == "ok")
    battles = read_lines(out / "battles.jsonl")
    assert len(battles) == sum(n == 2 for n in complete.values())
    diagnostics = json.loads((out / "diagnostics.json").read_bytes())
    assert diagnostics["judges"]
    arranged.run("verify", "out")
    return states


def test_by_openai_with_a_json_schema(tmp_path, llm):
    judge = {
        "provider": "openai",
        "base_url": f"{llm}/v1",
        "form": "schema",
        "max_tokens": 400,
        "concurrency": 4,
        "retries": 1,
    }
    arranged = arrange(
        tmp_path,
        **SIZES,
        judge=judge,
        checks={"identical": 1, "truncated": 1, "garbage": 1, "repeats": 1},
        prices={},
    )
    judge_all(arranged, 0, 3)
    states = check_run(arranged)
    assert states["ok"] > 0


def test_by_anthropic_with_a_last_line(tmp_path, llm):
    # A model of random weights never ends in a verdict: all is unparseable or truncated, and nothing is a tie.
    judge = {"provider": "anthropic", "base_url": llm, "form": "text", "max_tokens": 24, "concurrency": 4}
    arranged = arrange(tmp_path, **SIZES, judge=judge, prices={})
    done = arranged.run("run", arranged.config, "--output-dir", "out", check=False)
    assert check_run(arranged)["ok"] == 0
    # Without a verdict on three prompts the judge is unusable, which the preflight finds.
    assert done.returncode == 4
    assert "last 6 replies" in done.stderr
    assert len(read_columns(tmp_path / "out" / "attempts.parquet")["state"]) <= 9


def test_by_anthropic_with_a_last_line_of_a_model_that_can_judge(tmp_path):
    with tiny_llm(verdicts=True) as able:
        judge = {"provider": "anthropic", "base_url": able, "max_tokens": 100, "concurrency": 4}
        arranged = arrange(tmp_path, **SIZES, judge=judge, prices={})
        done = arranged.run("run", arranged.config, "--output-dir", "out")
    assert "judge-1 is asked" in done.stderr
    assert set(check_run(arranged)) == {"ok"}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_by_batch_with_the_real_model_behind(tmp_path, llm, provider):
    with paid_llm(forward=llm, batch_seconds=0.2) as server:
        # Free text of random weights never ends in a verdict.
        form, tokens, codes = ("schema", 300, (0, 3)) if provider == "openai" else ("text", 24, (4,))
        judge = {
            "provider": provider,
            "base_url": server.base_url(provider),
            "form": form,
            "max_tokens": tokens,
            "batch": True,
            "retries": 1,
        }
        arranged = arrange(tmp_path, **SIZES, judge=judge, prices={})
        judge_all(arranged, *codes)
    check_run(arranged)
