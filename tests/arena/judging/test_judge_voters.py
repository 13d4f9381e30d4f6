"""Judges as voters: both orders, one battle, within the budget, never paid twice, blind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest

from support.judged_arenas import JudgedArena, judged_arena
from support.postgres_servers import fresh_database
from support.served import Served, served
from support.servers.behaviour import Behaviour
from support.servers.paid_llm import PaidLLM, paid_llm
from support.servers.replies import parts, say
from support.servers.tiny_llm import tiny_llm
from tiltyard.core.battles.outcome import Kind, kind_of
from tiltyard.core.judging.reconciliation import reconcile
from tiltyard.core.judging.verdict import Verdict, VerdictStep
from tiltyard.errors import BadOption, InputError, NotAllowed, ProviderFault
from tiltyard.settings.arena_judges import ArenaJudges

SERVED, VOTE, SKIP, SHOWN = 0, 1, 2, 15
COMMAND = [sys.executable, "-m", "tiltyard", "arena", "judge"]


@pytest.fixture(scope="module")
def opened() -> Iterator[PaidLLM]:
    with paid_llm(keep_bodies=True) as server:
        yield server


@pytest.fixture
def llm(opened: PaidLLM) -> PaidLLM:
    plain = asdict(Behaviour(keep_bodies=True))
    plain.pop("prices")
    opened.change(**plain)
    return opened


@pytest.fixture(scope="module")
def site(server: str, template: str) -> Iterator[Served]:
    with fresh_database(server, template) as database, served(database) as running:
        yield running


@pytest.fixture
def arena(site: Served, tmp_path: Path) -> JudgedArena:
    return judged_arena(site, tmp_path)


def texts(body: dict) -> tuple[str, str]:
    """What stood in slots A and B."""
    user = parts(body)[1]
    first, second = (
        user.partition(f"<<<BEGIN RESPONSE {slot} ")[2].partition(">>>\n")[2].partition("\n<<<END")[0]
        for slot in "AB"
    )
    return first, second


def verdict(body: dict) -> Verdict:
    """What the server says to a request, read without any of our own code."""
    said = json.loads(say(body).text)
    return Verdict(VerdictStep(said["verdict"]), said["both_bad"], said["reasoning"])


def shown(arena: JudgedArena) -> int:
    """Matchups that the judges began."""
    return arena.count(SERVED) + arena.count(SHOWN)


def test_each_matchup_is_asked_in_both_orders_and_voted_on_once(arena: JudgedArena, llm: PaidLLM):
    before = len(llm.bodies())
    paid = llm.settled_tally()["paid_calls"]
    arena.judges(llm)
    votes = arena.judge(matchups=12)
    assert votes.matchups == votes.votes.total() == 12
    assert arena.count(VOTE) == shown(arena) == 12
    assert llm.settled_tally()["paid_calls"] - paid == 24
    asked = Counter(texts(body) for body in llm.bodies()[before:])
    assert asked == Counter((second, first) for first, second in asked.elements())
    sources = arena.rows("SELECT DISTINCT source FROM events WHERE arena = %(arena)s AND kind < 4")
    assert sources == [(1,)]


def test_the_battle_is_what_the_two_verdicts_make(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm)
    arena.judge(matchups=30)
    said = {texts(body): verdict(body) for body in llm.bodies()}
    served = arena.rows(
        "SELECT m.serial, ca.bytes, cb.bytes FROM matchups m "
        "JOIN responses ra ON ra.response = m.response_a JOIN contents ca ON ca.sha256 = ra.sha256 "
        "JOIN responses rb ON rb.response = m.response_b JOIN contents cb ON cb.sha256 = rb.sha256 "
        "WHERE m.arena = %(arena)s"
    )
    votes = {serial: (Kind(outcome), detail) for serial, outcome, detail in arena.votes()}
    for serial, a, b in served:
        left, right = bytes(a).decode(), bytes(b).decode()
        result = reconcile(said[left, right], said[right, left])
        assert votes[serial] == (
            kind_of(result.outcome, result.label, both_bad=result.both_bad),
            {"pref": result.pref, "judge_model": "judge-1"},
        )
    assert len({kind for kind, _ in votes.values()}) > 2


def test_no_name_is_ever_shown_to_a_judge(arena: JudgedArena, llm: PaidLLM):
    before = len(llm.bodies())
    arena.judges(llm)
    arena.judge(matchups=10)
    said = json.dumps(llm.bodies()[before:])
    assert "model-" not in said.replace('"model"', "")
    assert "prompt-" not in said
    for (matchup,) in arena.rows("SELECT matchup::text FROM matchups WHERE arena = %(arena)s"):
        assert matchup not in said


def test_a_judge_that_gives_no_verdicts_is_stopped(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm, "ramble")
    before = llm.settled_tally()["paid_calls"]
    votes = arena.judge(matchups=50)
    assert votes.unusable
    assert votes.stopped.startswith("judge unusable: the last ")
    assert votes.votes.total() == 0
    assert 10 <= llm.settled_tally()["paid_calls"] - before <= 10 + 2 * 8


@pytest.mark.slow
def test_the_budget_is_never_exceeded_and_raising_it_goes_on(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm, each={"max_tokens": 1024})
    before = llm.settled_tally()["picodollars"]
    votes = arena.judge(budget=0.1)
    first = llm.settled_tally()["picodollars"] - before
    assert "budget" in votes.stopped
    assert 0 < first <= 10**11
    assert votes.spent == first
    done = arena.count(VOTE)
    assert 0 < done == votes.votes.total()
    again = arena.judge(budget=0.1)
    assert again.matchups == 0
    assert shown(arena) <= done + 2
    more = arena.judge(budget=0.2)
    spent = llm.settled_tally()["picodollars"] - before
    assert first < spent <= 2 * 10**11
    assert more.spent == spent
    assert more.before == first
    # What was left open when the money ended was gone on with.
    assert shown(arena) - arena.count(VOTE) <= 2


@pytest.mark.parametrize(("fault", "state"), [("garble", "unparseable"), ("refuse", "refused")])
def test_a_verdict_that_cannot_be_read_is_no_tie(arena: JudgedArena, llm: PaidLLM, fault: str, state: str):
    llm.change(**{fault: 1.0, "keep_bodies": True})
    arena.judges(llm)
    # After more of them the judge would be called unusable.
    votes = arena.judge(matchups=2)
    assert votes.skipped == {state: 2}
    assert arena.votes() == []
    assert arena.count(SKIP) == 2


def test_a_provider_that_fails_is_left_alone_after_a_few_matchups(arena: JudgedArena, llm: PaidLLM):
    llm.change(server_error=1.0, times=10**6)
    arena.judges(llm, each={"retries": 0})
    votes = arena.judge(matchups=100)
    assert votes.failed
    assert 5 <= votes.matchups <= 7
    assert votes.skipped == {"provider_error": votes.matchups}
    assert arena.votes() == []


@pytest.mark.slow
def test_faults_that_pass_cost_no_vote(arena: JudgedArena, llm: PaidLLM):
    llm.change(throttle=0.2, overload=0.1, server_error=0.1, drop_before=0.1, times=1)
    arena.judges(llm, each={"retries": 5})
    votes = arena.judge(matchups=15)
    assert votes.votes.total() == 15


def test_a_wrong_key_stops_everything_and_leaves_the_matchups_open(
    arena: JudgedArena, llm: PaidLLM, monkeypatch
):
    llm.change(key="another")
    arena.judges(llm)
    with pytest.raises(ProviderFault):
        arena.judge(matchups=100)
    assert arena.count(VOTE) == 0


def test_a_panel_votes_by_quorum(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm, "judge-1", "judge-2", "judge-3", quorum=2)
    paid = llm.settled_tally()["paid_calls"]
    votes = arena.judge(matchups=6)
    assert votes.votes.total() == 6
    assert llm.settled_tally()["paid_calls"] - paid == 36
    assert {detail["judge_model"] for _, _, detail in arena.votes()} == {"panel:judge-1+judge-2+judge-3"}


def test_what_is_not_text_is_skipped_unasked(arena: JudgedArena, llm: PaidLLM):
    with psycopg.connect(arena.site.database) as connection:
        connection.execute("UPDATE responses SET kind = 'image' WHERE arena = %s", [arena.arena])
    arena.judges(llm)
    paid = llm.settled_tally()["paid_calls"]
    votes = arena.judge(matchups=3)
    assert votes.skipped == {"not text": 3}
    assert llm.settled_tally()["paid_calls"] == paid


def test_it_must_be_said_when_to_stop(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm)
    with pytest.raises(BadOption, match="give a limit"):
        arena.judge()


def test_a_budget_needs_a_price(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm, prices={})
    with pytest.raises(BadOption, match="price of judge-1"):
        arena.judge(budget=1)
    assert arena.judge(matchups=2).spent is None


def test_whoever_is_no_judge_is_refused(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm)
    with pytest.raises(NotAllowed, match="scope judge"):
        arena.judge(tokens=[arena.another_token("read")], matchups=1)
    with pytest.raises(NotAllowed):
        arena.judge(tokens=["tyd_nonsense"], matchups=1)


def test_an_arena_that_is_not_there_is_named(arena: JudgedArena, llm: PaidLLM):
    arena.judges(llm)
    command = _start(arena, "elsewhere", 1)
    _, err = command.communicate(timeout=60)
    assert command.returncode == 2
    assert "no such arena" in err


@pytest.mark.slow
def test_a_real_llm_judges_too(arena: JudgedArena):
    """llama.cpp with a tiny model: what it says is noise, but every matchup ends and nothing is made up."""
    with tiny_llm() as url:
        judge = {"model": "tiny", "provider": "openai", "base_url": f"{url}/v1", "retries": 1}
        arena.config.write_text(json.dumps({"judges": [{**judge, "max_tokens": 400}]}))
        votes = arena.judge(matchups=4)
    assert votes.matchups == 4
    assert arena.count(VOTE) == votes.votes.total()
    assert arena.count(SKIP) == votes.skipped.total()
    assert set(votes.skipped) <= {"truncated", "unparseable", "provider_error"}
    assert votes.spent is None


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"judges": []}, "at least 1"),
        ({}, "judges: missing"),
        ({"judges": ["a", "a"]}, "duplicate judge name 'a'"),
        ({"judges": ["a"], "quorum": 2}, "at most the number of judges, 1"),
        ({"judges": [{"model": "a", "batch": True}]}, "batches are not supported for live votes"),
        ({"judges": [{"model": "a", "base_url": "localhost"}]}, "begins with http"),
        ({"judges": [{"model": "a", "provider": "replay"}]}, "replay needs base_url"),
        ({"judges": ["a"], "rubrik": "preference"}, "did you mean rubric"),
        ({"judges": ["a"], "rubric": "nowhere.txt"}, "nowhere.txt"),
        ({"judges": ["a"], "budget_usd": -1}, "dollars"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(tmp_path: Path, said: dict, problem: str):
    path = tmp_path / "judge.yaml"
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match=problem):
        ArenaJudges.load(path).read_rubric()


def test_a_rubric_of_ones_own_is_asked_by(arena: JudgedArena, llm: PaidLLM, tmp_path: Path):
    (tmp_path / "terse.txt").write_text("# version: v3\n\nThe shorter response is better.\n")
    before = len(llm.bodies())
    arena.judges(llm, rubric="terse.txt")
    arena.judge(matchups=1)
    assert all("shorter response" in parts(body)[0] for body in llm.bodies()[before:])
    assert len(llm.bodies()) == before + 2


@pytest.mark.slow
@pytest.mark.parametrize("size", [pytest.param((10, 2), id="small"), pytest.param((150, 20), id="full")])
def test_killed_again_and_again_it_pays_twice_only_for_what_was_in_flight(
    arena: JudgedArena, llm: PaidLLM, size
):
    matchups, kills = size
    llm.change(latency=0.3, keep_bodies=True)
    before = llm.settled_tally()["paid_calls"]
    arena.judges(llm, budget_usd=50.0)
    drawn = random.Random(1)
    killed = 0
    while killed < kills and arena.count(VOTE) < matchups:
        process = _start(arena, arena.name, matchups)
        try:
            process.communicate(timeout=drawn.uniform(1.5, 5.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
    left = matchups - arena.count(VOTE)
    if left > 0:
        process = _start(arena, arena.name, left)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert "voted" in out
    voted = arena.count(VOTE)
    assert voted >= matchups
    assert shown(arena) - voted - arena.count(SKIP) <= 2
    paid = llm.settled_tally()["paid_calls"] - before
    # Two calls for each vote; open matchups may have been asked; four at most were in flight at each kill.
    assert 2 * voted <= paid <= 2 * voted + 4 + 4 * killed
    ended = arena.rows(
        "SELECT serial FROM events WHERE arena = %(arena)s AND kind IN (1, 2, 3) GROUP BY 1 HAVING count(*) > 1"
    )
    assert ended == []


@pytest.mark.slow
def test_two_processes_with_one_token_pay_and_vote_once(arena: JudgedArena, llm: PaidLLM):
    llm.change(latency=0.1, keep_bodies=True)
    before = llm.settled_tally()["paid_calls"]
    arena.judges(llm)
    processes = [_start(arena, arena.name, 8) for _ in range(2)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    voted = arena.count(VOTE)
    assert 8 <= voted <= 16
    assert llm.settled_tally()["paid_calls"] - before == 2 * voted


def _start(arena: JudgedArena, name: str, matchups: int) -> subprocess.Popen[str]:
    """The command in a process group of its own."""
    options = ["--config", str(arena.config), "--url", arena.site.url, "--matchups", str(matchups)]
    return subprocess.Popen(
        [*COMMAND, name, *options],
        env={**arena.environ(), "TILTYARD_TOKEN": arena.token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
