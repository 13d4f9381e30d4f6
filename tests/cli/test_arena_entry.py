"""``tiltyard arena``: who may come in; links, batches, passcodes, and what the operator reads of them."""

import re

import pytest

from support.bare_arenas import make_arena
from support.command import run
from support.invited import expire
from tiltyard.postgres.connections import connect

URL = ("--base-url", "https://arena.example.org")


@pytest.fixture
def arena(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    make_arena(database, "poems")
    return "poems"


def invited(*options):
    done = run("arena", "invite", "poems", *URL, *options)
    assert done.code == 0, done.err
    return done


def test_a_link_is_printed_once_and_listed_without_its_code(database, arena):
    run("arena", "entry", arena, "invitation")
    made = invited("--batch", "pilot team", "--uses", "20", "--expires", "14d")
    assert re.fullmatch(r"https://arena\.example\.org/join/0-[\w-]{32}\n", made.out)
    assert re.fullmatch(r"Invitation 1 lets in 20 people until 20\d\d-\d\d-\d\d \d\d:\d\d UTC\.\n", made.err)
    listed = run("arena", "invitations", arena).out
    assert re.fullmatch(
        r"   1  pilot team  0 of 20 came in  valid until 20\d\d-\d\d-\d\d \d\d:\d\d\n", listed
    )
    assert made.out.rpartition("/")[2].strip() not in listed


def test_links_are_for_one_person_unless_it_is_said_otherwise(database, arena):
    assert "lets in 1 person" in invited("--batch", "Ada").err
    with connect(database) as connection:
        kept = connection.execute("SELECT uses_allowed, expires_at - created_at FROM invitations").fetchone()
    assert (kept[0], kept[1].days) == (1, 14)


def test_the_shard_begins_the_code(arena, monkeypatch):
    monkeypatch.setenv("TILTYARD_SHARD", "7")
    assert "/join/7-" in invited("--batch", "Ada").out


def test_an_open_arena_is_said_to_be_open(arena):
    told = invited("--batch", "Ada").err
    assert "Everybody may come" in told
    assert "entry poems invitation" in told
    said = run("arena", "entry", arena, "invitation").out
    assert said.startswith("Only people with an invitation link may come in to the arena poems.")
    assert "Everybody" not in invited("--batch", "Ada").err


def test_a_closed_arena_is_said_to_be_closed(database, arena):
    with connect(database) as connection:
        connection.execute("""UPDATE arenas SET settings = '{"visibility": "closed"}'""")
    assert "before its visibility" in invited("--batch", "Ada").err
    assert "is closed" in run("arena", "entry", arena, "passcode").out


def test_states_of_invitations(database, arena):
    for batch in ("gone", "late", "used", "left"):
        invited("--batch", batch)
    expire(database, 2)
    with connect(database) as connection:
        connection.execute("UPDATE invitations SET uses = 1 WHERE invitation = 3")
    revoked = run("arena", "revoke-invitation", arena, "1")
    assert revoked.out.startswith("Invitation 1 (gone) is revoked; 0 people came in by it.")
    run("arena", "passcode", arena)
    lines = run("arena", "invitations", arena).out.splitlines()
    assert "in  revoked 20" in lines[0]
    assert "in  expired 20" in lines[1]
    assert lines[2].endswith("used  1 of 1 came in  used up")
    assert "valid until 20" in lines[3]
    assert lines[4].endswith("passcode  0 came in  valid until replaced or revoked")


def test_a_passcode_is_random_or_chosen(database, arena):
    first = run("arena", "passcode", arena)
    assert re.fullmatch(r"[a-z2-9]{5}-[a-z2-9]{4}-[a-z2-9]{5}\n", first.out)
    chosen = run("arena", "passcode", arena, "--choose", stdin=b"a good one\n")
    assert chosen.code == 0, chosen.err
    assert "a good one" not in chosen.out
    short = run("arena", "passcode", arena, "--choose", stdin=b"short\n")
    assert short.code == 2
    assert "expected 8 to 200" in short.err


def test_times_that_are_none(arena):
    for wrong in ("", "d", "14", "14w", "-1d", "1.5d", "٣d", "0d", "9999999d", "9000d"):
        done = run("arena", "invite", arena, "--batch", "x", "--expires", wrong)
        assert (done.code, "expire" in done.err) == (2, True), wrong
    assert run("arena", "invitations", arena).out == ""


def test_what_is_not_there(arena):
    assert "no such arena" in run("arena", "invite", "none", "--batch", "x").err
    assert "no such arena" in run("arena", "invitations", "none").err
    assert "has no invitation 9" in run("arena", "revoke-invitation", arena, "9").err
    wrong = run("arena", "entry", arena, "friends")
    assert wrong.code == 2
    assert "friends" in wrong.err


def test_batches_are_escaped_in_the_terminal(database, arena):
    invited("--batch", "team")
    with connect(database) as connection:
        connection.execute("UPDATE invitations SET batch = E'\\x1b[2Jteam'")
    assert "\x1b" not in run("arena", "invitations", arena).out


def test_people_sign_in_and_groups_may_decide(database, arena):
    said = run("arena", "entry", arena, "sign-in", "--group", "judges", "--group", "quality team")
    assert said.out.startswith(
        "Only people who sign in may come in to the arena poems, members of judges, quality team."
    )
    with connect(database) as connection:
        kept = connection.execute("SELECT settings->>'entry_groups' FROM arenas").fetchone()
    assert kept == ("judges, quality team",)
    assert "members of" not in run("arena", "entry", arena, "sign-in").out
    for wrong in (
        ("passcode", "--group", "judges"),
        ("sign-in", "--group", "a,b"),
        ("sign-in", "--group", " "),
    ):
        refused = run("arena", "entry", arena, *wrong)
        assert refused.code == 2, wrong
        assert "--group" in refused.err
