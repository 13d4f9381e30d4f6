"""Diagnosis of an installation: one line per check, with what to do about each problem."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tiltyard.arena.rating.rater_lag import read_rater_lags
from tiltyard.errors import TiltyardError
from tiltyard.postgres.binaries import KNOWN_ON, SECURITY_RELEASES, missing_releases
from tiltyard.postgres.connections import check_same_database, connect, find_pool_mode, translate_errors
from tiltyard.postgres.schema_migrations import applied_migrations, migrations
from tiltyard.postgres.statements import statement
from tiltyard.settings.environment import SESSION_URL_VARIABLE

if TYPE_CHECKING:
    import psycopg

    from tiltyard.postgres.connections import ConnectionPool


HealthState = Literal["ok", "look", "bad"]

#: The oldest and the newest.
_SUPPORTED_MAJOR_VERSIONS = (15, 18)
#: Limits for "look" and "bad": share of connections in use, seconds between clocks, seconds since a rater wrote.
_CONNECTION_USE_SHARES = (0.7, 0.9)
_CLOCK_SKEW_SECONDS = (1.0, 30.0)
_RATER_LAG_SECONDS = (60.0, 600.0)
#: Bytes and share of a disk that should be free.
_FREE_DISK_LIMITS = ((5 << 30, 0.1), (1 << 30, 0.02))
_DAY_SECONDS = 86_400.0
_BACKUP_ADVICE = "run tiltyard arena backup, and have it run every day"


@dataclass(frozen=True)
class HealthCheck:
    """The result of one check. ``advice`` is empty if it passed."""

    name: str
    state: HealthState
    value: str
    advice: str = ""


def examine_home(home: Path, variables: Mapping[str, str]) -> list[HealthCheck]:
    """Checks that need no database."""
    return [_disk("disk of the home", home), _key(home, variables)]


def examine_database(url: str, *, embedded: bool = False, pooler_url: str | None = None) -> list[HealthCheck]:
    """Checks of the database. A check that raises an error counts as bad, and the others still run.

    ``embedded`` means the server that comes with Tiltyard, which its operator cannot update. ``pooler_url``: the pooler
    before the database, if web processes use one.
    """
    began = time.monotonic()
    try:
        connection = connect(url, name="tiltyard arena doctor")
    except TiltyardError as error:
        return [HealthCheck("database", "bad", "cannot be reached", str(error))]
    with connection:
        took = (time.monotonic() - began) * 1000
        found = [
            HealthCheck("database", "ok", f"answers, connected in {took:.0f} ms"),
            _security_releases(connection.info.server_version, embedded),
        ]
        looks: list[Callable[[psycopg.Connection], HealthCheck | list[HealthCheck]]] = [
            _version,
            _schema,
            _durability,
            _plans,
            _connections,
            partial(_pooling, url=url),
            *([] if pooler_url is None else [partial(_pooler, pooler_url=pooler_url)]),
            _clock,
            _data,
            _backup,
            _raters,
        ]
        for look in looks:
            try:
                with translate_errors("run this check"):
                    result = look(connection)
            except TiltyardError as error:
                name = getattr(look, "func", look).__name__.strip("_")
                result = HealthCheck(name, "bad", "the check failed", str(error))
            found += result if isinstance(result, list) else [result]
        return found


def _version(connection: psycopg.Connection) -> HealthCheck:
    text = str(connection.info.parameter_status("server_version"))
    major = connection.info.server_version // 10_000
    state: HealthState = "ok"
    advice, (oldest, newest) = "", _SUPPORTED_MAJOR_VERSIONS
    if major > newest:
        state, advice = "look", f"tested up to {newest} only; back up"
    elif major < oldest:
        state, advice = "bad", f"upgrade the server to {oldest} or later"
    return HealthCheck("version", state, f"PostgreSQL {text}", advice)


async def lacks_releases(pool: ConnectionPool) -> bool:
    """Whether the database server lacks security releases that are known here."""
    async with pool.connection() as connection:
        return bool(missing_releases(connection.info.server_version))


def _security_releases(server_version: int, embedded: bool) -> HealthCheck:
    name, major = "security releases", server_version // 10_000
    missing = missing_releases(server_version)
    if missing is None:
        advice = "compare its version with https://www.postgresql.org/support/security/"
        return HealthCheck(name, "look", f"those of PostgreSQL {major} were not known on {KNOWN_ON}", advice)
    if not missing:
        value = f"has that of {SECURITY_RELEASES[-1].day}, the newest known on {KNOWN_ON}"
        return HealthCheck(name, "ok", value)
    lacked = f"lacks {', '.join(str(release.day) for release in missing)} (known on {KNOWN_ON})"
    if embedded:
        advice = "embedded builds follow late: where others can reach the arena, use your own PostgreSQL"
        return HealthCheck(name, "look", lacked, advice)
    minor = missing[-1].minors.get(major)
    target = "its newest minor version" if minor is None else f"{major}.{minor} or later"
    return HealthCheck(name, "look", lacked, f"update the server to {target}")


def _schema(connection: psycopg.Connection) -> HealthCheck:
    known, there = {step.name for step in migrations()}, set(applied_migrations(connection))
    if known - there:
        lacked = f"lacks {', '.join(sorted(known - there))}"
        return HealthCheck("schema", "bad", lacked, "run tiltyard arena migrate")
    ahead = len(there - known)
    value = f"{max(known)}" + (f", and {ahead} later steps of a newer version" if ahead else "")
    return HealthCheck("schema", "ok", value)


def _durability(connection: psycopg.Connection) -> HealthCheck:
    settings = connection.execute(statement("doctor_settings"))
    names = ", ".join(name for name, value in settings if value in {"off", "local"})
    if names:
        advice = f"acknowledged votes can be lost; switch on {names}"
        return HealthCheck("durability", "bad", f"off: {names}", advice)
    return HealthCheck("durability", "ok", "fsync, full_page_writes and synchronous_commit are on")


def _plans(connection: psycopg.Connection) -> HealthCheck:
    if connection.execute(statement("plan_mode")).fetchone() == ("force_custom_plan",):
        return HealthCheck("plans", "ok", "statements are planned for the arena that they name")
    advice = "run tiltyard arena migrate as the role in DATABASE_URL: statements may be planned for arenas of another size"
    return HealthCheck("plans", "look", "plan_cache_mode is not force_custom_plan", advice)


def _connections(connection: psycopg.Connection) -> HealthCheck:
    row = connection.execute(statement("doctor_connections")).fetchone()
    assert row is not None
    used, most, ours = row
    state = _graded(used / most, _CONNECTION_USE_SHARES)
    advice = "" if state == "ok" else "raise max_connections, run fewer processes, or pool by session"
    return HealthCheck("connections", state, f"{used} of {most} in use, {ours} by Tiltyard", advice)


def _pooling(connection: psycopg.Connection, url: str) -> HealthCheck:
    """Leader election depends on locks that belong to a session."""
    mode = find_pool_mode(connection, url)
    if mode == "transaction":
        advice = f"locks are lost: set {SESSION_URL_VARIABLE} to the server itself, or pool by session"
        return HealthCheck("pooling", "bad", "by transaction", advice)
    value = "by session" if mode == "session" else "none: connected to the server itself"
    return HealthCheck("pooling", "ok", value)


def _pooler(connection: psycopg.Connection, pooler_url: str) -> HealthCheck:
    """The pooler that web processes use besides the database itself."""
    check_same_database(connection, pooler_url)
    with connect(pooler_url, name="tiltyard arena doctor") as pooled:
        mode = find_pool_mode(pooled, pooler_url)
    if mode == "none":
        advice = f"unset {SESSION_URL_VARIABLE}: statements are prepared only without it"
        return HealthCheck("pooler", "look", "none: DATABASE_URL leads to the server itself", advice)
    return HealthCheck("pooler", "ok", f"by {mode}, before the same database")


def _clock(connection: psycopg.Connection) -> HealthCheck:
    before = datetime.now(UTC)
    row = connection.execute(statement("doctor_clock")).fetchone()
    after = datetime.now(UTC)
    assert row is not None
    apart = (row[0] - (before + (after - before) / 2)).total_seconds()
    state = _graded(abs(apart), _CLOCK_SKEW_SECONDS)
    advice = "" if state == "ok" else "let NTP set the clocks of this machine and of the server"
    value = f"the server's is {abs(apart):.3f} s {'ahead' if apart > 0 else 'behind'}"
    return HealthCheck("clock", state, value, advice)


def _data(connection: psycopg.Connection) -> HealthCheck:
    row = connection.execute(statement("doctor_data")).fetchone()
    assert row is not None
    folder, size = row
    host = connection.info.host
    here = host.startswith(("/", "127.")) or host in {"localhost", "::1"}
    if here and folder and Path(folder).is_dir():
        disk = _disk("disk of the database", Path(folder))
        return replace(disk, value=f"{disk.value}; the database has {_bytes(size)}")
    value = f"not visible from here; the database has {_bytes(size)}"
    return HealthCheck("disk of the database", "ok", value)


def _backup(connection: psycopg.Connection) -> HealthCheck:
    row = connection.execute(statement("backup_last")).fetchone()
    if row is None:
        return HealthCheck("backup", "look", "never", _BACKUP_ADVICE)
    age, file = row
    if age <= _DAY_SECONDS:
        return HealthCheck("backup", "ok", f"{_time(age)} ago: {file}")
    return HealthCheck("backup", "look", f"{_time(age)} ago: {file}", _BACKUP_ADVICE)


def _raters(connection: psycopg.Connection) -> list[HealthCheck]:
    found = []
    for lag in read_rater_lags(connection):
        led = f"led by {lag.leader or 'no process'}"
        value = f"{lag.position} of {lag.head} events, {led}, wrote {_time(lag.seconds)} ago"
        state = _graded(lag.seconds, _RATER_LAG_SECONDS) if lag.head - lag.position else "ok"
        advice = "" if state == "ok" else "start tiltyard serve, or check its log: boards are not updated"
        found.append(HealthCheck(f"rater of {lag.arena}", state, value, advice))
    return found


def _disk(name: str, folder: Path) -> HealthCheck:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    usage = shutil.disk_usage(there)
    short = [usage.free < least and usage.free / usage.total < share for least, share in _FREE_DISK_LIMITS]
    state: HealthState = "bad" if short[1] else "look" if short[0] else "ok"
    advice = "" if state == "ok" else "free some space: a full disk stops all votes"
    return HealthCheck(name, state, f"{_bytes(usage.free)} of {_bytes(usage.total)} free", advice)


def _key(home: Path, variables: Mapping[str, str]) -> HealthCheck:
    if variables.get("TILTYARD_SECRET_KEY"):
        return HealthCheck("secret key", "ok", "in the environment")
    path = home / "secret.key"
    try:
        status = path.stat()
    except OSError:
        return HealthCheck("secret key", "ok", "not there yet: tiltyard serve creates it")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        problem = f"{path} can be read by others ({mode:o})"
        return HealthCheck("secret key", "bad", problem, f"chmod 600 {path}")
    if not os.access(path, os.R_OK):
        return HealthCheck("secret key", "bad", f"{path} cannot be read", "run as its owner")
    return HealthCheck("secret key", "ok", f"{path}, for its owner only")


def _graded(value: float, bounds: tuple[float, float]) -> HealthState:
    return "bad" if value > bounds[1] else "look" if value > bounds[0] else "ok"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _time(seconds: float) -> str:
    for unit, size in (("days", _DAY_SECONDS), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
