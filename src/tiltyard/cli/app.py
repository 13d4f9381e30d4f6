"""The commands, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tiltyard._version import __version__
from tiltyard.cli import (
    ab,
    agree,
    arena,
    demo,
    judge,
    maintenance,
    operator,
    panel,
    plan,
    rate,
    run,
    run_folders,
    serve,
    simulate,
)
from tiltyard.cli.database_options import database_command
from tiltyard.cli.options import JUDGE_UNUSABLE_EXIT_CODE
from tiltyard.cli.progress import show_fetches
from tiltyard.errors import BadConfig, JudgeUnusable, TiltyardError
from tiltyard.foundation.option_names import command_line_spelling
from tiltyard.report.escapes import escape_controls

_BUG_EXIT_CODE = 70
#: The commands of each way in, as `--help` shows them.
_WAYS_IN = {
    "Ratings": ("ab", "check", "rate", "compare", "verify", "publish"),
    "Tournaments": ("init", "plan", "run", "read", "agree", "generate", "place"),
    "Arenas": ("simulate", "serve", "demo", "arena"),
}


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

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as click calls it
        for way, names in _WAYS_IN.items():
            with formatter.section(way):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(70)) for name in names])


app = typer.Typer(
    name="tiltyard",
    cls=_Commands,
    help="Rank AI models by pairwise comparison, with rankings that can be defended.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("ab")(ab.ab)
app.command("check")(rate.check)
app.command("rate", cls=rate.RateCommand)(rate.rate)
app.command("compare")(rate.compare)
app.command("verify")(run_folders.verify)
app.command("publish")(run_folders.publish)
app.command("init")(plan.init)
app.command("plan", cls=plan.PlanCommand)(plan.plan)
app.command("run")(run.run)
app.command("read")(run_folders.read)
database_command(app, "agree")(agree.agree)
app.command("generate")(run.generate)
app.command("place")(run.place)
app.command("simulate")(simulate.simulate)
app.command("serve")(serve.serve)
app.add_typer(demo.app, name="demo")
app.add_typer(arena.app, name="arena")
database_command(arena.app, "backup")(maintenance.backup)
database_command(arena.app, "restore")(maintenance.restore)
database_command(arena.app, "migrate", first=True)(maintenance.migrate)
database_command(arena.app, "upgrade-database")(maintenance.upgrade_database)
database_command(arena.app, "doctor")(maintenance.doctor)
arena.app.command("probe")(maintenance.probe)
arena.app.command("judge")(judge.judge)
arena.app.add_typer(operator.app, name="operator")
arena.app.add_typer(operator.token_app, name="token")
arena.app.add_typer(panel.app, name="panel")


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
def _command(name: str) -> Callable[..., object]:
    """The command of this name; all commands if there is none, for help and errors.

    Reading the options of all from their signatures takes longer than rating a small file.
    """
    commands = [command for command in app.registered_commands if command.name == name]
    groups = [group for group in app.registered_groups if group.name == name]
    chosen = copy(app)
    if commands or groups:
        chosen.registered_commands, chosen.registered_groups = commands, groups
    return typer.main.get_command(chosen)


def main() -> None:
    """Run a command; every error ends in one message and an exit code."""
    if (failure := _failure()) is not None:
        lines, code = failure
        # What the error's traceback held is dropped here, with its readers: a reader's thread that still runs when
        # the interpreter ends would abort the process.
        gc.collect()
        typer.echo("tiltyard: " + "\n".join(map(escape_controls, lines)), err=True)
        if code == _BUG_EXIT_CODE:
            typer.echo(
                "This is a bug. Set TILTYARD_DEBUG=1 to see where it happened, and please report it.",
                err=True,
            )
        sys.exit(code)


def _failure() -> tuple[Sequence[str], int] | None:
    """Run a command; what went wrong, line by line, and the exit code for it."""
    try:
        with command_line_spelling(), show_fetches():
            _command("".join(sys.argv[1:2]))(prog_name="tiltyard")
    except BadConfig as error:
        return error.problems, 2
    except TiltyardError as error:
        return [str(error)], JUDGE_UNUSABLE_EXIT_CODE if isinstance(error, JudgeUnusable) else 2
    except Exception as error:
        if os.environ.get("TILTYARD_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return [f"cannot write: {error.strerror}"], 2
        return [f"internal error: {type(error).__name__}: {error}"], _BUG_EXIT_CODE
    return None
