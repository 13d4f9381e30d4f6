"""Scheduled jobs: weekly reports, thinning of snapshots, judging rounds."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_arenas import judged_arena
from support.live_arenas import make_arena, voting_queue_of
from support.rewritten_logs import allow_rewriting
from support.served import served
from support.servers.paid_llm import paid_llm
from support.worker_process import until
from tiltyard.arena.boards.weekly_reports import list_reports, read_report
from tiltyard.arena.operators import scheduled_jobs
from tiltyard.arena.operators.job_status import JOB_PLANS, last_whole_week
from tiltyard.arena.operators.scheduled_jobs import (
    make_weekly_reports,
    run_scheduled_jobs,
)
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.report import validity_report
from tiltyard.errors import BadConfig, NotFound
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.environment import Environment

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Chatham", "America/Sao_Paulo"]
VOTES = 40
#: When the votes of these tests were cast, far from a week's end; and a moment for which that is the week before.
VOTED = datetime(2026, 3, 4, 12, tzinfo=UTC)
NEXT_WEEK = VOTED + timedelta(days=7)


@given(
    moment=st.datetimes(datetime(2015, 1, 1), datetime(2035, 1, 1)).map(lambda one: one.replace(tzinfo=UTC)),
    zone=st.sampled_from(ZONES),
)
def test_weeks_follow_each_other_without_a_gap(moment: datetime, zone: str):
    since, until = last_whole_week(moment, zone)
    assert since < until <= moment < until + timedelta(days=8)
    for edge in (since, until):
        local = edge.astimezone(ZoneInfo(zone))
        assert local.weekday() == 0
        assert (local.hour, local.minute) in {(0, 0), (1, 0)}
    assert last_whole_week(until, zone) == (since, until)
    assert last_whole_week(until - timedelta(seconds=1), zone)[1] == since
    # A week with a change of the clock is an hour longer or shorter.
    assert abs(until - since - timedelta(days=7)) <= timedelta(hours=1)


def vote_in(
    database: str, *, phase: int = 4, timezone: str = "UTC", name: str = "arena", at: datetime = VOTED
) -> int:
    """An arena made at a moment, with votes of both sources, one undone and one undone and recast; its number."""

    async def scene() -> int:
        settings = ArenaSettings(timezone=timezone)
        policy = Policy(phase=phase, evaluated_every=10)
        arena = await make_arena(database, settings=settings, policy=policy, name=name)
        async with voting_queue_of(database, arena) as queue:
            for number in range(VOTES):
                voter = Voter(1 + number % 3, source=int(number % 5 == 0))
                offered = await queue.next_matchup(voter)
                await queue.vote(voter, offered.matchup, Kind(number % 4))
                if number in {3, VOTES - 1}:
                    await queue.undo(voter, offered.matchup)
                if number == 3:
                    await queue.vote(voter, offered.matchup, Kind.TIE, ballot=1)
        return arena.arena

    arena = asyncio.run(scene())
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE arenas SET created_at = %s WHERE arena = %s", (at, arena))
        connection.execute(
            "UPDATE events SET at = %s + (at - (SELECT min(at) FROM events WHERE arena = %s)) WHERE arena = %s",
            (at, arena, arena),
        )
    return arena


def finish(database: str, arena: int, back: int = 0) -> None:
    """Let the rater have come to the log's end."""
    with connect(database) as connection:
        connection.execute(
            "UPDATE raters SET horizon = (SELECT max(position) - %s FROM events WHERE arena = %s) WHERE arena = %s",
            (back, arena, arena),
        )


def kept(database: str) -> list[tuple[str, int, bytes, str]]:
    with connect(database) as connection:
        return connection.execute(
            "SELECT a.name, r.position, r.sha256, r.document FROM reports r JOIN arenas a USING (arena) ORDER BY 1"
        ).fetchall()


def given_up(database: str, arena: int) -> list[int]:
    with connect(database) as connection:
        rows = connection.execute(
            "SELECT serial, source, given_up FROM matchups WHERE arena = %s", (arena,)
        ).fetchall()
    return [serial for serial, source, rules in rows if source == 0 and rules]


