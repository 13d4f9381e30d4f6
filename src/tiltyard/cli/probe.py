"""``tiltyard probe``: ask a running server whether it works, for health checks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound  # nosec B104
_ANSWER_LIMIT_BYTES = 10_000
_DEFAULT_SECONDS = 5.0


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
