"""Garbage beside honest voters: `python bench/garbage_load.py --home EMPTY_FOLDER --out docs/evidence/data/garbage-load.md`.

A service on a public address, behind Caddy with the configuration of `deploy/` on the same cores, with the default limits
and the gate: 50 people vote at their own pace while programs send 1,000 requests a second of everything that a service on the internet sees (`GARBAGE_KINDS` in
`garbage_clients.py`), from many networks and sessions, for three minutes. Counted are honest requests that were refused
and how long they took, the memory of the processes, and the rows that garbage left. Nothing but loopback is reached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from arena_seed import make_arena, seed_log
from arena_servers import House, database, serving
from arena_usage import Usage, memory_of
from garbage_clients import GARBAGE_KINDS, CrowdOrders, CrowdReport
from tiltyard.arena.accounts import Accounts, GateResult, new_session_number
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.secret_keys import open_keys
from tiltyard.arena.voting.matchup_ids import MatchupIds
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import VOTER_COOKIE, Cookies, make_voter_token

HERE = Path(__file__).parent
CADDYFILE = HERE.parent / "deploy" / "Caddyfile"
#: Tables whose rows are counted.
_TABLES = ("sessions", "limit_buckets", "events", "matchups", "endings", "complaints", "operator_sessions")
#: The address that the service believes it has: limits and gate are on.
_PUBLIC = "https://arena.example.org"


@dataclass(frozen=True)
class GarbageSettings:
    """One measurement."""

    rate: float = 1_000.0
    seconds: float = 180.0
    honest: int = 50
    #: Connections of those who send garbage, and further ones that send a body byte by byte.
    connections: int = 2_000
    slow: int = 100
    #: Sessions that passed the gate and are used for garbage.
    sessions: int = 500
    networks: str = "many"
    web: int = 2
    models: int = 20
    prompts: int = 200
    battles: int = 5_000
    only: tuple[str, ...] = ()
    #: Whether requests come through Caddy, or straight to the service.
    proxy: bool = True
    #: Seconds for which people read.
    reading: tuple[float, float] = (3.0, 7.0)


@dataclass
class Flood:
    """What was measured."""

    honest: CrowdReport
    garbage: CrowdReport
    #: MiB by group of processes, once a second.
    memory: list[dict[str, float]] = field(default_factory=list)
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: CPU seconds by group of processes.
    cpu: dict[str, float] = field(default_factory=dict)
    #: Processes that could run at the start and at the end, over a minute: what else the machine did.
    load: tuple[float, float] = (0.0, 0.0)

    @property
    def refused_votes(self) -> int:
        return sum(
            count
            for key, count in self.honest.answers.items()
            if key.startswith("vote ") and key != "vote 200"
        )

    def percentile(self, share: float) -> float:
        """Milliseconds of all honest requests."""
        return float(np.percentile([ms for taken in self.honest.taken.values() for ms in taken], share))


@contextmanager
def _attacked(home: Path, settings: GarbageSettings) -> Iterator[tuple[House, CrowdOrders]]:
    """A service on a public address that has been running, and instructions for garbage."""
    with database(home) as house:
        arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
        seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
        cookies = asyncio.run(_make_operator_and_sessions(house, settings.sessions))
        public = ServingSettings(base_url=_PUBLIC, trusted_proxies=("127.0.0.1",))
        with serving(house, web=settings.web, settings=public), _proxy(house, settings) as port:
            orders = CrowdOrders(
                kind="garbage",
                port=port,
                arena=arena.name,
                seconds=settings.seconds,
                connections=settings.connections,
                rate=settings.rate,
                networks=settings.networks,
                cookies=tuple(cookies),
                foreign=tuple(asyncio.run(_foreign_matchups(house, arena))),
                slow=settings.slow,
                reading=settings.reading,
                only=settings.only,
            )
            _warm_up(orders, settings)
            yield house, orders


@contextmanager
def _proxy(house: House, settings: GarbageSettings) -> Iterator[int]:
    """Caddy before the service; the port of whoever stands in front. It believes clients what their networks are."""
    if not settings.proxy:
        yield house.port
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = CADDYFILE.read_text().replace("8420", f"{house.port}\n\t\ttrusted_proxies 127.0.0.0/8")
    file = house.home / "Caddyfile"
    file.write_text(text.replace("{\n", "{\n\tadmin off\n", 1))
    variables = {"TILTYARD_BASE_URL": f"http://127.0.0.1:{port}", "HOME": str(house.home), "GOMAXPROCS": "2"}
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", file]
    with (house.home / "caddy.log").open("wb") as log:
        caddy = subprocess.Popen(command, env=os.environ | variables, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while not _listens(port):
            if caddy.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Caddy did not start: see {house.home / 'caddy.log'}")
            time.sleep(0.1)
        house.proxy = [caddy.pid]
        yield port
    finally:
        caddy.terminate()
        caddy.wait(30)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def flood(home: Path, settings: GarbageSettings) -> Flood:
    """Serve, and let both crowds come."""
    with _attacked(home, settings) as (house, orders):
        return _measure(house, orders, settings)


def costs(home: Path, settings: GarbageSettings) -> str:
    """What one request of each kind costs, without anybody else: CPU milliseconds of web processes, PostgreSQL, Caddy."""
    lines = ["| kind | answers a second | web, CPU ms | PostgreSQL, CPU ms | Caddy, CPU ms |"]
    lines.append("|---|---:|---:|---:|---:|")
    with _attacked(home, settings) as (house, orders):
        for kind in settings.only or GARBAGE_KINDS:
            before = Usage.of(house.groups())
            with _clients(replace(orders, slow=0, only=(kind,))) as garbage:
                sent = CrowdReport(**json.loads(garbage.communicate()[0]))
            spent, count = (Usage.of(house.groups()) - before).cpu, sum(sent.answers.values())
            each = [f"{spent[group] / count * 1e3:.2f}" for group in ("web", "PostgreSQL", "proxy")]
            lines.append(f"| {kind} | {count / sent.seconds:,.0f} | {' | '.join(each)} |")
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def _warm_up(orders: CrowdOrders, settings: GarbageSettings) -> None:
    """Open the arena in every process: a service that is attacked has been running before."""
    few = replace(orders, kind="honest", seconds=2.0, connections=4 * settings.web, reading=(0.1, 0.3))
    with _clients(few) as voters:
        voters.communicate()


def _measure(house: House, orders: CrowdOrders, settings: GarbageSettings) -> Flood:
    people = replace(orders, kind="honest", connections=settings.honest, cookies=(), foreign=(), slow=0)
    with _clients(people) as honest:
        assert honest.stdout is not None
        if honest.stdout.readline().strip() != "ready":
            raise RuntimeError("the honest voters did not get ready")
        rows, before, load = _rows(house), Usage.of(house.groups()), os.getloadavg()[0]
        done, memory = threading.Event(), list[dict[str, float]]()
        watching = threading.Thread(target=_watch_memory, args=(house, done, memory))
        watching.start()
        try:
            with _clients(orders) as garbage:
                sent = CrowdReport(**json.loads(garbage.communicate()[0]))
            seen = CrowdReport(**json.loads(honest.communicate()[0]))
        finally:
            done.set()
            watching.join()
        after = _rows(house)
        return Flood(
            seen,
            sent,
            memory,
            {table: (rows[table], after[table]) for table in rows},
            (Usage.of(house.groups()) - before).cpu,
            (load, os.getloadavg()[0]),
        )


def _clients(orders: CrowdOrders) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, HERE / "garbage_clients.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdin is not None
    started.stdin.write(json.dumps(asdict(orders)) + "\n")
    started.stdin.flush()
    return started


def _watch_memory(house: House, done: threading.Event, into: list[dict[str, float]]) -> None:
    while True:
        into.append({name: memory_of(pids) for name, pids in house.groups().items()})
        if done.wait(1.0):
            return


def _rows(house: House) -> dict[str, int]:
    with connect(house.url) as connection:
        found = {}
        for table in _TABLES:
            row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
            assert row is not None
            found[table] = int(row[0])
        return found


async def _make_operator_and_sessions(house: House, count: int) -> list[str]:
    """An operator whose password is guessed, and cookies of sessions that passed the gate."""
    async with open_pool(house.url, most=1) as pool:
        accounts = Accounts(pool)
        await accounts.claim(await accounts.make_operator_link(), "Ada", "correct horse battery staple")
    sealed = Cookies(open_keys(house.home), secure=True)
    tokens = [make_voter_token(new_session_number(), time.time(), GateResult.PASSED) for _ in range(count)]
    return [f"{VOTER_COOKIE}={sealed.seal(VOTER_COOKIE, token)}" for token in tokens]


async def _foreign_matchups(house: House, arena: Arena) -> list[str]:
    """Matchups that are open, of sessions that nobody here has."""
    from arena_load import LoadSettings, serve_ahead

    voters = [(new_session_number(), "") for _ in range(10)]
    size = LoadSettings(models=2, prompts=1, stay=5)
    ids = MatchupIds(open_keys(house.home), 0)
    return [ids.format(one) for one in await serve_ahead(house.url, arena, voters, size)]


def page(found: Flood, settings: GarbageSettings) -> str:
    """The results as Markdown."""
    sent = sum(found.garbage.answers.values())
    honest = sum(found.honest.answers.values())
    web = [one["web"] for one in found.memory]
    middle = web[len(web) // 2 :]
    about = (
        f"{datetime.now(tz=UTC):%Y-%m-%d}: {settings.rate:,.0f} requests a second of garbage asked for, "
        f"{settings.seconds:g} s, from {settings.connections} connections and {settings.slow} slow ones, "
        f"{settings.sessions} sessions, networks: {settings.networks}; {settings.honest} honest voters; "
        f"{'Caddy, ' if settings.proxy else ''}{settings.web} web processes, rater, PostgreSQL and all clients on {os.cpu_count()} cores. "
        f"Load of the machine at the start {found.load[0]:.1f}, at the end {found.load[1]:.1f}."
    )
    mib, cores = f"{web[0]:,.0f}, {max(web):,.0f}, {max(middle):,.0f}", os.cpu_count()
    lines = [
        "# Garbage beside honest voters, measured",
        "",
        about,
        "",
        "| | |",
        "|---|---:|",
        f"| garbage answered, a second | {sent / found.garbage.seconds:,.0f} |",
        f"| honest requests | {honest:,} |",
        f"| honest requests refused | {len(found.honest.refused)} |",
        f"| honest votes | {found.honest.answers.get('vote 200', 0):,} |",
        f"| honest votes refused | {found.refused_votes} |",
        f"| honest requests, p50, ms | {found.percentile(50):,.0f} |",
        f"| honest requests, p99, ms | {found.percentile(99):,.0f} |",
        f"| honest requests, slowest, ms | {found.percentile(100):,.0f} |",
        f"| memory of the web processes, MiB: first, highest, highest of the second half | {mib} |",
        f"| cores of {cores} used by the web processes | {found.cpu['web'] / found.garbage.seconds:.2f} |",
        *(
            f"| by {group} | {found.cpu[group] / found.garbage.seconds:.2f} |"
            for group in sorted(found.cpu.keys() - {"web"})
        ),
        f"| by the clients | {(found.garbage.cpu + found.honest.cpu) / found.garbage.seconds:.2f} |",
        "",
        "Rows before and after:",
        "",
        "| table | before | after |",
        "|---|---:|---:|",
        *(f"| `{table}` | {old:,} | {new:,} |" for table, (old, new) in found.rows.items()),
        "",
        "Answers to garbage by kind and status (0: the connection was closed without one):",
        "",
        "| kind | answers | p50, ms |",
        "|---|---|---:|",
        *_answers(found.garbage),
        "",
        "Honest requests by kind:",
        "",
        "| kind | number | p50, ms | p99, ms |",
        "|---|---:|---:|---:|",
        *(
            f"| {kind} | {len(taken):,} | {np.percentile(taken, 50):,.0f} | {np.percentile(taken, 99):,.0f} |"
            for kind, taken in sorted(found.honest.taken.items())
        ),
    ]
    lines += [f"\nRefused: {text}" for text in found.honest.refused[:5]]
    return "\n".join(lines) + "\n"


def _answers(report: CrowdReport) -> Sequence[str]:
    by_kind: dict[str, list[str]] = {}
    for key, count in sorted(report.answers.items()):
        kind, _, status = key.rpartition(" ")
        by_kind.setdefault(kind, []).append(f"{status}: {count:,}")
    middle = {kind: f"{np.percentile(taken, 50):,.0f}" for kind, taken in report.taken.items()}
    return [f"| {kind} | {', '.join(counts)} | {middle.get(kind, '')} |" for kind, counts in by_kind.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="an empty folder for the database")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--networks", choices=["many", "one", "shared"], default="many")
    parser.add_argument("--only", action="append", default=[], help="a kind of garbage; may be repeated")
    for name in ("rate", "seconds"):
        parser.add_argument(f"--{name}", type=float, default=getattr(GarbageSettings, name))
    for name in ("honest", "connections", "slow", "sessions", "web"):
        parser.add_argument(f"--{name}", type=int, default=getattr(GarbageSettings, name))
    parser.add_argument("--no-proxy", dest="proxy", action="store_false", help="straight to the service")
    parser.add_argument("--costs", action="store_true", help="measure one kind after the other, alone")
    options = vars(parser.parse_args())
    home, out, alone = (options.pop(name) for name in ("home", "out", "costs"))
    settings = GarbageSettings(**{**options, "only": tuple(options["only"])})
    text = costs(home, settings) if alone else page(flood(home, settings), settings)
    print(text)
    if out is not None:
        out.write_text(text)


if __name__ == "__main__":
    main()
