"""What is counted of voters equals a count by hand, and says nothing that is not in the log; nor do flags."""

from collections import Counter
from datetime import UTC, datetime
from statistics import median

import numpy as np
import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.pool_work import asked
from support.rewritten_logs import allow_rewriting
from support.voted_arenas import cast, rate, voted
from tiltyard.arena.log.votes import VoteTally
from tiltyard.arena.operators import voters
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    exclude,
    read_exclusion_details,
    restore,
)
from tiltyard.arena.operators.moderation import read_arena_overview
from tiltyard.arena.operators.scheduled_jobs import admit_waiting_votes
from tiltyard.arena.operators.voters import (
    FLAGGED_REASON,
    FlaggedGroup,
    find_flagged_group,
    list_flagged_groups,
    list_voter_page,
    read_latest_matchups,
    read_remarks,
    tally_by_name,
    voter_record,
)
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.board.voter_board import board_agreement
from tiltyard.core.integrity.voter_tests import VoterTest
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings


def by_hand(url):
    with connect(url) as connection:
        return connection.execute(
            "SELECT m.session, d.outcome, extract(epoch FROM d.at - m.served_at)::float, d.position "
            "FROM endings d JOIN matchups m USING (arena, source, serial) WHERE d.kind = 1 AND d.undone IS NULL"
        ).fetchall()


def test_voters_are_counted_as_by_hand(database):
    arena = voted(database, votes=70)
    voters, more = asked(database, lambda pool: list_voter_page(pool, arena))
    rows = by_hand(database)
    assert not more
    assert [one.session for one in voters] == sorted(
        {row[0] for row in rows}, key=lambda session: (-sum(row[0] == session for row in rows), session)
    )
    for one in voters:
        own = [row for row in rows if row[0] == one.session]
        kinds = Counter(row[1] for row in own)
        assert (one.votes, one.a, one.b, one.ties, one.both_bad) == (
            len(own), kinds[0], kinds[1], kinds[2], kinds[3],
        )  # fmt: skip
        assert one.median_seconds == pytest.approx(median(row[2] for row in own), abs=1e-4)
        assert (one.days, one.excluded, one.source) == (1, 0, 0)


def test_pages_of_voters_and_of_votes_leave_nobody_out(database):
    arena = voted(database, votes=43)
    pages, k = [], 0
    while True:
        found, more = asked(database, lambda pool, k=k: list_voter_page(pool, arena, page=k, size=2))
        pages += found
        k += 1
        if not more:
            break
    assert sorted(one.session for one in pages) == [1, 2, 3, 4, 5]
    positions, before = [], None
    while True:
        record = asked(database, lambda pool, b=before: voter_record(pool, arena, 1, before=b, size=4))
        positions += [vote.position for vote in record.votes]
        before = record.before
        if before is None:
            break
    assert positions == sorted((row[3] for row in by_hand(database) if row[0] == 1), reverse=True)


def test_a_record_says_what_was_decided_and_agrees_with_the_board_as_counted(database):
    arena = voted(database, votes=90)
    rate(database)
    record = asked(database, lambda pool: voter_record(pool, arena, 2, size=200))
    with connect(database) as connection:
        document = connection.execute(
            "SELECT document::json FROM snapshots WHERE source = 0 ORDER BY position DESC LIMIT 1"
        ).fetchone()[0]
    rank = {row["model"]: row["rank"] for row in document["rows"]}
    decisive = [vote for vote in record.votes if vote.kind in (0, 1)]
    agreed = [
        vote for vote in decisive if (rank[vote.model_a] < rank[vote.model_b]) == (vote.kind == Kind.WIN_A)
    ]
    assert (record.agreement.agreed, record.agreement.decisive) == (len(agreed), len(decisive))
    assert record.total == len(record.votes)
    assert record.agreement.share == len(agreed) / len(decisive)


