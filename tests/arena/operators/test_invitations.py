"""Invitations: codes and passcodes are kept as hashes, each use counts once, and what is revoked lets nobody in."""

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest

from support.bare_arenas import make_arena
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.buckets import run_statement
from tiltyard.arena.operators import invitations
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.arena.operators.invitations import (
    EntryGrant,
    InvitationTerms,
    LiveInvitations,
    find_invitation,
    find_passcode,
    invite,
    invite_all,
    list_invitations,
    new_passcode,
    renew_invitation,
    revoke_invitation,
    set_passcode,
    use_invitation,
)
from tiltyard.arena.operators.moderation import read_voter_names
from tiltyard.arena.operators.voter_data import erase_session, erase_voter, read_held_data
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import BadOption, Conflict, InputError, NotAdmitted, NotFound, StoreFault
from tiltyard.foundation import caches
from tiltyard.postgres.connections import connect, open_pool

TERMS = InvitationTerms("pilot team")
KEYS = SecretKeys(["a secret that is long enough for tests"])


@pytest.fixture
def scene(database):
    """A pool of connections to a database with a private arena."""
    make_arena(database, "arena")

    @asynccontextmanager
    async def opened(connections=4):
        async with open_pool(database, most=connections) as pool:
            await change_settings(pool, "arena", {"entry": "invitation"}, actor="cli")
            yield pool

    opened.database = database
    return opened


async def use(pool, code):
    return await use_invitation(pool, KEYS, await find_invitation(pool, code))


async def enter(pool, arena, passcode):
    return await use_invitation(pool, KEYS, await find_passcode(pool, arena, passcode))


async def arena_of(pool):
    async with pool.connection() as connection:
        return await find_arena(connection, "arena")


def sql(database, text, *values):
    with connect(database) as connection:
        found = connection.execute(text, values)
        return found.fetchall() if found.description else None


async def test_a_single_use_link_that_is_used_at_once_by_many_lets_in_one(scene):
    async with scene(connections=8) as pool:
        code, made = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        offers = await asyncio.gather(*(find_invitation(pool, code) for _ in range(8)))
        used = await asyncio.gather(
            *(use_invitation(pool, KEYS, offer) for offer in offers), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in used) == ["EntryGrant"] + ["NotAdmitted"] * 7
        (listed,) = await list_invitations(pool, "arena")
        assert (listed.invitation, listed.uses, listed.used_up) == (made.invitation, 1, True)


async def test_a_link_for_many_lets_in_so_many_and_no_more(scene):
    async with scene(connections=8) as pool:
        code, _ = await invite(pool, "arena", InvitationTerms("team", uses=3), shard=0, actor="cli")
        used = await asyncio.gather(*(use(pool, code) for _ in range(9)), return_exceptions=True)
        assert sum(isinstance(one, EntryGrant) for one in used) == 3
        assert (await find_invitation(pool, code)).trouble == "used up"


async def test_a_button_that_is_pressed_twice_is_one_use(scene):
    async with scene(connections=8) as pool:
        code, made = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        offer = await find_invitation(pool, code)
        grants = await asyncio.gather(*(use_invitation(pool, KEYS, offer, "a visit") for _ in range(5)))
        assert {grant.invitation for grant in grants} == {made.invitation}
        assert len({grant.session for grant in grants}) == 1
        later = await find_invitation(pool, code)
        assert later.trouble == "used up"
        await use_invitation(pool, KEYS, later, "a visit")
        for visit in ("another visit", None):
            with pytest.raises(NotAdmitted, match="used up"):
                await use_invitation(pool, KEYS, later, visit)
        assert (await list_invitations(pool, "arena"))[0].uses == 1
        sql(scene.database, "UPDATE invitations SET last_used_at = now() - interval '61 seconds'")
        with pytest.raises(NotAdmitted, match="used up"):
            await use_invitation(pool, KEYS, later, "a visit")
        await revoke_invitation(pool, "arena", made.invitation, actor="cli")
        with pytest.raises(NotAdmitted):
            await use_invitation(pool, KEYS, offer, "a visit")


async def test_opening_a_link_uses_nothing(scene):
    async with scene() as pool:
        code, _ = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        for _ in range(50):
            offer = await find_invitation(pool, code)
            assert (offer.arena.name, offer.single, offer.trouble) == ("arena", True, None)
        assert (await list_invitations(pool, "arena"))[0].uses == 0
        await use(pool, code)


