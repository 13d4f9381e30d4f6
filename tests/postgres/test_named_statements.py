"""Named SQL statements: one loader for the arenas and for the ledger."""

import re
from collections import Counter

import pytest

from tiltyard.judges.ledger_database import ledger_statements
from tiltyard.postgres.statements import load_statements, statement, statements

ONE = "-- name: one\n-- What for.\nSELECT 1;\n"


def test_every_statement_has_its_own_name():
    assert statement("record_migration").startswith("INSERT INTO migrations")
    assert all(text and not text.endswith(";") for text in statements().values())
    with pytest.raises(KeyError):
        statement("nothing_of_that_name")


@pytest.mark.parametrize("load", [statements, ledger_statements])
def test_no_query_is_written_twice(load):
    often = Counter(re.sub(r"\s+", " ", text) for text in load().values())
    assert [text for text, times in often.items() if times > 1] == []


def test_statements_are_found_in_subfolders_and_other_files_are_ignored(tmp_path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "a.sql").write_text(ONE)
    (tmp_path / "b.sql").write_text("-- name: two\n-- Two lines\n-- of reasons.\nSELECT 2\nFROM b;\n")
    (tmp_path / "schema.sql").write_text("CREATE TABLE b (c int);\n")
    (tmp_path / "notes.txt").write_text("-- name: three\n")
    assert load_statements(tmp_path) == {"one": "SELECT 1", "two": "SELECT 2\nFROM b"}


def test_a_statement_without_a_description_is_an_error(tmp_path):
    (tmp_path / "x.sql").write_text("-- name: one\nSELECT 1;\n")
    with pytest.raises(ValueError, match="description line"):
        load_statements(tmp_path)


def test_a_name_that_two_files_define_is_an_error(tmp_path):
    (tmp_path / "x.sql").write_text(ONE)
    (tmp_path / "y.sql").write_text(ONE)
    with pytest.raises(ValueError, match=r"y\.sql: duplicate"):
        load_statements(tmp_path)
