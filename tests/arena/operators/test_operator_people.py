"""Operators: invitations, roles, removal. The installation keeps an owner, and every change says what was before."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from support.bare_arenas import make_arena
from support.served import PASSWORD
from tiltyard.arena.accounts import ALL_RIGHTS, Accounts, OperatorGrants, SessionOrigin
from tiltyard.arena.operators.invitations import InvitationTerms
from tiltyard.arena.operators.operators import (
    ExternalIdentity,
    invite_operator,
    list_operator_invitations,
    list_operators,
    make_password_link,
    remove_operator,
    revoke_operator_invitation,
    set_operator_password,
    set_operator_role,
    sign_in_identity,
)
from tiltyard.errors import BadOption, Conflict, NotAllowed, NotFound
from tiltyard.postgres.connections import connect, open_pool

TERMS = InvitationTerms("Grace, ethics board")
SOMEWHERE = SessionOrigin("192.0.2.7", "A browser")
GRACE = ExternalIdentity("https://id.example.org", "42", "Grace")


@pytest.fixture
def play(database):
    """A pool and accounts; Ada is the owner, and there are two arenas."""
    make_arena(database, "poems")
    make_arena(database, "code")

    @asynccontextmanager
    async def playing():
        async with open_pool(database, most=4) as pool:
            accounts = Accounts(pool)
            if not await accounts.has_operator():
                await accounts.claim(await accounts.make_operator_link(), "Ada", PASSWORD)
            yield pool, accounts

    return playing


async def join(pool, accounts, role="moderator", arena=None, name="Grace"):
    code, _ = await invite_operator(pool, TERMS, role, arena=arena, actor="operator:Ada")
    assert await accounts.claim(code, name, PASSWORD) == name
    return await accounts.sign_in(name, PASSWORD, SOMEWHERE)


def changes(database):
    with connect(database) as connection:
        return connection.execute(
            "SELECT actor, action, a.name, detail FROM audit LEFT JOIN arenas a USING (arena)"
            " WHERE action NOT IN ('sign in', 'create arena') ORDER BY entry"
        ).fetchall()


async def test_an_invitation_makes_an_operator_with_its_role_once(database, play):
    async with play() as (pool, accounts):
        code, made = await invite_operator(pool, TERMS, "moderator", arena="poems", actor="operator:Ada")
        assert (made.invitee, made.role, made.arena) == (TERMS.batch, "moderator", "poems")
        assert (
            await list_operator_invitations(pool) == await list_operator_invitations(pool, "poems") == [made]
        )
        assert await list_operator_invitations(pool, "code") == []
        await accounts.claim(code, "Grace", PASSWORD)
        assert await list_operator_invitations(pool) == []
        with pytest.raises(NotAllowed, match="has been used"):
            await accounts.claim(code, "Eve", PASSWORD)
        token = await accounts.sign_in("Grace", PASSWORD, SOMEWHERE)
        assert (await accounts.signed_in(token)).grants == OperatorGrants(None, {"poems": "moderator"})
        ada, grace = await list_operators(pool)
        assert (ada.name, ada.grants, grace.name, grace.sessions) == ("Ada", ALL_RIGHTS, "Grace", 1)
        assert [one.name for one in await list_operators(pool, "poems")] == ["Ada", "Grace"]
        assert [one.name for one in await list_operators(pool, "code")] == ["Ada"]
    told = [(actor, action, arena, detail["role"]) for actor, action, arena, detail in changes(database)[1:]]
    assert told == [
        ("operator:Ada", "invite operator", "poems", [None, "moderator"]),
        ("operator:Grace", "claim", "poems", [None, "moderator"]),
    ]


async def test_nobody_takes_the_name_of_another_by_an_invitation(play):
    async with play() as (pool, accounts):
        code, _ = await invite_operator(pool, TERMS, "owner", arena=None, actor="operator:Ada")
        with pytest.raises(BadOption, match="choose another name"):
            await accounts.claim(code, "Ada", "another password of mine")
        await accounts.sign_in("Ada", PASSWORD)
        await accounts.claim(code, "Grace", PASSWORD)
        await remove_operator(pool, "Grace", actor="operator:Ada")
        code, _ = await invite_operator(pool, TERMS, "owner", arena=None, actor="operator:Ada")
        for link in (code, await accounts.make_operator_link()):
            with pytest.raises(BadOption, match="choose another name"):
                await accounts.claim(link, "Grace", PASSWORD)


async def test_an_invitation_can_be_revoked_and_expires(database, play):
    async with play() as (pool, accounts):
        code, made = await invite_operator(pool, TERMS, "analyst", arena=None, actor="operator:Ada")
        with pytest.raises(NotFound):
            await revoke_operator_invitation(pool, made.link, arena="poems", actor="operator:Eve")
        await revoke_operator_invitation(pool, made.link, actor="operator:Ada")
        with pytest.raises(NotFound):
            await revoke_operator_invitation(pool, made.link, actor="operator:Ada")
        late, _ = await invite_operator(
            pool, InvitationTerms("late", life=timedelta(days=1)), "analyst", arena=None, actor="operator:Ada"
        )
        with connect(database) as connection:
            connection.execute("UPDATE operator_links SET expires_at = now() WHERE invitee = 'late'")
        for used in (code, late):
            assert await accounts.link_purpose(used) is None
            with pytest.raises(NotAllowed):
                await accounts.claim(used, "Grace", PASSWORD)
        assert [one.name for one in await list_operators(pool)] == ["Ada"]


async def test_an_invitation_that_makes_no_sense_is_refused(play):
    async with play() as (pool, _):
        for role, uses in (("king", 1), ("", 1), ("Owner", 1), ("owner", 2)):
            with pytest.raises(BadOption):
                await invite_operator(pool, InvitationTerms("x", uses), role, arena=None, actor="cli")
        with pytest.raises(NotFound):
            await invite_operator(pool, TERMS, "owner", arena="nowhere", actor="cli")


async def test_a_changed_role_applies_to_sessions_and_tokens_at_once(database, play):
    async with play() as (pool, accounts):
        session = await join(pool, accounts, "analyst", "poems")
        number = (await accounts.signed_in(session)).operator
        token, made = await accounts.make_token("operator:Grace", "ci", ["admin"], operator=number)
        assert made.operator == "Grace"
        for role, arena, grants in (
            ("operator", "poems", OperatorGrants(None, {"poems": "operator"})),
            ("analyst", None, OperatorGrants("analyst", {"poems": "operator"})),
            (None, "poems", OperatorGrants("analyst")),
            (None, "poems", OperatorGrants("analyst")),
            (None, None, OperatorGrants()),
        ):
            await set_operator_role(pool, "Grace", role, arena=arena, actor="operator:Ada")
            assert (await accounts.signed_in(session)).grants == grants
            assert (await accounts.find_token(token)).grants == grants
    changed = [(where, one["role"]) for _, action, where, one in changes(database) if action == "change role"]
    assert changed == [
        ("poems", ["analyst", "operator"]),
        (None, [None, "analyst"]),
        ("poems", ["operator", None]),
        (None, ["analyst", None]),
    ]


async def test_whoever_is_removed_is_out_at_once_with_its_tokens_and_links(database, play):
    async with play() as (pool, accounts):
        session = await join(pool, accounts)
        number = (await accounts.signed_in(session)).operator
        token, _ = await accounts.make_token("operator:Grace", "ci", ["read"], operator=number)
        reset = await make_password_link(pool, "Grace", actor="cli")
        await remove_operator(pool, "Grace", actor="operator:Ada")
        assert await accounts.signed_in(session) is None
        assert await accounts.find_token(token) is None
        assert await accounts.link_purpose(reset) is None
        with pytest.raises(NotAllowed, match="password is wrong"):
            await accounts.sign_in("Grace", PASSWORD)
        for change in (
            remove_operator(pool, "Grace", actor="cli"),
            set_operator_role(pool, "Grace", "owner", arena=None, actor="cli"),
            make_password_link(pool, "Grace", actor="cli"),
            set_operator_password(pool, "Grace", PASSWORD, actor="cli"),
        ):
            with pytest.raises(NotFound, match="tiltyard arena operator list"):
                await change
    # Whoever is out tried to sign in, and that is recorded too.
    *_, (actor, action, _, detail), failed = changes(database)
    assert failed[1] == "sign in failed"
    assert (actor, action) == ("operator:Ada", "remove operator")
    assert detail == {
        "operator": "Grace",
        "roles": [{"installation": "moderator"}, {}],
        "sessions": [1, 0],
        "tokens": [1, 0],
    }


async def test_the_last_owner_of_the_installation_stays_one(database, play):
    async with play() as (pool, accounts):
        await join(pool, accounts, "owner", "poems")
        for change in (
            remove_operator(pool, "Ada", actor="cli"),
            set_operator_role(pool, "Ada", "operator", arena=None, actor="operator:Ada"),
            set_operator_role(pool, "Ada", None, arena=None, actor="operator:Ada"),
        ):
            with pytest.raises(Conflict, match="last owner"):
                await change
        assert (await accounts.signed_in(await accounts.sign_in("Ada", PASSWORD))).grants == ALL_RIGHTS
        await set_operator_role(pool, "Grace", "owner", arena=None, actor="operator:Ada")
        await remove_operator(pool, "Ada", actor="operator:Grace")
    assert [action for _, action, *_ in changes(database)][-2:] == ["change role", "remove operator"]


async def test_of_two_owners_who_remove_each_other_at_once_one_stays(database, play):
    async with play() as (pool, accounts):
        await join(pool, accounts, "owner")
        ended = await asyncio.gather(
            remove_operator(pool, "Ada", actor="operator:Grace"),
            remove_operator(pool, "Grace", actor="operator:Ada"),
            return_exceptions=True,
        )
        assert sorted(type(one).__name__ for one in ended) == ["Conflict", "NoneType"]
        assert await accounts.has_operator()


async def test_a_password_is_set_by_a_link_for_its_operator_only_or_at_once(play):
    async with play() as (pool, accounts):
        session = await join(pool, accounts)
        first = await make_password_link(pool, "Grace", actor="cli")
        link = await make_password_link(pool, "Grace", actor="cli")
        assert await accounts.link_purpose(first) is None
        assert (await accounts.link_purpose(link)).operator == "Grace"
        assert await accounts.claim(link, "Ada", "a new password") == "Grace"
        assert await accounts.signed_in(session) is None
        await accounts.sign_in("Ada", PASSWORD)
        session = await accounts.sign_in("Grace", "a new password")
        with pytest.raises(BadOption, match="12 or more"):
            await set_operator_password(pool, "Grace", "short", actor="cli")
        await set_operator_password(pool, "Grace", PASSWORD, actor="cli")
        assert await accounts.signed_in(session) is None
        await accounts.sign_in("Grace", PASSWORD)


async def test_an_identity_has_the_roles_that_its_groups_grant(database, play):
    async with play() as (pool, accounts):
        roles = {None: "analyst", "poems": "moderator", "nowhere": "owner"}
        session = await sign_in_identity(pool, GRACE, roles, SOMEWHERE)
        found = await accounts.signed_in(session)
        assert (found.name, found.grants) == ("Grace", OperatorGrants("analyst", {"poems": "moderator"}))
        await sign_in_identity(pool, GRACE, {"code": "operator"}, SOMEWHERE)
        assert (await accounts.signed_in(session)).grants == OperatorGrants(None, {"code": "operator"})
        with pytest.raises(NotAllowed, match="your groups"):
            await sign_in_identity(pool, GRACE, {}, SOMEWHERE)
        assert (await accounts.signed_in(session)).grants == OperatorGrants()
        with pytest.raises(NotAllowed, match="password is wrong"):
            await accounts.sign_in("Grace", "")
        with pytest.raises(NotAllowed, match="your groups"):
            await sign_in_identity(pool, ExternalIdentity(GRACE.issuer, "43", "Eve"), {}, SOMEWHERE)
        ada = ExternalIdentity(GRACE.issuer, "44", "Ada")
        await sign_in_identity(pool, ada, {None: "owner"}, SOMEWHERE)
        assert [one.name for one in await list_operators(pool)] == ["Ada", "Ada (2)", "Grace"]


async def test_an_identity_that_was_removed_comes_back_only_with_a_role(play):
    async with play() as (pool, accounts):
        session = await sign_in_identity(pool, GRACE, {None: "owner"}, SOMEWHERE)
        await remove_operator(pool, "Grace", actor="operator:Ada")
        with pytest.raises(NotAllowed):
            await sign_in_identity(pool, GRACE, {}, SOMEWHERE)
        assert [one.name for one in await list_operators(pool)] == ["Ada"]
        await sign_in_identity(pool, GRACE, {None: "owner"}, SOMEWHERE)
        assert await accounts.signed_in(session) is None