async def test_expired_and_revoked_links_say_so_and_let_nobody_in(scene):
    async with scene() as pool:
        late, expired = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        gone, revoked = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        number = expired.invitation
        sql(scene.database, "UPDATE invitations SET expires_at = now() WHERE invitation = %s", number)
        await revoke_invitation(pool, "arena", revoked.invitation, actor="cli")
        for code, why in ((late, "is expired"), (gone, "is revoked")):
            with pytest.raises(NotAdmitted, match=why):
                await use(pool, code)
        assert [one.uses for one in await list_invitations(pool, "arena")] == [0, 0]


@pytest.mark.parametrize("ended", ["expired", "revoked"])
async def test_a_link_that_ends_between_opening_and_pressing_lets_nobody_in(scene, ended):
    async with scene() as pool:
        code, made = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        offer = await find_invitation(pool, code)
        if ended == "expired":
            sql(scene.database, "UPDATE invitations SET expires_at = now()")
        else:
            await revoke_invitation(pool, "arena", made.invitation, actor="cli")
        with pytest.raises(NotAdmitted):
            await use_invitation(pool, KEYS, offer)
        assert (await list_invitations(pool, "arena"))[0].uses == 0


async def test_codes_that_nobody_made(scene):
    async with scene() as pool:
        await invite(pool, "arena", TERMS, shard=0, actor="cli")
        for wrong in ("", "x", "0-", "0-" + "x" * 32, "0-" + "é" * 32, "x" * 10_000, "0-\0", "0-'"):
            with pytest.raises(NotAdmitted, match="no such invitation"):
                await find_invitation(pool, wrong)


async def test_links_do_not_work_where_the_entry_is_another(scene):
    async with scene() as pool:
        code, _ = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        await change_settings(pool, "arena", {"entry": "passcode"}, actor="cli")
        with pytest.raises(NotAdmitted, match="is revoked"):
            await use(pool, code)
        await change_settings(pool, "arena", {"visibility": "closed"}, actor="cli")
        with pytest.raises(NotAdmitted, match="no such invitation"):
            await use(pool, code)


async def test_codes_and_passcodes_are_kept_as_hashes(scene):
    async with scene() as pool:
        code, _ = await invite(pool, "arena", TERMS, shard=3, actor="cli")
        shown, _ = await set_passcode(pool, "arena", actor="cli")
    shard, _, secret = code.partition("-")
    assert (shard, len(secret)) == ("3", 32)
    kept = str(sql(scene.database, "SELECT to_jsonb(i)::text FROM invitations i"))
    kept += str(sql(scene.database, "SELECT to_jsonb(a)::text FROM audit a"))
    assert secret not in kept
    assert shown not in kept
    assert "$argon2id$" in kept


async def test_the_passcode_lets_in_until_it_is_replaced(scene):
    async with scene() as pool:
        arena = await arena_of(pool)
        with pytest.raises(NotAdmitted, match="not the passcode"):
            await enter(pool, arena, "")
        shown, first = await set_passcode(pool, "arena", actor="cli")
        grant = await enter(pool, arena, f"  {shown} ")
        assert grant.invitation == first.invitation
        for wrong in ("", shown.upper(), shown[:-1], shown + "x", "x" * 100_000, "\0", "😀" * 50):
            with pytest.raises(NotAdmitted, match="not the passcode"):
                await enter(pool, arena, wrong)
        chosen, second = await set_passcode(pool, "arena", " a longer one ", actor="cli")
        assert chosen == "a longer one"
        with pytest.raises(NotAdmitted):
            await enter(pool, arena, shown)
        live = LiveInvitations(pool)
        assert not await live.admit(arena.arena, "passcode", grant)
        assert await live.admit(arena.arena, "passcode", await enter(pool, arena, chosen))
        listed = await list_invitations(pool, "arena")
        assert [(one.invitation, one.uses, one.revoked_at is None) for one in listed] == [
            (first.invitation, 1, False),
            (second.invitation, 1, True),
        ]


async def test_passcodes_that_are_none(scene):
    async with scene() as pool:
        for wrong in ("short", "x" * 201, "       ", "a\0bcdefghij", "with\na newline"):
            with pytest.raises(BadOption, match="the passcode has"):
                await set_passcode(pool, "arena", wrong, actor="cli")
        assert await list_invitations(pool, "arena") == []


