"""The tables as they are after all migrations, in PostgreSQL's own words.

``PYTHONPATH=tests python tests/schema_listing.py`` writes them anew to src/tiltyard/postgres/schema.sql.
"""

import re
from pathlib import Path

from postgres_servers import fresh_database, postgres
from tiltyard.arena.maintenance.dump_archive import without_private_options
from tiltyard.postgres.binaries import Binaries, bundled_folder, without_password
from tiltyard.postgres.schema_migrations import migrate

SCHEMA = Path(__file__).parents[1] / "src" / "tiltyard" / "postgres" / "schema.sql"
_HEAD = """\
-- The tables as they are after all migrations: written by tests/schema_listing.py from a real
-- database, compared with one by a test, and read by nobody but you.

"""


def schema_of(url: str) -> str:
    """The schema of a database, without what differs between servers and between dumps."""
    shown, add = without_password(url)
    options = ("--schema-only", "--no-owner", "--no-privileges", "--no-tablespaces", "--no-comments")
    text = Binaries(bundled_folder()).run("pg_dump", *options, "-d", shown, add=add)
    # A statement that set nothing but a server's own options is a line of spaces now.
    text = re.sub(r"^ +\n", "", without_private_options(text.encode()).decode(), flags=re.MULTILINE)
    kept = [line for line in text.splitlines() if not re.match(r"--|SET |SELECT pg_catalog|\\", line)]
    return _HEAD + re.sub(r"\n{2,}", "\n\n", "\n".join(kept)).strip() + "\n"


if __name__ == "__main__":
    with postgres() as server, fresh_database(server) as database:
        migrate(database)
        SCHEMA.write_text(schema_of(database), encoding="utf-8")
