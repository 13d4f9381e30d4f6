"""A voter can be erased: texts and number. The votes stay as nobody's, or leave, and the boards follow."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.pool_work import asked
from support.postgres_servers import fresh_database
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from support.voted_arenas import cast, close_window, rate
from tiltyard.arena.boards.snapshots import (
    latest_snapshot,
)
from tiltyard.arena.operators.voter_data import (
    ErasedTexts,
    erase_absent_voters,
    erase_session,
    erase_voter,
    find_arenas_of_voter,
)
from tiltyard.arena.rating.crowd_watch import CrowdWatch
from tiltyard.arena.rating.rater_progress import read_rater_progress
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import Closed, Conflict, InputError, NotFound
from tiltyard.postgres.connections import connect, open_pool

SHOWN = {"shown": {"a": 1.0, "b": 2.0}}


@pytest.fixture(scope="module")
def prepared(server, template):
    """Databases to be copied, and their arenas: one with remarks, and a busy one."""
    with fresh_database(server, template) as first, fresh_database(server, template) as second:
        yield {
            "arena": (first.rpartition("/")[2], remarked(first)),
            "busy": (second.rpartition("/")[2], made_busy(second)),
        }


@pytest.fixture
def database(server, prepared, request):
    name, _ = prepared["busy" if "busy" in request.fixturenames else "arena"]
    with fresh_database(server, name) as url:
        yield url


@pytest.fixture
def arena(prepared):
    return prepared["arena"][1]


@pytest.fixture
def busy(prepared):
    return prepared["busy"][1]


def remarked(database):
    """An arena with votes, remarks and complaints of two voters."""

    async def scene():
        made = await make_arena(database, 3, 4)
        async with voting_queue_of(database, made) as queue:
            matchups = await cast(queue, 6, voters=2, reveal=False, detail=SHOWN)
            for k, matchup in enumerate(matchups[:4]):
                await queue.remark(Voter(1 + k % 2, 0), matchup, [], "I am Ada")
        return made

    made = asyncio.run(scene())
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO complaints (arena, source, serial, session, reason, note)"
            " SELECT arena, source, serial, session, 'broken', 'Ada again' FROM matchups WHERE serial < 2"
        )
    return made


def erase(database, reason="a request"):
    return asked(database, lambda pool: erase_session(pool, "arena", 1, reason=reason, actor="cli"))


def read(database, text):
    with connect(database) as connection:
        return connection.execute(text).fetchall()


def test_the_texts_of_one_session_are_erased(database, arena):
    votes = "SELECT position, outcome FROM battles ORDER BY position"
    before = read(database, votes)
    assert erase(database) == ErasedTexts(remarks=2, complaints=1, details=3)
    assert read(database, votes) == before
    assert len(before) == 6
    assert read(database, "SELECT DISTINCT session FROM remarks") == [(2,)]
    ((number,),) = read(database, "SELECT DISTINCT session FROM battles WHERE session <> 2")
    assert number > 2**32
    assert read(database, "SELECT session, note, reason FROM complaints ORDER BY session") == [
        (2, "Ada again", "broken"),
        (number, None, "broken"),
    ]
    details = "SELECT session, count(detail) FROM events WHERE kind = 1 GROUP BY session ORDER BY session"
    assert read(database, details) == [(2, 3), (number, 0)]
    assert read(database, "SELECT actor, detail FROM audit WHERE action = 'erase voter'") == [
        ("cli", {"reason": "a request", "people": [1, 0]})
    ]


def test_an_erasure_needs_a_reason(database, arena):
    with pytest.raises(InputError, match="reason of 1"):
        erase(database, reason=" ")


# What becomes of votes


def everything(database, arena, voters=4):
    """Voters who voted, undid, voted again, skipped, and have something open; the first one among them."""

    async def scene():
        async with voting_queue_of(database, arena) as queue:
            await cast(queue, 24, voters=voters)
            one = Voter(1, 0)
            offered = await queue.next_matchup(one)
            await queue.vote(one, offered.matchup, Kind.WIN_A)
            await queue.undo(one, offered.matchup)
            await queue.vote(one, offered.matchup, Kind.WIN_B, ballot=1)
            offered = await queue.next_matchup(one)
            await queue.skip(one, offered.matchup)
            await queue.next_matchup(one)

    asyncio.run(scene())


def rated_rows(database, arena):
    """The rows of the people's board when everything is final and rated, and its generation."""
    close_window(database, arena.arena)
    rate(database)

    async def newest(pool):
        async with pool.connection() as connection:
            return await latest_snapshot(connection, arena.arena, 0)

    snapshot = asked(database, newest)
    rows = json.loads(snapshot.document)["rows"]
    for row in rows:
        # How many votes a rule still needs is estimated from what was served: matchups that were open have ended.
        row["waiting"] = [{**rule, "missing": None} for rule in row["waiting"]]
    return rows, snapshot.generation


