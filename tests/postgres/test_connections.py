"""Connections: what the driver says, in our words and without secrets."""

import asyncio
import subprocess
import sys

import psycopg
import pytest

from support.postgres_servers import fresh_database
from tiltyard.errors import BadOption, StoreFault
from tiltyard.postgres.connections import connect, connect_async, translate_errors

CLOSED = "postgresql://someone:s3cret@127.0.0.1:1/nothing"


def test_connections_commit_by_themselves_and_tell_their_name(server):
    with connect(server, name="tiltyard test") as connection:
        assert connection.autocommit
        assert connection.execute("SHOW application_name").fetchone() == ("tiltyard test",)


def test_asynchronous_connections_do_too(server):
    async def ask():
        async with await connect_async(server, name="tiltyard test") as connection:
            assert connection.autocommit
            return await (await connection.execute("SHOW application_name")).fetchone()

    assert asyncio.run(ask()) == ("tiltyard test",)


@pytest.mark.parametrize("opened", [connect, lambda url: asyncio.run(connect_async(url))])
def test_a_server_that_is_not_there_is_told_without_the_password(opened):
    with pytest.raises(StoreFault, match="cannot connect") as caught:
        opened(CLOSED)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:s3cret@[::1/x",
        "postgresql://someone:s3cret@127.0.0.1:1/x?nonsense=1",
        "postgresql://127.0.0.1:1/x?password=s3cret&what",
    ],
)
def test_an_address_that_cannot_be_read_is_told_without_the_password(url):
    with pytest.raises(StoreFault) as caught:
        connect(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["sqlite:///x", "postgresql+psycopg://u:s3cret@h/d", "", "host=x password=s3cret"]
)
def test_another_kind_of_address_is_refused(url):
    with pytest.raises(BadOption, match="expected postgresql://") as caught:
        connect(url)
    assert "s3cret" not in str(caught.value)


def test_a_missing_database_and_missing_tables_are_told_with_what_to_do(server):
    with pytest.raises(StoreFault, match="create the database"):
        connect(f"{server}_none")
    with (
        connect(server) as connection,
        pytest.raises(StoreFault, match="migrate"),
        translate_errors("read it"),
    ):
        connection.execute("SELECT * FROM arenas_of_nobody")


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), translate_errors("divide"):
        _ = 1 / 0


def test_passwords_in_messages_of_the_driver_are_left_out():
    with pytest.raises(StoreFault) as caught, translate_errors("try"):
        raise psycopg.OperationalError(
            "bad postgresql://u:s3cret@h/d and password='s3cret two' PASSWORD=s3cret"
        )
    assert "s3cret" not in str(caught.value)
    assert "postgresql://u:…@h/d" in str(caught.value)


def test_rows_that_the_server_quotes_are_left_out(server):
    with fresh_database(server) as url, connect(url) as connection:
        connection.execute("CREATE TABLE texts (text text UNIQUE CHECK (text <> 'private two'))")
        connection.execute("INSERT INTO texts VALUES ('private one')")
        for text in ("private one", "private two"):
            with pytest.raises(StoreFault, match="cannot write it") as caught, translate_errors("write it"):
                connection.execute("INSERT INTO texts VALUES (%s)", [text])
            assert "private" not in str(caught.value)


def test_without_the_driver_the_extra_is_named():
    code = """
import sys
sys.modules["psycopg"] = None
from tiltyard.errors import MissingExtra
try:
    import tiltyard.postgres.connections
except MissingExtra as error:
    print(error.extra)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "arena\n"