def test_random_passcodes_differ_and_have_no_letters_that_look_alike():
    made = {new_passcode() for _ in range(500)}
    assert len(made) == 500
    for one in made:
        assert [len(part) for part in one.split("-")] == [5, 4, 5]
        assert not set("01ilo") & set(one)


async def test_grants_let_in_to_their_own_arena_by_their_own_way(scene):
    async with scene() as pool:
        arena = (await arena_of(pool)).arena
        code, made = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        grant, live = await use(pool, code), LiveInvitations(pool)
        assert await live.admit(arena, "invitation", grant)
        assert not await live.admit(arena, "passcode", grant)
        assert not await live.admit(arena + 1, "invitation", grant)
        assert not await live.admit(arena, "invitation", EntryGrant(grant.invitation + 1, grant.issued))
        assert not await live.admit(arena, "invitation", EntryGrant(grant.invitation + 1, 0))
        # A grant from before its invitation was made is of a database that was restored since.
        created = int(made.created_at.timestamp())
        assert await live.admit(arena, "invitation", EntryGrant(made.invitation, created))
        assert not await live.admit(arena, "invitation", EntryGrant(made.invitation, created - 1))


async def test_a_revoked_batch_is_out_after_the_cache_and_others_stay(scene, monkeypatch):
    async with scene() as pool:
        arena = (await arena_of(pool)).arena
        one, first = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        other, _ = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        grants, live = [await use(pool, code) for code in (one, other)], LiveInvitations(pool)
        assert [await live.admit(arena, "invitation", each) for each in grants] == ["one", "one"]
        await revoke_invitation(pool, "arena", first.invitation, actor="cli")
        later = time.monotonic() + invitations._LIVE_CACHE_SECONDS
        monkeypatch.setattr(caches, "time", SimpleNamespace(monotonic=lambda: later))
        assert [await live.admit(arena, "invitation", each) for each in grants] == [None, "one"]


async def test_a_process_that_read_before_the_invitation_was_made_lets_in_at_once(scene, monkeypatch):
    async with scene() as pool:
        arena = (await arena_of(pool)).arena
        live, reads = LiveInvitations(pool), []
        read = live._read
        monkeypatch.setattr(live, "_read", lambda number: reads.append(number) or read(number))
        assert not await live.admit(arena, "invitation", EntryGrant(1, 0))
        code, made = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        grant = await use(pool, code)
        assert await live.admit(arena, "invitation", grant)
        assert len(reads) == 2
        # An old grant of a revoked invitation makes nobody read again.
        for _ in range(20):
            assert not await live.admit(arena, "invitation", EntryGrant(made.invitation + 9, 0))
        assert len(reads) == 2


async def test_without_the_database_nobody_is_let_in(scene):
    async with scene() as pool:
        live = LiveInvitations(pool)
        await pool.close()
        with pytest.raises(StoreFault):
            await live.admit(1, "invitation", EntryGrant(1, int(time.time())))


async def test_every_change_is_in_the_audit_with_before_and_after(scene):
    async with scene() as pool:
        terms = InvitationTerms("pilot team", 20, timedelta(days=1))
        code, made = await invite(pool, "arena", terms, shard=0, actor="operator:Ada")
        await use(pool, code)
        await revoke_invitation(pool, "arena", made.invitation, actor="operator:Ada")
        with pytest.raises(NotFound, match="revoked already"):
            await revoke_invitation(pool, "arena", made.invitation, actor="operator:Ada")
        _, first = await set_passcode(pool, "arena", actor="operator:Ada")
        _, second = await set_passcode(pool, "arena", actor="operator:Ada")
        await change_settings(pool, "arena", {"entry": "passcode"}, actor="operator:Ada")
        made, first, second = made.invitation, first.invitation, second.invitation
    rows = sql(
        scene.database,
        "SELECT action, detail FROM audit WHERE actor = 'operator:Ada' AND arena = 1 ORDER BY entry",
    )
    told = dict(rows[:2])
    assert [action for action, _ in rows] == [
        "invite", "revoke invitation", "set passcode", "set passcode", "change settings",
    ]  # fmt: skip
    assert told["invite"].items() >= {"invitation": made, "batch": "pilot team", "uses": 20}.items()
    assert told["revoke invitation"]["revoked_at"][0] is None
    assert told["revoke invitation"]["uses"] == 1
    assert rows[2][1] == {"invitation": [None, first]}
    assert rows[3][1] == {"invitation": [first, second]}
    assert rows[4][1]["changed"] == {"entry": ["invitation", "passcode"]}


