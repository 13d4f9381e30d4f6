"""Commands of ``tiltyard arena`` that say who may come in to an arena."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import (
    AsUser,
    BaseUrl,
    Home,
    link_address,
    moment_text,
    parse_duration,
    read_secret,
    run_with_pool,
    serving_environment,
)
from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.operators.invitations import Invitation
    from tiltyard.postgres.connections import ConnectionPool
    from tiltyard.settings.arena_settings import ArenaSettings


Name = Annotated[str, typer.Argument(help="Name of the arena.")]


def add_entry_commands(app: typer.Typer) -> None:
    """Add the commands to ``tiltyard arena``."""
    app.command("entry")(entry)
    app.command("invite")(invite)
    app.command("invitations")(invitations)
    app.command("revoke-invitation")(revoke_invitation)
    app.command("passcode")(passcode)


def entry(
    name: Name,
    who: Annotated[str, typer.Argument(metavar="WHO", help="open, invitation, passcode or sign-in.")],
    group: Annotated[
        list[str] | None,
        typer.Option(help="With sign-in: only members of this group. Repeat it for several groups."),
    ] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Say who may come in to an arena."""
    from tiltyard.arena.operators.arena_changes import change_settings

    changed = {"entry": who, "entry_groups": ", ".join(group or ())}
    if group and who != "sign-in":
        raise BadOption(f"--group is for sign-in; people come in to the arena {name} by {who}")
    if any("," in one or not one.strip() for one in group or ()):
        raise BadOption("--group must be the name of a group, without commas; repeat it for several groups")
    arena = run_with_pool(
        serving_environment(home),
        as_user,
        lambda pool: change_settings(pool, name, changed, actor="cli"),
    )
    typer.echo(_entry_sentence(name, arena.settings) + " Running servers follow within five seconds.")


def invite(
    name: Name,
    batch: Annotated[str, typer.Option(help="Whom the link is for; only operators see it.")],
    uses: Annotated[int, typer.Option(min=1, help="How many people it lets in.")] = 1,
    expires: Annotated[str, typer.Option(metavar="TIME", help="How long: 14d, 12h or 30m.")] = "14d",
    base_url: BaseUrl = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Make an invitation link and print it. It is not shown again."""
    from tiltyard.arena.content.catalog import read_arena
    from tiltyard.arena.operators.invitations import InvitationTerms
    from tiltyard.arena.operators.invitations import invite as make_invitation
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment(home)
    settings = read_serving(environment.variables, base_url=base_url)
    terms = InvitationTerms(batch, uses, parse_duration(expires))

    async def making(pool: ConnectionPool) -> tuple[str, Invitation, ArenaSettings]:
        code, made = await make_invitation(pool, name, terms, shard=settings.shard, actor="cli")
        return code, made, (await read_arena(pool, name)).settings

    code, made, now = run_with_pool(environment, as_user, making)
    typer.echo(f"{link_address(environment, base_url)}/join/{code}")
    people = "1 person" if uses == 1 else f"{uses:,} people"
    typer.echo(
        f"Invitation {made.invitation} lets in {people} until {moment_text(made.expires_at)} UTC.", err=True
    )
    if now.visibility == "closed":
        typer.echo(_entry_sentence(name, now), err=True)
    elif now.entry != "invitation":
        typer.echo(
            f"{_entry_sentence(name, now)} To let in only people with a link: tiltyard arena entry {name} invitation",
            err=True,
        )


def invitations(name: Name, home: Home = None, as_user: AsUser = None) -> None:
    """List all invitations, including revoked ones."""
    from tiltyard.arena.operators.invitations import list_invitations

    found = run_with_pool(serving_environment(home), as_user, lambda pool: list_invitations(pool, name))
    for one in found:
        most = "" if one.uses_allowed is None else f" of {one.uses_allowed:,}"
        typer.echo(
            f"{one.invitation:>4}  {escape_controls(one.batch)}  {one.uses:,}{most} came in  {_state(one)}"
        )


def revoke_invitation(
    name: Name,
    invitation: Annotated[
        int,
        typer.Argument(metavar="NUMBER", help="Number of the invitation in `tiltyard arena invitations`."),
    ],
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Revoke an invitation. Whoever came in by it is out; their votes stay."""
    from tiltyard.arena.operators.invitations import revoke_invitation as revoke

    revoked = run_with_pool(
        serving_environment(home), as_user, lambda pool: revoke(pool, name, invitation, actor="cli")
    )
    people = "1 person" if revoked.uses == 1 else f"{revoked.uses:,} people"
    typer.echo(
        f"Invitation {invitation} ({escape_controls(revoked.batch)}) is revoked; {people} came in by it. "
        "Running servers reject them within five seconds."
    )


def passcode(
    name: Name,
    choose: Annotated[
        bool, typer.Option("--choose", help="Read one from standard input instead of a random one.")
    ] = False,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Set a new passcode and print it. Whoever came in with the old one is out."""
    from tiltyard.arena.operators.invitations import set_passcode

    typed = read_secret("Passcode") if choose else None
    shown, _ = run_with_pool(
        serving_environment(home), as_user, lambda pool: set_passcode(pool, name, typed, actor="cli")
    )
    typer.echo("The passcode is set." if choose else shown)


def _entry_sentence(name: str, settings: ArenaSettings) -> str:
    if settings.visibility == "closed":
        return f"The arena {name} is closed: nobody may come in before its visibility is open."
    return {
        "open": f"Everybody may come in to the arena {name}.",
        "invitation": f"Only people with an invitation link may come in to the arena {name}.",
        "passcode": f"Only people with the passcode may come in to the arena {name}.",
        "sign-in": f"Only people who sign in may come in to the arena {name}{_groups(settings)}.",
    }[settings.entry]


def _groups(settings: ArenaSettings) -> str:
    return f", members of {escape_controls(settings.entry_groups)}" if settings.entry_groups else ""


def _state(one: Invitation) -> str:
    if one.revoked_at is not None:
        return f"revoked {moment_text(one.revoked_at)}"
    if one.used_up:
        return "used up"
    if one.expires_at is None:
        return "valid until replaced or revoked"
    return (
        f"{'expired' if one.expires_at <= datetime.now(UTC) else 'valid until'} {moment_text(one.expires_at)}"
    )
