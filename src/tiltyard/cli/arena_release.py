"""Commands of ``tiltyard arena`` that take conversations and prompts out of a live arena."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena_entry import Name
from tiltyard.cli.database_options import AsUser, Home, database, serving_environment

if TYPE_CHECKING:
    from tiltyard.arena.live.conversation_release import ReleaseCounts


def add_release_commands(app: typer.Typer) -> None:
    """Add the commands to ``tiltyard arena``."""
    app.command("conversations")(conversations)
    app.command("promote-prompts")(promote_prompts)


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
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Write live conversations and votes as Parquet.

    Shuffled and without voters. Only of voters who agreed to the arena's consent, if it has one. Erased texts and void battles are left out.
    """
    from tiltyard.arena.live.conversation_release import write_conversations
    from tiltyard.arena.secret_keys import KEY_VARIABLE, open_keys

    environment = serving_environment(home)
    keys = open_keys(environment.home, environment.variables.get(KEY_VARIABLE))
    with database(environment, as_user, migrating=False) as url:
        counts = write_conversations(
            url,
            keys,
            name,
            out,
            release=release,
            with_flagged=with_flagged,
            exact_for="cli" if exact else None,
        )
    typer.echo(f"Wrote {counts.turns:,} turns of {counts.battles:,} battles to {out}.{_left_out(counts)}")


def promote_prompts(
    name: Name,
    out: Annotated[Path, typer.Option(help="The JSON Lines file to write.")],
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Write the distinct prompts of a live arena.

    `tiltyard generate` and tournaments read it. Prompts with private data or flags are left out.
    """
    from tiltyard.arena.live.prompt_promotion import promote_prompts as promote

    with database(serving_environment(home), as_user, migrating=False) as url:
        counts = promote(url, name, out)
    typer.echo(f"Wrote {counts.battles:,} prompts to {out}.{_left_out(counts)}")


def _left_out(counts: ReleaseCounts) -> str:
    if not counts.left_out:
        return ""
    parts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.left_out.items()))
    return f" Battles left out: {parts}."
