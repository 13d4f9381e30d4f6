"""`ab` and panels on a real LLM server, killed in the middle and resumed: llama.cpp with a tiny model and a grammar."""

from __future__ import annotations

import json
import time
from collections import Counter

import pytest

from support.arranged import Arranged, arrange, killing, read_lines
from support.servers.paid_llm import paid_llm
from support.servers.tiny_llm import tiny_llm
from tournaments.test_ab import log

#: It takes neither schemas nor tools, as many local servers: the preflight falls back to a last line.
MODEL = "plain-tiny"
CONCURRENCY = 4


@pytest.fixture(scope="module")
def llm():
    with tiny_llm(verdicts=True) as url:
        yield url


@pytest.fixture
def counted(llm):
    """The real server behind one that counts what is paid, and keeps every reply back for a moment."""
    with paid_llm(forward=llm, latency=0.2) as server:
        yield server


def kill_in_the_middle(process, server, paid):
    """Kill the command with SIGKILL once the server was paid so many calls, while it is judging."""
    with killing(process):
        end = time.monotonic() + 120.0
        while server.tally()["paid_calls"] < paid:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < end
            time.sleep(0.02)
    server.change(latency=0.0)
    return server.settled_tally()


def check_paid(server, killed, questions, in_flight):
    """Every question was paid once, but those that were in flight at the kill."""
    tally = server.settled_tally()
    assert killed["paid_calls"] < questions
    assert tally["distinct"] == questions
    assert tally["paid_again"] == tally["paid_and_lost"] <= in_flight


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_ab_killed_while_judging_is_resumed_by_the_same_command(tmp_path, counted, provider):
    # Two looks, after 30 prompts and after all.
    log(tmp_path, "a.jsonl", 32)
    log(tmp_path, "b.jsonl", 32, word=lambda k: " fine" * (k % 3 + 1))
    arranged = Arranged(tmp_path)
    judge = ("--judge", MODEL, "--provider", provider, "--base-url", counted.base_url(provider))
    command = ("ab", "a.jsonl", "b.jsonl", *judge, "--json", "--comment", "comment.md")
    killed = kill_in_the_middle(arranged.start(*command), counted, 12)
    done = arranged.run(*command, check=False)
    assert done.returncode in (0, 1, 5), done.stderr
    found = json.loads(done.stdout)
    assert found["decision"] in {0: ("better", "same"), 1: ("worse",), 5: ("undecided",)}[done.returncode]
    check_paid(counted, killed, 2 * found["compared"], in_flight=16)
    assert (tmp_path / "comment.md").read_text().startswith(("✅", "❌", "❔"))
    assert (tmp_path / found["run"] / "report.html").is_file()
    assert {row["state"] for row in arranged.verdicts(found["run"])} == {"ok"}
    arranged.done("verify", found["run"])


@pytest.mark.slow
def test_a_panel_by_both_protocols_killed_while_judging_is_resumed(tmp_path, counted):
    judges = [
        {"model": f"{MODEL}-1", "provider": "openai", "base_url": counted.openai},
        {"model": f"{MODEL}-2", "provider": "openai", "base_url": counted.openai},
        {"model": f"{MODEL}-3", "provider": "anthropic", "base_url": counted.anthropic},
    ]
    arranged = arrange(
        tmp_path,
        models=3,
        prompts=2,
        dimensions=1,
        judge={"concurrency": CONCURRENCY},
        modes={"pilot": {"judges": judges, "prompts": "all"}},
        prices={},
    )
    command = ("run", arranged.config, "--output-dir", "out")
    killed = kill_in_the_middle(arranged.start(*command), counted, 10)
    done = arranged.run(*command)
    assert "Resuming" in done.stderr
    rows = arranged.verdicts()
    assert Counter((row["judge_model"], row["state"]) for row in rows) == {
        (judge["model"], "ok"): 12 for judge in judges
    }
    check_paid(counted, killed, len(rows), in_flight=CONCURRENCY * len(judges))
    assert len(read_lines(tmp_path / "out" / "battles.jsonl")) == 6
    arranged.done("verify", "out")