def sessions_in_state(database):
    """Voters' numbers in checkpoints, which are compressed."""
    found = set()
    for (state,) in read(database, "SELECT state FROM checkpoints"):
        for fold in ArenaFold.restore_all(bytes(state)):
            found |= set(fold.standing.vote_log.columns()["session"].tolist())
            found |= set(fold.standing.sessions.saved()["session"].tolist())
    return found


def is_replayed(database, arena):
    """Whether a replay of the log from its first event gives what the rater has."""
    with connect(database) as connection:
        progress = read_rater_progress(connection, arena.arena)
        found = replay_log(connection, arena.arena, progress.position, progress.generation)
        saved = ArenaFold.save_all([found[source] for source in sorted(found)])
        (digest,) = connection.execute(
            "SELECT digest FROM checkpoints ORDER BY generation DESC, position DESC LIMIT 1"
        ).fetchone()
        return ArenaFold.digest_all(saved) == bytes(digest)


def made_busy(database):
    made = asyncio.run(make_arena(database, 4, 6))
    everything(database, made)
    return made


def test_votes_that_stay_are_nobodys_and_the_board_is_the_same(database, busy):
    before, generation = rated_rows(database, busy)
    assert 1 in sessions_in_state(database)
    erase(database)
    after, later = rated_rows(database, busy)
    assert after == before
    assert later == generation + 1
    assert 1 not in sessions_in_state(database)
    assert is_replayed(database, busy)
    assert read(database, "SELECT count(*) FROM events WHERE session = 1") == [(0,)]
    assert read(database, "SELECT count(DISTINCT session) FROM battles") == [(4,)]
    assert read(database, "SELECT count(*) FROM exclusions WHERE final AND erased_from > 0") == [(1,)]
    assert read(database, "SELECT count(*) FROM excluded_votes") == [(0,)]


def test_a_queue_that_runs_meanwhile_knows_the_voter_no_more(database, busy):
    async def scene():
        async with open_pool(database, most=2) as pool, voting_queue_of(database, busy) as queue:
            one = Voter(9, 0)
            offered = await queue.next_matchup(one)
            await queue.vote(one, offered.matchup, Kind.WIN_A)
            await queue.remark(one, offered.matchup, [], "I am Ada")
            other = await queue.next_matchup(one)
            assert [one.name for one in await find_arenas_of_voter(pool, 9)] == ["arena"]
            await erase_voter(pool, 9, reason="asked", actor="voter")
            assert await find_arenas_of_voter(pool, 9) == []
            with pytest.raises((Closed, NotFound)):
                await queue.undo(one, offered.matchup)
            with pytest.raises((Closed, NotFound)):
                await queue.vote(one, other.matchup, Kind.WIN_A)
            with pytest.raises((Closed, NotFound)):
                await queue.remark(one, offered.matchup, [], "Ada")
            assert await queue.finish(one) == 0
            again = await queue.next_matchup(one)
            assert again.matchup not in (offered.matchup, other.matchup)

    asyncio.run(scene())
    found = read(database, "SELECT count(*), min(kind), max(kind) FROM events WHERE session = 9")
    assert found == [(1, 0, 0)]
    rows, _ = rated_rows(database, busy)
    assert rows


