"""People who come in to private arenas, for tests."""

import asyncio
from datetime import timedelta

from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.arena.operators.invitations import InvitationTerms, invite, revoke_invitation, set_passcode
from tiltyard.postgres.connections import connect, open_pool

WEEK = timedelta(days=7)


def make_link(database, arena="arena", *, batch="pilot team", uses=1, life=WEEK, shard=0):
    """The path of a new invitation link, and the number of the invitation."""
    code, made = _run(
        database,
        lambda pool: invite(pool, arena, InvitationTerms(batch, uses, life), shard=shard, actor="cli"),
    )
    return f"/join/{code}", made.invitation


def make_passcode(database, arena="arena", passcode=None):
    """A new passcode, and the number of its invitation."""
    shown, made = _run(database, lambda pool: set_passcode(pool, arena, passcode, actor="cli"))
    return shown, made.invitation


def revoke(database, invitation, arena="arena"):
    return _run(database, lambda pool: revoke_invitation(pool, arena, invitation, actor="cli"))


def set_entry(database, entry, arena="arena"):
    return _run(database, lambda pool: change_settings(pool, arena, {"entry": entry}, actor="cli"))


def expire(database, invitation):
    """Let an invitation have expired."""
    with connect(database) as connection:
        connection.execute("UPDATE invitations SET expires_at = now() WHERE invitation = %s", (invitation,))


def come_in(client, link):
    """Press the button of a link."""
    answer = client.post(link)
    assert answer.status_code == 303, answer.text
    return answer


def _run(database, work):
    async def running():
        async with open_pool(database, most=1) as pool:
            return await work(pool)

    return asyncio.run(running())
