"""The tables as they are after all migrations, in PostgreSQL's own words."""

import re

from tiltyard.arena.maintenance.backup import without_private_options
from tiltyard.postgres.binaries import Binaries, bundled_folder, without_password


def schema_of(url: str) -> str:
    """The schema of a database, without what differs between servers and between dumps."""
    shown, add = without_password(url)
    options = ("--schema-only", "--no-owner", "--no-privileges", "--no-tablespaces", "--no-comments")
    text = Binaries(bundled_folder()).run("pg_dump", *options, "-d", shown, add=add)
    # A statement that set nothing but a server's own options is a line of spaces now.
    text = re.sub(r"^ +\n", "", without_private_options(text.encode()).decode(), flags=re.MULTILINE)
    kept = [line for line in text.splitlines() if not re.match(r"--|SET |SELECT pg_catalog|\\", line)]
    return re.sub(r"\n{2,}", "\n\n", "\n".join(kept)).strip()
