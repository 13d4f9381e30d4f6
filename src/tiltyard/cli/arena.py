"""``tiltyard arena``: who may come in, live models, releases; erase. `cli.app` adds the other commands."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import (
    BaseUrl,
    database,
    database_command,
    link_address,
    moment_text,
    parse_duration,
    read_secret,
    run_with_pool,
    serving_environment,
)
from tiltyard.cli.options import Columns, Format, Outcomes, read_options
from tiltyard.cli.progress import count_progress
from tiltyard.errors import BadOption, NotFound
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.live.conversation_release import ReleaseCounts
    from tiltyard.arena.live.live_arena import NewEntrant
    from tiltyard.arena.operators.arena_changes import LiveSetup
    from tiltyard.arena.operators.invitations import Invitation
    from tiltyard.arena.secret_keys import SecretKeys
    from tiltyard.postgres.connections import ConnectionPool
    from tiltyard.settings.arena_settings import ArenaSettings
    from tiltyard.settings.environment import Environment
    from tiltyard.wire.arenas import ShadowBoard


app = typer.Typer(
    help="Run a service: entry, operators, panels, judges, backups.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="Name of the arena.")]


@database_command(app, "entry")
def entry(
    name: Name,
    who: Annotated[str, typer.Argument(metavar="WHO", help="open, invitation, passcode or sign-in.")],
    group: Annotated[
        list[str] | None,
        typer.Option(help="With sign-in: only members of this group. Repeat it for several groups."),
    ] = None,
) -> None:
    """Say who may come in to an arena."""
    from tiltyard.arena.operators.arena_changes import change_settings

    changed = {"entry": who, "entry_groups": ", ".join(group or ())}
    if group and who != "sign-in":
        raise BadOption(f"--group is for sign-in; people come in to the arena {name} by {who}")
    if any("," in one or not one.strip() for one in group or ()):
        raise BadOption("--group must be the name of a group, without commas; repeat it for several groups")
    arena = run_with_pool(lambda pool: change_settings(pool, name, changed, actor="cli"))
    typer.echo(_entry_sentence(name, arena.settings) + " Running servers follow within five seconds.")


@database_command(app, "invite")
def invite(
    name: Name,
    batch: Annotated[str, typer.Option(help="What the link is for; only operators see it.")] = "invited",
    person: Annotated[
        list[str] | None,
        typer.Option(
            "--for", metavar="NAME", help="A person; repeat it for more. Each has a link of their own."
        ),
    ] = None,
    uses: Annotated[int, typer.Option(min=1, help="How many people it lets in.")] = 1,
    expires: Annotated[str, typer.Option(metavar="TIME", help="How long: 14d, 12h or 30m.")] = "14d",
    base_url: BaseUrl = None,
) -> None:
    """Make invitation links and print them. They are not shown again."""
    from tiltyard.arena.content.arenas import find_arena
    from tiltyard.arena.operators.invitations import InvitationTerms, invite_all
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment()
    settings = read_serving(environment.variables, base_url=base_url)
    invited: list[str | None] = list(person) if person else [None]
    terms = [InvitationTerms(batch, uses, parse_duration(expires), one) for one in invited]

    async def making(pool: ConnectionPool) -> tuple[list[tuple[str, Invitation]], ArenaSettings]:
        made = await invite_all(pool, name, terms, shard=settings.shard, actor="cli")
        return made, (await find_arena(pool, name)).settings

    made, now = run_with_pool(making)
    for code, one in made:
        called = "" if one.name is None else f"{escape_controls(one.name)}  "
        typer.echo(f"{called}{link_address(environment, base_url)}/join/{code}")
        people = "1 person" if uses == 1 else f"{uses:,} people"
        typer.echo(
            f"Invitation {one.invitation} lets in {people} until {moment_text(one.expires_at)} UTC.", err=True
        )
    if now.visibility == "closed":
        typer.echo(_entry_sentence(name, now), err=True)
    elif now.entry != "invitation":
        typer.echo(
            f"{_entry_sentence(name, now)} To let in only people with a link: tiltyard arena entry {name} invitation",
            err=True,
        )


@database_command(app, "invitations")
def invitations(name: Name) -> None:
    """List all invitations, including revoked ones."""
    from tiltyard.arena.operators.invitations import list_invitations

    found = run_with_pool(lambda pool: list_invitations(pool, name))
    for one in found:
        most = "" if one.uses_allowed is None else f" of {one.uses_allowed:,}"
        came = f"{one.uses:,}{most} came in"
        if one.of_one_network > 1:
            came += f", {one.of_one_network:,} from one network"
        if one.name is not None:
            came += f", {one.votes:,} votes"
        typer.echo(f"{one.invitation:>4}  {escape_controls(one.called)}  {came}  {_state(one)}")


@database_command(app, "revoke-invitation")
def revoke_invitation(
    name: Name,
    invitation: Annotated[
        int,
        typer.Argument(metavar="NUMBER", help="Number of the invitation in `tiltyard arena invitations`."),
    ],
) -> None:
    """Revoke an invitation. Whoever came in by it is out; their votes stay."""
    from tiltyard.arena.operators.invitations import revoke_invitation as revoke

    revoked = run_with_pool(lambda pool: revoke(pool, name, invitation, actor="cli"))
    people = "1 person" if revoked.uses == 1 else f"{revoked.uses:,} people"
    typer.echo(
        f"Invitation {invitation} ({escape_controls(revoked.called)}) is revoked; {people} came in by it. "
        "Running servers reject them within five seconds."
    )


@database_command(app, "passcode")
def passcode(
    name: Name,
    choose: Annotated[
        bool, typer.Option("--choose", help="Read one from standard input instead of a random one.")
    ] = False,
) -> None:
    """Set a new passcode and print it. Whoever came in with the old one is out."""
    from tiltyard.arena.operators.invitations import set_passcode

    typed = read_secret("Passcode") if choose else None
    shown, _ = run_with_pool(lambda pool: set_passcode(pool, name, typed, actor="cli"))
    typer.echo("The passcode is set." if choose else shown)


def _entry_sentence(name: str, settings: ArenaSettings) -> str:
    if settings.visibility == "closed":
        return f"The arena {name} is closed: nobody may come in before its visibility is open."
    members = f", members of {escape_controls(settings.entry_groups)}" if settings.entry_groups else ""
    return {
        "open": f"Everybody may come in to the arena {name}.",
        "invitation": f"Only people with an invitation link may come in to the arena {name}.",
        "passcode": f"Only people with the passcode may come in to the arena {name}.",
        "sign-in": f"Only people who sign in may come in to the arena {name}{members}.",
    }[settings.entry]


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


@database_command(app, "conversations")
def conversations(
    name: Name,
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
    with_flagged: Annotated[
        bool, typer.Option("--with-flagged", help="Also battles in which private data was found.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="With voters, times and positions: not to be published.")
    ] = False,
    release: Annotated[
        str | None,
        typer.Option(help="With --exact: the same name gives voters the same pseudonyms."),
    ] = None,
) -> None:
    """Write live conversations and votes as Parquet.

    Shuffled and without voters. Only of voters who agreed to the arena's consent, if it has one. Erased texts and void battles are left out.
    """
    from tiltyard.arena.live.conversation_release import write_conversations

    environment = serving_environment()
    with database() as url:
        counts = write_conversations(
            url,
            _keys(environment),
            name,
            out,
            release=release,
            with_flagged=with_flagged,
            exact_for="cli" if exact else None,
        )
    typer.echo(f"Wrote {counts.turns:,} turns of {counts.battles:,} battles to {out}.{_left_out(counts)}")


@database_command(app, "promote-prompts")
def promote_prompts(
    name: Name,
    out: Annotated[Path, typer.Option(help="The JSON Lines file to write.")],
) -> None:
    """Write the distinct prompts of a live arena.

    `tiltyard generate` and tournaments read it. Prompts with private data or flags are left out.
    """
    from tiltyard.arena.live.conversation_release import promote_prompts as promote

    with database() as url:
        counts = promote(url, name, out)
    typer.echo(f"Wrote {counts.battles:,} prompts to {out}.{_left_out(counts)}")


def _left_out(counts: ReleaseCounts) -> str:
    if not counts.left_out:
        return ""
    parts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.left_out.items()))
    return f" Battles left out: {parts}."


def load_entrants(path: Path, environment: Environment) -> list[NewEntrant]:
    """Read a models file and check that every key is there; the processes of the server will need them.

    Keys from a ``.env`` beside the file are passed on to them.
    """
    from tiltyard.arena.live.live_arena import read_entrants
    from tiltyard.arena.live.safety import MODERATION_VARIABLE
    from tiltyard.settings.environment import read_environment
    from tiltyard.settings.live_models import LiveModels

    if not path.is_file():
        raise BadOption(f"{path}: file not found")
    models = LiveModels.load(path)
    known = read_environment(path.absolute().parent, variables=environment.variables)
    moderation = models.moderation
    checks = () if moderation is None else (moderation.endpoint, moderation.guard)
    if moderation is not None:
        moderation.read_rules(path.parent)
        os.environ[MODERATION_VARIABLE] = str(path.absolute())
    for entrant in (*models.entrants(), *(check for check in checks if check is not None)):
        known.api_key(entrant)
        known.route(entrant, asking=True)
        named = (entrant.api_key_env, *entrant.headers_env.values(), *entrant.query_env.values())
        for variable in named:
            if variable is not None and variable in known.variables:
                os.environ.setdefault(variable, known.variables[variable])
    return read_entrants(models)


@database_command(app, "live")
def live(
    name: Name,
    models: Annotated[Path, typer.Option(metavar="FILE", help="Models that answer, as YAML.")],
    category: Annotated[
        list[str] | None, typer.Option(help="A category of prompts, for a new arena; may be repeated.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Never spend more dollars than this in the arena.")
    ] = None,
    base_url: BaseUrl = None,
) -> None:
    """Make a live arena, or change its models."""
    from tiltyard.arena.content.blob_store import BlobStore
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.operators.arena_changes import LiveArenaRequest, set_up_live_arena
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment()
    settings = read_serving(environment.variables, base_url=base_url)
    asked = LiveArenaRequest(name, load_entrants(models, environment), tuple(category or ()), budget)

    async def working(pool: ConnectionPool) -> LiveSetup:
        blobs = BlobStore(pool, open_configured_storage(environment))
        return await set_up_live_arena(pool, blobs, asked, shard=settings.shard)

    done = run_with_pool(working)
    print_live_setup(done, link_address(environment, base_url))


def print_live_setup(done: LiveSetup, address: str) -> None:
    """Say what was done, the link that lets people in, and what a day may cost."""
    arena, changes = escape_controls(done.arena), done.changes
    if changes is None:
        typer.echo(f"Live arena {arena} is made. Let people in: {address}/join/{done.code}")
    else:
        parts = {
            "new": changes.added,
            "new version": changes.changed,
            "served again": changes.enabled,
            "retired": changes.retired,
        }
        said = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)
        typer.echo(f"Live arena {arena}: {escape_controls(said) if said else 'no model has changed'}.")
        typer.echo(f"Let people in: tiltyard arena invite {arena} --batch NAME --uses 10")
    budgets = done.settings.live_day_dollars, done.settings.live_voter_day_dollars
    day, voter = ("no limit" if one is None else f"${one:,.2f}" for one in budgets)
    typer.echo(
        f"Calls to models may cost {day} a day, and {voter} for a voter; change it on the page Settings."
    )


@database_command(app, "import-votes")
def import_votes(
    name: Name,
    file: Annotated[Path, typer.Argument(help="Battles with voters and prompts, in any supported format.")],
    format: Format = None,
    columns: Columns = None,
    outcomes: Outcomes = None,
) -> None:
    """Bring past votes into an arena.

    The whole file is checked first. If the import is interrupted, run it again; a second import adds nothing.
    """
    from tiltyard.arena.operators.vote_import import VoteFile
    from tiltyard.arena.operators.vote_import import import_votes as bring
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment()
    shard = read_serving(environment.variables).shard
    past = VoteFile(
        file, file.name, read_options({"format": format, "columns": columns, "outcomes": outcomes})
    )
    with count_progress("importing votes") as progress:
        done = run_with_pool(
            lambda pool: bring(pool, _keys(environment), name, past, shard=shard, progress=progress)
        )
    for reason, count in done.left_out.items():
        typer.echo(f"Left out: {count:,} votes: {escape_controls(reason)}.", err=True)
    if done.repeated:
        typer.echo(f"Warning: {done.warning}", err=True)
    there = f" {done.votes - done.added:,} were there already." if done.votes > done.added else ""
    typer.echo(f"Imported {done.added:,} of {done.votes:,} votes.{there}")


def _keys(environment: Environment) -> SecretKeys:
    from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys

    return open_keys(environment.home, environment.variables.get(KEY_VARIABLE))


@database_command(app, "phase")
def phase(
    name: Name,
    phase: Annotated[
        int | None, typer.Argument(min=1, max=4, help="The phase to change to; without it, nothing changes.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Change without asking.")] = False,
) -> None:
    """Show what the policy would change, and set the phase."""
    from tiltyard.arena.boards.shadow_boards import shadow_board
    from tiltyard.arena.boards.snapshots import latest_snapshot
    from tiltyard.arena.content.arenas import find_arena
    from tiltyard.arena.log.event_log import HUMAN
    from tiltyard.arena.operators.arena_changes import current_policy, set_policy

    async def reading(pool: ConnectionPool) -> tuple[int, ShadowBoard | None]:
        newest = await latest_snapshot(pool, (await find_arena(pool, name)).arena, HUMAN)
        now = (await current_policy(pool, name)).phase
        return now, None if newest is None else shadow_board(newest)

    now, shadow = run_with_pool(reading)
    typer.echo(f"Arena {name} is in phase {now}.")
    for one in () if shadow is None else shadow.models:
        said = one.why or "The same place."
        typer.echo(
            f"{one.legacy_rank or '–':>4} → {one.policy_rank or '–':<4} {escape_controls(one.model)}  {said}"
        )
    if shadow is not None and shadow.models:
        typer.echo(
            f"Ranks by legacy Elo, and by the policy, which orders phases 3 and 4: {shadow.votes:,} votes."
        )
    if phase is None or phase == now:
        return
    if yes or typer.confirm(f"Change to phase {phase}?"):
        run_with_pool(lambda pool: set_policy(pool, name, {"phase": phase}, actor="cli"))
        typer.echo(f"Arena {name} is in phase {phase} from the next vote.")


@database_command(app, "erase")
def erase(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; kept in the audit log.")],
    session: Annotated[int | None, typer.Option(min=1, help="Number of the voter's session.")] = None,
    voter: Annotated[
        str | None, typer.Option(help="Or the voter's name in a file of imported votes.")
    ] = None,
) -> None:
    """Erase a voter's data.

    Remarks, complaints, live prompts, the answers to them and the session's number are erased. The votes stay as
    nobody's. The audit log keeps the reason.
    """
    from tiltyard.arena.content.arenas import find_arena
    from tiltyard.arena.operators.vote_import import imported_session
    from tiltyard.arena.operators.voter_data import ErasedTexts, erase_session

    if (session is None) == (voter is None):
        raise BadOption("give --session or --voter, and not both")
    environment = serving_environment()

    async def erasing(pool: ConnectionPool) -> ErasedTexts:
        if session is not None:
            return await erase_session(pool, name, session, reason=reason, actor="cli")
        assert voter is not None
        number = imported_session(_keys(environment), (await find_arena(pool, name)).arena, voter)
        try:
            return await erase_session(pool, name, number, reason=reason, actor="cli")
        except NotFound:
            raise NotFound(f"{name} has nothing of {voter!r}; check the name, or it was erased") from None

    done = run_with_pool(erasing, connections=2)
    typer.echo(
        f"Erased {done.remarks} remarks, {done.complaints} notes of complaints, the details of"
        f" {done.details} matchups and the texts of {done.live_turns} live turns."
    )
    typer.echo("Votes, if there were any, stay as those of nobody.")
