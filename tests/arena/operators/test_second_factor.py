"""The second factor: no code twice, recovery codes once, a limit on guesses, and no key in the database."""

import asyncio
from types import SimpleNamespace

import pytest

from support.served import PASSWORD, SECRET
from tiltyard.arena.accounts import Accounts, SessionOrigin
from tiltyard.arena.operators.second_factor import (
    begin_second_factor,
    code_at,
    confirm_second_factor,
    finish_sign_in,
    read_second_factor,
    reset_second_factor,
    turn_off_second_factor,
)
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import BadOption, CodeNeeded, Conflict, NotAllowed, NotFound
from tiltyard.postgres.connections import connect, open_pool

HERE = SessionOrigin()


class Scene:
    """Ada, and a clock that stands still until it is moved."""

    def __init__(self, pool, clock):
        self.pool, self.clock = pool, clock
        self.accounts, self.keys = Accounts(pool), SecretKeys([SECRET])

    async def begin(self):
        await self.accounts.claim(await self.accounts.make_operator_link(), "Ada", PASSWORD)
        self.session = await self.password()
        self.own = await self.accounts.signed_in(self.session)
        self.ada = self.own.operator

    async def set_up(self):
        await self.begin()
        self.key = await begin_second_factor(self.pool, self.keys, self.ada)
        return await confirm_second_factor(self.pool, self.keys, self.ada, self.code(), actor="operator:Ada")

    def code(self, later=0):
        return code_at(self.key, int(self.clock.now) // 30 + later)

    async def password(self):
        return await self.accounts.sign_in("Ada", PASSWORD)

    async def finish(self, token, code):
        return await finish_sign_in(self.pool, self.keys, token, code, HERE)

    def wait(self, steps=1):
        self.clock.now += 30 * steps


@pytest.fixture
def play(database, monkeypatch):
    clock = SimpleNamespace(now=1_800_000_000.0)
    monkeypatch.setattr(
        "tiltyard.arena.operators.second_factor.time", SimpleNamespace(time=lambda: clock.now)
    )

    def playing(scene):
        async def running():
            async with open_pool(database, most=4) as pool:
                return await scene(Scene(pool, clock))

        return asyncio.run(running())

    return playing


def test_it_is_in_use_once_a_code_was_right(database, play):
    async def scene(at):
        await at.begin()
        assert (await read_second_factor(at.pool, at.ada)).since is None
        with pytest.raises(Conflict, match="begin again"):
            await confirm_second_factor(at.pool, at.keys, at.ada, "000000", actor="operator:Ada")
        at.key = await begin_second_factor(at.pool, at.keys, at.ada)
        assert await begin_second_factor(at.pool, at.keys, at.ada) == at.key, (
            "a reloaded page has the same key"
        )
        for wrong in ("", "123", at.code(3), "x" * 1000, "\0"):
            with pytest.raises(BadOption, match="current code"):
                await confirm_second_factor(at.pool, at.keys, at.ada, wrong, actor="operator:Ada")
        assert (await at.accounts.signed_in(await at.password())) is not None
        codes = await confirm_second_factor(at.pool, at.keys, at.ada, f" {at.code()[:3]} {at.code()[3:]} ", actor="operator:Ada")  # fmt: skip
        assert len(set(codes)) == 10
        found = await read_second_factor(at.pool, at.ada)
        assert found.since is not None
        assert found.recovery_codes == 10
        assert await at.accounts.signed_in(await at.password()) is None
        with pytest.raises(Conflict, match="in use already"):
            await begin_second_factor(at.pool, at.keys, at.ada)
        return [*codes, at.key.hex()]

    secrets = play(scene)
    with connect(database) as connection:
        kept = "\n".join(
            str(row)
            for table in ("operators", "operator_recovery_codes", "audit")
            for row in connection.execute(f"SELECT to_jsonb(t)::text FROM {table} t")
        )
        told = connection.execute("SELECT detail FROM audit WHERE action = 'set up second factor'").fetchall()
    assert not [secret for secret in secrets if secret in kept or secret.replace("-", "") in kept]
    assert told == [({"operator": "Ada", "second_factor": [False, True]},)]


def test_no_code_is_right_twice_not_even_at_once(play):
    async def scene(at):
        await at.set_up()
        first, second, third = [await at.password() for _ in range(3)]
        with pytest.raises(CodeNeeded, match="was used before"):
            await at.finish(first, at.code())
        at.wait()
        ended = await asyncio.gather(
            *(at.finish(token, at.code()) for token in (second, third)), return_exceptions=True
        )
        (signed,) = [one for one in ended if isinstance(one, str)]
        assert [type(one) for one in ended if not isinstance(one, str)] == [CodeNeeded]
        found = await at.accounts.signed_in(signed)
        assert (found.name, found.second_factor) == ("Ada", True)
        assert signed not in (second, third), "the token of the password alone is worth nothing later"
        for token in (first, second, third):
            assert await at.accounts.signed_in(token) is None

    play(scene)


def test_a_session_that_has_its_code_does_not_take_another(play):
    async def scene(at):
        await at.set_up()
        waiting = await at.password()
        at.wait()
        signed = await at.finish(waiting, at.code())
        at.wait()
        for token in (waiting, signed, "nothing"):
            with pytest.raises(NotAllowed, match="sign in again"):
                await at.finish(token, at.code())

    play(scene)


def test_five_wrong_codes_end_a_sign_in_and_twenty_all_of_them_for_a_while(database, play):
    async def scene(at):
        await at.set_up()
        at.wait()
        for _ in range(4):
            token = await at.password()
            for _ in range(5):
                with pytest.raises(CodeNeeded):
                    await at.finish(token, "000000")
            with pytest.raises(NotAllowed, match="many wrong codes"):
                await at.finish(token, at.code())
        token = await at.password()
        with pytest.raises(NotAllowed, match="many wrong codes"):
            await at.finish(token, at.code())
        with connect(database) as connection:
            connection.execute(
                "UPDATE operator_sessions SET created_at = created_at - interval '15 minutes' WHERE wrong_codes > 0"
            )
        await at.finish(token, at.code())

    play(scene)


def test_a_code_must_be_typed_within_ten_minutes(database, play):
    async def scene(at):
        await at.set_up()
        at.wait()
        token = await at.password()
        with connect(database) as connection:
            (minutes,) = connection.execute(
                "SELECT extract(epoch FROM expires_at - created_at) / 60 FROM operator_sessions WHERE awaits_code"
            ).fetchone()
            assert minutes == 10
            connection.execute("UPDATE operator_sessions SET expires_at = now() WHERE awaits_code")
        with pytest.raises(NotAllowed, match="took too long"):
            await at.finish(token, at.code())

    play(scene)


def test_a_recovery_code_signs_in_once(database, play):
    async def scene(at):
        first, second, *_ = await at.set_up()
        signed = await at.finish(await at.password(), f" {first.upper().replace('-', ' ')} ")
        assert await at.accounts.signed_in(signed) is not None
        with pytest.raises(CodeNeeded):
            await at.finish(await at.password(), first)
        assert (await read_second_factor(at.pool, at.ada)).recovery_codes == 9
        await turn_off_second_factor(at.pool, at.keys, at.own, second, actor="operator:Ada")
        assert (await read_second_factor(at.pool, at.ada)).recovery_codes == 0

    play(scene)
    with connect(database) as connection:
        told = connection.execute("SELECT detail FROM audit WHERE action = 'use recovery code'").fetchall()
    assert [detail["recovery_codes"] for (detail,) in told] == [[10, 9], [9, 8]]


def test_it_is_turned_off_with_a_code_or_from_the_command_line(play):
    async def scene(at):
        await at.set_up()
        for wrong in ("", "000000", at.code()):
            with pytest.raises(CodeNeeded, match="wrong, or was"):
                await turn_off_second_factor(at.pool, at.keys, at.own, wrong, actor="operator:Ada")
        at.wait()
        await turn_off_second_factor(at.pool, at.keys, at.own, at.code(), actor="operator:Ada")
        session = await at.password()
        assert await at.accounts.signed_in(session) is not None
        with pytest.raises(CodeNeeded):
            await turn_off_second_factor(at.pool, at.keys, at.own, at.code(1), actor="operator:Ada")
        old = at.key
        at.key = await begin_second_factor(at.pool, at.keys, at.ada)
        assert at.key != old
        at.wait()
        await confirm_second_factor(at.pool, at.keys, at.ada, at.code(), actor="operator:Ada")
        await reset_second_factor(at.pool, "Ada", actor="cli")
        assert await at.accounts.signed_in(session) is None
        assert await at.accounts.signed_in(await at.password()) is not None
        with pytest.raises(NotFound, match="tiltyard arena operator list"):
            await reset_second_factor(at.pool, "Eve", actor="cli")

    play(scene)


def test_five_wrong_codes_end_the_session_of_whoever_would_turn_it_off(play):
    async def scene(at):
        await at.set_up()
        for left in range(4, -1, -1):
            assert await at.accounts.signed_in(at.session) is not None, left
            with pytest.raises(CodeNeeded):
                await turn_off_second_factor(at.pool, at.keys, at.own, "000000", actor="operator:Ada")
        assert await at.accounts.signed_in(at.session) is None

    play(scene)


def test_it_survives_a_rotation_while_the_old_key_is_kept(play):
    async def scene(at):
        await at.set_up()
        at.wait()
        at.keys = SecretKeys(["a newer secret that is long enough", SECRET])
        await at.finish(await at.password(), at.code())
        at.wait()
        at.keys = SecretKeys(["a newer secret that is long enough"])
        with pytest.raises(CodeNeeded):
            await at.finish(await at.password(), at.code())

    play(scene)


def test_two_operators_do_not_have_the_same_key(database, play):
    async def scene(at):
        await at.begin()
        key = await begin_second_factor(at.pool, at.keys, at.ada)
        await at.accounts.claim(await at.accounts.make_operator_link(), "Grace", PASSWORD)
        with connect(database) as connection:
            connection.execute("UPDATE operators SET totp_nonce = (SELECT totp_nonce FROM operators WHERE name = 'Ada')")  # fmt: skip
            (grace,) = connection.execute("SELECT operator FROM operators WHERE name = 'Grace'").fetchone()
        assert await begin_second_factor(at.pool, at.keys, grace) != key

    play(scene)
