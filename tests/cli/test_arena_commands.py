"""``tiltyard arena``: move an arena, archive its log, and erase what a voter wrote."""

import re

import pytest

from support.command import run
from support.live_arenas import made_arena
from support.rewritten_logs import allow_rewriting
from support.shown_boards import shown_board
from support.voted_arenas import lay_votes
from tiltyard.arena.log import buckets
from tiltyard.arena.maintenance import arena_moves
from tiltyard.arena.maintenance.arena_moves import DEFAULT_TIMES, MoveTimes
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import connect


@pytest.fixture
def arena(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setattr(buckets, "_CACHE", BoundedCache(100, seconds=0.1))
    monkeypatch.setattr(arena_moves, "DEFAULT_TIMES", MoveTimes(cache_seconds=0.2, grace_seconds=0.2))
    made = made_arena(database, 3, 2)
    lay_votes(database, made.arena, 20, 3, 2)
    return made


def test_a_move_waits_longer_than_a_bucket_is_remembered():
    assert DEFAULT_TIMES.cache_seconds > buckets.BUCKET_CACHE_SECONDS
    assert DEFAULT_TIMES.grace_seconds > buckets.BUCKET_CACHE_SECONDS


def test_an_arena_is_moved_once(database, arena):
    done = run("arena", "move", arena.name).out
    assert "65; votes waited" in done
    assert done.endswith(" events is deleted.\n")
    with connect(database) as connection:
        assert connection.execute("SELECT bucket, moved_from FROM arenas").fetchone() == (65, None)
        assert connection.execute("SELECT count(*) FROM events_b1").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM battles").fetchone() == (20,)
    again = run("arena", "move", arena.name)
    assert again.code != 0
    assert "its own already" in again.err


def test_a_move_that_was_interrupted_after_the_switch_is_finished(database, arena, monkeypatch):
    async def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(arena_moves, "delete_old_copy", stop)
        assert run("arena", "move", arena.name).code == 130
    assert run("arena", "move", arena.name).out.startswith("The old copy of ")
    with connect(database) as connection:
        assert connection.execute("SELECT bucket, moved_from FROM arenas").fetchone() == (65, None)


def test_a_voters_texts_are_erased(database, arena):
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO remarks (arena, source, serial, session, tags, comment) VALUES (1, 0, 0, 7, '{}', 'me')"
        )
    done = run("arena", "erase", arena.name, "--session", "7", "--reason", "a request of 1 May")
    assert done.out == (
        "Erased 1 remarks, 0 notes of complaints, the details of 0 matchups and the texts of 0 live turns.\n"
        "Votes, if there were any, stay as those of nobody.\n"
    )
    again = run("arena", "erase", arena.name, "--session", "7", "--reason", "a request of 1 May")
    assert again.code != 0
    assert "of voter 7" in again.err
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM remarks").fetchone() == (0,)


def test_past_votes_are_imported_once_and_their_voters_erased(arena, tmp_path):
    path = tmp_path / "votes.csv"
    rows = [f"model-0,model-1,{who},prompt-{k % 2},ann" for k, who in enumerate(["left", "right", "left"])]
    path.write_text("\n".join(["model_a,model_b,winner,on,voter", *rows]))
    options = ("--columns", "question_id=on", "--outcomes", "left=a,right=b")
    done = run("arena", "import-votes", arena.name, str(path), *options)
    assert (done.code, done.out) == (0, "Imported 3 of 3 votes.\n")
    again = run("arena", "import-votes", arena.name, str(path), *options)
    assert again.out == "Imported 0 of 3 votes. 3 were there already.\n"
    assert run("arena", "erase", arena.name, "--reason", "a request").code == 2
    nobody = run("arena", "erase", arena.name, "--voter", "nobody here", "--reason", "a request")
    assert nobody.code == 2
    assert "'nobody here'" in nobody.err
    assert not re.search(r"\d{9}", nobody.err)
    missing = run("arena", "import-votes", arena.name, str(tmp_path / "nothing.csv"))
    assert missing.code == 2
    assert run("arena", "erase", "poesm", "--voter", "ann", "--reason", "a request").err.count("'poesm'") == 1
    longer = tmp_path / "longer.csv"
    longer.write_text(path.read_text() + "\nmodel-0,model-1,left,prompt-0,bob")
    doubled = run("arena", "import-votes", arena.name, str(longer), *options)
    assert (doubled.code, doubled.out) == (0, "Imported 4 of 4 votes.\n")
    assert doubled.err.startswith("Warning: 3 votes ")
    erased = run("arena", "erase", arena.name, "--voter", "ann", "--reason", "a request")
    assert "the details of 6 matchups" in erased.out
    path.write_text(path.read_text().replace("right", "DRAW"))
    refused = run("arena", "import-votes", arena.name, str(path), *options)
    assert refused.code == 2
    assert "--outcomes DRAW=" in refused.err
    assert "--skip-invalid" not in refused.err


def test_a_log_is_archived_once_and_again_after_an_erasure(database, arena, tmp_path):
    with connect(database) as connection:
        connection.execute("UPDATE raters SET horizon = (SELECT max(position) FROM events)")
    command = ("arena", "archive", arena.name, "--to", str(tmp_path / "to"), "--home", str(tmp_path / "home"))
    done = run(*command).out
    assert "generation 1, SHA-256 " in done
    assert done.endswith("1 segments were written.\n")
    assert (tmp_path / "home/voters" / f"{arena.name}.parquet").exists()
    assert run(*command).out == "0 segments were written.\n"
    assert run(*command, "--supersede", "erasure").out == "0 segments were replaced.\n"
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("""UPDATE events SET detail = '{"shown": {"a": 3.0, "b": 1.0}}' WHERE kind = 1""")
    assert "generation 2, SHA-256 " in run(*command, "--supersede", "erasure").out


def test_an_archive_of_no_arena_is_refused(database, arena, tmp_path):
    done = run(
        "arena", "archive", "../nobody", "--to", str(tmp_path / "to"), "--home", str(tmp_path / "home")
    )
    assert done.code == 2
    assert "no such arena" in done.err
    assert not (tmp_path / "home").exists()


def test_what_a_phase_changes_is_shown_before_it_is_changed(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    shown_board(
        database, votes=60, names=("org/a", "b\x1b[2J", "c"), phase=1, judged=0, excluded=False, retired=False
    )
    for options, code, phase in ((), 0, 1), (("3",), 1, 1), (("3", "--yes"), 0, 3), (("3",), 0, 3):
        done = run("arena", "phase", "arena", *options)
        assert done.code == code
        ranks = [re.match(r" +(\d+) → (\d+) ", line) for line in done.out.splitlines()]
        assert [int(one[1]) for one in ranks if one] == [1, 2, 3]
        assert sorted(int(one[2]) for one in ranks if one) == [1, 2, 3]
        assert "\x1b" not in done.out
        with connect(database) as connection:
            (now,) = connection.execute(
                "SELECT detail -> 'policy' ->> 'phase' FROM events WHERE kind = 12 ORDER BY position DESC LIMIT 1"
            ).fetchone()
        assert int(now) == phase
