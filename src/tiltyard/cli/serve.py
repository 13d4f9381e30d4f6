"""``tiltyard serve``: run arenas: database, web processes and rater."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import AsUser, Home, serving_environment
from tiltyard.errors import BadOption, MissingExtra
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.content.answer_import import ImportResult
    from tiltyard.arena.operators.live_setup import LiveArenaRequest
    from tiltyard.settings.environment import Environment
    from tiltyard.settings.serving_settings import ServingSettings
    from tiltyard.web.server.startup import StartupResult


def serve(
    answers: Annotated[
        Path | None, typer.Argument(metavar="[ANSWERS]", help="File of answers to import into an arena.")
    ] = None,
    arena: Annotated[
        str | None, typer.Option(help="Arena for ANSWERS or --models; default: the file's name, live.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Models that answer people's prompts, as YAML.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="With --models: never spend more dollars than this.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind; default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to bind; default 8420, 0 for any free port.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Public URL. Required if others can reach the port.")
    ] = None,
    trusted_proxies: Annotated[
        str | None, typer.Option(help="Proxies whose X-Forwarded headers are trusted: 10.0.0.7,10.1.0.0/16.")
    ] = None,
    tls_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="Serve https with this certificate and chain (PEM).")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Key of the certificate (PEM, no passphrase).")
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Others may use plain HTTP, in a closed network.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Number of web processes; default 1.")] = None,
    role: Annotated[
        str | None, typer.Option(help="Role of this machine: all, web or rater; default all.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Separate port for /metrics, without a token.")
    ] = None,
    metrics_host: Annotated[
        str | None, typer.Option(help="Address to bind for /metrics; default 127.0.0.1.")
    ] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log every request, not only failed ones.")
    ] = False,
    home: Home = None,
    as_user: AsUser = None,
) -> None:
    """Serve arenas: database, web processes and rater."""
    _check_installed()
    from tiltyard.settings.serving_settings import read_serving
    from tiltyard.web.server.startup import prepare_server, run_server

    environment = serving_environment(home)
    proxies = None
    if trusted_proxies is not None:
        proxies = tuple(part.strip() for part in trusted_proxies.split(",") if part.strip())
    settings = read_serving(
        environment.variables,
        host=host,
        port=port,
        base_url=None if base_url is None else base_url.rstrip("/"),
        trusted_proxies=proxies,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        plain_http=plain_http or None,
        workers=workers,
        role=role,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        log_requests=log_requests or None,
    )
    if answers is not None and not answers.is_file():
        raise BadOption(f"{answers}: file not found")
    if answers is not None and models is not None:
        raise BadOption("give a file of answers or --models, not both: they make two arenas; start with one")
    if budget is not None and models is None:
        raise BadOption("--budget limits what live models cost; give --models too")
    live = None if models is None else _live_request(environment, arena or "live", models, budget)

    async def prepare(url: str, served: ServingSettings) -> StartupResult:
        return await prepare_server(url, environment, served, answers=answers, arena=arena, live=live)

    run_server(
        environment, settings, prepare, _greet, as_user=as_user, on_wait=_waiting("starting PostgreSQL")
    )
    typer.echo("Stopped.")


def _live_request(
    environment: Environment, name: str, models: Path, budget: float | None
) -> LiveArenaRequest:
    from tiltyard.arena.operators.live_setup import LiveArenaRequest
    from tiltyard.cli.arena import load_entrants

    return LiveArenaRequest(name, load_entrants(models, environment), budget=budget)


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
    if settings.hides_addresses:
        typer.echo(
            "Warning: no proxy is trusted, so that all voters seem to come from one address and share its limits; name "
            "the proxy with --trusted-proxies."
        )
    typer.echo("Press Ctrl-C to stop.")
    sys.stdout.flush()


def _warn(imported: ImportResult) -> None:
    """Warn about responses that mention a model's name, are empty, cut off or incomplete."""
    for suspect in imported.suspects:
        typer.echo(f"Warning: {escape_controls(str(suspect))}.")
    if imported.suspect > len(imported.suspects):
        more = imported.suspect - len(imported.suspects)
        typer.echo(f"Warning: {more:,} more responses are empty, cut off or incomplete.")
    for mention in imported.mentions:
        typer.echo(f"Warning: {escape_controls(str(mention))}.")
    if imported.mentioned > len(imported.mentions):
        typer.echo(f"Warning: {imported.mentioned - len(imported.mentions):,} more responses do so too.")


def _waiting(what: str) -> Callable[[float], None]:
    """Print one message if it takes longer than three seconds."""
    said = False

    def waiting(seconds: float) -> None:
        nonlocal said
        if seconds > 3 and not said:
            said = True
            typer.echo(f"{what} …", err=True)

    return waiting


def _check_installed() -> None:
    from importlib.util import find_spec

    if any(
        find_spec(name) is None for name in ("fastapi", "uvicorn", "psycopg", "argon2", "prometheus_client")
    ):
        raise MissingExtra("arena", "tiltyard serve")
