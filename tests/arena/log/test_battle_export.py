"""Battles go out: final ones only, in log order, under pseudonyms, and they rate as the board does."""

import asyncio
import itertools
import tracemalloc
from datetime import timedelta

import numpy as np
import pytest

import tiltyard
from support.live_arenas import made_arena, new_voting_queue
from support.postgres_servers import fresh_database
from support.voted_arenas import cast, close_window, lay_votes, voted
from tiltyard.arena.log.battle_export import export_battles, open_export
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    exclude,
    restore,
)
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption, NotFound
from tiltyard.files.battle_source import open_battles
from tiltyard.postgres.connections import connect, open_pool

KEYS = SecretKeys(["k" * 40])
CONTAINERS = ("jsonl", "csv", "parquet")


def exported(url, path, container="jsonl", arena=1, **options):
    """The battles of an export, read back from its file."""
    export = open_export(url, arena, **options)
    file = path / f"battles.{container}"
    file.write_bytes(b"".join(export_battles(url, KEYS, export, container)))
    return list(open_battles(file).battles())


def in_pool(url, change):
    async def scene():
        async with open_pool(url, most=2) as pool:
            return await change(pool)

    return asyncio.run(scene())


@pytest.fixture(scope="module")
def prepared(server, template):
    """A database with votes, to be copied, and its arena."""
    with fresh_database(server, template) as url:
        arena = voted(url, votes=60)
        yield url.rpartition("/")[2], arena


@pytest.fixture
def database(server, template, request):
    """A fresh one, or a copy with votes for tests that ask for the ``arena``."""
    name = request.getfixturevalue("prepared")[0] if "arena" in request.fixturenames else template
    with fresh_database(server, name) as url:
        yield url


@pytest.fixture
def arena(prepared):
    return prepared[1]


def test_every_container_holds_the_same_battles_in_log_order(database, tmp_path, arena):
    files = [exported(database, tmp_path, container, release="r") for container in CONTAINERS]
    assert len(files[0]) == 60
    positions = [battle.position for battle in files[0]]
    assert positions == sorted(positions)
    for battles in files:
        rows = [battle.to_dict() for battle in battles]
        for row in rows:
            row["propensity"] = float(row["propensity"])
            row |= {name: str(row[name]).lower() == "true" for name in ("blind", "imported")}
        assert rows == [battle.to_dict() for battle in files[0]]
    first = files[0][0]
    assert (first.source, first.dimension, first.label, first.judge_model) == (
        "human", "overall", None, None,
    )  # fmt: skip
    assert first.extra["lane"] in {"coverage", "contender", "uncertainty", "exploration"}
    assert 0 < first.extra["propensity"] <= 1
    assert first.question_id.startswith("prompt-")


def test_the_file_says_what_the_log_says(database, tmp_path, arena):
    with connect(database) as connection:
        log = connection.execute(
            "SELECT e.position, e.at, e.outcome, a.name, b.name, p.name FROM events e "
            "JOIN models a ON a.model = e.a JOIN models b ON b.model = e.b JOIN prompts p USING (prompt) "
            "WHERE e.kind = 1 ORDER BY e.position"
        ).fetchall()
    battles = exported(database, tmp_path)
    assert [(b.position, b.time, b.kind, b.model_a, b.model_b, b.question_id) for b in battles] == log


def test_voters_have_one_name_in_a_release_and_another_in_the_next(database, tmp_path, arena):
    one, same, other, fresh = (
        [battle.voter for battle in exported(database, tmp_path, release=release)]
        for release in ("one", "one", "two", None)
    )
    assert one == same
    assert len(set(one)) == 5
    assert not set(one) & set(other)
    assert not set(one) & set(fresh)
    assert all(len(voter) > 10 and not voter.isdigit() for voter in one)


async def test_votes_that_can_be_taken_back_or_were_are_not_in_it(database, tmp_path):
    async with new_voting_queue(database) as queue:
        await cast(queue, 4)
        offered = await queue.next_matchup(Voter(9))
        await queue.vote(Voter(9), offered.matchup, Kind.WIN_A)
        await queue.undo(Voter(9), offered.matchup)
        recast = await queue.next_matchup(Voter(10))
        await queue.vote(Voter(10), recast.matchup, Kind.WIN_A)
        await queue.undo(Voter(10), recast.matchup)
        await queue.vote(Voter(10), recast.matchup, Kind.WIN_B, ballot=1)
        close_window(database)
        await cast(queue, 3, reveal=False)
    rows = exported(database, tmp_path)
    assert len(rows) == 5
    assert rows[-1].winner == "model_b"
    with pytest.raises(BadOption, match="final"):
        exported(database, tmp_path, upto=10_000)
    close_window(database)
    assert len(exported(database, tmp_path)) == 8
    with pytest.raises(NotFound):
        open_export(database, 65)