def test_lists_of_sessions_name_the_new_number(database, busy):
    detail = '{"sessions": [7, 1, 2], "votes": 3}'
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute(
            "UPDATE events SET kind = 26, detail = %s WHERE position ="
            " (SELECT max(position) FROM events WHERE kind = 9 AND session = 2)",
            (detail,),
        )
        connection.execute(
            "INSERT INTO crowd_changes (arena, position, found_at, model, vote_group, detail)"
            " VALUES (%s, 1, now(), 0, 0, %s)",
            (busy.arena, detail),
        )
    erase(database)
    ((number,),) = read(database, "SELECT DISTINCT session FROM battles WHERE session > 100")
    for table in ("events WHERE kind = 26", "crowd_changes"):
        ((kept,),) = read(database, f"SELECT detail FROM {table}")
        assert kept == {"sessions": [7, number, 2], "votes": 3}


def test_the_watch_of_the_crowd_is_made_again_without_the_number(database, busy):
    rated_rows(database, busy)
    ((state,),) = read(database, "SELECT state FROM crowd_watches")
    assert 1 in CrowdWatch.restore(state).latest_votes().session
    erase(database)
    assert read(database, "SELECT count(*) FROM crowd_watches") == [(0,)]
    rated_rows(database, busy)
    for (state,) in read(database, "SELECT state FROM crowd_watches"):
        assert 1 not in CrowdWatch.restore(state).latest_votes().session


def test_a_person_who_signed_in_is_unknown_afterwards(database, busy):
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO people (identity_hmac, session, name, groups) VALUES ('\\x01', 1, 'Ada', '{}')"
        )
        connection.execute(
            "INSERT INTO person_sign_ins (token_sha256, person, state_sha256, expires_at)"
            " SELECT '\\x02', person, '\\x03', now() + interval '1 day' FROM people"
        )
        connection.execute(
            "INSERT INTO sessions (session, source, gate) OVERRIDING SYSTEM VALUE VALUES (1, 0, 1)"
        )
        connection.execute(
            "INSERT INTO audit (actor, action, detail) VALUES ('cli', 'revoke session', '{\"session\": 1}')"
        )
    erase(database)
    assert read(database, "SELECT count(*) FROM people") == [(0,)]
    assert read(database, "SELECT count(*) FROM person_sign_ins") == [(0,)]
    assert read(database, "SELECT count(*) FROM sessions WHERE session = 1") == [(0,)]
    assert read(database, "SELECT detail FROM audit WHERE action = 'revoke session'") == [
        ({"session": "deleted"},)
    ]


async def test_a_number_that_is_not_there_is_refused_and_nothing_is_written(database, arena):
    counts = "SELECT (SELECT count(*) FROM audit), (SELECT count(*) FROM events), (SELECT count(*) FROM exclusions)"
    before = read(database, counts)

    async with open_pool(database, most=1) as pool:
        with pytest.raises(NotFound, match="voter 77"):
            await erase_session(pool, "arena", 77, reason="a request", actor="cli")
        assert await erase_voter(pool, 77, reason="a request", actor="cli") == {}
    assert read(database, counts) == before


def test_a_voter_without_texts_and_details_is_erased_all_the_same(database, arena):
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET detail = NULL WHERE session = 1 AND kind IN (0, 1, 2, 14)")
        connection.execute("DELETE FROM remarks")
        connection.execute("UPDATE complaints SET note = NULL")
    assert erase(database) == ErasedTexts(0, 0)
    assert read(database, "SELECT count(*) FROM battles WHERE session = 1") == [(0,)]


# Voters who stay away


def forget(database, days=0, **settings):
    """The daily work, so many days from now."""
    with connect(database) as connection:
        connection.execute("UPDATE arenas SET settings = settings || %s", (json.dumps(settings),))

    moment = datetime.now(UTC) + timedelta(days=days)
    return asked(database, lambda pool: erase_absent_voters(pool, moment))


