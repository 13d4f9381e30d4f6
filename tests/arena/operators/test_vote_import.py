"""Past votes that are imported: they count as if they had been cast in the arena, once each."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat

import pytest

from support.folded_votes import counts, replayed
from support.live_arenas import made_arena, make_arena, voting_queue_of
from support.pool_work import asked
from support.replayed_logs import replay_log
from support.voted_arenas import cast, close_window, rate, voted
from tiltyard.arena.boards.snapshots import latest_snapshot
from tiltyard.arena.log import bulk_append
from tiltyard.arena.log.event_log import HUMAN, JUDGE
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.log.votes import count_imported, read_bounds, read_names, read_votes
from tiltyard.arena.operators import vote_import
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.operators.vote_import import VoteFile, import_votes, imported_session
from tiltyard.arena.operators.voter_data import erase_session
from tiltyard.arena.operators.voters import list_flagged_groups, list_voter_page
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.policy.state.events import VoteMark
from tiltyard.errors import Conflict, InputError, StoreFault
from tiltyard.files.read_options import ReadOptions
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

KEYS = SecretKeys(["k" * 40])
FIRST = datetime(2024, 5, 1, tzinfo=UTC)
WORDS = ("A", "B", "TIE", "BOTH_BAD")


def vote(k=0, **changed):
    """A row of a file, as an arena of the paper exports it."""
    row = {
        "model_a": "model-0",
        "model_b": "model-1",
        "prompt_id": f"prompt-{k % 6}",
        "outcome": "A",
        "voter": f"somebody-{k % 5}",
        "time": (FIRST + timedelta(minutes=k)).isoformat(),
    }
    return row | changed


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def bring(url, path, name="arena", **options):
    file = VoteFile(path, path.name, ReadOptions(**options))
    return asked(url, lambda pool: import_votes(pool, KEYS, name, file))


def log_of(url, arena):
    with connect(url) as connection:
        return list(read_votes(connection, arena, upto=read_bounds(connection, arena)[1]))


def exported(url, arena, path):
    """The votes of an arena as a file, in their order."""
    with connect(url) as connection:
        names = read_names(connection, arena)
    rows = [
        vote(
            k,
            model_a=names.models[one.a],
            model_b=names.models[one.b],
            prompt_id=names.prompts[one.prompt][0],
            outcome=WORDS[one.outcome],
            voter=str(one.session),
        )
        for k, one in enumerate(log_of(url, arena))
    ]
    return write(path, rows)


def board(url, arena):
    return json.loads(asked(url, lambda pool: read_board(pool, arena)).document)


async def read_board(pool, arena):
    async with pool.connection() as connection:
        return await latest_snapshot(connection, arena, 0)


def test_the_board_equals_that_of_the_same_votes_cast_live(database, tmp_path):
    live = voted(database, votes=120)
    path = exported(database, live.arena, tmp_path / "votes.jsonl")
    other = made_arena(database, name="other")
    assert bring(database, path, "other").added == 120
    rate(database)
    cast, brought = board(database, live.arena), board(database, other.arena)
    assert cast.pop("serving")["widest"] == brought.pop("serving")["widest"]
    different = {name for name in cast if cast[name] != brought[name]}
    assert different == {"arena", "at", "position"}
    assert brought.keys() - cast.keys() == {"imported"}
    assert brought["imported"] == 120
    assert brought["rows"]
    with connect(database) as connection:
        folds = replay_log(connection, other.arena, brought["position"], 0)
    assert folds[0].votes == 120


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tiltyard.arena.log import bulk_append
from tiltyard.arena.operators import vote_import
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.postgres.connections import open_pool

url, path, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
bulk_append._FIRST_ROWS = bulk_append._LEAST_ROWS = bulk_append._MAX_ROWS = 50
add = vote_import._Entering._add

def dying(self, batch, k, serial):
    if k == last:
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, batch, k, serial)

vote_import._Entering._add = dying

file = vote_import.VoteFile(path, path.name)

async def run():
    async with open_pool(url, most=2) as pool:
        await vote_import.import_votes(pool, SecretKeys(["k" * 40]), "arena", file)

asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.parametrize("last", [0, 120, 200])
def test_an_import_that_was_killed_goes_on_and_doubles_nothing(database, tmp_path, last):
    arena = made_arena(database)
    path = write(tmp_path / "votes.jsonl", [vote(k) for k in range(230)])
    died = subprocess.run([sys.executable, "-c", KILLED, database, str(path), str(last)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(log_of(database, arena.arena)) == last // 50 * 50
    assert bring(database, path).added == 230 - last // 50 * 50
    rows = [one.detail["row"] for one in log_of(database, arena.arena)]
    assert rows == list(range(1, 231))
    again = bring(database, path)
    assert (again.votes, again.added) == (230, 0)
    assert len(log_of(database, arena.arena)) == 230


def test_a_fault_of_the_database_neither_ends_an_import_nor_doubles_a_vote(database, tmp_path, monkeypatch):
    arena = made_arena(database)
    path = write(tmp_path / "votes.jsonl", [vote(k) for k in range(30)])
    faults, add = chain([True, False, True], repeat(False)), vote_import._Entering.add

    async def adding(self, batch, most):
        done = await add(self, batch, most)
        if next(faults):
            raise StoreFault("the lock was held for too long")
        return done

    monkeypatch.setattr(bulk_append, "_FIRST_ROWS", 10)
    monkeypatch.setattr(vote_import._Entering, "add", adding)
    assert bring(database, path).added == 30
    assert [one.detail["row"] for one in log_of(database, arena.arena)] == list(range(1, 31))
    monkeypatch.setattr(bulk_append, "_RETRY_LIMIT", 0)
    faults = iter([True])
    with pytest.raises(StoreFault):
        bring(database, write(path, [vote(k, outcome="B") for k in range(30, 32)]))


def test_votes_enter_in_the_order_of_their_times(database, tmp_path):
    arena = made_arena(database)
    path = write(tmp_path / "votes.jsonl", [vote(2), vote(0, outcome="tie"), vote(1, outcome="BOTH_BAD")])
    bring(database, path)
    found = log_of(database, arena.arena)
    assert [one.detail["row"] for one in found] == [2, 3, 1]
    assert [one.outcome for one in found] == [2, 3, 0]
    assert found[0].detail["cast_at"] == FIRST.isoformat()
    assert all(one.imported and one.unrated is None for one in found)


def test_the_same_votes_in_another_file_or_read_otherwise(database, tmp_path):
    made_arena(database)
    rows = [vote(k) for k in range(4)]
    path = write(tmp_path / "votes.jsonl", rows)
    bring(database, path)
    assert bring(database, write(tmp_path / "other.jsonl", [*rows[1:], rows[0]])).added == 0
    with pytest.raises(Conflict):
        bring(database, path, outcomes={"A": "b"})


@pytest.mark.parametrize("timed", [True, False])
def test_votes_of_a_file_that_equal_those_of_another_are_counted(database, tmp_path, timed):
    untimed = {} if timed else {"time": None}
    rows = [vote(k, **untimed) for k in range(30)]
    made_arena(database)
    made_arena(database, name="other")
    assert bring(database, write(tmp_path / "first.jsonl", rows)).repeated == 0
    assert bring(database, tmp_path / "first.jsonl").repeated == 0
    changes = ({"outcome": "B"}, {"voter": "nobody"}, {"model_a": "model-2"}, {"prompt_id": "prompt-0"})
    near = [row | change for row, change in zip(rows[1:5], changes, strict=True)]
    near += [vote(k, time=(FIRST + timedelta(microseconds=1)).isoformat()) for k in range(timed)]
    second = write(tmp_path / "second.jsonl", [*near, *rows[20:]])
    done = bring(database, second)
    assert (done.added, done.repeated) == (len(near) + 10, 10)
    assert bring(database, second, "other").repeated == 0


@pytest.mark.parametrize("served", [False, True])
def test_advice_on_invalid_rows_names_only_what_there_is(database, tmp_path, served):
    made_arena(database)
    path = write(tmp_path / "votes.jsonl", [vote(), vote(1, outcome="DRAW"), vote(2, time="yesterday")])
    with pytest.raises(InputError) as caught:
        asked(database, lambda pool: import_votes(pool, KEYS, "arena", VoteFile(path, "f", text_only=served)))
    assert "DRAW" in str(caught.value)
    assert "skip_invalid" not in str(caught.value)
    assert ("outcomes=" in str(caught.value)) is not served


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"model_b": "nobody"}, Conflict),
        ({"prompt_id": "nothing"}, Conflict),
        ({"model_b": "model-0"}, InputError),
        ({"voter": None}, InputError),
        ({"prompt_id": None}, InputError),
        ({"time": None}, InputError),
        ({"time": "2999-01-01T00:00:00Z"}, InputError),
        ({"outcome": "C"}, InputError),
        ({"judge_model": "a judge"}, InputError),
        ({"weight": 2.0}, InputError),
    ],
)
def test_one_wrong_row_keeps_the_whole_file_out(database, tmp_path, changed, error):
    arena = made_arena(database)
    rows = [vote(k) for k in range(20)]
    rows[11] |= changed
    with pytest.raises(error) as caught:
        bring(database, write(tmp_path / "votes.jsonl", rows))
    assert not log_of(database, arena.arena)
    for name in ("nobody", "nothing"):
        assert (name in str(caught.value)) == (name in changed.values())


@pytest.mark.parametrize("settings", [ArenaSettings(stage="draft"), ArenaSettings(kind="live")])
def test_drafts_and_live_arenas_take_no_past_votes(database, tmp_path, settings):
    made_arena(database, settings=settings)
    with pytest.raises(Conflict):
        bring(database, write(tmp_path / "votes.jsonl", [vote()]))


def test_imported_voters_are_excluded_and_erased_as_others(database, tmp_path):
    arena = made_arena(database)
    bring(database, write(tmp_path / "votes.jsonl", [vote(k) for k in range(20)]))
    one, other = (imported_session(KEYS, arena.arena, f"somebody-{k}") for k in range(2))
    assert imported_session(KEYS, arena.arena + 1, "somebody-0") != one
    rate(database)
    selection = VoteSelection(sessions=[one])
    made = asked(database, lambda pool: exclude(pool, "arena", selection, "a bot", actor="a"))
    asked(database, lambda pool: erase_session(pool, "arena", other, reason="asked", actor="a"))
    rate(database)
    assert made.votes == 4
    found = log_of(database, arena.arena)
    assert {one, other}.isdisjoint(vote.session for vote in found)
    assert len(found) == 16
    assert sum(vote.detail is None for vote in found) == 4
    snapshot = asked(database, lambda pool: read_board(pool, arena.arena))
    assert (snapshot.votes, json.loads(snapshot.document)["imported"]) == (16, 16)
    assert imported_upto(database, arena.arena, 2**40) == 16


def imported_upto(url, arena, position):
    with connect(url) as connection:
        assert count_imported(connection, arena, JUDGE, upto=position) == 0
        return count_imported(connection, arena, HUMAN, upto=position)


def test_imported_votes_are_counted_at_every_position(database, tmp_path, monkeypatch):
    monkeypatch.setattr(bulk_append, "_MAX_ROWS", 3)
    monkeypatch.setattr(bulk_append, "_FIRST_ROWS", 3)
    arena = made_arena(database)
    bring(database, write(tmp_path / "votes.jsonl", [vote(k) for k in range(7)]))
    positions = [one.position for one in log_of(database, arena.arena)]
    for position in range(positions[0] - 3, positions[-1] + 3):
        expected = sum(one <= position for one in positions)
        assert imported_upto(database, arena.arena, position) == expected
    with connect(database) as connection:
        columns = read_columns(connection, arena.arena, 0)
    assert columns.imported(0) == 7
    dropped = columns.serial[columns.mark == VoteMark.IMPORTED][:2].tolist()
    assert columns.imported(dropped=dropped) == 5
    assert columns.imported(int(datetime.now(UTC).timestamp()) + 60) == 0
    assert not asked(database, lambda pool: list_flagged_groups(pool, arena))
    listed, _ = asked(database, lambda pool: list_voter_page(pool, arena))
    assert {one.median_seconds for one in listed} == {None}


@pytest.mark.slow
async def test_people_vote_beside_an_import(database, tmp_path):
    arena = await make_arena(database, settings=ArenaSettings(undo_seconds=0.0))
    path = write(tmp_path / "votes.jsonl", [vote(k) for k in range(7000)])
    async with voting_queue_of(database, arena) as queue, open_pool(database, most=2) as pool:
        async with asyncio.TaskGroup() as tasks:
            brought = tasks.create_task(import_votes(pool, KEYS, "arena", VoteFile(path, "votes")))
            tasks.create_task(cast(queue, 40))
        assert brought.result().added == 7000
        await cast(queue, 5, seed=1)
        await queue.open_matchups(Voter(1))
        here = counts(queue.state.standings[0])
    close_window(database, arena.arena)
    assert here == counts(replayed(database, arena.arena, 0)[0].standing)
    assert sum(vote.imported for vote in log_of(database, arena.arena)) == 7000
