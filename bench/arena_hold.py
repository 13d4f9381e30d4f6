"""Endurance test of an arena: `python bench/arena_hold.py --home DIR --minutes 15 --out RESULTS.md`.

An arena with a long log behind it (see `arena_seed.py`) is served by two web processes and a rater, while
voters go through the whole cycle in a closed loop. Every half minute: rate, latency, memory of each process.
Before that, how long the rater takes for the whole log, and each process to start from its checkpoint.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from arena_clients import ClientOrders, Seen
from arena_load import make_voters
from arena_seed import Seeded, make_arena, seed_log, sizes
from arena_servers import House, database, serving
from arena_usage import cpu_of, memory_of
from tiltyard.postgres.connections import connect

HERE = Path(__file__).parent
_LOOK = 0.5


@dataclass(frozen=True)
class HoldSettings:
    """The size of the arena and the duration."""

    models: int = 100
    prompts: int = 1_000
    battles: int = 5_000_000
    seconds: float = 900.0
    every: float = 30.0
    connections: int = 32
    #: Seconds that the rater may take for the whole log.
    patience: float = 3_600.0


@dataclass
class Held:
    """The results."""

    seeded: Seeded | None = None
    #: Seconds, and CPU seconds, of the rater over the whole log; seconds to start again, by part.
    rated: tuple[float, float] = (0.0, 0.0)
    restart: dict[str, float] = field(default_factory=dict)
    checkpoint_bytes: int = 0
    bytes_a_battle: dict[str, float] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    #: MiB by process, report by report.
    memory: list[dict[str, float]] = field(default_factory=list)
    #: Events that the rater was behind.
    behind: list[int] = field(default_factory=list)


def hold(home: Path, settings: HoldSettings) -> Held:
    """Seed an empty home; rate, start again, hold."""
    held = Held()
    with database(home) as house:
        if _arenas(house) == 0:
            arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
            held.seeded = seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
        with connect(house.url) as connection:
            battles = connection.execute("SELECT count(*) FROM endings").fetchone()
            assert battles is not None
            held.bytes_a_battle = {name: size / battles[0] for name, size in sizes(connection, 1).items()}
        _rate_all(house, held, settings)
        start = time.perf_counter()
        with serving(house):
            held.restart["all"] = time.perf_counter() - start
            _under_load(house, held, settings)
    return held


def _rate_all(house: House, held: Held, settings: HoldSettings) -> None:
    """Let the rater fold the log; then start each part once more by itself."""
    start = time.perf_counter()
    with serving(house, web=0) as alone:
        while _behind(house) > 0:
            if time.perf_counter() - start > settings.patience:
                raise TimeoutError(
                    f"the rater is {_behind(house):,} events behind after {settings.patience} s"
                )
            time.sleep(_LOOK)
        held.rated = (time.perf_counter() - start, cpu_of(alone.rater))
    with connect(house.url) as connection:
        row = connection.execute("SELECT max(length(state)) FROM checkpoints").fetchone()
        held.checkpoint_bytes = 0 if row is None or row[0] is None else int(row[0])
    start = time.perf_counter()
    with serving(house, web=1, rater=False):
        held.restart["web"] = time.perf_counter() - start


def _under_load(house: House, held: Held, settings: HoldSettings) -> None:
    voters = make_voters(house, round(settings.connections + 60 * settings.seconds))
    with tempfile.NamedTemporaryFile("w", suffix=".jobs") as file:
        file.write("\n".join(cookie for _, cookie in voters))
        file.flush()
        orders = ClientOrders(
            "cycle",
            house.port,
            "arena",
            file.name,
            settings.connections,
            settings.seconds,
            every=settings.every,
        )
        with subprocess.Popen(
            [sys.executable, HERE / "arena_clients.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as clients:
            assert clients.stdin is not None
            assert clients.stdout is not None
            clients.stdin.write(json.dumps(asdict(orders)) + "\n")
            clients.stdin.flush()
            for line in clients.stdout:
                held.seen.append(Seen(**json.loads(line)))
                held.memory.append(_memory(house))
                held.behind.append(_behind(house))


def _memory(house: House) -> dict[str, float]:
    parts = {f"web {number}": [pid] for number, pid in enumerate(house.web, 1)}
    parts |= {"rater": house.rater, "PostgreSQL": house.groups()["PostgreSQL"]}
    return {name: memory_of(pids) for name, pids in parts.items()}


def _arenas(house: House) -> int:
    with connect(house.url) as connection:
        row = connection.execute("SELECT count(*) FROM arenas").fetchone()
    assert row is not None
    return int(row[0])


def _behind(house: House) -> int:
    """Events that the rater has not folded yet, without the last seconds, which can still be undone."""
    query = """
        SELECT (SELECT max(position) FROM events WHERE arena = 1 AND at < now() - interval '30 seconds')
            - coalesce((SELECT position FROM raters WHERE arena = 1), 0)
    """
    with connect(house.url) as connection:
        row = connection.execute(query).fetchone()
    return 0 if row is None or row[0] is None else max(0, int(row[0]))


def page(held: Held, settings: HoldSettings) -> str:
    """Everything as Markdown."""
    per_battle = ", ".join(f"{name} {size:.0f}" for name, size in held.bytes_a_battle.items())
    total = sum(held.bytes_a_battle.values())
    about = (
        f"{datetime.now(tz=UTC):%Y-%m-%d}: {settings.models} models × {settings.prompts:,} prompts, "
        f"{settings.battles:,} battles in the log before the first vote, {settings.connections} connections."
    )
    lines = [
        about,
        "",
        "| | |",
        "|---|--:|",
        f"| on disk, bytes a battle with indexes | {total:.0f} ({per_battle}) |",
        f"| the rater from nothing, s (CPU s) | {held.rated[0]:.0f} ({held.rated[1]:.0f}) |",
        f"| its checkpoint, MiB | {held.checkpoint_bytes / 2**20:.1f} |",
        f"| a web process ready, s | {held.restart['web']:.1f} |",
        f"| two web processes and the rater, s | {held.restart['all']:.1f} |",
        "",
        "| minute | cycles/s | matchup p50 | p99 | vote p50 | p99 | rater behind | "
        + " | ".join(f"{name}, MiB" for name in held.memory[0])
        + " |",
        "|--:" * (7 + len(held.memory[0])) + "|",
    ]
    lines += [_line(held, k, settings) for k in range(len(held.seen))]
    refused = sum(sum(seen.refused.values()) for seen in held.seen)
    lines += ["", f"Refused: {refused}. {_trend(held)}"]
    return "\n".join(lines) + "\n"


def _line(held: Held, k: int, settings: HoldSettings) -> str:
    seen = held.seen[k]
    cells = [f"{(k + 1) * settings.every / 60:g}", f"{seen.requests.get('vote', 0) / seen.seconds:,.0f}"]
    for kind in ("matchup", "vote"):
        cells += [f"{seen.p50.get(kind, 0):.1f}", f"{seen.p99.get(kind, 0):.1f}"]
    cells += [f"{held.behind[k]:,}", *(f"{mib:,.0f}" for mib in held.memory[k].values())]
    return f"| {' | '.join(cells)} |"


def _trend(held: Held) -> str:
    """Compares the last third with the middle one: all caches are warm by then."""
    third = len(held.seen) // 3
    if not third:
        return ""
    middle, last = range(third, 2 * third), range(len(held.seen) - third, len(held.seen))
    parts = []
    for name in held.memory[0]:
        change = median(held.memory[k][name] for k in last) - median(held.memory[k][name] for k in middle)
        parts.append(f"{name} {change:+.0f} MiB")
    for kind in ("matchup", "vote"):
        change = median(held.seen[k].p50[kind] for k in last) - median(held.seen[k].p50[kind] for k in middle)
        parts.append(f"{kind} p50 {change:+.1f} ms")
    return f"From the middle third to the last: {', '.join(parts)}."


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--home", type=Path, required=True, help="an empty folder, or one that was seeded before"
    )
    parser.add_argument("--minutes", type=float, default=15.0)
    for name in ("models", "prompts", "battles", "connections"):
        parser.add_argument(f"--{name}", type=int, default=getattr(HoldSettings, name))
    parser.add_argument("--every", type=float, default=HoldSettings.every)
    parser.add_argument("--out", type=Path)
    options = vars(parser.parse_args())
    home, out, minutes = options.pop("home"), options.pop("out"), options.pop("minutes")
    settings = HoldSettings(**options, seconds=minutes * 60)
    text = page(hold(home, settings), settings)
    print(text)
    if out is not None:
        out.write_text(text)


if __name__ == "__main__":
    main()
