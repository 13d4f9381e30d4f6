"""``tiltyard arena``: import past votes, and erase what a voter wrote."""

import re

import pytest

from support.command import run
from support.live_arenas import made_arena
from support.shown_boards import shown_board
from support.voted_arenas import lay_votes
from tiltyard.postgres.connections import connect


@pytest.fixture
def arena(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    made = made_arena(database, 3, 2)
    lay_votes(database, made.arena, 20, 3, 2)
    return made


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
