"""Two workers on one tournament: each question is asked once, by either."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from support.arranged import arrange, wait_for
from support.postgres_servers import postgres
from support.servers.paid_llm import paid_llm
from tiltyard.files.parquet_tables import read_columns


@pytest.fixture
def database(request):
    with ExitStack() as stack:
        yield {} if request.param == "sqlite" else {"DATABASE_URL": stack.enter_context(postgres())}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "batch"),
    [
        pytest.param("sqlite", False, id="sqlite-live"),
        pytest.param("sqlite", True, id="sqlite-batch", marks=pytest.mark.slow),
        pytest.param("postgresql", False, id="postgresql-live", marks=pytest.mark.slow),
        pytest.param("postgresql", True, id="postgresql-batch", marks=pytest.mark.slow),
    ],
    indirect=["database"],
)
def test_two_workers_share_one_tournament(tmp_path, database, batch):
    # So slow that the leader alone would need two minutes: until its helper has calls in flight too.
    with paid_llm(latency=2.0, batch_seconds=1.5) as server:
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": 4, "batch": batch}
        arranged = arrange(tmp_path, prompts=40, dimensions=1, judge=judge, shard_size=20)
        arranged.environment = database
        leader = arranged.start("run", arranged.config, "--output-dir", "out")
        wait_for((tmp_path / "out" / "config.yaml").is_file)
        helper = arranged.start("run", "--join", "out")
        if not batch:
            wait_for(lambda: server.tally()["in_flight"] > 4)
            server.change(latency=0.0)
        assert helper.wait(300) == 0
        assert leader.wait(300) == 0
        assert server.settled_tally()["paid_again"] == 0
        assert server.tally()["paid_calls"] == 240
    attempts = read_columns(tmp_path / "out" / "attempts.parquet")
    assert attempts["state"] == ["ok"] * 240
    if not batch:
        # A worker takes all batches that may be under way at once: of so few there is nothing left to share.
        assert len({name for name in attempts["worker"] if not name.startswith("preflight")}) == 2
    arranged.run("verify", "out")


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_worker_goes_on_when_its_leader_is_killed(tmp_path, database):
    with paid_llm(latency=0.1) as server:
        judge = {"provider": "openai", "base_url": server.openai, "concurrency": 4}
        arranged = arrange(tmp_path, prompts=40, dimensions=1, judge=judge, shard_size=20)
        arranged.environment = database
        leader = arranged.start("run", arranged.config, "--output-dir", "out")
        wait_for((tmp_path / "out" / "config.yaml").is_file)
        helper = arranged.start("run", "--join", "out")
        wait_for(lambda: server.tally()["paid_calls"] > 60)
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()
        assert helper.wait(300) == 0
        before = server.settled_tally()["paid_calls"]
        assert 240 <= before <= 240 + 4
        arranged.run("run", arranged.config, "--output-dir", "out")
        assert server.settled_tally()["paid_calls"] == before
    arranged.run("verify", "out")