async def test_votes_taken_back_are_none_and_excluded_ones_stay_on_the_record(database):
    arena, voter = await make_arena(database, 4, 6), Voter(1, 0)
    async with open_pool(database, most=2) as pool, voting_queue_of(database, arena) as queue:
        await cast(queue, 10, voters=1)
        offered = await queue.next_matchup(voter)
        await queue.vote(voter, offered.matchup, Kind.TIE, reveal=False)
        await queue.undo(voter, offered.matchup)
        assert (await voter_record(pool, arena, 1)).total == 10
        await exclude(pool, arena.name, VoteSelection(sessions=[1]), "r", actor="a")
        record = await voter_record(pool, arena, 1)
        assert (record.total, record.excluded) == (10, 10)
        assert all(vote.excluded for vote in record.votes)
        with pytest.raises(NotFound, match="votes in this"):
            await voter_record(pool, arena, 99)


async def test_a_judge_is_counted_apart_from_people(database):
    arena = await make_arena(database, 4, 4)
    async with open_pool(database, most=2) as pool, voting_queue_of(database, arena) as queue:
        await cast(queue, 4, voters=2)
        await cast(queue, 3, voters=1, source=1)
        voters, _ = await list_voter_page(pool, arena)
        record = await voter_record(pool, arena, 1)
    assert [(one.session, one.source, one.votes) for one in voters] == [(1, 1, 3), (1, 0, 2), (2, 0, 2)]
    assert (record.source, record.total, len(record.counted)) == (1, 5, 2)


def test_remarks_are_read_with_what_they_speak_of(database):
    arena = voted(database, votes=8)
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO remarks (arena, source, serial, session, tags, comment, made_at) "
            "SELECT arena, source, serial, session, '{clearer}', 'said ' || serial, now() + serial * interval '1 s' "
            "FROM matchups"
        )

    async def read(pool):
        async with pool.connection() as connection:
            return await read_remarks(connection, arena.arena, limit=3, offset=1)

    remarks = asked(database, read)
    assert [one.comment for one in remarks] == ["said 6", "said 5", "said 4"]
    assert all(list(one.tags) == ["clearer"] and one.kind is not None for one in remarks)
    record = asked(database, lambda pool: voter_record(pool, arena, 1))
    assert {vote.comment for vote in record.votes} == {"said 0", "said 5"}


async def test_what_was_said_of_a_vote_that_was_taken_back_is_not_read(database):
    arena, voter = await make_arena(database, 4, 4), Voter(1)
    async with voting_queue_of(database, arena) as queue:
        for comment in ("stands", "taken back"):
            matchup = (await queue.next_matchup(voter)).matchup
            await queue.vote(voter, matchup, Kind.TIE)
            await queue.remark(voter, matchup, [], comment)
        await queue.undo(voter, matchup)
    async with open_pool(database, most=1) as pool, pool.connection() as connection:
        assert [one.comment for one in await read_remarks(connection, arena.arena)] == ["stands"]


def test_agreement_counts_decisive_votes_of_ranked_models_only():
    rows = [
        (0, 1, 0, 0, 3),
        (0, 1, 0, 1, 1),
        (1, 0, 0, 4, 2),
        (0, 1, 0, 2, 9),
        (0, 1, 0, 3, 9),
        (0, 2, 0, 0, 9),
    ]
    counts = VoteTally(*np.array(rows).T)
    found = board_agreement(
        tally_by_name(counts, ("first", "second", "retired"), ("p",)), {"first": 1, "second": 2}
    )
    assert (found.agreed, found.decisive) == (3, 6)
    assert board_agreement(tally_by_name(counts, ("a", "b", "c"), ("p",)), {}).share is None


