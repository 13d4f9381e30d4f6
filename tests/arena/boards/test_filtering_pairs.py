"""What is counted for the charts of a board: pairs, the way the rules went, and what earlier boards said."""

import asyncio
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.live_arenas import make_arena
from support.shown_boards import NAMES, shown_board
from support.voted_arenas import boards_of, lay_votes
from tiltyard.arena.boards.filtered_boards import VoteSubset, pair_results
from tiltyard.arena.log.battle_export import export_battles, open_export
from tiltyard.arena.log.buckets import shared_bucket
from tiltyard.arena.log.votes import VoteTally, limit_statement_time, read_pairs, read_tally
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import Kind
from tiltyard.errors import NotFound
from tiltyard.files.battle_source import open_battles
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.postgres.statements import bucket_statement

KEYS = SecretKeys(["k" * 40])


@pytest.fixture(scope="module")
def voted_database(server, template):
    from support.postgres_servers import fresh_database

    with fresh_database(server, template) as url:
        shown_board(url, votes=1100)
        yield url


async def test_pairs_are_those_of_the_exported_battles(voted_database, tmp_path):
    async with boards_of(voted_database) as (boards, arena):
        newest = await boards.latest(arena.arena, 0)
        whole = await boards.pairs(arena, VoteSubset(0), 7)
        law = await boards.pairs(arena, VoteSubset(0, "law", "de"), 7)
        counted = await boards.pairs(arena, VoteSubset(0, excluded="counted"), 7)
    position = newest.position
    shown = [row["model"] for row in json.loads(newest.document)["rows"][:7]]
    assert whole.models == law.models == shown
    file = tmp_path / "battles.jsonl"
    export = open_export(voted_database, 1, source=0, upto=position)
    file.write_bytes(b"".join(export_battles(voted_database, KEYS, export, "jsonl")))
    battles = [b for b in open_battles(file).battles() if {b.model_a, b.model_b} <= set(shown)]
    check_pairs(whole.pairs, battles)
    check_pairs(law.pairs, [b for b in battles if (b.category, b.language) == ("law", "de")])
    assert sum(pair["battles"] for pair in counted.pairs) > sum(pair["battles"] for pair in whole.pairs)
    places = [(shown.index(pair["model_a"]), shown.index(pair["model_b"])) for pair in whole.pairs]
    assert places == sorted(places)
    assert all(a < b for a, b in places)


def check_pairs(pairs, battles):
    rated, points, bad = Counter(), Counter(), Counter()
    for one in battles:
        pair = frozenset({one.model_a, one.model_b})
        bad[pair] += one.kind == Kind.BOTH_BAD
        if one.kind != Kind.BOTH_BAD:
            rated[pair] += 1
            points[pair, one.model_a] += {Kind.WIN_A: 1.0, Kind.WIN_B: 0.0, Kind.TIE: 0.5}[one.kind]
            points[pair, one.model_b] += {Kind.WIN_A: 0.0, Kind.WIN_B: 1.0, Kind.TIE: 0.5}[one.kind]
    assert len(pairs) == len({pair for pair in [*rated, *bad] if rated[pair] or bad[pair]})
    for pair in pairs:
        key = frozenset({pair["model_a"], pair["model_b"]})
        assert (pair["battles"], pair["both_bad"]) == (rated[key], bad[key])
        expected = points[key, pair["model_a"]] / rated[key] if rated[key] else None
        assert pair["score"] == (None if expected is None else pytest.approx(expected))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(list(Kind)), st.integers(1, 5)))
)
def test_turning_every_battle_round_changes_no_pair(rows):
    rows = [row for row in rows if row[0] != row[1]]
    turned = {
        Kind.WIN_A: Kind.WIN_B, Kind.WIN_B: Kind.WIN_A, Kind.LEAN_A: Kind.LEAN_B, Kind.LEAN_B: Kind.LEAN_A,
    }  # fmt: skip
    turned |= {kind.with_flag: other.with_flag for kind, other in turned.items()}
    other = [(b, a, turned.get(kind, kind), count) for a, b, kind, count in rows]
    assert pair_results(tally(rows), "wxyz", [2, 0, 1]) == pair_results(tally(other), "wxyz", [2, 0, 1])
    found = pair_results(tally(rows), "wxyz", [2, 0, 1])
    assert all("z" not in (pair["model_a"], pair["model_b"]) for pair in found)


def tally(rows):
    a, b, kind, count = (np.array([int(row[k]) for row in rows], dtype=np.int64) for k in range(4))
    return VoteTally(a, b, np.zeros(len(rows), dtype=np.int64), kind, count)


