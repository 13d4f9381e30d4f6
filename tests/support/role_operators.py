"""Operators of every role, signed in: for the installation, in one arena, in another; and one without any role."""

import asyncio

from tiltyard.arena.accounts import OPERATOR_ROLES, Accounts, SessionOrigin
from tiltyard.arena.operators.operators import ExternalIdentity, set_operator_role, sign_in_identity
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.web.access.cookies import OPERATOR_COOKIE

NO_ROLE = ("", "")


def operators_of_every_role(site, *arenas):
    """Clients by role and where it holds: an arena's name, or ``None`` for the installation. And tokens of the same."""
    clients, tokens = {}, {}
    for where in (None, *arenas):
        for role in OPERATOR_ROLES:
            name = f"{role} of {where or 'all'}"
            clients[role, where] = sign_in_with_role(site, name, role, where)
            tokens[role, where] = site.client(_token(site, name))
    clients[NO_ROLE] = sign_in_with_role(site, "nobody's", "analyst", None, keep=False)
    tokens[NO_ROLE] = site.client(_token(site, "nobody's"))
    return clients, tokens


def sign_in_with_role(site, name, role, arena=None, *, keep=True):
    """A client of an operator with this role. Identities need no password, which takes long to hash."""

    async def signing():
        async with open_pool(site.database, most=1) as pool:
            identity = ExternalIdentity("https://id.example.org", name, name)
            token = await sign_in_identity(
                pool, identity, {arena: role}, SessionOrigin("192.0.2.1", "A test")
            )
            if not keep:
                await set_operator_role(pool, name, None, arena=arena, actor="cli")
            return token

    cookies = site.context.access.cookies
    return site.client(cookies={OPERATOR_COOKIE: cookies.seal(OPERATOR_COOKIE, asyncio.run(signing()))})


def _token(site, name):
    with connect(site.database) as connection:
        query = "SELECT operator FROM operators WHERE name = %s"
        (operator,) = connection.execute(query, (name,)).fetchone()

    async def making():
        async with open_pool(site.database, most=1) as pool:
            token, _ = await Accounts(pool).make_token(f"operator:{name}", name, ["admin"], operator=operator)
            return token

    return asyncio.run(making())