def naive_events(database: str, arena: int, excluded: frozenset[int] = frozenset()) -> Events:
    """The human events of a log, row by row."""
    with connect(database) as connection:
        rows = connection.execute(
            "SELECT kind, source, serial, session, a, b, prompt, outcome, nominal, lane, at FROM events e "
            "WHERE arena = %s AND position NOT IN ("
            "SELECT (detail ->> 'vote')::bigint FROM events u WHERE u.arena = e.arena AND u.kind = 8) "
            "ORDER BY position",
            (arena,),
        ).fetchall()
    events = []
    for kind, source, serial, session, a, b, prompt, outcome, nominal, lane, at in rows:
        if kind > 7 or source == 1:
            continue
        told = {"event": kind, "serial": serial if kind < 4 else None, "a": a, "b": b, "prompt": prompt}
        told |= {"kind": outcome if kind == 1 else 0, "time": int(at.timestamp())}
        if kind == 0:
            told |= {"lane": lane, "nominal": nominal}
        if kind in (0, 1):
            told |= {"session": session}
        if kind == 1 and serial in excluded:
            told |= {"event": Event.SKIP, "kind": 0}
        events.append({name: value for name, value in told.items() if value is not None})
    return Events.of(events)


def test_a_week_is_reported_once_and_is_what_the_log_says(database: str):
    arena = vote_in(database)
    finish(database, arena)
    assert make_weekly_reports(database, NEXT_WEEK) == 1
    assert make_weekly_reports(database, NEXT_WEEK) == 0
    [(name, position, sha256, document)] = kept(database)
    assert hashlib.sha256(document.encode()).digest() == bytes(sha256)
    told = json.loads(document)
    since, until = last_whole_week(NEXT_WEEK, "UTC")
    expected = validity_report(
        naive_events(database, arena),
        [f"model-{k}" for k in range(4)],
        [f"prompt-{k}" for k in range(6)],
        Policy(phase=4, evaluated_every=10),
        since=int(since.timestamp()),
        until=int(until.timestamp()),
        answered=np.zeros((4, 6), dtype=bool),
        given_up=np.array(given_up(database, arena), dtype=np.int64),
    )
    assert told["report"] == json.loads(json.dumps(expected.to_dict()))
    assert told["report"]["matchups"]["votes"] == VOTES - VOTES // 5 - 1
    assert (told["arena"], told["source"], told["position"]) == (name, "human", position)
    assert (told["since"], told["until"]) == (since.isoformat(), until.isoformat())


def test_excluded_votes_are_left_out(database: str):
    arena = vote_in(database)
    finish(database, arena)
    with connect(database) as connection:
        connection.execute(
            "WITH made AS (INSERT INTO exclusions (arena, reason, excluded) VALUES (%s, 'a test', 3) "
            "RETURNING exclusion) INSERT INTO excluded_votes SELECT exclusion, %s, 0, serial FROM made, "
            "generate_series(0, 4) AS serial",
            (arena, arena),
        )
    assert make_weekly_reports(database, NEXT_WEEK) == 1
    report = json.loads(kept(database)[0][3])["report"]
    assert report["matchups"]["votes"] == VOTES - VOTES // 5 - 1 - 5


def test_a_week_whose_votes_can_still_be_taken_back_waits(database: str):
    arena = vote_in(database)
    finish(database, arena, back=1)
    assert make_weekly_reports(database, NEXT_WEEK) == 0
    finish(database, arena)
    assert make_weekly_reports(database, NEXT_WEEK) == 1


def test_every_phase_has_reports_and_readers_see_those_of_the_fourth(database: str):
    arenas = {phase: vote_in(database, phase=phase, name=f"phase-{phase}") for phase in (1, 4)}
    for arena in arenas.values():
        finish(database, arena)
    assert make_weekly_reports(database, VOTED + timedelta(days=1)) == 0, "they were not there yet"
    assert make_weekly_reports(database, NEXT_WEEK) == 2

    async def reading() -> None:
        async with await connect_async(database) as connection:
            for phase, arena in arenas.items():
                [listed] = await list_reports(connection, arena)
                assert bool(await list_reports(connection, arena, first_phase=4)) is (phase == 4)
                document = json.loads(await read_report(connection, arena, listed.report))
                assert document["report"]["policy"]["phase"] == phase
                if phase < 4:
                    with pytest.raises(NotFound):
                        await read_report(connection, arena, listed.report, first_phase=4)

    asyncio.run(reading())


