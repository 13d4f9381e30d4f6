"""Entry to private arenas: the cookies of those who came in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tiltyard.arena.operators.invitations import EntryGrant, LiveInvitations
from tiltyard.errors import NotAdmitted
from tiltyard.web.access.cookies import (
    ENTRY_COOKIE_LIFETIME,
    Cookies,
    entry_cookie,
    make_entry_token,
    read_entry_token,
)

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from tiltyard.arena.operators.people import Person
    from tiltyard.settings.arena_settings import ArenaSettings
    from tiltyard.web.access.identities import Identities

_REQUIRED = {
    "invitation": "this arena is private; open the invitation link that you were sent",
    "passcode": "this arena is private; open one of its pages in a browser and enter the passcode",
    "sign-in": "this arena is private; open one of its pages in a browser and sign in",
    "group": "this arena is private; you are signed in, but in none of the groups that may come in",
}


class EntryGrants:
    """Writes the cookies of those who come in to an arena, and checks them."""

    def __init__(
        self, live: LiveInvitations, cookies: Cookies, shard: int, identities: Identities | None = None
    ) -> None:
        self._live = live
        self._identities = identities
        self._cookies = cookies
        self._shard = shard

    def forget(self) -> None:
        """Clear the cache, because an invitation was revoked."""
        self._live.forget()

    async def admit(self, request: HTTPConnection, arena: int, settings: ArenaSettings) -> bool:
        """Whether this browser may come in to an arena that is not closed."""
        entry = settings.entry
        if entry == "open":
            return True
        if entry == "sign-in":
            person = await self.person(request)
            return person is not None and settings.admits_groups(person.groups)
        grant = self.grant(request, arena)
        return grant is not None and await self._live.admit(arena, entry, grant)

    async def is_known(self, request: HTTPConnection, arena: int) -> bool:
        """Whether this browser came by an invitation to an open arena, or belongs to a person who is signed in."""
        if await self.person(request) is not None:
            return True
        grant = self.grant(request, arena)
        return grant is not None and await self._live.admit(arena, "invitation", grant)

    def grant(self, request: HTTPConnection, arena: int) -> EntryGrant | None:
        """What this browser was let in by, if its cookie is genuine. It may have been revoked since."""
        name = entry_cookie(self._shard, arena)
        cookie = self._cookies.read(request, name)
        token = None if cookie is None else self._cookies.unseal(name, cookie)
        return None if token is None else read_entry_token(token, time.time())

    async def person(self, request: HTTPConnection) -> Person | None:
        """The person who is signed in, if any."""
        return None if self._identities is None else await self._identities.person(request)

    async def refusal(self, request: HTTPConnection, arena: str, settings: ArenaSettings) -> NotAdmitted:
        """The error for whoever has not come in to a private arena."""
        entry: str = settings.entry
        if entry == "sign-in" and await self.person(request) is not None:
            entry = "group"
        return NotAdmitted(_REQUIRED[entry], arena=arena, entry=entry)

    def cookie(self, arena: int, grant: EntryGrant) -> str:
        """The ``Set-Cookie`` header for a browser that came in."""
        token = make_entry_token(grant)
        return self._cookies.header(entry_cookie(self._shard, arena), token, ENTRY_COOKIE_LIFETIME)
