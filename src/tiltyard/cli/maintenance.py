"""Commands that keep a service running: ``backup``, ``restore``, ``migrate``, ``upgrade-database``, ``doctor``, ``probe``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import WaitNotice, database, database_user, serving_environment
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.maintenance.doctor import HealthCheck
    from tiltyard.arena.maintenance.restore import RestoreResult

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound
_ANSWER_LIMIT_BYTES = 10_000
_DEFAULT_SECONDS = 5.0


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(help="File to write; default: a new file in the folder backups of the home."),
    ] = None,
) -> None:
    """Back up database and responses into one file.

    The arenas can keep running meanwhile.
    """
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.backup import back_up

    environment = serving_environment()
    with database() as url:
        made = back_up(url, environment.home, open_configured_storage(environment), file)
    typer.echo(
        f"Written to {escape_controls(str(made.path))}: {made.size:,} bytes, {_arenas(made.manifest.arenas)}. The"
        " secret key is not in it: keep a copy of secret.key, or of TILTYARD_SECRET_KEY, elsewhere."
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `tiltyard arena backup` wrote.")],
    revoke_all: Annotated[
        bool,
        typer.Option("--revoke-all", help="Revoke all restored tokens and operator passwords."),
    ] = False,
) -> None:
    """Restore a backup into an empty home or database.

    Checks the log of every arena afterwards.
    """
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.backup import read_backup
    from tiltyard.arena.maintenance.restore import restore as restore_backup
    from tiltyard.arena.secret_keys import KEY_FILE, KEY_VARIABLE

    environment = serving_environment()
    read_backup(file)
    with database() as url:
        restored = restore_backup(
            file, url, environment.home, open_configured_storage(environment), revoke_all=revoke_all
        )
    manifest = restored.manifest
    typer.echo(f"Restored the state of {manifest.made_at}: {_arenas(manifest.arenas)}.")
    if not (environment.home / KEY_FILE).exists() and KEY_VARIABLE not in environment.variables:
        typer.echo(
            "Before it is served, put secret.key back into the home: without it everybody is signed out, voters count as "
            "new, second factors must be set up again, and exports have other pseudonyms."
        )
    for line in _access_lines(restored):
        typer.echo(escape_controls(line))


def _access_lines(restored: RestoreResult) -> Iterator[str]:
    """Lists the access that a restore makes valid again: the backup cannot know what was revoked, changed or
    withdrawn after it was made.
    """
    access, since = restored.access, restored.manifest.made_at
    credentials = [f"token {number}: {description}" for number, description in access.tokens.items()]
    credentials += [f"the password of operator {name}" for name in access.operators]
    for count, what in (
        (access.operator_sessions, "operator sessions"),
        (access.operator_links, "operator links"),
        (access.invitations, "invitations and passcodes of private arenas"),
    ):
        credentials += [f"{count:,} {what}"] if count else []
    if restored.revoked:
        yield "Revoked all restored credentials:" if credentials else "The backup contains nothing to revoke."
    elif credentials:
        yield f"Valid again, even if revoked or changed after {since}:"
    yield from (f"  {line}" for line in credentials)
    if restored.revoked and credentials:
        yield "Create new ones: tiltyard arena token create, tiltyard arena token operator."
    elif credentials:
        yield "Revoke what should not be: tiltyard arena token revoke NUMBER; tiltyard arena token operator sets another password."
    if access.responses:
        yield f"Shown again, even if withdrawn after {since}; withdraw such responses and prompts again:"
    for counts in access.responses:
        yield (
            f"  arena {counts.arena}: {counts.shown:,} responses; {counts.withdrawn:,} withdrawn before stay withdrawn"
        )


def _arenas(heads: dict[str, int]) -> str:
    listed = ", ".join(f"{escape_controls(name)} up to event {head:,}" for name, head in heads.items())
    return listed or "no arenas"


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if migrations are pending.")
    ] = False,
) -> None:
    """Migrate the tables to this version. The arenas can keep running."""
    from tiltyard.postgres.schema_migrations import migrate as migrated
    from tiltyard.postgres.schema_migrations import pending_migrations

    with database() as url:
        names = pending_migrations(url) if check else migrated(url)
    for name in names:
        typer.echo(f"{'pending' if check else 'applied'}: {name}")
    if not names:
        typer.echo("The tables are up to date.")
    elif check:
        raise typer.Exit(1)


def upgrade_database(
    old_binaries: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the PostgreSQL programs that created the data."),
    ] = None,
) -> None:
    """Upgrade the embedded database to a new PostgreSQL.

    Makes a backup first.
    """
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.maintenance.major_upgrade import upgrade_database as upgraded

    environment = serving_environment()
    if environment.database_url is not None:
        raise BadOption(
            "DATABASE_URL is set: an external server is upgraded by its administrator; unset it to upgrade the "
            "embedded database"
        )
    done = upgraded(
        environment.home,
        open_configured_storage(environment),
        user=database_user(),
        old_binaries=old_binaries,
        on_wait=WaitNotice(),
    )
    if done is None:
        typer.echo("The database already has this version.")
        return
    if done.problem:
        typer.echo(
            escape_controls(f"pg_upgrade failed: {done.problem}.")
            + " The backup was restored into a new database instead."
        )
    typer.echo(
        f"Upgraded from PostgreSQL {done.old} to {done.new}. Backup: {escape_controls(str(done.backup))}. The old data"
        f" are in {escape_controls(str(done.kept))}; delete them once you have checked the new database."
    )


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check database, disk, clock, raters, backup and keys."""
    from tiltyard.arena.maintenance.doctor import examine_home

    environment = serving_environment()
    checks = [*_database_checks(), *examine_home(environment.home, environment.variables)]
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            advice = f" → {check.advice}" if check.advice else ""
            typer.echo(escape_controls(f"{check.state:<4} {check.name}: {check.value}{advice}"))
    if any(check.state == "bad" for check in checks):
        raise typer.Exit(1)


