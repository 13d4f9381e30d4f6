"""The named statements: each described, each used, each good for both databases."""

import re
from contextlib import closing
from importlib.resources import files

import pytest

from tiltyard.judges import ledger_database as log_connection
from tiltyard.judges.ledger_database import ledger_statements, open_database

SQL = files("tiltyard.judges") / "sql"
SOURCES = "".join(
    (files("tiltyard.judges") / name).read_text(encoding="utf-8")
    for name in ("ledger.py", "ledger_database.py")
)


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    assert set(re.findall(r'_sql\["(\w+)"\]', SOURCES)) == set(ledger_statements())


def test_every_statement_has_a_name_and_a_description() -> None:
    text = (SQL / "statements.sql").read_text(encoding="utf-8")
    named = re.findall(r"^-- name: (\w+)\n-- (\S.*)$", text, re.MULTILINE)
    assert len(named) == text.count("-- name:") == text.count(";\n") == len(ledger_statements())
    assert all(said.endswith((".", "?")) for _, said in named)


def test_every_table_has_a_description() -> None:
    text = (SQL / "schema.sql").read_text(encoding="utf-8")
    assert len(re.findall(r"^-- .*\nCREATE TABLE", text, re.MULTILINE)) == text.count("CREATE TABLE")


@pytest.mark.parametrize("name", sorted(ledger_statements()))
def test_every_statement_runs_on_both_databases(name: str, database: str) -> None:
    statement = ledger_statements()[name]
    values = dict.fromkeys(log_connection._PARAMETER.findall(statement), 1)
    texts = {
        "run",
        "plan",
        "estimate",
        "attempt_id",
        "request_key",
        "question_id",
        "judge",
        "dimension",
        "worker",
    }
    texts |= {"batch", "shard", "state", "provider_id", "name", "error"}
    values = {key: "x" if key in texts else b"x" if key == "body" else one for key, one in values.items()}
    with closing(open_database(database)) as opened:
        if statement.startswith("SELECT"):
            nothing = [(0,)] if statement.startswith("SELECT COUNT(*)") else []
            assert opened.rows(statement, values) == list(opened.stream(statement, values)) == nothing
        else:
            with opened.transaction():
                assert opened.change(statement, values) in {0, 1}


def test_tables_are_made_once_and_kept(database: str) -> None:
    for _ in range(2):
        with closing(open_database(database)) as opened, opened.transaction():
            opened.change(ledger_statements()["add_limit"], {"name": "key"})
    with closing(open_database(database)) as opened:
        assert opened.rows(ledger_statements()["get_limit"], {"name": "key"}) == [(0, 0)]
