"""The board of one's own votes: from final votes alone, of this voter alone, and no surer than they allow."""

import asyncio
import json
from contextlib import asynccontextmanager

import numpy as np
import pytest

from live_arenas import desk_of, make_arena
from tiltyard.arena import asking
from tiltyard.arena.asking import Voter
from tiltyard.arena.boards import Boards
from tiltyard.arena.changes import exclude
from tiltyard.arena.personal import PersonalBoards
from tiltyard.battles import Kind
from tiltyard.board.own_votes import OWN_METHOD, Agreement, Cast, agreement, agrees, own_board
from tiltyard.errors import Closed
from tiltyard.settings.arena import ArenaSettings
from tiltyard.store.connecting import connect, open_pool
from tiltyard.store.exclusions import Selection
from voted_arenas import cast as cast_votes
from voted_arenas import close_window, rate


@asynccontextmanager
async def personal_boards(url):
    async with open_pool(url, most=3) as pool:
        boards = Boards(url, pool)
        await boards.start()
        try:
            yield PersonalBoards(pool, boards), await boards.arena("arena")
        finally:
            await boards.stop()


def personal(url, session, source=0):
    async def scene():
        async with personal_boards(url) as (boards, arena):
            return await boards.of(arena, Voter(session, source))

    return asyncio.run(scene())


def names_in(found):
    return {name for vote in found.recent for name in (vote.model_a, vote.model_b)} | {
        row.model for row in (found.board.rows if found.board else ())
    }


def scene_of(url, scene, **options):
    """Run something at the desk of a new arena."""

    async def running():
        arena = await make_arena(url, 6, 8, **options)
        async with desk_of(url, arena) as desk:
            return await scene(desk)

    return asyncio.run(running())


async def one_vote(desk, voter, kind=Kind.WIN_A, **options):
    offered = await desk.next_matchup(voter)
    await desk.vote(voter, offered.matchup, kind, **options)
    return offered.matchup


def let_time_pass(url, seconds):
    with connect(url) as connection:
        connection.execute("UPDATE endings SET at = at - make_interval(secs => %s)", (seconds,))


def test_a_vote_that_can_be_taken_back_tells_no_name_until_it_is_final(database):
    voter = Voter(1)

    async def scene(desk):
        return [await one_vote(desk, voter) for _ in range(3)]

    matchups = scene_of(database, scene)
    found = personal(database, 1)
    assert (found.totals.votes, found.totals.pending) == (0, 3)
    assert names_in(found) == set()
    assert found.board is None
    assert sum(found.outcomes.values()) == found.agreement.decisive == 0

    async def revealing():
        async with personal_boards(database) as (_, arena), desk_of(database, arena) as desk:
            shown = await desk.reveal(voter, matchups[1])
            await desk.undo(voter, matchups[2])
            return shown

    shown = asyncio.run(revealing())
    found = personal(database, 1)
    assert (found.totals.votes, found.totals.pending) == (1, 1)
    assert names_in(found) == {shown.model_a, shown.model_b}
    assert [vote.matchup for vote in found.recent] == [matchups[1]]
    let_time_pass(database, 71)
    found = personal(database, 1)
    assert (found.totals.votes, found.totals.pending) == (2, 0)
    assert [vote.matchup for vote in found.recent] == [matchups[1], matchups[0]]


def test_names_are_told_from_the_moment_on_when_nothing_can_be_said_of_the_vote_any_more(
    database, monkeypatch
):
    """By the database's clock, and however early the vote is rated."""
    monkeypatch.setattr(asking, "AFTERTHOUGHT", 40.0)
    settings = ArenaSettings(undo_seconds=300.0)
    matchup = scene_of(database, lambda desk: one_vote(desk, Voter(1)), settings=settings)
    close_window(database)

    async def say(comment):
        async with personal_boards(database) as (_, arena), desk_of(database, arena) as desk:
            await desk.remark(Voter(1), matchup, [], comment)

    asyncio.run(say("soon"))
    let_time_pass(database, 330)
    asyncio.run(say("before the names"))
    found = personal(database, 1)
    assert (found.totals.votes, found.totals.pending, names_in(found)) == (0, 1, set())
    let_time_pass(database, 11)
    with pytest.raises(Closed, match="can be by now"):
        asyncio.run(say("after the names"))
    found = personal(database, 1)
    assert (found.totals.votes, found.totals.pending, len(names_in(found))) == (1, 0, 2)
    with connect(database) as connection:
        assert connection.execute("SELECT comment FROM remarks").fetchall() == [("before the names",)]


