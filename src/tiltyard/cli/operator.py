"""``tiltyard arena operator`` and ``tiltyard arena token``: who runs the arenas, with which roles, and what programs may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tiltyard.cli.database_options import (
    BaseUrl,
    database_command,
    link_address,
    moment_text,
    parse_duration,
    read_secret,
    run_with_pool,
    serving_environment,
)
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.accounts import Accounts
    from tiltyard.arena.operators.operators import OperatorInvitation, OperatorRecord
    from tiltyard.postgres.connections import ConnectionPool


app = typer.Typer(help="Invite and manage operators.", no_args_is_help=True, rich_markup_mode=None)

OperatorName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the operator.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="owner, operator, moderator or analyst.")]
Arena = Annotated[str | None, typer.Option(help="In this arena; default: for the installation.")]

T = TypeVar("T")
token_app = typer.Typer(
    help="Manage API tokens and operator links.", no_args_is_help=True, rich_markup_mode=None
)


@database_command(app, "list")
def list_() -> None:
    """List operators with their roles, and invitations that were not used."""
    from tiltyard.arena.operators.operators import list_operator_invitations, list_operators

    async def reading(pool: ConnectionPool) -> tuple[list[OperatorRecord], list[OperatorInvitation]]:
        return await list_operators(pool), await list_operator_invitations(pool)

    people, invitations = run_with_pool(reading)
    for one in people:
        roles: list[str] = [] if one.grants.installation is None else [one.grants.installation]
        roles += [f"{role} in {arena}" for arena, role in sorted(one.grants.arenas.items())]
        factor = "second factor" if one.second_factor else "no second factor"
        seen = "never signed in" if one.last_seen_at is None else f"last seen {moment_text(one.last_seen_at)}"
        typer.echo(f"{escape_controls(one.name)}  {', '.join(roles) or 'no role'}  {factor}  {seen}")
    for each in invitations:
        where = "" if each.arena is None else f" in {each.arena}"
        typer.echo(
            f"invitation {each.link}  {escape_controls(each.invitee)}  {each.role}{where}"
            f"  valid until {moment_text(each.expires_at)}"
        )


@database_command(app, "invite")
def invite(
    role: Role,
    invitee: Annotated[str, typer.Option("--for", help="Whom the link is for; only operators see it.")],
    arena: Arena = None,
    expires: Annotated[str, typer.Option(metavar="TIME", help="How long: 14d, 12h or 30m.")] = "14d",
    base_url: BaseUrl = None,
) -> None:
    """Make a link by which one person becomes an operator, and print it. It is not shown again."""
    from tiltyard.arena.operators.operators import invitation_terms, invite_operator

    terms = invitation_terms(invitee, parse_duration(expires))
    environment = serving_environment()
    address = link_address(environment, base_url)
    code, made = run_with_pool(lambda pool: invite_operator(pool, terms, role, arena=arena, actor="cli"))
    typer.echo(f"{address}/claim/{code}")
    typer.echo(f"Invitation {made.link} works once, until {moment_text(made.expires_at)} UTC.", err=True)


@database_command(app, "revoke-invitation")
def revoke_invitation(
    link: Annotated[
        int,
        typer.Argument(metavar="NUMBER", help="Number of the invitation in `tiltyard arena operator list`."),
    ],
) -> None:
    """Revoke an invitation that was not used."""
    from tiltyard.arena.operators.operators import revoke_operator_invitation

    run_with_pool(lambda pool: revoke_operator_invitation(pool, link, actor="cli"))
    typer.echo(f"Invitation {link} is revoked.")


@database_command(app, "role")
def role(
    name: OperatorName,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="owner, operator, moderator, analyst or none.")],
    arena: Arena = None,
) -> None:
    """Give an operator a role, or take it away. Applies from the next request on."""
    from tiltyard.arena.operators.operators import set_operator_role

    granted = None if role == "none" else role
    run_with_pool(lambda pool: set_operator_role(pool, name, granted, arena=arena, actor="cli"))
    where = "for the installation" if arena is None else f"in the arena {arena}"
    typer.echo(
        f"{escape_controls(name)} has {'no role' if granted is None else f'the role {granted}'} {where}."
    )


@database_command(app, "remove")
def remove(name: OperatorName) -> None:
    """Remove an operator. Its sessions and tokens end at once."""
    from tiltyard.arena.operators.operators import remove_operator

    run_with_pool(lambda pool: remove_operator(pool, name, actor="cli"))
    typer.echo(f"{escape_controls(name)} is removed; its sessions and tokens have ended.")


@database_command(app, "reset-password")
def reset_password(
    name: OperatorName,
    choose: Annotated[
        bool, typer.Option("--choose", help="Read the new password from standard input instead.")
    ] = False,
    base_url: BaseUrl = None,
) -> None:
    """Print a link for setting a new password. It works once, for an hour.

    Using it ends the operator's sessions.
    """
    from tiltyard.arena.operators.operators import make_password_link, set_operator_password

    environment = serving_environment()
    if choose:
        password = read_secret("Password").rstrip("\r\n")
        run_with_pool(lambda pool: set_operator_password(pool, name, password, actor="cli"))
        typer.echo(f"The password of {escape_controls(name)} is set; its sessions have ended.")
        return
    address = link_address(environment, base_url)
    code = run_with_pool(lambda pool: make_password_link(pool, name, actor="cli"))
    typer.echo(f"{address}/claim/{code}")


@database_command(app, "reset-second-factor")
def reset_factor(name: OperatorName) -> None:
    """Turn an operator's second factor off, and sign it out everywhere."""
    from tiltyard.arena.operators.second_factor import reset_second_factor

    run_with_pool(lambda pool: reset_second_factor(pool, name, actor="cli"))
    typer.echo(f"The second factor of {escape_controls(name)} is off; its sessions have ended.")


