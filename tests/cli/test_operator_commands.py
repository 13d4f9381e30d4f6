"""``tiltyard arena operator``: invitations, roles, removal, passwords and sign-out from the command line."""

import asyncio
import re

import pytest

from support.bare_arenas import make_arena
from support.command import run
from support.served import PASSWORD, make_operator
from tiltyard.arena.accounts import Accounts
from tiltyard.errors import NotAllowed
from tiltyard.postgres.connections import connect, open_pool

URL = ("--base-url", "https://arena.example.org")


@pytest.fixture
def owner(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    make_arena(database, "poems")
    make_operator(database)


def done(*words, **given):
    ended = run("arena", "operator", *words, **given)
    assert ended.code == 0, ended.err
    return ended


def refused(*words, **given):
    ended = run("arena", "operator", *words, **given)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    return ended.err


def with_accounts(database, scene):
    async def running():
        async with open_pool(database, most=1) as pool:
            return await scene(Accounts(pool))

    return asyncio.run(running())


def join(database, name="Grace", role="moderator"):
    link = done("invite", role, "--for", name, "--arena", "poems", *URL).out.strip()
    with_accounts(database, lambda accounts: accounts.claim(link.rpartition("/")[2], name, PASSWORD))


def sign_in(database, password=PASSWORD, name="Grace"):
    return with_accounts(database, lambda accounts: accounts.sign_in(name, password))


def test_an_invitation_is_printed_once_listed_and_revoked(database, owner):
    made = done("invite", "analyst", "--for", "Grace\x1b[31m"[:5], "--expires", "2d", *URL)
    assert re.fullmatch(r"https://arena\.example\.org/claim/[\w-]{43}\n", made.out)
    assert re.fullmatch(r"Invitation 2 works once, until 20\d\d-\d\d-\d\d \d\d:\d\d UTC\.\n", made.err)
    done("invite", "owner", "--for", "Eve", "--arena", "poems", *URL)
    listed = done("list").out.splitlines()
    assert listed[0].startswith("Ada  owner  no second factor  ")
    assert re.fullmatch(r"invitation 2  Grace  analyst  valid until [\d-]+ [\d:]+", listed[1])
    assert listed[2].startswith("invitation 3  Eve  owner in poems  ")
    assert made.out.rpartition("/")[2].strip() not in done("list").out
    assert done("revoke-invitation", "2").out == "Invitation 2 is revoked.\n"
    assert "no invitation 2" in refused("revoke-invitation", "2")
    assert "role is 'king'" in refused("invite", "king", "--for", "x")
    assert "no such arena" in refused("invite", "owner", "--for", "x", "--arena", "nowhere")
    assert "invited person" in refused("invite", "owner", "--for", "")
    assert "--expires is 'soon'" in refused("invite", "owner", "--for", "x", "--expires", "soon")


def test_roles_are_given_and_taken(database, owner):
    join(database)
    assert "Grace  moderator in" in done("list").out
    assert done("role", "Grace", "analyst").out == "Grace has the role analyst for the installation.\n"
    assert done("role", "Grace", "none", "--arena", "poems").out == "Grace has no role in the arena poems.\n"
    assert "Grace  analyst  no" in done("list").out
    assert "last owner" in refused("role", "Ada", "analyst")
    assert "last owner" in refused("remove", "Ada")
    for words in (
        ("role", "Eve", "owner"),
        ("remove", "Eve"),
        ("sign-out", "Eve"),
        ("reset-password", "Eve"),
    ):
        assert "operator: 'Eve'" in refused(*words)
    assert done("remove", "Grace").out.startswith("Grace is removed")
    assert "Grace" not in done("list").out


def test_a_password_is_set_by_a_link_or_from_standard_input(database, owner):
    join(database)
    link = done("reset-password", "Grace", *URL).out.strip()
    assert re.fullmatch(r"https://arena\.example\.org/claim/[\w-]{43}", link)
    with_accounts(database, lambda accounts: accounts.claim(link.rpartition("/")[2], "", "a second password"))
    sign_in(database, "a second password")
    assert "is set" in done("reset-password", "Grace", "--choose", stdin=b"a third password\n").out
    sign_in(database, "a third password")
    with pytest.raises(NotAllowed):
        sign_in(database, "a second password")
    told = refused("reset-password", "Grace", "--choose", stdin=b"short\n")
    assert "12 or more" in told
    assert "short" not in told


def test_somebody_is_signed_out_everywhere_and_loses_the_second_factor(database, owner):
    join(database)
    for _ in range(2):
        sign_in(database)
    assert done("sign-out", "Grace").out == "Grace is signed out of 2 sessions.\n"
    assert done("sign-out", "Grace").out == "Grace is signed out of 0 sessions.\n"
    with connect(database) as connection:
        connection.execute("UPDATE operators SET totp_since = now() WHERE name = 'Grace'")
    assert "poems  second factor" in done("list").out
    assert "is off" in done("reset-second-factor", "Grace").out
    assert "poems  no second" in done("list").out
