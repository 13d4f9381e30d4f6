"""A mistake is undone: the database as it was a second before, from a base backup and archived write-ahead log."""

import asyncio
import shutil
import time
from contextlib import contextmanager

import pytest

from support.faults.auditing import audit_log, audit_ratings
from support.faults.children import wait_until
from support.faults.mortal_server import MortalServer, end, mortal_server, new_folder, own
from support.live_arenas import made_arena, voting_queue_of
from support.postgres_servers import DEBIAN, account
from support.voted_arenas import cast, rate
from tiltyard.arena.log.battle_export import export_battles, open_export
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.postgres.binaries import Binaries
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.arena_settings import ArenaSettings

KEYS = SecretKeys(["k" * 40])


def vote(url, arena, votes, seed):
    """So many acknowledged votes, final at once and on a board; their matchups."""

    async def scene():
        async with voting_queue_of(url, arena) as queue:
            return await cast(queue, votes, seed=seed)

    made = asyncio.run(scene())
    rate(url)
    return made


def ask(url, query):
    with connect(url) as connection:
        done = connection.execute(query)
        return done.fetchall() if done.description else []


@contextmanager
def archiving(archive, *, debian):
    """A server that archives its write-ahead log, and the one on which it is restored."""
    copy = f"test ! -f {archive}/%f && cp %p {archive}/%f"
    servers = [MortalServer(new_folder(), "-c archive_mode=on", f"-c 'archive_command={copy}'")]
    servers.append(MortalServer(new_folder()))
    try:
        for server in servers:
            if debian:
                server.programs = Binaries(DEBIAN, account())
        servers[0].init()
        servers[0].start()
        yield servers
    finally:
        end(*servers)
        for server in servers:
            shutil.rmtree(server.folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("debian", [False, True], ids=["bundled", "debian"])
def test_a_database_is_restored_to_a_second_before_a_mistake(debian):
    archive = new_folder()
    try:
        with archiving(archive, debian=debian) as (lost, restored):
            migrate(lost.url)
            arena = made_arena(lost.url, settings=ArenaSettings(undo_seconds=0.0, snapshot_seconds=0.05))
            kept = vote(lost.url, arena, 30, seed=1)
            restored.copy_of(lost, standby=False)
            kept += vote(lost.url, arena, 45, seed=2)
            boards = ask(lost.url, "SELECT position, sha256 FROM snapshots ORDER BY position, source")
            ((until,),) = ask(lost.url, "SELECT clock_timestamp()::text")
            time.sleep(1.0)
            ask(lost.url, "DROP TABLE events CASCADE")
            ((last,),) = ask(lost.url, "SELECT pg_walfile_name(pg_switch_wal())")
            wait_until((archive / last).exists, 30.0, "the last part of the log")
            lost.stop_immediately()

            settings = {
                "restore_command": f"cp {archive}/%f %p",
                "recovery_target_time": until,
                "recovery_target_action": "promote",
            }
            with (restored.data / "postgresql.auto.conf").open("a") as file:
                file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
            (restored.data / "recovery.signal").touch()
            own(restored.data / "recovery.signal")
            restored.start()
            wait_until(lambda: ask(restored.url, "SELECT pg_is_in_recovery()") == [(False,)], 60.0, "the end")

            found = {
                matchup
                for (matchup,) in ask(
                    restored.url,
                    "SELECT matchup FROM matchups JOIN endings USING (arena, source, serial) WHERE kind = 1",
                )
            }
            assert set(kept) == found
            assert (
                ask(restored.url, "SELECT position, sha256 FROM snapshots ORDER BY position, source")
                == boards
            )
            assert audit_log(restored.url).votes == 75
            vote(restored.url, arena, 10, seed=3)
            assert audit_log(restored.url).votes == 85
            assert audit_ratings(restored.url, every=True).boards > len(boards)
    finally:
        shutil.rmtree(archive, ignore_errors=True)


@pytest.mark.slow
def test_a_read_replica_gives_the_same_export_and_refuses_writes():
    standby = MortalServer(new_folder())
    try:
        with mortal_server() as primary:
            migrate(primary.url)
            arena = made_arena(primary.url, settings=ArenaSettings(undo_seconds=0.0))
            standby.copy_of(primary)
            standby.start()
            vote(primary.url, arena, 40, seed=1)
            ((head,),) = ask(primary.url, "SELECT pg_current_wal_lsn()::text")
            reached = f"SELECT pg_last_wal_replay_lsn() >= '{head}'::pg_lsn"
            wait_until(lambda: ask(standby.url, reached) == [(True,)], 30.0, "the replica")
            exports = [
                b"".join(export_battles(url, KEYS, open_export(url, 1, release="r"), "jsonl"))
                for url in (primary.url, standby.url)
            ]
            assert exports[0] == exports[1]
            assert exports[0].count(b"\n") == 40
            assert ask(standby.url, "SHOW transaction_read_only") == [("on",)]
    finally:
        end(standby)
        shutil.rmtree(standby.folder, ignore_errors=True)
