"""Exclusions: a preview has the numbers of rating twice from the battles, and times hold to the microsecond."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.live_arenas import make_arena, voting_queue_of
from support.pool_work import asked
from support.rewritten_logs import allow_rewriting
from support.voted_arenas import cast, lay_votes, voted
from tiltyard.arena.log.event_log import LogKind, append_batch
from tiltyard.arena.log.rosters import Roster
from tiltyard.arena.log.votes import VoteTally, read_names, read_votes
from tiltyard.arena.operators import exclusions
from tiltyard.arena.operators.exclusions import (
    ExclusionPreview,
    VoteSelection,
    compute_effects,
    draft_exclusion,
    exclude,
    preview_exclusion,
    restore,
    settle_exclusion,
    subtract_tally,
)
from tiltyard.core.battles import Battle, Kind, Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import connect, open_pool

WINNERS = {0: "model_a", 1: "model_b", 2: "tie", 3: "both_bad"}


def naive(url, arena, leave_out=()):
    """Ratings and ranks by name, from one battle after another."""
    with connect(url) as connection:
        names = read_names(connection, arena.arena)
        head = connection.execute("SELECT max(position) FROM events WHERE arena = %s", (arena.arena,))
        votes = list(read_votes(connection, arena.arena, upto=head.fetchone()[0], source=0))
    kept = [vote for vote in votes if vote.session not in leave_out]
    table = Table.from_battles(
        Battle(
            model_a=names.models[vote.a],
            model_b=names.models[vote.b],
            winner=WINNERS[vote.outcome],
            question_id=names.prompts[vote.prompt][0],
        )
        for vote in kept
    )
    ratings = BradleyTerry()(table)
    rated = {
        name: rating
        for name, rating in zip(ratings.models, ratings.rating.tolist(), strict=True)
        if rating == rating
    }
    order = sorted(rated, key=lambda name: -rated[name])
    return len(kept), rated, {name: k + 1 for k, name in enumerate(order)}


def preview(url, arena, session):
    return asked(url, lambda pool: preview_exclusion(pool, arena, VoteSelection(sessions=[session]), 0))


@pytest.mark.slow(but="1")
@pytest.mark.parametrize("session", [1, 3])
def test_a_preview_equals_a_naive_recomputation(database, session):
    arena = voted(database, votes=150, models=5, prompts=4)
    found = preview(database, arena, session)
    all_votes, now, rank_now = naive(database, arena)
    left, then, rank_then = naive(database, arena, {session})
    assert (found.among, found.votes) == (all_votes, all_votes - left)
    assert {one.model for one in found.effects} == set(now)
    for one in found.effects:
        assert one.rating == pytest.approx(now[one.model], abs=1e-6)
        assert one.rating_without == pytest.approx(then[one.model], abs=1e-6)
        assert (one.rank, one.rank_without) == (rank_now[one.model], rank_then[one.model])
        assert one.climbs == one.rank - one.rank_without
        assert one.gains == pytest.approx(one.rating_without - one.rating)
    assert [one.rank for one in found.effects] == sorted(one.rank for one in found.effects)
    assert found.moved == sum(one.rank != one.rank_without for one in found.effects)


def test_what_was_previewed_is_what_happens_and_it_can_be_taken_back(database):
    arena = voted(database, votes=80, models=4, prompts=4)
    found = preview(database, arena, 2)
    made = asked(
        database, lambda pool: exclude(pool, arena.name, VoteSelection(sessions=[2]), "a bot", actor="a")
    )
    assert made.votes == found.votes
    _, then, _ = naive(database, arena)
    assert {one.model: one.rating_without for one in found.effects} == pytest.approx(then, abs=1e-6)
    with pytest.raises(NotFound, match="votes that count"):
        preview(database, arena, 2)
    other = preview(database, arena, 3)
    assert other.among == found.among - found.votes
    asked(database, lambda pool: restore(pool, arena.name, made.exclusion, actor="a"))
    again = preview(database, arena, 2)
    assert again.effects == found.effects


def test_without_its_only_voter_an_arena_has_no_order_left(database):
    arena = voted(database, votes=40, models=3, prompts=2)
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE matchups SET session = 1")
    found = preview(database, arena, 1)
    assert found.votes == found.among == 40
    assert {one.rank_without for one in found.effects} == {None}
    assert all(one.moves and one.climbs is None and one.gains is None for one in found.effects)
    with pytest.raises(NotFound):
        preview(database, arena, 99)


def test_looking_writes_nothing(database):
    arena = voted(database, votes=20)
    count = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM exclusions), (SELECT count(*) FROM audit)"
    with connect(database) as connection:
        before = connection.execute(count).fetchone()
        preview(database, arena, 1)
        assert connection.execute(count).fetchone() == before


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.sampled_from(sorted(Kind)), st.booleans()
    ),
    max_size=60,
)


def tally(rows):
    counted = {}
    for a, b, prompt, kind, _ in rows:
        counted[a, b, prompt, kind] = counted.get((a, b, prompt, kind), 0) + 1
    columns = np.array([(*key, counted[key]) for key in sorted(counted)], dtype=np.int64).reshape(-1, 5).T
    return VoteTally(*columns)


def listed(one):
    return list(
        zip(*(column.tolist() for column in (one.a, one.b, one.prompt, one.kind, one.count)), strict=True)
    )


@given(ROWS)
def test_what_is_left_is_what_the_others_cast(rows):
    whole, own = tally(rows), tally([row for row in rows if row[4]])
    assert listed(subtract_tally(whole, own)) == listed(tally([row for row in rows if not row[4]]))


def test_places_are_compared_within_the_largest_group_only():
    """Without the one vote between them, two groups have a first place each."""
    link = (2, 3, 0, Kind.TIE, True)
    rows = [(a, b, 0, Kind.TIE, False) for a, b in ((0, 1), (1, 2), (3, 4))] + [link]
    found = compute_effects(tally(rows), tally([link]), Roster(("a", "b", "c", "d", "e"), ("p",)))
    known = {one.model: one for one in found}
    assert all(one.rank is not None and one.rating is not None for one in found)
    for name in "abc":
        assert known[name].rank_without in {1, 2, 3}
        assert not known[name].apart
    for name in "de":
        assert (known[name].rank_without, known[name].rating_without, known[name].apart) == (None, None, True)
    preview = ExclusionPreview(1, 0, 1, 4, 9, BradleyTerry(), found)
    assert preview.apart == 2


def test_names_do_not_matter():
    rows = [(0, 1, 0, 0, False), (1, 2, 0, 0, False), (2, 0, 1, 1, True), (1, 0, 1, 0, True)]
    plain = compute_effects(tally(rows), tally(rows[2:]), Roster(("a", "b", "c"), ("p", "q")))
    other = compute_effects(tally(rows), tally(rows[2:]), Roster(("<b>", "\u202e", "zz"), ("q", "<p>")))
    assert Counter((one.rank, one.rank_without) for one in plain) == Counter(
        (one.rank, one.rank_without) for one in other
    )


@pytest.mark.slow
def test_a_large_arena_is_previewed_in_seconds(database):
    arena = voted(database, votes=1, models=100, prompts=20)
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("TRUNCATE matchups, endings; DELETE FROM events WHERE kind IN (0, 1, 9)")
    lay_votes(database, arena.arena, 300_000, 100, 20)
    found = preview(database, arena, 7)
    assert found.among == 300_000
    assert len(found.effects) == 100


VOTES = 6
START, SECOND, INSTANT = (
    datetime(2026, 3, 1, 12, tzinfo=UTC),
    timedelta(seconds=1),
    timedelta(microseconds=1),
)
THIRD = START + 3 * SECOND


async def six_votes(url, queue):
    """The first is cast at the start, each of the others a second later."""
    await cast(queue, VOTES, voters=1)
    with connect(url) as connection:
        allow_rewriting(connection)
        for table in ("events", "endings"):
            connection.execute(
                f"UPDATE {table} AS t SET at = %(start)s + (v.k - 1) * interval '1 second' "
                f"FROM (SELECT position, row_number() OVER (ORDER BY position) AS k FROM {table} WHERE kind = 1) v "
                "WHERE t.position = v.position",
                {"start": START},
            )


SELECTED = (
    (VoteSelection(until=THIRD), [0, 1, 2]),
    (VoteSelection(until=THIRD + INSTANT), [0, 1, 2, 3]),
    (VoteSelection(since=THIRD), [3, 4, 5]),
    (VoteSelection(since=THIRD + INSTANT), [4, 5]),
    (VoteSelection(since=START + SECOND, until=THIRD), [1, 2]),
)


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "meanwhile"])
async def test_a_vote_of_the_very_moment_is_in_since_and_out_of_until(database, meanwhile):
    """Votes that are there when they are chosen, or that come ``meanwhile``."""
    arena = await make_arena(database, 4, 3)
    async with (
        open_pool(database, most=2) as pool,
        pool.connection() as connection,
        voting_queue_of(database, arena) as queue,
    ):
        if not meanwhile:
            await six_votes(database, queue)
        drafts = [await draft_exclusion(connection, 1, selection, "a test") for selection, _ in SELECTED]
        if meanwhile:
            assert {draft.votes for draft in drafts} == {0}
            await six_votes(database, queue)
        for draft, (selection, expected) in zip(drafts, SELECTED, strict=True):
            async with append_batch(connection, 1) as batch:
                votes = await settle_exclusion(connection, draft, batch.head + 1, batch.now)
                batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
            found = await connection.execute(
                "SELECT at FROM excluded_votes JOIN endings USING (arena, source, serial) "
                "WHERE exclusion = %s ORDER BY at",
                (draft.exclusion,),
            )
            chosen = [(at - START) // SECOND for (at,) in await found.fetchall()]
            assert (chosen, votes) == (expected, len(expected)), selection


class _Begun:
    """A connection that only begins a transaction."""

    async def execute(self, *_):
        return self


@pytest.mark.parametrize(
    ("heads", "upto"),
    [
        ([1_000, 1_000], 1_000),
        ([1_000, 1_200], 1_200),
        ([1_000, 1_201, 1_201], 1_201),
        ([1_000, 2_000, 2_300, 2_310], 2_310),
        ([0, 1_000, 2_000, 3_000, 4_000, 5_000], 5_000),
    ],
    ids=["quiet", "close enough", "one too many", "twice", "five rounds at most"],
)
def test_a_draft_follows_the_log_before_the_lock_is_taken(monkeypatch, heads, upto):
    """Only what comes after is left for the arena's lock."""
    left = iter(heads)

    async def read_log_head(*_):
        return next(left)

    monkeypatch.setattr(exclusions, "read_log_head", read_log_head)

    async def fetch_one(*_):
        return (1,)

    monkeypatch.setattr(exclusions, "fetch_one", fetch_one)
    draft = asyncio.run(draft_exclusion(_Begun(), 1, VoteSelection(source=0), "a test"))
    assert (draft.upto, list(left)) == (upto, [])