def _database_checks() -> list[HealthCheck]:
    """Check the database. An embedded database that does not exist yet is not created."""
    from tiltyard.arena.maintenance.doctor import HealthCheck, examine_database
    from tiltyard.errors import StoreFault

    environment = serving_environment()
    if environment.database_url is None and not (environment.home / "postgres" / "data").exists():
        return [
            HealthCheck("database", "look", f"none in {environment.home} yet", "tiltyard serve creates one")
        ]
    try:
        with database() as url:
            return examine_database(
                url, embedded=environment.database_url is None, pooler_url=environment.pooler_url
            )
    except StoreFault as error:
        return [HealthCheck("database", "bad", "does not start", str(error))]


def probe(
    port: Annotated[
        int | None,
        typer.Option(help="Port to ask; default TILTYARD_METRICS_PORT, else TILTYARD_PORT or 8420."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to ask; default TILTYARD_METRICS_HOST or 127.0.0.1.")
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether it is ready, not only whether it works.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = _DEFAULT_SECONDS,
) -> None:
    """Check whether a running server works."""
    from tiltyard.settings.environment import read_environment

    variables = read_environment().variables
    monitoring = variables.get("TILTYARD_METRICS_PORT", "").strip()
    stated = str(port or monitoring or variables.get("TILTYARD_PORT", "").strip() or "8420")
    if not stated.isdecimal():
        raise BadOption(f"the port is {stated!r}; expected a number")
    address = host or variables.get("TILTYARD_METRICS_HOST", "").strip() or "127.0.0.1"
    problem = _ask(
        _ANY_ADDRESS.get(address, address), int(stated), "/readyz" if ready else "/healthz", seconds
    )
    if problem is not None:
        typer.echo(escape_controls(problem), err=True)
        raise typer.Exit(1)
    typer.echo("ok")


def _ask(host: str, port: int, path: str, seconds: float) -> str | None:
    """What is wrong, or ``None``."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(_ANSWER_LIMIT_BYTES)
    except (OSError, HTTPException) as error:
        return f"no answer from {host} port {port}: {error}"
    finally:
        connection.close()
    if answer.status == 200:
        return None
    return f"{host} port {port} answers {answer.status}: {_problems(body)}"


def _problems(body: bytes) -> str:
    try:
        told = json.loads(body)
        return "; ".join(told.get("problems") or [str(told.get("detail", "no details"))])
    except (ValueError, AttributeError, TypeError):
        return "no details"
