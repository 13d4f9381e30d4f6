"""The environment: variables and ``.env`` files, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from tiltyard.errors import BadConfig, BadOption, MissingExtra
from tiltyard.settings.tournament_sections import KEY_VARIABLES

__all__ = ["ONE_THREAD", "Environment", "ModelEndpoint", "read_environment"]

#: Variables that keep linear algebra to one thread. Its libraries read them when they are loaded, so they hold in
#: processes that are started with them. Results of several threads differ in their last bits, and the matrices of an
#: arena are too small to gain from them.
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
    """A judge, or whatever else is served by a provider."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key_env(self) -> str | None: ...


@dataclass(frozen=True)
class Environment:
    """What the environment said when it was read. Keys are not shown in its repr."""

    #: Where Tiltyard keeps what outlives a run.
    home: Path
    database_url: str | None = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)

    def api_key(self, served: ModelEndpoint) -> str | None:
        """The key for a judge; ``None`` where none is to be sent.

        A provider's usual variable is read for its own address only: whoever serves another
        address gets a key only if the configuration names the variable.
        """
        name = served.api_key_env
        if name is None and served.base_url is None:
            name = KEY_VARIABLES.get(served.provider)
        if name is None or served.provider == "replay":
            return None
        key = self.variables.get(name, "").strip()
        if not key:
            raise BadConfig(
                f"{served.model} at {served.provider} needs a key: set the variable {name}, or write "
                f"{name}=… into a file .env in the working folder or beside the configuration"
            )
        return key


def read_environment(
    config_folder: Path | None = None,
    *,
    working_folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Environment:
    """Read the variables, then ``.env`` in the working folder, then ``.env`` beside the configuration.

    The first that sets a variable wins.
    """
    here = working_folder or Path.cwd()
    merged: dict[str, str] = {}
    for folder in (config_folder, here):
        if folder is not None:
            merged.update(_dotenv(folder / ".env"))
    merged.update(os.environ if variables is None else variables)
    return Environment(_home(merged, here), merged.get("DATABASE_URL") or None, MappingProxyType(merged))


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
        raise BadOption("there is no home folder; set TILTYARD_HOME to an absolute path") from None


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