def test_excluded_votes_are_out_as_of_their_exclusion_until_they_are_restored(database, tmp_path, arena):
    before = exported(database, tmp_path, release="r")
    excluded = in_pool(
        database, lambda pool: exclude(pool, "arena", VoteSelection(sessions=[2]), "a bot", actor="cli")
    )
    assert excluded.votes == 12
    close_window(database)
    without = exported(database, tmp_path, release="r")
    assert len(without) == 48
    gone = {battle.voter for battle in before} - {battle.voter for battle in without}
    assert gone == {KEYS.pseudonym("r", 2)}
    upto = excluded.position - 1
    assert exported(database, tmp_path, release="r", upto=upto) == before
    in_pool(database, lambda pool: restore(pool, "arena", excluded.exclusion, actor="cli"))
    assert len(exported(database, tmp_path, upto=excluded.position)) == 48
    close_window(database)
    assert exported(database, tmp_path, release="r") == before


KINDS_OF_JUDGES = (Kind.LEAN_A, Kind.INCONSISTENT, Kind.TIE, Kind.LEAN_B_FLAGGED)


async def test_judges_have_their_own_battles(database, tmp_path):
    detail = {"judge_model": "judge-1", "pref": 0.5}
    async with new_voting_queue(database) as queue:
        await cast(queue, 5)
        for kind in KINDS_OF_JUDGES:
            offered = await queue.next_matchup(Voter(7, 1))
            await queue.vote(Voter(7, 1), offered.matchup, kind, reveal=True, detail=detail)
    close_window(database)
    judged = exported(database, tmp_path, source=1)
    assert [(b.kind, b.source, b.judge_model, b.pref) for b in judged] == [
        (kind, "llm-judge", "judge-1", 0.5) for kind in KINDS_OF_JUDGES
    ]
    assert len(exported(database, tmp_path, source=0)) == 5
    assert len(exported(database, tmp_path)) == 9
    assert [b.both_bad for b in judged] == [False, False, False, True]
    assert {b.both_bad for b in exported(database, tmp_path, source=0)} == {None}


@pytest.mark.slow
def test_rating_the_file_gives_the_boards_cross_check(database, tmp_path):
    made_arena(database, 5, 12)
    lay_votes(database, 1, 3000, 5, 12)
    in_pool(
        database, lambda pool: exclude(pool, "arena", VoteSelection(sessions=[3, 4]), "bots", actor="cli")
    )
    close_window(database)
    standing = folded(database)
    batch = batch_ratings(standing)
    for container in CONTAINERS:
        file = tmp_path / f"battles.{container}"
        export = open_export(database, 1)
        file.write_bytes(b"".join(export_battles(database, KEYS, export, container)))
        table = tiltyard.read_table(str(file))
        place = [table.models.index(name) for name in standing.models]
        np.testing.assert_allclose(BradleyTerry()(table).rating[place], batch.rating, atol=1e-6)
        np.testing.assert_allclose(BradleyTerry()(table).interval.low[place], batch.interval.low, atol=1e-6)


def folded(url):
    """The standing that a board is made of."""
    with connect(url) as connection:
        columns = read_columns(connection, 1, 0)
        dropped = {serial for (serial,) in connection.execute("SELECT serial FROM excluded_votes").fetchall()}
        models = [name for (name,) in connection.execute("SELECT name FROM models ORDER BY model").fetchall()]
        prompts = [
            name for (name,) in connection.execute("SELECT name FROM prompts ORDER BY prompt").fetchall()
        ]
    standing = Standing(method_from_dict(columns.details[1])[0], models, prompts)
    standing.fold(columns.events(0, dropped))
    assert dropped
    return standing


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
def test_memory_does_not_grow_with_200_000_battles(database, container):
    made_arena(database, 4, 20)
    lay_votes(database, 1, 200_000, 4, 20)
    check_memory(database, container, 200_000, most=60e6)


def check_memory(url, container, battles, *, most):
    export = open_export(url, 1)
    tracemalloc.start()
    size = longest = 0
    for piece in export_battles(url, KEYS, export, container):
        size += len(piece)
        longest = max(longest, len(piece))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{container}: {battles} battles, {size / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB")
    assert peak < most
    assert longest < 5e6


def test_an_arena_without_votes_exports_a_readable_file(database, tmp_path):
    made_arena(database, 2, 2)
    for container in CONTAINERS:
        pieces = b"".join(export_battles(database, KEYS, open_export(database, 1), container))
        if container != "jsonl":
            (tmp_path / f"none.{container}").write_bytes(pieces)
            assert list(open_battles(tmp_path / f"none.{container}").battles()) == []


def test_time_is_that_of_the_vote(database, tmp_path, arena):
    battles = exported(database, tmp_path)
    assert battles[-1].time - battles[0].time < timedelta(minutes=5)
    assert all(one.time <= other.time for one, other in itertools.pairwise(battles))