async def test_history_tells_what_the_boards_said_then(voted_database):
    async with boards_of(voted_database) as (boards, arena):
        newest = await boards.latest(arena.arena, 0)
        told = await boards.history(arena, 0, 3)
    with connect(voted_database) as connection:
        kept = connection.execute(
            "SELECT document FROM snapshots WHERE arena = 1 AND source = 0 AND (evaluated OR sha256 = %s) "
            "ORDER BY generation, position",
            (bytes.fromhex(newest.sha256),),
        ).fetchall()
    assert len(kept) > 2
    first = [row["model"] for row in json.loads(newest.document)["rows"][:3]]
    assert told.models == first
    expected = []
    for (document,) in kept:
        rows = {row["model"]: row for row in json.loads(document)["rows"]}
        expected += [(json.loads(document)["at"], model, rows[model]["bradley_terry"]) for model in first]
    found = [(one.at, one.model, one.value) for one in told.points]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [one.at for one in told.points] == sorted(one.at for one in told.points)


async def test_history_is_thinned_and_keeps_the_newest(voted_database):
    from tiltyard.arena.boards.snapshots import read_scores

    async with boards_of(voted_database) as (boards, arena):
        newest = await boards.latest(arena.arena, 0)
        async with boards._pool.connection() as connection:
            few = await read_scores(connection, newest, NAMES[:1], most=2)
    assert 1 <= len(few) <= 2
    assert few[-1].at == json.loads(newest.document)["at"]


async def test_what_was_asked_of_one_snapshot_is_never_that_of_another(voted_database):
    async with boards_of(voted_database) as (boards, arena):
        newest = await boards.latest(arena.arena, 0)
        with connect(voted_database) as connection:
            row = connection.execute(
                "SELECT encode(sha256, 'hex') FROM snapshots WHERE arena = 1 AND source = 0 AND position < %s "
                "ORDER BY position LIMIT 1",
                (newest.position,),
            ).fetchone()
        older = await boards.published(arena.arena, row[0])
        first = await boards.pairs(arena, VoteSubset(0), 40, older)
        now = await boards.pairs(arena, VoteSubset(0), 40)
        again = await boards.pairs(arena, VoteSubset(0), 40, older)
        same = await boards.pairs(arena, VoteSubset(0), 40, newest)
        assert first is again
        assert now is same
        assert first.snapshot == older.sha256 != now.snapshot
        assert await boards.published(arena.arena, newest.sha256) is newest
        for nobody in ("0" * 64, "no hash"):
            with pytest.raises(NotFound, match="no such board"):
                await boards.published(arena.arena, nobody)


async def test_the_same_question_is_counted_once_for_everybody(voted_database):
    counted = []
    async with boards_of(voted_database) as (boards, arena):
        make = boards._filter

        async def counting(*given):
            counted.append(given)
            return await make(*given)

        boards._filter = counting
        asked = [boards.filtered(arena, VoteSubset(0, "law")) for _ in range(30)]
        assert len({one.sha256 for one in await asyncio.gather(*asked)}) == 1
    assert len(counted) == 1


def test_two_are_counted_at_once_and_no_more(voted_database):
    running, most = 0, 0

    async def scene():
        nonlocal running, most
        async with boards_of(voted_database) as (boards, arena):
            newest = await boards.latest(arena.arena, 0)

            async def slow(k):
                nonlocal running, most
                running += 1
                most = max(most, running)
                await asyncio.sleep(0.02)
                running -= 1
                return k

            asked = [boards._documents((k,), newest, lambda k=k: slow(k)) for k in range(8)]
            assert await asyncio.gather(*asked) == list(range(8))

    asyncio.run(scene())
    assert most == 2


@pytest.mark.parametrize("named", ["battles_tally", "battles_pairs"])
async def test_votes_that_nobody_has_analysed_yet_are_joined_by_hash(database, named):
    arena = await make_arena(database, 5, 4)
    with connect(database) as connection:
        parts = connection.execute(
            "SELECT relid::regclass::text FROM unnest(ARRAY['matchups', 'endings']) AS whole, "
            "LATERAL pg_partition_tree(whole::regclass) WHERE isleaf"
        ).fetchall()
        for (part,) in parts:
            connection.execute(f"ALTER TABLE {part} SET (autovacuum_enabled = false)")
    lay_votes(database, arena.arena, 3000, 5, 4)
    values = {
        "arena": 1,
        "source": 0,
        "upto": 10**6,
        "counted": False,
        "unrated": False,
        "prompts": None,
        "model": None,
        "models": [0, 1],
        "spoken": None,
        "lane": None,
    }

    async def planned(connection):
        rows = await connection.execute(f"EXPLAIN {bucket_statement(named, shared_bucket(1))}", values)
        return "\n".join(line for (line,) in await rows.fetchall())

    async with open_pool(database, most=1) as pool, pool.connection() as connection:
        before = await planned(connection)
        async with limit_statement_time(connection, 20.0):
            tally = await (
                read_tally(connection, 1, 0, upto=10**6)
                if named == "battles_tally"
                else read_pairs(connection, 1, 0, upto=10**6, models=range(5))
            )
            assert tally.count.sum() == 3000
            within = await planned(connection)
        assert await planned(connection) == before
    assert "Nested Loop" in before
    assert "Nested Loop" not in within
