"""``tiltyard arena``: operate on one arena of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tiltyard.cli.arena_entry import Name, add_entry_commands
from tiltyard.cli.arena_release import add_release_commands
from tiltyard.cli.database_options import AsUser, Home, database, serving_environment
from tiltyard.cli.live_models import live
from tiltyard.errors import Conflict

app = typer.Typer(
    help="Live models, invitations; move or archive; erase voters.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
add_entry_commands(app)
add_release_commands(app)
app.command("live")(live)


@app.command("move")
def move(name: Name, home: Home = None, as_user: AsUser = None) -> None:
    """Give an arena tables of its own, while people vote.

    Takes at least 72 seconds. If it is interrupted, run it again.
    """
    import asyncio

    with database(serving_environment(home), as_user, migrating=False) as url:
        asyncio.run(_move(url, name))


@app.command("erase")
def erase(
    name: Name,
    session: Annotated[int, typer.Option(min=1, help="Number of the voter's session.")],
    reason: Annotated[str, typer.Option(help="Why; kept in the audit log.")],
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Erase a voter's data.

    Remarks, complaints, live prompts, the answers to them and the session's number are erased. The votes stay as
    nobody's, or are removed, as the arena's setting erased_votes says. The audit log keeps the reason.
    """
    import asyncio

    with database(serving_environment(home), as_user, migrating=False) as url:
        asyncio.run(_erase(url, name, session, reason))


@app.command("archive")
def archive(
    name: Name,
    to: Annotated[Path, typer.Option(help="Folder for the segments of this arena.")],
    voters: Annotated[
        Path | None,
        typer.Option(help="File with the voters' numbers; default voters/NAME.parquet in TILTYARD_HOME."),
    ] = None,
    supersede: Annotated[
        Literal["erasure", "damage", "format"] | None,
        typer.Option(
            help="Instead write the segments again, for this reason, and replace those that differ."
        ),
    ] = None,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Copy what is final of an arena's log to Parquet.

    Nothing is deleted from the database.
    """
    from tiltyard.arena.maintenance.segment_writer import SegmentArchive, archive_log

    environment = serving_environment(home)
    numbers = voters or environment.home / "voters" / f"{name}.parquet"
    with database(environment, as_user, migrating=False) as url:
        made = archive_log(url, name, SegmentArchive(to, numbers), supersede=supersede)
    for segment in made:
        stated = segment.manifest
        typer.echo(f"Wrote {segment.folder}, generation {stated.generation}, SHA-256 {segment.sha256}")
    typer.echo(f"{len(made)} segments were {'written' if supersede is None else 'replaced'}.")


async def _move(url: str, name: str) -> None:
    from tiltyard.arena.maintenance import arena_moves
    from tiltyard.postgres.connections import open_pool

    times = arena_moves.DEFAULT_TIMES

    async with open_pool(url, most=2, name="tiltyard move") as pool:
        try:
            made = await arena_moves.move_arena(pool, name, actor="cli", times=times)
        except Conflict as error:
            # After an interruption the arena may be moved, and its old copy still there.
            deleted = await arena_moves.delete_old_copy(pool, name, actor="cli", times=times)
            if deleted is None:
                raise error from None
        else:
            typer.echo(
                f"Moved {made.events:,} events from bucket {made.source} to {made.target}; votes waited"
                f" {made.locked_seconds:.3f} s. The old copy is deleted in a minute."
            )
            deleted = await arena_moves.delete_old_copy(pool, name, actor="cli", times=times)
    typer.echo(f"The old copy of {deleted or 0:,} events is deleted.")


async def _erase(url: str, name: str, session: int, reason: str) -> None:
    from tiltyard.arena.operators.session_erasure import erase_session
    from tiltyard.postgres.connections import open_pool

    async with open_pool(url, most=2, name="tiltyard erase") as pool:
        done = await erase_session(pool, name, session, reason=reason, actor="cli")
    typer.echo(
        f"Erased {done.remarks} remarks, {done.complaints} notes of complaints, the details of"
        f" {done.details} matchups and the texts of {done.live_turns} live turns."
    )
    if done.votes:
        typer.echo(f"{done.votes} votes left the boards, which are computed again.")
    else:
        typer.echo("Votes, if there were any, stay as those of nobody.")
