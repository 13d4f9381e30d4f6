"""The second factor: no code twice, recovery codes once, a limit on guesses, and codes by RFC 4226 and RFC 6238."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from support.served import PASSWORD, SECRET
from tiltyard.arena.accounts import Accounts, SessionOrigin
from tiltyard.arena.operators.second_factor import (
    begin_second_factor,
    code_at,
    confirm_second_factor,
    finish_sign_in,
    key_text,
    matching_step,
    otpauth_link,
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

    @asynccontextmanager
    async def playing():
        async with open_pool(database, most=4) as pool:
            yield Scene(pool, clock)

    return playing


async def test_it_is_in_use_once_a_code_was_right(database, play):
    async with play() as at:
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
        secrets = [*codes, at.key.hex()]
    with connect(database) as connection:
        kept = "\n".join(
            str(row)
            for table in ("operators", "operator_recovery_codes", "audit")
            for row in connection.execute(f"SELECT to_jsonb(t)::text FROM {table} t")
        )
        told = connection.execute("SELECT detail FROM audit WHERE action = 'set up second factor'").fetchall()
    assert not [secret for secret in secrets if secret in kept or secret.replace("-", "") in kept]
    assert told == [({"operator": "Ada", "second_factor": [False, True]},)]


async def test_no_code_is_right_twice_not_even_at_once(play):
    async with play() as at:
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


async def test_a_session_that_has_its_code_does_not_take_another(play):
    async with play() as at:
        await at.set_up()
        waiting = await at.password()
        at.wait()
        signed = await at.finish(waiting, at.code())
        at.wait()
        for token in (waiting, signed, "nothing"):
            with pytest.raises(NotAllowed, match="sign in again"):
                await at.finish(token, at.code())


async def test_five_wrong_codes_end_a_sign_in_and_twenty_all_of_them_for_a_while(database, play):
    async with play() as at:
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


async def test_a_code_must_be_typed_within_ten_minutes(database, play):
    async with play() as at:
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


async def test_a_recovery_code_signs_in_once(database, play):
    async with play() as at:
        first, second, *_ = await at.set_up()
        signed = await at.finish(await at.password(), f" {first.upper().replace('-', ' ')} ")
        assert await at.accounts.signed_in(signed) is not None
        with pytest.raises(CodeNeeded):
            await at.finish(await at.password(), first)
        assert (await read_second_factor(at.pool, at.ada)).recovery_codes == 9
        await turn_off_second_factor(at.pool, at.keys, at.own, second, actor="operator:Ada")
        assert (await read_second_factor(at.pool, at.ada)).recovery_codes == 0
    with connect(database) as connection:
        told = connection.execute("SELECT detail FROM audit WHERE action = 'use recovery code'").fetchall()
    assert [detail["recovery_codes"] for (detail,) in told] == [[10, 9], [9, 8]]


async def test_it_is_turned_off_with_a_code_or_from_the_command_line(play):
    async with play() as at:
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


async def test_five_wrong_codes_end_the_session_of_whoever_would_turn_it_off(play):
    async with play() as at:
        await at.set_up()
        for left in range(4, -1, -1):
            assert await at.accounts.signed_in(at.session) is not None, left
            with pytest.raises(CodeNeeded):
                await turn_off_second_factor(at.pool, at.keys, at.own, "000000", actor="operator:Ada")
        assert await at.accounts.signed_in(at.session) is None


async def test_it_survives_a_rotation_while_the_old_key_is_kept(play):
    async with play() as at:
        await at.set_up()
        at.wait()
        at.keys = SecretKeys(["a newer secret that is long enough", SECRET])
        await at.finish(await at.password(), at.code())
        at.wait()
        at.keys = SecretKeys(["a newer secret that is long enough"])
        with pytest.raises(CodeNeeded):
            await at.finish(await at.password(), at.code())


async def test_two_operators_do_not_have_the_same_key(database, play):
    async with play() as at:
        await at.begin()
        key = await begin_second_factor(at.pool, at.keys, at.ada)
        await at.accounts.claim(await at.accounts.make_operator_link(), "Grace", PASSWORD)
        with connect(database) as connection:
            connection.execute("UPDATE operators SET totp_nonce = (SELECT totp_nonce FROM operators WHERE name = 'Ada')")  # fmt: skip
            (grace,) = connection.execute("SELECT operator FROM operators WHERE name = 'Grace'").fetchone()
        assert await begin_second_factor(at.pool, at.keys, grace) != key


KEY = b"12345678901234567890"


def test_codes_are_those_of_rfc_4226():
    codes = "755224 287082 359152 969429 338314 254676 287922 162583 399871 520489"
    assert " ".join(code_at(KEY, step) for step in range(10)) == codes


@pytest.mark.parametrize(
    ("seconds", "digits"),
    [
        (59, "94287082"),
        (1111111109, "07081804"),
        (1111111111, "14050471"),
        (1234567890, "89005924"),
        (2000000000, "69279037"),
        (20000000000, "65353130"),
    ],
)
def test_codes_are_the_last_six_digits_of_those_of_rfc_6238(seconds, digits):
    assert code_at(KEY, seconds // 30) == digits[2:]
    assert matching_step(KEY, digits[2:], seconds, 0) == seconds // 30


def test_a_code_is_right_one_step_around_its_own_and_no_longer():
    code = code_at(KEY, 100)
    right = [now for now in range(2900, 3100) if matching_step(KEY, code, now, 0) == 100]
    assert right == list(range(2970, 3060))


def test_a_step_that_was_used_is_over_with_all_before_it():
    assert matching_step(KEY, code_at(KEY, 100), 3000.0, 99) == 100
    assert matching_step(KEY, code_at(KEY, 100), 3000.0, 100) is None
    assert matching_step(KEY, code_at(KEY, 99), 3000.0, 100) is None
    assert matching_step(KEY, code_at(KEY, 101), 3000.0, 100) == 101


@pytest.mark.parametrize("code", ["", "0", "１２３４５６", "abcdef", "7552240", "x" * 1000])
def test_what_is_no_code_is_wrong(code):
    assert matching_step(KEY, code, 0.0, -2) is None


def test_apps_get_the_key_as_base32_and_a_link():
    assert key_text(KEY) == "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    link = otpauth_link(KEY, "Ada & Co/é", "Tiltyard arena.example.org")
    assert link == (
        "otpauth://totp/Tiltyard%20arena.example.org%3AAda%20%26%20Co%2F%C3%A9"
        "?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Tiltyard%20arena.example.org"
    )