def test_an_open_matchup_a_skip_and_an_undone_vote_are_not_votes(database):
    voter = Voter(1)

    async def scene(desk):
        await desk.undo(voter, await one_vote(desk, voter))
        offered = await desk.next_matchup(voter)
        await desk.skip(voter, offered.matchup)
        await desk.next_matchup(voter)

    scene_of(database, scene)
    close_window(database)
    found = personal(database, 1)
    assert (found.totals.votes, found.totals.pending, found.totals.skipped) == (0, 0, 1)
    assert names_in(found) == set()


def test_only_ones_own_votes_count(database):
    async def scene(desk):
        await cast_votes(desk, 60, voters=3)
        await cast_votes(desk, 9, voters=1, source=1)

    scene_of(database, scene)
    for session in (1, 2, 3):
        found = personal(database, session)
        with connect(database) as connection:
            rows = connection.execute(
                "SELECT outcome FROM battles WHERE source = 0 AND session = %s ORDER BY position", (session,)
            ).fetchall()
        assert found.totals.votes == len(rows) == 20
        kinds = [kind for (kind,) in rows]
        assert list(found.outcomes.values()) == [kinds.count(kind) for kind in range(4)]
        assert len(found.recent) == 20
    assert personal(database, 1, source=1).totals.votes == 9
    assert personal(database, 99).totals.votes == 0


def test_agreement_is_counted_on_the_arenas_order(database):
    async def scene(desk):
        await cast_votes(desk, 80, voters=2)

    scene_of(database, scene)
    before = personal(database, 1)
    assert before.agreement == Agreement(0, 0)
    assert before.agreement.share is None
    assert all(vote.agrees is None for vote in before.recent)
    close_window(database)
    rate(database)
    found = personal(database, 1)
    with connect(database) as connection:
        (document,) = connection.execute("SELECT document FROM snapshots WHERE source = 0").fetchone()
        rows = connection.execute(
            "SELECT a, b, outcome FROM battles WHERE session = 1 ORDER BY position"
        ).fetchall()
    rank = {row["model"]: row["rank"] for row in json.loads(document)["rows"]}
    decisive = [(rank[f"model-{a}"], rank[f"model-{b}"], kind) for a, b, kind in rows if kind < 2]
    agreed = sum((a < b) == (kind == 0) for a, b, kind in decisive)
    assert found.agreement == Agreement(agreed, len(decisive))
    assert found.agreement.share == agreed / len(decisive)
    last = [
        (rank[f"model-{a}"] < rank[f"model-{b}"]) == (kind == 0) if kind < 2 else None for a, b, kind in rows
    ]
    assert [vote.agrees for vote in found.recent] == last[:-31:-1]


def test_votes_that_an_operator_excluded_are_still_the_voters_own(database):
    async def scene(desk):
        await cast_votes(desk, 20, voters=1)

    scene_of(database, scene)
    before = personal(database, 1)

    async def excluding():
        async with open_pool(database, most=1) as pool:
            await exclude(pool, "arena", Selection(sessions=[1]), "a bot", actor="cli")

    asyncio.run(excluding())
    after = personal(database, 1)
    assert (after.totals, after.outcomes, after.recent) == (before.totals, before.outcomes, before.recent)


def test_a_board_is_made_again_only_after_a_vote(database):
    voter = Voter(1)

    async def scene():
        arena = await make_arena(database, 4, 6)
        async with desk_of(database, arena) as desk, personal_boards(database) as (boards, known):
            await cast_votes(desk, 12, voters=1)
            one, two = await boards.of(known, voter), await boards.of(known, voter)
            assert one.board is two.board
            await one_vote(desk, voter, reveal=True)
            assert (await boards.of(known, voter)).board is not one.board

    asyncio.run(scene())


