"""``tiltyard token``: manage API tokens and operator links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tiltyard.cli.database_options import Home, serving_environment
from tiltyard.cli.serve import AsUser
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.accounts import Accounts
    from tiltyard.settings.environment import Environment


T = TypeVar("T")

app = typer.Typer(help="Manage API tokens and operator links.", no_args_is_help=True, rich_markup_mode=None)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the token, shown in the audit log.")],
    scope: Annotated[list[str], typer.Option(help="read, judge, import, admin or metrics; may be repeated.")],
    arena: Annotated[
        str | None, typer.Option(help="Restrict the token to this arena; default: all arenas.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days until it expires; default: never.")
    ] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Create a token and print it. It is not shown again."""
    life = None if days is None else timedelta(days=days)
    token, _ = _with_accounts(
        serving_environment(home),
        as_user,
        lambda accounts: accounts.make_token("cli", name, scope, arena=arena, life=life),
    )
    typer.echo(token)


@app.command("list")
def list_(home: Home = None, as_user: AsUser = None) -> None:
    """List all tokens, including revoked ones."""
    for token in _with_accounts(serving_environment(home), as_user, lambda accounts: accounts.list_tokens()):
        state = (
            "valid until revoked" if token.expires_at is None else f"valid until {token.expires_at:%Y-%m-%d}"
        )
        if token.revoked_at is not None:
            state = f"revoked {token.revoked_at:%Y-%m-%d}"
        where = "every arena" if token.arena is None else f"arena {token.arena}"
        typer.echo(
            f"{token.api_token:>4}  {escape_controls(token.name)}  {','.join(token.scopes)}  {where}  {state}"
        )


@app.command("revoke")
def revoke(
    api_token: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the token in `tiltyard token list`.")
    ],
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Revoke a token."""
    _with_accounts(
        serving_environment(home), as_user, lambda accounts: accounts.revoke_token("cli", api_token)
    )
    typer.echo(f"Token {api_token} is revoked; running servers reject it within five seconds.")


@app.command("revoke-session")
def revoke_session(
    session: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the session of a voter or judge.")
    ],
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Revoke the session of a voter or a judge. Its votes stay; exclude them if they must not count."""
    _with_accounts(
        serving_environment(home), as_user, lambda accounts: accounts.revoke_session("cli", session)
    )
    typer.echo(f"Session {session} is revoked; running servers reject it within five seconds.")


@app.command("operator")
def operator(
    base_url: Annotated[str | None, typer.Option(help="Public URL of the server.")] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Print a link for the operator to set a password.

    It sets name and password, works once, and expires after an hour.
    """
    from tiltyard.cli.database_options import link_address

    environment = serving_environment(home)
    address = link_address(environment, base_url)
    token = _with_accounts(environment, as_user, lambda accounts: accounts.make_operator_link())
    typer.echo(f"{address}/claim/{token}")


def _with_accounts(
    environment: Environment, as_user: str | None, work: Callable[[Accounts], Awaitable[T]]
) -> T:
    import asyncio

    from tiltyard.arena.accounts import Accounts
    from tiltyard.postgres.connections import open_pool
    from tiltyard.postgres.embedded_server import open_database

    async def working(url: str) -> T:
        async with open_pool(url, most=1, name="tiltyard token") as pool:
            return await work(Accounts(pool))

    with open_database(environment, as_user=as_user) as url:
        return asyncio.run(working(url))
