"""The commands, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tiltyard._version import __version__
from tiltyard.cli import (
    backup,
    compare,
    demo,
    doctor,
    generate,
    init,
    judge,
    migrate,
    place,
    plan,
    rate,
    run,
    serve,
    simulate,
    token,
    verify,
)
from tiltyard.cli.exit_codes import JUDGE_UNUSABLE_EXIT_CODE
from tiltyard.errors import JudgeUnusable, TiltyardError
from tiltyard.report.terminal_escape import escape_controls

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Ends an interrupted command with the usual shell exit codes; 1 is reserved for failed checks (`verify`)."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has closed the pipe: write nothing more to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(141) from None
        except KeyboardInterrupt:
            typer.echo("tiltyard: stopped", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="tiltyard",
    cls=_Commands,
    help="Rank AI models by pairwise comparison, with rankings that can be defended.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("rate")(rate.rate)
app.command("compare")(compare.compare)
app.command("verify")(verify.verify)
app.command("init")(init.init)
app.command("plan")(plan.plan)
app.command("run")(run.run)
app.command("work")(run.work)
app.command("generate")(generate.generate)
app.command("place")(place.place)
app.command("simulate")(simulate.simulate)
app.command("serve")(serve.serve)
app.command("judge")(judge.judge)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("migrate")(migrate.migrate)
app.command("upgrade-database")(migrate.upgrade_database)
app.command("doctor")(doctor.doctor)
app.add_typer(token.app, name="token")
app.add_typer(demo.app, name="demo")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"tiltyard {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Rank AI models by pairwise comparison, with rankings that can be defended."""


@cache
def _command() -> Callable[..., object]:
    """All commands with their options, read from the functions' signatures once: that takes a tenth of a second."""
    return typer.main.get_command(app)


def main() -> None:
    """Run a command; every error ends in one message and an exit code."""
    try:
        _command()(prog_name="tiltyard")
    except TiltyardError as error:
        _fail(str(error))
        sys.exit(JUDGE_UNUSABLE_EXIT_CODE if isinstance(error, JudgeUnusable) else 2)
    except Exception as error:
        if os.environ.get("TILTYARD_DEBUG"):
            raise
        _fail(f"internal error: {type(error).__name__}: {error}")
        typer.echo(
            "This is a bug. Set TILTYARD_DEBUG=1 to see where it happened, and please report it.", err=True
        )
        sys.exit(70)


def _fail(message: str) -> None:
    typer.echo(f"tiltyard: {escape_controls(message)}", err=True)