def test_reports_are_listed_and_read_by_their_hash(database: str):
    arena = vote_in(database, timezone="Asia/Kathmandu")
    finish(database, arena)
    make_weekly_reports(database, NEXT_WEEK)

    async def reading() -> None:
        async with await connect_async(database) as connection:
            [listed] = await list_reports(connection, arena)
            assert (listed.since, listed.until) == last_whole_week(NEXT_WEEK, "Asia/Kathmandu")
            document = await read_report(connection, arena, listed.report)
            assert hashlib.sha256(document.encode()).hexdigest() == listed.report
            for wrong in ("00" * 32, "no hash", "", "zz"):
                with pytest.raises(NotFound):
                    await read_report(connection, arena, wrong)
            with pytest.raises(NotFound):
                await read_report(connection, arena + 1, listed.report)

    asyncio.run(reading())


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_jobs, "_FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(scheduled_jobs, "_LOOK_SECONDS", 0.1)


def environment(tmp_path: Path, **variables: str) -> Environment:
    return Environment(tmp_path / "home", None, variables)


@pytest.mark.slow
def test_the_house_does_by_itself_what_fell_due_while_it_was_away(database: str, tmp_path: Path, monkeypatch):
    """A report, and the thinning of boards; and no password stands among the arguments of a process."""
    assert scheduled_jobs._JOB_FUNCTIONS.keys() == JOB_PLANS.keys()
    plans = {name: JOB_PLANS[name] for name in ("weekly-reports", "thin-snapshots")}
    monkeypatch.setattr(scheduled_jobs, "JOB_PLANS", plans)
    secret = "hunter2hunter2"
    url = database.replace("tiltyard@", f"tiltyard:{secret}@")
    # What is due may be an hour old: the week before that moment has seen this arena too.
    arena = vote_in(database, at=datetime.now(UTC) - timedelta(days=7, hours=2))
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO snapshots SELECT arena, 0, 0, position, 'x', 1, false, '{}', '{}', "
            "now() - interval '90 days' FROM arenas, generate_series(1, 3) AS position"
        )
    finish(database, arena)
    seen: set[bytes] = set()
    with run_scheduled_jobs(url, environment(tmp_path)):
        until(lambda: seen.update(_children()) or (kept(database) and _snapshots(database) < 3), pause=0.2)
    assert len(kept(database)) == 1
    assert any(b"multiprocessing.spawn" in line for line in seen)
    assert not any(secret.encode() in line for line in seen)


def _snapshots(database: str) -> int:
    with connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM snapshots").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.slow
def test_judges_vote_by_themselves_where_rounds_are_configured(database: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with paid_llm() as llm, served(database) as site:
        arena = judged_arena(site, tmp_path)
        arena.judges(llm)
        rounds = tmp_path / "rounds.yaml"
        rounds.write_text(
            f"rounds:\n- arena: {arena.name}\n  config: judge.yaml\n  matchups: 3\n  url: {site.url}\n"
            "  token_env: JUDGES_TOKEN\n"
        )
        variables = {"TILTYARD_JUDGE_ROUNDS": str(rounds), "JUDGES_TOKEN": arena.token}
        with run_scheduled_jobs(database, environment(tmp_path, **variables)):
            until(lambda: arena.count(1) == 3)
        assert len(arena.votes()) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rounds:\n- arena: demo\n  config: judge.yaml\n", "need a token"),
        ("rounds:\n- arena: demo\n  config: judge.yaml\n  token_env: HOME\n  cron: hourly\n", "'hourly'"),
        ("rounds: []\n", "at least 1"),
        ("rounds:\n- arena: Demo!\n  config: judge.yaml\n", "name of an arena"),
        ("rounds:\n" + "- arena: demo\n  config: judge.yaml\n" * 2, "duplicate arena"),
    ],
)
def test_rounds_that_make_no_sense_are_refused(tmp_path: Path, text: str, problem: str):
    rounds = tmp_path / "rounds.yaml"
    rounds.write_text(text)
    variables = {"TILTYARD_JUDGE_ROUNDS": str(rounds), "HOME": "a token"}
    with (
        pytest.raises(BadConfig, match=problem),
        run_scheduled_jobs("postgresql://nobody@127.0.0.1:9/none", environment(tmp_path, **variables)),
    ):
        pass


def _children() -> list[bytes]:
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"PPid:\t{os.getpid()}\n" in (folder / "status").read_text():
                lines.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return lines
