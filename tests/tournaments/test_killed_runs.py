"""Never paying twice: runs that are killed with SIGKILL and gone on with."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.arranged import Arranged, arrange
from support.servers.paid_llm import paid_llm
from tiltyard.files.parquet_tables import read_columns

#: The whole bank is judged.
ALL = {"modes": {"pilot": {"prompts": "all"}}}
#: What tells of attempts and moments: all else must be equal, byte for byte.
ASIDE = {"manifest.json", "manifest.sha256", "attempts.parquet", "costs.json", "report.html"}


def kill_and_go_on(arranged: Arranged, out: str, size: Size) -> int:
    """Start the run again and again, killing it each time; then let it end. How often it was killed."""
    drawn = random.Random(size.prompts)
    killed = 0
    while killed < size.kills:
        process = arranged.start("run", arranged.config, "--output-dir", out, home="other-home")
        try:
            process.wait(drawn.uniform(0.2, LONGEST))
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


@dataclass(frozen=True)
class Size:
    """How large a tournament is, how often it is killed, and how slow its provider is."""

    prompts: int
    kills: int
    #: A quick machine may be done before the last kill of the small size.
    at_least: int
    shard_size: int
    batch_seconds: float
    latency: float


SIZES = [
    pytest.param(Size(12, 1, 1, 4, 0.4, 0.25), id="small"),
    # 2,040 questions. Shards of batches are taken 64 at a time, so they come in four waves.
    pytest.param(Size(340, 20, 20, 8, 8.0, 0.2), id="full"),
]
#: Seconds within which a process is killed: its start takes two or three of them.
LONGEST = 7.0


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_by_batch_the_server_is_paid_exactly_what_was_planned(tmp_path, provider, size):
    with paid_llm(batch_seconds=size.batch_seconds) as server:
        judge = {"provider": provider, "base_url": server.base_url(provider), "batch": True}
        arranged = arrange(
            tmp_path, prompts=size.prompts, dimensions=1, judge=judge, shard_size=size.shard_size, **ALL
        )
        planned = questions(arranged)
        arranged.run("run", arranged.config, "--output-dir", "calm")
        before = server.settled_tally()
        assert before["paid_calls"] == planned
        assert kill_and_go_on(arranged, "killed", size) >= size.at_least
        after = server.settled_tally()
        assert after["paid_calls"] - before["paid_calls"] == planned
    same_artifacts(tmp_path / "calm", tmp_path / "killed")
    arranged.run("verify", "killed", home="other-home")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_live_only_what_was_in_flight_is_paid_again(tmp_path, size):
    concurrency = 8
    with paid_llm(latency=size.latency) as server:
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": concurrency}
        arranged = arrange(
            tmp_path, prompts=size.prompts, dimensions=1, judge=judge, shard_size=100, budget_usd=100, **ALL
        )
        planned = questions(arranged)
        arranged.run("run", arranged.config, "--output-dir", "calm")
        before = server.settled_tally()
        assert before["paid_calls"] == planned
        killed = kill_and_go_on(arranged, "killed", size)
        assert killed >= size.at_least
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
