"""Web asks arena for what the database has: it opens no connection, holds none, and runs no statement."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tiltyard.web

WEB = Path(tiltyard.web.__file__).parent
#: Names by which a connection is taken or used, and where an application keeps what is not typed.
FORBIDDEN = {"connected", "connect", "connect_async", "connection", "execute", "open_pool"}


def names_in(path: Path) -> Iterator[str]:
    """What a module calls."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            yield called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def test_no_module_takes_a_connection():
    found = {str(path.relative_to(WEB)): FORBIDDEN & set(names_in(path)) for path in WEB.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_state_of_an_application_is_read_in_one_place():
    found = [
        str(path.relative_to(WEB))
        for path in WEB.rglob("*.py")
        if "app.state" in path.read_text(encoding="utf-8")
    ]
    assert found == ["access/access.py"]
