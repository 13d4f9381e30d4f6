"""Advisory locks of PostgreSQL: what each key protects. Two uses of one key would wait for each other."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src/tiltyard"

#: Keys, by the file that locks them. Processes of two versions may run at once: a key never changes.
KEYS = {
    "arena/accounts.sql": {"hashtext('tiltyard'), hashtext('operators')"},
    "arena/content/blob_store.sql": {"7206, 0"},
    "arena/log/buckets.sql": {"7208, %(bucket)s"},
    "arena/live/live_store.sql": {"7209, %(arena)s"},
    "arena/live/turn_slots.sql": {"7210, 0"},
    "arena/log/event_log.sql": {"7205, %(arena)s"},
    # A hash of the worker's name, of 64 bits.
    "jobs/worker_locks.py": {"%s"},
    "judges/ledger_database.py": {"7404017"},
    "postgres/sql/schema_migrations.sql": {"hashtext('tiltyard'), hashtext('migrating')"},
}


def test_every_key_is_locked_in_one_file_only():
    found = {}
    for path in sorted([*PACKAGE.rglob("*.sql"), *PACKAGE.rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        calls = re.findall(r"pg_(?:try_)?advisory_\w*lock\w*\(((?:[^()]|\([^()]*\))*)\)", text)
        if calls:
            found[path.relative_to(PACKAGE).as_posix()] = set(calls)
    assert found == KEYS
    assert len(set().union(*KEYS.values())) == len(KEYS)
