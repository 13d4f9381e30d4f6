"""Throughput of an arena on one small machine: `python bench/arena_load.py --out RESULTS.md`.

On the same server, in turn and several times over: votes on matchups already served, through two web
processes, beside pgbench's one-statement vote; and the whole cycle, a matchup asked for and voted on,
beside a pgbench script with the same statements. Clients, web processes, rater and PostgreSQL share the machine.
CPU time is that of each group of processes while the clients ran.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from uuid import UUID

import numpy as np

from arena_bare import Bare, run_cycle, run_votes, serve_bare, set_up_bare
from arena_clients import ClientOrders, Seen
from arena_seed import make_arena, seed_log
from arena_servers import House, database, serving
from arena_usage import Usage
from tiltyard.arena.accounts import new_session_number
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import LogBatch, OpenMatchup, append_batch
from tiltyard.arena.secret_keys import open_keys
from tiltyard.arena.voting.matchup_ids import MatchupIds, new_matchup_id
from tiltyard.postgres.connections import connect_async
from tiltyard.web.access.cookies import VOTER_COOKIE, Cookies, make_voter_token

HERE = Path(__file__).parent
#: Voters at the same time in `votes`.
_CROWD = 100
_BATCH = 2_000


@dataclass(frozen=True)
class LoadSettings:
    """One measurement: how large the arena is, how long and how often."""

    models: int = 100
    prompts: int = 1_000
    battles: int = 20_000
    seconds: float = 20.0
    repeats: int = 5
    connections: int = 64
    bare_clients: int = 16
    web: int = 2
    rater: bool = True
    #: Votes of one voter before a new voter replaces it.
    stay: int = 20
    #: Matchups served ahead for each second of votes.
    votes_a_second: int = 6_000
    bare_votes_a_second: int = 15_000


@dataclass
class Measured:
    """All repeats of one kind, ours and the bare one's."""

    bare: list[Bare] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    #: CPU microseconds a request, or a cycle, by group of processes.
    cpu: list[dict[str, float]] = field(default_factory=list)

    def rate(self, kind: str) -> float:
        return median(seen.requests.get(kind, 0) / seen.seconds for seen in self.seen)

    def share(self) -> float:
        """Our rate over the bare one's, repeat by repeat: the median."""
        pairs = zip(self.seen, self.bare, strict=True)
        return median(seen.requests["vote"] / seen.seconds / bare.rate for seen, bare in pairs)

    def share_of_cpu(self) -> float:
        """The bare one's CPU time over ours: what the share would be if both had the machine to themselves."""
        pairs = zip(self.cpu, self.bare, strict=True)
        return median(bare.cpu / sum(cpu.values()) for cpu, bare in pairs)


def measure(home: Path, settings: LoadSettings) -> dict[str, Measured]:
    """Set everything up, then measure in turn."""
    found = {"votes": Measured(), "cycle": Measured()}
    with database(home) as house:
        arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
        seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
        set_up_bare(house)
        with serving(house, web=settings.web, rater=settings.rater):
            warm_up(house, arena, settings)
            for turn in range(settings.repeats):
                first, second = (bare_votes, our_votes) if turn % 2 else (our_votes, bare_votes)
                first(house, arena, settings, found["votes"])
                second(house, arena, settings, found["votes"])
                first, second = (bare_cycle, our_cycle) if turn % 2 else (our_cycle, bare_cycle)
                first(house, arena, settings, found["cycle"])
                second(house, arena, settings, found["cycle"])
    return found


def warm_up(house: House, arena: Arena, settings: LoadSettings) -> None:
    """Load the arena in every web process, and the caches that a running service has."""
    short = replace(settings, seconds=min(3.0, settings.seconds))
    our_cycle(house, arena, short, Measured())


