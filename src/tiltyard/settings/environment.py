"""The environment: variables and ``.env`` files, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tiltyard.errors import BadConfig, BadOption, MissingExtra
from tiltyard.settings.model_endpoints import REPLAY, EndpointRoute, key_variable

SESSION_URL_VARIABLE = "TILTYARD_SESSION_DATABASE_URL"

#: Variables that limit linear algebra to one thread. The libraries read them when they are loaded, so they apply only
#: to processes started with them. An arena's matrices are too small to benefit from threads.
ONE_THREAD: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        (
            "OPENBLAS_NUM_THREADS",
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
            "BLIS_NUM_THREADS",
            "VECLIB_MAXIMUM_THREADS",
        ),
        "1",
    )
)


class ModelEndpoint(Protocol):
    """A judge, or any other model served by a provider."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key_env(self) -> str | None: ...
    @property
    def path(self) -> str | None: ...
    @property
    def query(self) -> Mapping[str, str]: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def query_env(self) -> Mapping[str, str]: ...
    @property
    def headers_env(self) -> Mapping[str, str]: ...
    @property
    def api_key_header(self) -> str | None: ...


@dataclass(frozen=True)
class Environment:
    """The environment when it was read. Keys are not shown in its repr."""

    #: The folder for data that outlives a run.
    home: Path
    #: The database, without a pooler that shares sessions; ``None`` for the embedded server.
    database_url: str | None = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    #: A pooler before the same database, for the connection pools of web processes; ``None`` if there is none.
    pooler_url: str | None = field(default=None, repr=False)

    def api_key(self, served: ModelEndpoint) -> str | None:
        """The API key of a judge; ``None`` if no key should be sent."""
        if served.provider == REPLAY:
            return None
        name = key_variable(served.provider, served.api_key_env, served.base_url)
        return None if name is None else self._secret(served, name, "a key")

    def route(self, served: ModelEndpoint, *, asking: bool) -> EndpointRoute:
        """How a model is reached. ``asking``: it will be called, so the variables of its secrets are required."""
        secrets = {
            setting: {field: self._secret(served, name, field) for field, name in names.items()}
            for setting, names in (("headers", served.headers_env), ("query", served.query_env))
            if asking
        }
        return EndpointRoute(
            served.path,
            served.query,
            served.headers,
            served.api_key_header,
            secrets.get("query", {}),
            secrets.get("headers", {}),
        )

    def _secret(self, served: ModelEndpoint, name: str, what: str) -> str:
        value = self.variables.get(name, "").strip()
        if not value:
            raise BadConfig(
                f"{served.model} at {served.provider} needs {what}: set the variable {name}, or add "
                f"{name}=… to a .env file in the working folder or next to the configuration"
            )
        if not (value.isascii() and value.isprintable()):
            raise BadConfig(f"the variable {name} has characters that cannot be sent; set it again")
        return value


def read_environment(
    config_folder: Path | None = None,
    *,
    working_folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Environment:
    """Read the variables, then ``.env`` in the working folder, then ``.env`` next to the configuration.

    The first one that sets a variable takes precedence.
    """
    here = working_folder or Path.cwd()
    merged: dict[str, str] = {}
    for folder in (config_folder, here):
        if folder is not None:
            merged.update(_dotenv(folder / ".env"))
    merged.update(os.environ if variables is None else variables)
    # The database, and the pooler before it: if there is a URL for sessions, DATABASE_URL is that of a pooler.
    stated, session = merged.get("DATABASE_URL") or None, merged.get(SESSION_URL_VARIABLE) or None
    if session is not None and stated is None:
        raise BadOption(
            f"{SESSION_URL_VARIABLE} is set, but DATABASE_URL is not; set both, or DATABASE_URL only"
        )
    database_url, pooler_url = session or stated, None if session in {None, stated} else stated
    return Environment(_home(merged, here), database_url, MappingProxyType(merged), pooler_url)


def _home(variables: Mapping[str, str], here: Path) -> Path:
    stated = variables.get("TILTYARD_HOME")
    if stated:
        return here / _expanded(stated)
    data = variables.get("XDG_DATA_HOME", "")
    if Path(data).is_absolute():
        return Path(data) / "tiltyard"
    return _expanded("~/.local/share/tiltyard")


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadOption("no home folder found; set TILTYARD_HOME to an absolute path") from None


def _dotenv(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        from dotenv import dotenv_values
    except ImportError:
        raise MissingExtra("judges", f"reading {path}") from None
    try:
        return {name: value for name, value in dotenv_values(path).items() if value is not None}
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadConfig(f"{path}: cannot be read: {problem}") from None
