"""``tiltyard serve``: run arenas: database, web processes and rater."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.cli.database_options import Home, WaitNotice, serving_environment
from tiltyard.cli.progress import count_progress
from tiltyard.errors import BadOption, MissingExtra
from tiltyard.foundation.field_definitions import FieldDefinition, definitions
from tiltyard.foundation.option_names import with_options
from tiltyard.report.escapes import escape_controls
from tiltyard.settings.serving_settings import ServingSettings

if TYPE_CHECKING:
    from tiltyard.web.server.startup import StartupResult
    from tiltyard.wire.arenas import Imported


AsUser = Annotated[str | None, typer.Option(help="User that runs the embedded PostgreSQL if you are root.")]


def _with_serving_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each of the serving settings; one that is not given is ``None``."""
    settings = definitions(ServingSettings)
    return with_options(command, {name: _option(definition) for name, definition in settings.items()})


def _option(definition: FieldDefinition) -> Any:
    kind = definition.kind if definition.kind in (int, bool) else str
    default = definition.text(definition.default)
    first_sentence = definition.meaning.partition(". ")[0]
    words = f"{first_sentence[0].upper()}{first_sentence[1:]}"
    if definition.kind is not bool:
        words += f" ({definition.expected}{'; default ' + default if default else ''})"
    flag = f"--{definition.name.replace('_', '-')}"
    return Annotated[kind | None, typer.Option(flag, help=f"{words}.", show_default=False)]


@_with_serving_options
def serve(
    answers: Annotated[
        Path | None, typer.Argument(metavar="[ANSWERS]", help="File of answers to import into an arena.")
    ] = None,
    arena: Annotated[
        str | None, typer.Option(help="Arena for ANSWERS or --models; default: the file's name, live.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USE=HEADER,…",
            help="What columns of ANSWERS hold: prompt=question,model=llm,response=reply.",
        ),
    ] = None,
    only_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model of all ANSWERS, where no column names it.")
    ] = None,
    partly: Annotated[bool, typer.Option(help="Leave out rows of ANSWERS without a response.")] = False,
    models: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Models that answer people's prompts, as YAML.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="With --models: never spend more dollars than this.")
    ] = None,
    change_defences: Annotated[
        bool, typer.Option(help="Replace the address and the limits that were kept, by weaker ones too.")
    ] = False,
    home: Home = None,
    as_user: AsUser = None,
    **options: object,
) -> None:
    """Serve arenas: database, web processes and rater."""
    needed = ("fastapi", "uvicorn", "psycopg", "argon2", "prometheus_client")
    if any(find_spec(name) is None for name in needed):
        raise MissingExtra("arena", "tiltyard serve")
    from tiltyard.arena.content.answer_rows import PLAIN_READING, AnswerReading
    from tiltyard.arena.operators.installation import forget_defences
    from tiltyard.settings.serving_settings import read_serving
    from tiltyard.web.server.startup import prepare_server, run_server

    environment = serving_environment(home)
    settings = read_serving(environment.variables, **options)
    if answers is not None and not answers.is_file():
        raise BadOption(f"{answers}: file not found")
    if answers is not None and models is not None:
        raise BadOption("give a file of answers or --models, not both: they make two arenas; start with one")
    if budget is not None and models is None:
        raise BadOption("--budget limits what live models cost; give --models too")
    reading = None
    if columns or only_model or partly:
        if answers is None:
            raise BadOption("--columns, --only-model and --partly are about ANSWERS; name a file")
        from tiltyard.files.answer_formats.answer_columns import ColumnChoice

        # A comma may belong to a header: what follows it is an option of its own if it has an equals sign.
        words = [word for text in columns or () for word in re.split(r",(?=[^,=]*=)", text)]
        reading = AnswerReading(choice=ColumnChoice.parsed(words, only_model), partly=partly)
    live = None
    if models is not None:
        from tiltyard.arena.operators.arena_changes import LiveArenaRequest
        from tiltyard.cli.arena import load_entrants

        live = LiveArenaRequest(arena or "live", load_entrants(models, environment), budget=budget)

    async def prepare(url: str, served: ServingSettings) -> StartupResult:
        if change_defences:
            await forget_defences(url)
        shown = nullcontext() if answers is None else count_progress("importing answers")
        with shown as progress:
            told = None if progress is None else replace(reading or PLAIN_READING, progress=progress)
            return await prepare_server(
                url, environment, served, answers=answers, reading=told, arena=arena, live=live
            )

    run_server(
        environment, settings, prepare, _greet, as_user=as_user, on_wait=WaitNotice("starting PostgreSQL …")
    )
    typer.echo("Stopped.")


def _greet(settings: ServingSettings, prepared: StartupResult) -> None:
    address = settings.address()
    if settings.role == "rater":
        typer.echo("The rater is ready.")
        return
    typer.echo(f"Tiltyard is ready: {address}")
    if prepared.imported is not None:
        imported = prepared.imported
        typer.echo(
            f"Arena {prepared.arena}: {imported.responses:,} new responses of {imported.models:,} new models "
            f"to {imported.prompts:,} new prompts."
        )
        _warn(imported)
    elif prepared.live is not None:
        from tiltyard.cli.arena import print_live_setup

        print_live_setup(prepared.live, address.rstrip("/"))
    elif prepared.arenas:
        typer.echo(f"Arenas: {escape_controls(', '.join(prepared.arenas))}.")
    else:
        typer.echo(
            "There is no arena yet. Create one on the operator's pages, or start with a file: tiltyard serve answers.jsonl"
        )
    if prepared.link is not None:
        typer.echo(f"Create the operator account within the hour: {address}/claim/{prepared.link}")
    if prepared.unpatched:
        typer.echo(
            "Warning: the PostgreSQL in the extra arena lacks security releases; serve strangers from one of your own, with "
            "DATABASE_URL (tiltyard arena doctor lists what is missing)."
        )
    typer.echo("Press Ctrl-C to stop.")
    sys.stdout.flush()


def _warn(imported: Imported) -> None:
    """Warn about responses that mention a model's name, are empty, cut off or incomplete."""
    for suspect in imported.suspects:
        typer.echo(f"Warning: {escape_controls(suspect)}.")
    if imported.suspect > len(imported.suspects):
        more = imported.suspect - len(imported.suspects)
        typer.echo(f"Warning: {more:,} more responses are empty, cut off or incomplete.")
    for mention in imported.mentions:
        typer.echo(f"Warning: {escape_controls(mention)}.")
    if imported.mentioned > len(imported.mentions):
        typer.echo(f"Warning: {imported.mentioned - len(imported.mentions):,} more responses do so too.")
