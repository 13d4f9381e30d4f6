"""Jobs that note in the database when they begin and end, for processes of their own."""

import os
import time
from datetime import datetime

import psycopg

TABLE = "CREATE TABLE noted (moment timestamptz, what text)"


def note(url: str, moment: datetime) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO noted VALUES (%s, 'done')", (moment,))


def note_slowly(url: str, moment: datetime) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO noted VALUES (%s, 'begun')", (moment,))
        time.sleep(60)
        connection.execute("INSERT INTO noted VALUES (%s, 'done')", (moment,))


def fail(_url: str, _moment: datetime) -> None:
    raise OSError("the disk is full\0; free some\nand more")


def end_at_once(_url: str, _moment: datetime) -> None:
    os._exit(7)
