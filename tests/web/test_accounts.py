"""Accounts: secrets are kept as hashes, links work once, what is revoked is worth nothing."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest
from argon2 import PasswordHasher

from support.served import PASSWORD
from tiltyard.arena import accounts
from tiltyard.arena.accounts import (
    ALL_RIGHTS,
    Accounts,
    RevokedSessions,
    new_session_number,
    write_audit_entry,
)
from tiltyard.errors import BadOption, NotAllowed, NotFound, StoreFault
from tiltyard.postgres.connections import connect, open_pool


def with_accounts(database, scene):
    async def running():
        async with open_pool(database, most=4) as pool:
            return await scene(Accounts(pool))

    return asyncio.run(running())


def everything_in(database):
    """Every row of every table, as text."""
    with connect(database) as connection:
        names = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        ).fetchall()
        return "\n".join(
            str(row)
            for (name,) in names
            for row in connection.execute(f"SELECT to_jsonb(t)::text FROM {name} t")
        )


def test_numbers_of_sessions_have_63_random_bits_and_leave_the_small_ones():
    found = [new_session_number() for _ in range(2000)]
    assert len(set(found)) == len(found)
    assert min(found) >= 2**32
    assert max(found) < 2**63
    for bit in range(63):
        assert 850 <= sum(one >> bit & 1 for one in found) <= 1150, bit


def test_a_session_has_a_row_once_it_is_revoked(database):
    year = timedelta(days=365)

    async def scene(accounts):
        one, other = new_session_number(), new_session_number()
        assert await accounts.revoked_sessions(year) == frozenset()
        await accounts.revoke_session("operator:Ada", one)
        await accounts.revoke_session("operator:Ada", one)
        await accounts.revoke_session("operator:Ada", other)
        assert await accounts.revoked_sessions(year) == {one, other}
        with connect(database) as connection:
            connection.execute(
                "UPDATE sessions SET revoked_at = now() - interval '366 days' WHERE session = %s", (one,)
            )
        assert await accounts.revoked_sessions(year) == {other}

    with_accounts(database, scene)
    with connect(database) as connection:
        rows = connection.execute("SELECT source, name FROM sessions").fetchall()
        noted = connection.execute("SELECT count(*) FROM audit WHERE action = 'revoke session'").fetchone()
    assert rows == [(0, None)] * 2
    assert noted == (3,)


@pytest.mark.parametrize(("session", "error"), [(0, BadOption), (2**63, BadOption), (7, NotFound)])
def test_a_number_that_no_session_has_is_not_revoked(database, session, error):
    async def scene(accounts):
        with pytest.raises(error, match="session"):
            await accounts.revoke_session("cli", session)

    with_accounts(database, scene)
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (0,)


def test_revoked_sessions_are_read_once_for_all_and_again_after_seconds(monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("tiltyard.foundation.caches.time", clock)
    monkeypatch.setattr("tiltyard.arena.accounts.time", clock)
    reads = []

    class Known:
        async def revoked_sessions(self, within):
            reads.append(within)
            await asyncio.sleep(0)
            return frozenset({5})

    async def scene():
        nonlocal now
        revoked = RevokedSessions(Known(), timedelta(days=1))
        assert await asyncio.gather(*(revoked.has(one) for one in (4, 5, 6))) == [False, True, False]
        now += 4.875
        assert await revoked.has(5)
        assert len(reads) == 1
        now += 0.125
        assert await revoked.has(5)
        assert len(reads) == 2
        revoked.forget()
        assert await revoked.has(5)
        assert reads == [timedelta(days=1)] * 3

    now = 1_000.0
    asyncio.run(scene())


def test_what_cannot_be_read_is_not_taken_for_valid():
    class Gone:
        async def revoked_sessions(self, _):
            raise StoreFault("gone")

    async def scene():
        revoked = RevokedSessions(Gone(), timedelta(days=1))
        for _ in range(2):
            with pytest.raises(StoreFault):
                await revoked.has(5)

    asyncio.run(scene())


def test_no_secret_is_kept_as_it_is(database):
    async def scene(accounts):
        link = await accounts.make_operator_link()
        await accounts.claim(link, "Ada", PASSWORD)
        signed = await accounts.sign_in("Ada", PASSWORD)
        token, _ = await accounts.make_token("cli", "ci", ["read"])
        return link, PASSWORD, signed, token

    secrets = with_accounts(database, scene)
    kept = everything_in(database)
    assert "ci" in kept
    assert not [secret for secret in secrets if secret in kept]


def test_a_link_works_once(database):
    async def scene(accounts):
        assert not await accounts.has_operator()
        link = await accounts.make_operator_link()
        assert await accounts.link_purpose(link) is not None
        await accounts.claim(link, "Ada", PASSWORD)
        assert await accounts.has_operator()
        assert await accounts.link_purpose(link) is None
        with pytest.raises(NotAllowed, match="has been used"):
            await accounts.claim(link, "Eve", PASSWORD)
        with pytest.raises(NotAllowed, match="has been used"):
            await accounts.claim("no link", "Eve", PASSWORD)
        assert (await accounts.signed_in(await accounts.sign_in("Ada", PASSWORD))).name == "Ada"

    with_accounts(database, scene)


def test_of_many_that_use_one_link_at_once_one_succeeds(database):
    async def scene(accounts):
        link = await accounts.make_operator_link()
        tried = [accounts.claim(link, f"Ada {k}", PASSWORD) for k in range(4)]
        ended = await asyncio.gather(*tried, return_exceptions=True)
        assert [type(each) for each in ended if isinstance(each, Exception)] == [NotAllowed] * 3

    with_accounts(database, scene)
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM operators").fetchone() == (1,)


def test_a_link_lapses_after_an_hour(database):
    async def scene(accounts):
        return await accounts.make_operator_link()

    link = with_accounts(database, scene)
    with connect(database) as connection:
        (life,) = connection.execute("SELECT expires_at - now() FROM operator_links").fetchone()
        assert timedelta(minutes=59) < life <= timedelta(hours=1)
        connection.execute("UPDATE operator_links SET expires_at = now()")

    async def later(accounts):
        assert await accounts.link_purpose(link) is None
        with pytest.raises(NotAllowed):
            await accounts.claim(link, "Ada", PASSWORD)

    with_accounts(database, later)


def test_a_link_of_the_server_adds_an_owner_or_sets_the_password_of_one_and_ends_its_sessions(database):
    async def scene(accounts):
        await accounts.claim(await accounts.make_operator_link(), "Ada", PASSWORD)
        signed = await accounts.sign_in("Ada", PASSWORD)
        await accounts.claim(await accounts.make_operator_link(), "Grace", PASSWORD)
        assert (await accounts.signed_in(signed)).grants == ALL_RIGHTS
        other = await accounts.sign_in("Grace", PASSWORD)
        await accounts.claim(await accounts.make_operator_link(), "Grace", PASSWORD + "!")
        assert await accounts.signed_in(other) is None
        assert (await accounts.signed_in(signed)).name == "Ada"
        for name, password in (("Eve", PASSWORD), ("Grace", PASSWORD), ("", ""), ("Grace", "x" * 5000)):
            with pytest.raises(NotAllowed, match="password"):
                await accounts.sign_in(name, password)
        signed = await accounts.sign_in("Grace", PASSWORD + "!")
        assert (await accounts.signed_in(signed)).name == "Grace"
        await accounts.sign_out(signed)
        assert await accounts.signed_in(signed) is None

    with_accounts(database, scene)


def test_an_operator_needs_a_name_and_a_long_password(database):
    async def scene(accounts):
        link = await accounts.make_operator_link()
        for name, password in (("Ada", "short"), ("", PASSWORD), (" Ada", PASSWORD), ("A\x07", PASSWORD)):
            with pytest.raises(BadOption) as caught:
                await accounts.claim(link, name, password)
            assert password not in str(caught.value)
            assert await accounts.link_purpose(link) is not None

    with_accounts(database, scene)


def test_a_token_has_its_scopes_until_it_is_revoked_or_lapses(database):
    async def scene(accounts):
        token, made = await accounts.make_token("cli", "ci", ["read", "import", "read"])
        assert made.scopes == ("import", "read")
        assert (await accounts.find_token(token)).token == made
        assert await accounts.find_token(token[:-1]) is None
        brief, _ = await accounts.make_token("cli", "brief", ["admin"], life=timedelta(seconds=0.05))
        await asyncio.sleep(0.1)
        assert await accounts.find_token(brief) is None
        await accounts.revoke_token("cli", made.api_token)
        await accounts.revoke_token("cli", made.api_token)
        assert await accounts.find_token(token) is None
        with pytest.raises(NotFound, match="tiltyard arena token list"):
            await accounts.revoke_token("cli", 999)
        assert [one.name for one in await accounts.list_tokens()] == ["ci", "brief"]

    with_accounts(database, scene)


def test_a_password_is_hashed_anew_when_the_effort_changes(database, monkeypatch):
    async def scene(found):
        await found.claim(await found.make_operator_link(), "Ada", PASSWORD)
        monkeypatch.setattr(accounts, "_hasher", lambda: PasswordHasher(time_cost=2, memory_cost=64))
        await found.sign_in("Ada", PASSWORD)
        await found.sign_in("Ada", PASSWORD)

    with_accounts(database, scene)
    with connect(database) as connection:
        (kept,) = connection.execute("SELECT password_argon2 FROM operators").fetchone()
    assert kept.startswith("$argon2id$")
    assert ",t=2," in kept


def test_a_judges_token_always_votes_in_the_same_session(database):
    async def scene(accounts):
        _, one = await accounts.make_token("cli", "judge", ["judge"])
        _, two = await accounts.make_token("cli", "judge", ["judge"])
        sessions = await asyncio.gather(*(accounts.judge_session(one) for _ in range(4)))
        assert len(set(sessions)) == 1
        assert await accounts.judge_session(two) != sessions[0]
        await accounts.revoke_session("cli", sessions[0])
        assert await accounts.revoked_sessions(timedelta(days=1)) == frozenset(), "a judge has no cookie"
        with pytest.raises(NotAllowed, match="revoked"):
            await accounts.judge_session(one)

    with_accounts(database, scene)


def test_what_is_done_to_accounts_is_in_the_audit(database):
    async def scene(accounts):
        await accounts.claim(await accounts.make_operator_link(), "Ada", PASSWORD)
        _, made = await accounts.make_token("operator:Ada", "ci", ["read"])
        await accounts.revoke_token("operator:Ada", made.api_token)

    with_accounts(database, scene)
    with connect(database) as connection:
        rows = connection.execute("SELECT actor, action FROM audit ORDER BY entry").fetchall()
    assert rows == [
        ("operator:Ada", "claim"),
        ("operator:Ada", "make token"),
        ("operator:Ada", "revoke token"),
    ]


def test_the_audit_is_part_of_the_callers_transaction(database):
    async def scene():
        async with open_pool(database, most=1) as pool, pool.connection() as connection:
            async with connection.transaction(force_rollback=True):
                await write_audit_entry(connection, "cli", "try", {"n": 1})
            await write_audit_entry(connection, "cli", "do", {"n": 2})

    asyncio.run(scene())
    with connect(database) as connection:
        assert connection.execute("SELECT action, detail FROM audit").fetchall() == [("do", {"n": 2})]


def test_a_database_that_is_gone_is_a_store_fault(database):
    async def scene(accounts):
        with connect(database) as connection:
            connection.execute("ALTER TABLE sessions RENAME TO gone")
        with pytest.raises(StoreFault, match="tiltyard arena migrate"):
            await accounts.revoke_session("cli", new_session_number())

    with_accounts(database, scene)