async def test_invitations_belong_to_their_arena(scene):
    async with scene() as pool:
        await create_arena(pool, "second")
        _, made = await invite(pool, "second", TERMS, shard=0, actor="cli")
        for number in (made.invitation, 0, -1, 2**63):
            with pytest.raises(NotFound, match="no invitation"):
                await revoke_invitation(pool, "arena", number, actor="cli")
        for act in (list_invitations(pool, "none"), invite(pool, "none", TERMS, shard=0, actor="cli")):
            with pytest.raises(NotFound, match="no such arena"):
                await act
        assert (await list_invitations(pool, "second"))[0].revoked_at is None


async def invite_by_name(pool, *names):
    terms = [InvitationTerms("team", name=name) for name in names]
    return await invite_all(pool, "arena", terms, shard=0, actor="cli")


async def named(pool):
    return {one.name: one for one in await list_invitations(pool, "arena")}


async def test_names_are_with_the_links_and_in_no_log(scene):
    async with scene() as pool:
        (code, anna), (_, ben) = await invite_by_name(pool, "Anna", "Ben")
        grant = await use(pool, code)
        listed = await named(pool)
        assert (listed["Anna"].session, listed["Anna"].uses, listed["Ben"].session) == (
            grant.session,
            1,
            None,
        )
        assert await read_voter_names(pool, [grant.session, 5]) == {grant.session: "Anna"}
        held = await read_held_data(pool, grant.session)
        assert held["account"]["invited_as"] == "Anna"
        # Ben's first link is worth nothing once there is another; who has come in gets no other.
        assert await renew_invitation(pool, "arena", anna.invitation, shard=0, actor="cli") is None
        other, renewed = await renew_invitation(pool, "arena", ben.invitation, shard=0, actor="cli")
        assert (renewed.invitation, renewed.name) == (ben.invitation, "Ben")
        assert (await find_invitation(pool, other)).trouble is None
    assert "Anna" not in str(sql(scene.database, "SELECT detail::text FROM audit"))


async def test_names_go_with_their_voters(scene):
    async with scene() as pool:
        made = await invite_by_name(pool, "Anna", "Ben", "Cleo", "Dora")
        grants = [await use(pool, code) for code, _ in made[:3]]
        # By an operator, by the person, by revoking a link that nobody has used, and with the arena.
        await erase_session(pool, "arena", grants[0].session, reason="asked", actor="cli")
        await erase_voter(pool, grants[1].session, reason="asked", actor="voter")
        await revoke_invitation(pool, "arena", made[3][1].invitation, actor="cli")
        assert set(await named(pool)) == {None, "Cleo"}
        await run_statement(pool, "stages_revoke_invitations", {"arena": (await arena_of(pool)).arena})
        assert set(await named(pool)) == {None}


@pytest.mark.parametrize(
    "options",
    [
        {"batch": "x", "name": ""},
        {"batch": "x", "name": "a\tb"},
        {"batch": ""},
        {"batch": " x"},
        {"batch": "a\nb"},
        {"batch": "x" * 300},
        {"batch": "x", "uses": 0},
        {"batch": "x", "uses": 10**6},
        {"batch": "x", "life": timedelta(0)},
        {"batch": "x", "life": timedelta(days=3651)},
    ],
)
def test_terms_that_are_none(options):
    with pytest.raises(InputError):
        InvitationTerms(**options)


async def test_an_arena_has_a_limited_number_of_invitations(scene, monkeypatch):
    monkeypatch.setattr(invitations, "_LIVE_INVITATION_LIMIT", 2)

    async with scene() as pool:
        _, made = await invite(pool, "arena", TERMS, shard=0, actor="cli")
        await invite(pool, "arena", TERMS, shard=0, actor="cli")
        with pytest.raises(Conflict, match="revoke some"):
            await invite(pool, "arena", TERMS, shard=0, actor="cli")
        await revoke_invitation(pool, "arena", made.invitation, actor="cli")
        await invite(pool, "arena", TERMS, shard=0, actor="cli")