@database_command(app, "sign-out")
def sign_out(name: OperatorName) -> None:
    """Sign an operator out everywhere."""
    from tiltyard.arena.operators.operators import end_sessions, find_operator_number

    async def ending(pool: ConnectionPool) -> int:
        return await end_sessions(pool, await find_operator_number(pool, name), actor="cli")

    ended = run_with_pool(ending)
    sessions = "1 session" if ended == 1 else f"{ended:,} sessions"
    typer.echo(f"{escape_controls(name)} is signed out of {sessions}.")


@database_command(token_app, "create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the token, shown in the audit log.")],
    scope: Annotated[list[str], typer.Option(help="read, judge, import, admin or metrics; may be repeated.")],
    arena: Annotated[
        str | None, typer.Option(help="Restrict the token to this arena; default: all arenas.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days until it expires; default: never.")
    ] = None,
) -> None:
    """Create a token and print it. It is not shown again."""
    life = None if days is None else timedelta(days=days)
    token, _ = _with_accounts(
        lambda accounts: accounts.make_token("cli", name, scope, arena=arena, life=life)
    )
    typer.echo(token)


@database_command(token_app, "list")
def list_tokens() -> None:
    """List all tokens, including revoked ones."""
    for token in _with_accounts(lambda accounts: accounts.list_tokens()):
        state = (
            "valid until revoked" if token.expires_at is None else f"valid until {token.expires_at:%Y-%m-%d}"
        )
        if token.revoked_at is not None:
            state = f"revoked {token.revoked_at:%Y-%m-%d}"
        where = "every arena" if token.arena is None else f"arena {token.arena}"
        typer.echo(
            f"{token.api_token:>4}  {escape_controls(token.name)}  {','.join(token.scopes)}  {where}  {state}"
        )


@database_command(token_app, "revoke")
def revoke_token(
    api_token: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the token in `tiltyard arena token list`.")
    ],
) -> None:
    """Revoke a token."""
    _with_accounts(lambda accounts: accounts.revoke_token("cli", api_token))
    typer.echo(f"Token {api_token} is revoked; running servers reject it within five seconds.")


@database_command(token_app, "revoke-session")
def revoke_session(
    session: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the session of a voter or judge.")
    ],
) -> None:
    """Revoke the session of a voter or a judge. Its votes stay; exclude them if they must not count."""
    _with_accounts(lambda accounts: accounts.revoke_session("cli", session))
    typer.echo(f"Session {session} is revoked; running servers reject it within five seconds.")


@database_command(token_app, "operator")
def operator(
    base_url: BaseUrl = None,
) -> None:
    """Print a link for the operator to set a password.

    It sets name and password, works once, and expires after an hour.
    """
    environment = serving_environment()
    address = link_address(environment, base_url)
    token = _with_accounts(lambda accounts: accounts.make_operator_link())
    typer.echo(f"{address}/claim/{token}")


def _with_accounts(work: Callable[[Accounts], Awaitable[T]]) -> T:
    from tiltyard.arena.accounts import Accounts

    return run_with_pool(lambda pool: work(Accounts(pool)), migrating=True)