async def test_an_exclusion_says_whose_votes_it_has_and_who_made_and_restored_it(database):
    """The audit of an arena has other entries, and other arenas have entries too."""

    async with open_pool(database, most=2) as pool:

        async def exclude_votes(actor, **chosen):
            made = await exclude(pool, "arena", VoteSelection(**chosen), "a test", actor=actor)
            return made.exclusion

        async with voting_queue_of(database, await make_arena(database, 4, 6)) as queue:
            await cast(queue, 15, voters=7)
        kept = await exclude_votes("operator:Ada", sessions=[3, 5])
        back = await exclude_votes("token:ci", source=0)
        await restore(pool, "arena", back, actor="operator:Grace")
        other = await make_arena(database, 2, 1, name="other")
        with connect(database) as connection:
            for arena, actor, action, number in (
                (1, "x", "exclude votes", back + 1),
                (1, "x", "retire", kept),
                (other.arena, "x", "exclude votes", kept),
                (other.arena, "x", "restore votes", kept),
            ):
                connection.execute(
                    "INSERT INTO audit (arena, actor, action, detail) "
                    "VALUES (%s, %s, %s, jsonb_build_object('exclusion', %s::int))",
                    (arena, actor, action, number),
                )
        async with pool.connection() as connection:
            found = await read_exclusion_details(connection, 1)
    with connect(database) as connection:
        rows = connection.execute("SELECT at FROM audit WHERE actor = 'operator:Grace'").fetchall()
    assert list(found[kept].sessions) == [3, 5]
    assert (found[kept].among, found[kept].made_by) == (2, "operator:Ada")
    assert (found[kept].restored_by, found[kept].restored_at) == (None, None)
    assert found[back].sessions == (1, 2, 3, 4, 5), "the one with three votes first, and five at most"
    assert (found[back].among, found[back].made_by) == (7, "token:ci")
    assert [(found[back].restored_at,)] == rows
    assert found[back].restored_by == "operator:Grace"
    assert set(found) == {kept, back}


def test_few_votes_point_at_nobody(database):
    arena = voted(database, votes=1)
    assert asked(database, lambda pool: list_flagged_groups(pool, arena)) == []


def in_step(url, mark="CASE WHEN d.serial % 5 = 1 THEN 2 END"):
    """Give every session the same times: a vote every four seconds, two minutes after the session before."""
    with connect(url) as connection:
        allow_rewriting(connection)
        connection.execute(
            "WITH timed AS (SELECT arena, source, serial, timestamptz '2026-01-01' + session * interval '2 minutes' "
            "+ row_number() OVER (PARTITION BY session ORDER BY serial) * interval '4 s' AS at FROM matchups), "
            "moved AS (UPDATE matchups m SET served_at = t.at - interval '3 s' FROM timed t "
            "WHERE (m.arena, m.source, m.serial) = (t.arena, t.source, t.serial)) "
            f"UPDATE endings d SET at = t.at, mark = {mark} FROM timed t "
            "WHERE (d.arena, d.source, d.serial) = (t.arena, t.source, t.serial)"
        )


@pytest.mark.slow
def test_times_and_marks_of_the_log_are_what_is_tested(database):
    arena = voted(database, votes=60)
    in_step(database)
    groups = {group.key: group for group in asked(database, lambda pool: list_flagged_groups(pool, arena))}
    step = groups["in-step-1"]
    assert (step.test, step.sessions) == (VoterTest.IN_STEP, (1, 2, 3, 4, 5))
    assert {flag.session for flag in groups["regular"].flags} == {1, 2, 3, 4, 5}
    assert groups["regular"].flags[0].counted.seconds == pytest.approx(3.0)
    (hasty,) = groups["hasty"].flags
    assert (hasty.counted.found, hasty.counted.among) == (12, 12)
    assert asked(database, lambda pool: find_flagged_group(pool, arena, "in-step-1")) == step
    with pytest.raises(NotFound, match="no longer found"):
        asked(database, lambda pool: find_flagged_group(pool, arena, "in-step-2"))

    async def leave_out(pool):
        await exclude(pool, arena.name, VoteSelection(sessions=step.sessions), "in step", actor="a")
        return await list_flagged_groups(pool, arena)

    assert asked(database, leave_out) == []