def test_absent_voters_are_erased_together_and_their_votes_stay(database, busy):
    before, generation = rated_rows(database, busy)
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO sessions (session, source, gate) OVERRIDING SYSTEM VALUE VALUES (1, 0, 1), (3, 0, 1)"
        )
    assert forget(database, 40) == 0, "no arena has asked for it"
    assert forget(database, 20, session_retention_days=30) == 0
    assert forget(database, 40) == 4
    after, later = rated_rows(database, busy)
    assert after == before
    assert later == generation + 1
    assert not sessions_in_state(database) & {1, 2, 3, 4}
    assert is_replayed(database, busy)
    numbers = "SELECT count(DISTINCT session), min(session) > 2^32 FROM battles"
    assert read(database, numbers) == [(4, True)]
    assert read(database, "SELECT count(*) FROM sessions") == [(0,)]
    assert read(database, "SELECT actor, detail FROM audit WHERE action = 'erase voter'") == [
        (
            "retention",
            {"reason": "voters are kept for 30 days", "people": [4, 0]},
        )
    ]
    assert forget(database, 400) == 0, "who is nobody already stays it"


def age(database, sessions):
    """Let the events of these voters be old."""
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute(
            "UPDATE events SET at = at - interval '50 days' WHERE session = ANY(%s)", (list(sessions),)
        )


def test_who_came_back_is_kept_and_many_are_erased_in_parts(database, busy, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.operators.voter_data._ABSENT_EVENTS_LIMIT", 1)
    monkeypatch.setattr("tiltyard.arena.operators.voter_data._ABSENT_BATCH_LIMIT", 2)
    age(database, (1, 3, 4))
    assert forget(database, session_retention_days=30) == 2
    assert forget(database) == 1
    assert forget(database) == 0
    assert read(database, "SELECT count(DISTINCT session) FROM battles WHERE session <= 4") == [(1,)]
    assert read(database, "SELECT count(*) FROM matchups WHERE session = 2") != [(0,)]
    rated_rows(database, busy)
    assert is_replayed(database, busy)


def test_raters_of_panels_stay_and_revoked_voters_stay_revoked(database, busy):
    age(database, (1, 2, 3, 4))
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO sessions (session, source, gate, revoked_at) OVERRIDING SYSTEM VALUE"
            " VALUES (1, 0, 1, now()), (3, 0, 1, NULL)"
        )
        connection.execute("SET session_replication_role = replica")
        connection.execute("INSERT INTO panel_raters VALUES (1, 0, 'Ada', 2, 1)")
    assert forget(database, session_retention_days=30) == 3
    assert read(database, "SELECT session FROM sessions") == [(1,)]
    assert read(database, "SELECT count(*) FROM matchups WHERE session <= 4 AND session <> 2") == [(0,)]
    assert read(database, "SELECT count(*) FROM matchups WHERE session = 2") != [(0,)]


def test_who_comes_back_at_that_moment_is_kept(database, busy, monkeypatch):
    age(database, (1, 2, 3, 4))

    async def old_head(_connection, _arena):
        return 0

    with monkeypatch.context() as patched:
        patched.setattr("tiltyard.arena.operators.voter_data.read_log_head", old_head)
        with pytest.raises(Conflict, match="come back"):
            forget(database, session_retention_days=30)
    assert read(database, "SELECT count(*) FROM events WHERE session > 4") == [(0,)]
    assert read(database, "SELECT forgotten_upto FROM arenas") == [(0,)]
    assert forget(database) == 4


def test_a_deleted_arena_keeps_nobody_from_being_erased(database, busy):
    with connect(database) as connection:
        connection.execute("""UPDATE arenas SET settings = settings || '{"stage": "deleted"}'""")
    assert forget(database, 400, session_retention_days=30) == 0

    erased = asked(database, lambda pool: erase_voter(pool, 1, reason="asked", actor="voter"))
    assert list(erased) == ["arena"]
    assert read(database, "SELECT count(*) FROM events WHERE session = 1") == [(0,)]