def test_only_so_many_boards_are_kept(database, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.personal._KEPT", 1)

    async def scene():
        arena = await make_arena(database, 4, 6)
        async with desk_of(database, arena) as desk, personal_boards(database) as (boards, known):
            await cast_votes(desk, 12, voters=2)
            one, two = await boards.of(known, Voter(1)), await boards.of(known, Voter(2))
            assert list(boards._made) == [(known.arena, Voter(2))]
            again = await boards.of(known, Voter(1))
            assert again.board == one.board
            assert again.board != two.board

    asyncio.run(scene())


def test_the_board_of_own_votes_solves_its_equations():
    """An independent check: at the best ratings, score had less score expected is the pull of the prior."""
    rng = np.random.default_rng(3)
    truth = dict(zip("abcde", (0.0, 0.5, 1.0, 1.5, 2.0), strict=True))
    cast = []
    for _ in range(300):
        a, b = rng.choice(list(truth), 2, replace=False)
        kind = (
            Kind.TIE
            if rng.random() < 0.1
            else Kind(int(rng.random() > 1 / (1 + np.exp(truth[b] - truth[a]))))
        )
        cast.append(Cast(str(a), str(b), f"p{rng.integers(40)}", kind))
    cast += [Cast("a", "b", "p0", Kind.BOTH_BAD, 5)]
    board = own_board(cast)
    rating = {row.model: row.rating for row in board.rows}
    unit = 400 / np.log(10)
    for name in truth:
        pull = (rating[name] - 1500) / unit / (OWN_METHOD.prior_sd / unit) ** 2
        gap = 0.0
        for one in cast:
            if name in (one.model_a, one.model_b) and one.kind is not Kind.BOTH_BAD:
                other = one.model_b if name == one.model_a else one.model_a
                had = {Kind.TIE: 0.5, Kind.WIN_A: 1.0, Kind.WIN_B: 0.0}[one.kind]
                had = had if name == one.model_a else 1 - had
                gap += had - 1 / (1 + 10 ** ((rating[other] - rating[name]) / 400))
        assert gap == pytest.approx(pull, abs=1e-6)
    assert [row.rank for row in board.rows] == [1, 2, 3, 4, 5]
    assert all(row.low is not None and row.low < row.rating < row.high for row in board.rows)


def test_few_votes_make_an_order_and_no_interval():
    board = own_board([Cast("a", "b", "p", Kind.WIN_A), Cast("b", "c", "q", Kind.WIN_A)])
    assert [row.model for row in board.rows] == ["a", "b", "c"]
    assert all(row.low is row.high is row.rank_low is row.tier is None for row in board.rows)
    assert any(finding.name == "few-battles" for finding in board.findings)


def test_a_prior_connects_nobody_who_never_met():
    board = own_board([Cast("a", "b", "p", Kind.WIN_A, 3), Cast("c", "d", "p", Kind.WIN_B)])
    assert {row.model: row.group for row in board.rows} == {"a": 0, "b": 0, "c": 1, "d": 1}
    assert any(finding.name == "disconnected" for finding in board.findings)


@pytest.mark.parametrize("cast", [[], [Cast("a", "b", "p", Kind.BOTH_BAD, 4)]])
def test_without_a_vote_that_rates_there_is_no_board(cast):
    assert own_board(cast) is None


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        (Kind.WIN_A, True), (Kind.LEAN_A, True), (Kind.WIN_B, False), (Kind.LEAN_B, False),
        (Kind.TIE, None), (Kind.INCONSISTENT, None), (Kind.BOTH_BAD, None),
    ],
)  # fmt: skip
def test_a_vote_agrees_if_it_goes_to_the_higher_rank(kind, same):
    rank = {"a": 1, "b": 2}
    assert agrees(Cast("a", "b", "p", kind), rank) is same
    assert agrees(Cast("b", "a", "p", kind), rank) is (None if same is None else not same)
    assert agrees(Cast("a", "c", "p", kind), rank) is None
    assert agrees(Cast("c", "a", "p", kind), rank) is None
    assert agreement([Cast("a", "b", "p", kind, 4)], rank) == Agreement(
        4 if same else 0, 0 if same is None else 4
    )