def our_votes(house: House, arena: Arena, settings: LoadSettings, into: Measured) -> None:
    count = round(settings.votes_a_second * settings.seconds)
    voters = make_voters(house, -(-count // settings.stay))
    ids = MatchupIds(open_keys(house.home), 0)
    matchups = [ids.format(one) for one in asyncio.run(serve_ahead(house.url, arena, voters, settings))]
    jobs = [
        f"{voters[k][1]} {matchups[k * settings.stay + j]}"
        for crowd in range(0, len(voters), _CROWD)
        for j in range(settings.stay)
        for k in range(crowd, min(crowd + _CROWD, len(voters)))
    ]
    # Web processes fold these matchups when they next read the log.
    time.sleep(3.0 + count / 20_000)
    _measured(house, settings, "votes", arena, jobs, into)


def our_cycle(house: House, arena: Arena, settings: LoadSettings, into: Measured) -> None:
    voters = make_voters(house, round(settings.connections + 200 * settings.seconds))
    _measured(house, settings, "cycle", arena, [cookie for _, cookie in voters], into)


def bare_votes(house: House, _: Arena, settings: LoadSettings, into: Measured) -> None:
    count = round(settings.bare_votes_a_second * settings.seconds)
    serve_bare(house, settings.models, settings.prompts, count)
    into.bare.append(run_votes(house, clients=settings.bare_clients, seconds=settings.seconds))


def bare_cycle(house: House, _: Arena, settings: LoadSettings, into: Measured) -> None:
    size = (settings.models, settings.prompts)
    into.bare.append(run_cycle(house, *size, clients=settings.bare_clients, seconds=settings.seconds))


def make_voters(house: House, count: int) -> list[tuple[int, str]]:
    """Sessions, and the cookies that their voters hold."""
    cookies = Cookies(open_keys(house.home), secure=False)
    sessions = [new_session_number() for _ in range(count)]
    return [(one, cookies.seal(VOTER_COOKIE, make_voter_token(one, time.time()))) for one in sessions]


async def serve_ahead(
    url: str, arena: Arena, voters: list[tuple[int, str]], settings: LoadSettings
) -> list[UUID]:
    """Give each voter its matchups straight through the log; their ids, voter by voter.

    A voter of the service never has more than two open; here they are only a way to vote much.
    """
    rng = np.random.default_rng()
    shown: list[UUID] = []
    async with await connect_async(url) as connection:
        step = max(1, _BATCH // settings.stay)
        for start in range(0, len(voters), step):
            async with append_batch(connection, arena.arena) as batch:
                serial = await next_serial(batch)
                for session, _ in voters[start : start + step]:
                    for _ in range(settings.stay):
                        one = _drawn(rng, serial, session, batch, settings)
                        batch.serve(one, reason="served ahead", propensity=0.01)
                        shown.append(one.matchup)
                        serial += 1
    return shown


async def next_serial(batch: LogBatch) -> int:
    """The serial of the next human matchup; the lock keeps others from taking it."""
    query = "SELECT coalesce(max(serial) + 1, 0) FROM matchups WHERE arena = %s AND source = 0"
    row = await (await batch.connection.execute(query, (batch.arena,))).fetchone()
    assert row is not None
    return int(row[0])


def _drawn(
    rng: np.random.Generator, serial: int, session: int, batch: LogBatch, settings: LoadSettings
) -> OpenMatchup:
    a, b = rng.choice(settings.models, 2, replace=False).tolist()
    return OpenMatchup(
        source=0,
        serial=serial,
        matchup=new_matchup_id(0, batch.arena),
        session=session,
        a=a,
        b=b,
        prompt=int(rng.integers(settings.prompts)),
        response_a=1,
        response_b=2,
        nominal=0,
        lane=0,
        served_at=batch.now,
        expires_at=batch.now + timedelta(hours=2),
    )


def _measured(
    house: House, settings: LoadSettings, kind: str, arena: Arena, jobs: list[str], into: Measured
) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".jobs") as file:
        file.write("\n".join(jobs))
        file.flush()
        orders = ClientOrders(
            kind, house.port, arena.name, file.name, settings.connections, settings.seconds, settings.stay
        )
        before = Usage.of(house.groups())
        seen = run_clients(orders)[-1]
        spent = Usage.of(house.groups()) - before
    done = max(seen.requests.get("vote", 0), 1)
    into.seen.append(seen)
    groups = {**spent.cpu, "clients": seen.cpu}
    into.cpu.append({name: seconds / done * 1e6 for name, seconds in groups.items()})


def run_clients(orders: ClientOrders) -> list[Seen]:
    """Run the clients in a separate process; return their reports."""
    child = subprocess.run(
        [sys.executable, HERE / "arena_clients.py"],
        input=json.dumps(asdict(orders)) + "\n",
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Seen(**json.loads(line)) for line in child.stdout.splitlines()]


def table(found: dict[str, Measured], settings: LoadSettings) -> str:
    """Both kinds as Markdown."""
    lines = ["| | votes on served matchups | the whole cycle |", "|---|--:|--:|"]
    votes, cycle = found["votes"], found["cycle"]

    def row(name: str, *cells: str) -> None:
        lines.append(f"| {name} | {' | '.join(cells)} |")

    both = (votes, cycle)
    row("pgbench, a second", *(f"{median(bare.rate for bare in one.bare):,.0f}" for one in both))
    row("ours, a second", *(f"{one.rate('vote'):,.0f}" for one in both))
    row("share", *(f"{one.share():.0%}" for one in both))
    row("repeats", *(" · ".join(f"{_share(one, k):.0%}" for k in range(len(one.seen))) for one in both))
    row("share at equal CPU", *(f"{one.share_of_cpu():.0%}" for one in both))
    row("pgbench, mean ms", *(f"{median(bare.mean for bare in one.bare):.1f}" for one in both))
    for kind in ("matchup", "vote"):
        for name in ("p50", "p99"):
            row(f"{kind}, {name} ms", *(_middle(one, name, kind) for one in both))
    for group in ("web", "PostgreSQL", "rater", "clients"):
        row(f"CPU of {group}, µs", *(f"{median(cpu[group] for cpu in one.cpu):,.0f}" for one in both))
    row("CPU of all, µs", *(f"{median(sum(cpu.values()) for cpu in one.cpu):,.0f}" for one in both))
    row(
        "CPU of pgbench and PostgreSQL, µs",
        *(f"{median(bare.cpu for bare in one.bare):,.0f}" for one in both),
    )
    row("refused", *(str(sum(sum(seen.refused.values()) for seen in one.seen)) for one in both))
    about = (
        f"{settings.models} models × {settings.prompts:,} prompts, {settings.battles:,} battles in the log, "
        f"{settings.web} web processes, {settings.connections} connections, {settings.repeats} × "
        f"{settings.seconds:g} s, pgbench with {settings.bare_clients} clients; {os.cpu_count()} cores for all. "
        "CPU is a vote's, or a whole cycle's."
    )
    return f"{datetime.now(tz=UTC):%Y-%m-%d}: {about}\n\n" + "\n".join(lines) + "\n"


def _share(one: Measured, k: int) -> float:
    return one.seen[k].requests.get("vote", 0) / one.seen[k].seconds / one.bare[k].rate


def _middle(one: Measured, name: str, kind: str) -> str:
    known = [getattr(seen, name)[kind] for seen in one.seen if kind in getattr(seen, name)]
    return f"{median(known):.1f}" if known else "–"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True, help="an empty folder for the database")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-rater", action="store_true")
    for name, kind in (("battles", int), ("seconds", float), ("repeats", int), ("connections", int)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(LoadSettings, name))
    parser.add_argument("--models", type=int, default=LoadSettings.models)
    parser.add_argument("--prompts", type=int, default=LoadSettings.prompts)
    options = vars(parser.parse_args())
    home, out = options.pop("home"), options.pop("out")
    settings = LoadSettings(**{name: value for name, value in options.items() if name != "no_rater"})
    settings = replace(settings, rater=not options["no_rater"])
    text = table(measure(home, settings), settings)
    print(text)
    if out is not None:
        out.write_text(text)


if __name__ == "__main__":
    main()
