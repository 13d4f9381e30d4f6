"""The command, run in this process."""

from __future__ import annotations

import io
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from tiltyard.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


class Watched(io.StringIO):
    """A terminal with a person before it."""

    def isatty(self) -> bool:
        return True


def run(*arguments: object, stdin: bytes = b"", watched: bool = False) -> Ran:
    """What ``tiltyard`` with these arguments prints and returns."""
    out, err = io.StringIO(), Watched() if watched else io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(patch.object(sys, "argv", ["tiltyard", *map(str, arguments)]))
        stack.enter_context(patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))))
        stack.enter_context(patch.dict("os.environ", {"COLUMNS": "80"}))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return Ran(code, out.getvalue(), err.getvalue())