async def test_matchups_fetched_ahead_and_never_shown_are_skips(database):
    """The attack: pairs with the target are chosen by asking ahead again and again, and no skip is ever recorded."""
    arena, voter = await make_arena(database, 4, 4), Voter(1)
    async with open_pool(database, most=2) as pool, voting_queue_of(database, arena) as queue:
        for _ in range(5):
            offered = await queue.next_matchup(voter, ahead=True)
        await queue.vote(voter, offered.matchup, Kind.TIE)
        async with pool.connection() as connection:
            found = await read_latest_matchups(connection, arena.arena, after=0)
    assert found.shown.voted.tolist() == [False, False, False, True]


@pytest.mark.slow(but="3")
@pytest.mark.parametrize("mark", ["3", "NULL"])
def test_votes_of_flagged_sessions_wait_for_the_operator(database, mark):
    """The attack: one invitation, whose votes count at once, was enough for eight ranks in a small arena."""
    arena = voted(database, votes=60, settings=ArenaSettings(ageing_hours=24))

    def admitted():
        with connect(database) as connection:
            connection.execute("UPDATE raters SET horizon = (SELECT max(position) FROM events)")
        return admit_waiting_votes(database)

    in_step(database, mark)
    assert [admitted(), admitted()] == [0, 0]
    with connect(database) as connection:
        rows = connection.execute("SELECT exclusion, reason, restored FROM exclusions").fetchall()
    ((exclusion, reason, restored),) = rows
    assert (reason, restored) == (FLAGGED_REASON, None)
    record = asked(database, lambda pool: voter_record(pool, arena, 1))
    assert record.excluded == record.total == 12
    # Whoever was let in is not held again.
    asked(database, lambda pool: restore(pool, arena.name, exclusion, actor="Ada"))
    assert [admitted(), admitted()] == [60 if mark == "3" else 0, 0]
    assert asked(database, lambda pool: voter_record(pool, arena, 1)).excluded == 0


def test_in_small_arenas_voters_are_tested_every_minute_and_the_overview_says_who_is_held(database):
    """The attack: votes of ten invitations count at once, and held eight ranks until the next ten minutes were full."""
    arena = voted(database, votes=60, settings=ArenaSettings(ageing_hours=24))
    in_step(database, "NULL")

    def held():
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        return asked(database, lambda pool: read_arena_overview(pool, arena, moment))["held"]

    for minute in (21, 22):
        admit_waiting_votes(database, datetime(2026, 1, 1, 12, minute, tzinfo=UTC))
        assert held() == 60, minute


@pytest.mark.slow(but=("6.5-0.2-12", "5.5-0.2-0"))
@pytest.mark.parametrize(
    ("deviations", "expected", "excluded"), [(6.5, 0.2, 12), (5.5, 0.2, 0), (9.0, 1.0, 0)]
)
def test_a_group_is_excluded_where_hardly_anybody_in_it_can_be_honest(
    database, monkeypatch, deviations, expected, excluded
):
    """Votes that count already: of a group that is less sure only those that wait are held."""
    arena = voted(database, votes=60, settings=ArenaSettings(ageing_hours=24))
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE endings SET mark = NULL")
    group = FlaggedGroup(
        "together-1-for", VoterTest.TOGETHER, (1, 2, 3, 4, 5), deviations=deviations, expected=expected
    )

    async def found(pool, arena):
        return [group]

    monkeypatch.setattr(voters, "list_flagged_groups", found)
    assert admit_waiting_votes(database) == 0
    records = [
        asked(database, lambda pool, one=one: voter_record(pool, arena, one)) for one in group.sessions
    ]
    assert [record.excluded for record in records] == [excluded] * 5


def test_skips_are_read_beside_votes_and_votes_that_do_not_count_rate_nobody(database):
    arena = voted(database, votes=60)
    in_step(database)

    async def latest(pool):
        async with pool.connection() as connection:
            return await read_latest_matchups(connection, arena.arena, after=0)

    found = asked(database, latest)
    assert len(found.shown.session) == 60
    assert int(found.shown.hasty.sum()) == 12
    assert len(found.votes.session) <= 48
    assert not set(found.votes.session.tolist()) & set(found.shown.session[found.shown.hasty].tolist())
