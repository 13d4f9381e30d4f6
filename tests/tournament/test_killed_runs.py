"""Never paying twice: runs that are killed with SIGKILL and gone on with."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
from pathlib import Path

import pytest

from servers.paid_llm import paid_llm
from tiltyard.formats.plain_parquet import read_columns
from tournament.arranged import Arranged, arrange

#: What tells of attempts and moments: all else must be equal, byte for byte.
ASIDE = {"manifest.json", "manifest.sha256", "attempts.parquet", "costs.json", "report.html"}


def kill_and_go_on(arranged: Arranged, out: str, kills: int, longest: float, seed: int) -> int:
    """Start the run again and again, killing it each time; then let it end. How often it was killed."""
    drawn = random.Random(seed)
    killed = 0
    while killed < kills:
        process = arranged.start("run", arranged.config, "--output-dir", out, home="other-home")
        try:
            process.wait(drawn.uniform(0.2, longest))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
    arranged.run("run", arranged.config, "--output-dir", out, home="other-home")
    return killed


def same_artifacts(calm: Path, killed: Path) -> None:
    names = {str(path.relative_to(calm)) for path in calm.rglob("*") if path.is_file()}
    assert names == {str(path.relative_to(killed)) for path in killed.rglob("*") if path.is_file()}
    for name in sorted(names - ASIDE):
        assert (calm / name).read_bytes() == (killed / name).read_bytes(), name
    # Only what the attempts say may differ on the page.
    pages = [
        re.sub(
            r'<section id="costs">.*?</section>', "", (folder / "report.html").read_text(), flags=re.DOTALL
        )
        for folder in (calm, killed)
    ]
    assert pages[0] == pages[1]
    manifests = [json.loads((folder / "manifest.json").read_bytes()) for folder in (calm, killed)]
    for manifest in manifests:
        for name in ("run_id", "started_at", "finished_at"):
            manifest.pop(name)
        manifest["files"] = {k: v for k, v in manifest["files"].items() if k not in ASIDE}
    assert manifests[0] == manifests[1]


def questions(arranged: Arranged) -> int:
    arranged.run("plan", arranged.config, "--questions", "questions.jsonl", home="planned")
    return len((arranged.folder / "questions.jsonl").read_text().splitlines())


SIZES = [
    pytest.param(20, 3, 6.0, id="small"),
    pytest.param(340, 20, 7.0, id="full", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("prompts", "kills", "longest"), SIZES)
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_by_batch_the_server_is_paid_exactly_what_was_planned(tmp_path, provider, prompts, kills, longest):
    with paid_llm(batch_seconds=0.4) as server:
        judge = {"provider": provider, "base_url": server.base_url(provider), "batch": True}
        arranged = arrange(
            tmp_path, models=3, prompts=prompts, dimensions=1, judge=judge, shard_size=prompts // 4
        )
        planned = questions(arranged)
        arranged.run("run", arranged.config, "--output-dir", "calm")
        before = server.settled_tally()
        assert before["paid_calls"] == planned
        killed = kill_and_go_on(arranged, "killed", kills, longest, seed=prompts)
        assert killed == kills
        after = server.settled_tally()
        assert after["paid_calls"] - before["paid_calls"] == planned
    same_artifacts(tmp_path / "calm", tmp_path / "killed")
    arranged.run("verify", "killed", home="other-home")


@pytest.mark.parametrize(("prompts", "kills", "longest"), SIZES)
def test_live_only_what_was_in_flight_is_paid_again(tmp_path, prompts, kills, longest):
    concurrency = 8
    with paid_llm(latency=0.25 if kills < 10 else 0.12) as server:
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": concurrency}
        arranged = arrange(
            tmp_path, models=3, prompts=prompts, dimensions=1, judge=judge, shard_size=100, budget_usd=100
        )
        planned = questions(arranged)
        arranged.run("run", arranged.config, "--output-dir", "calm")
        before = server.settled_tally()
        assert before["paid_calls"] == planned
        killed = kill_and_go_on(arranged, "killed", kills, longest, seed=prompts)
        after = server.settled_tally()
    attempts = read_columns(tmp_path / "killed" / "attempts.parquet")
    lost = attempts["state"].count("lost")
    again = after["paid_calls"] - before["paid_calls"] - planned
    # Each call paid again was in flight at a kill, and has its row.
    assert 0 <= again <= lost <= killed * concurrency
    assert attempts["state"].count("ok") == planned
    spent = sum(int(float(usd) * 10**12 + 0.5) for usd in attempts["usd"])
    assert spent >= after["picodollars"] - before["picodollars"]
    costs = json.loads((tmp_path / "killed" / "costs.json").read_bytes())
    assert "lost" in json.dumps(costs)
    same_artifacts(tmp_path / "calm", tmp_path / "killed")
    arranged.run("verify", "killed", home="other-home")
