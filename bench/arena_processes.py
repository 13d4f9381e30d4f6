"""One arena served by 1, 2, 4 and 8 web processes: cycles a second, and what a cycle costs.

    python bench/arena_processes.py --home FOLDER

The numbers of processes take turns, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from arena_load import LoadSettings, Measured, our_cycle, warm_up
from arena_seed import make_arena, seed_log
from arena_servers import database, serving
from arena_usage import memory_of

PROCESSES = (1, 2, 4, 8)


@dataclass
class ProcessesMeasured(Measured):
    """The cycle with one number of web processes."""

    #: MiB of all web processes and the rater, at the end of each repeat.
    memory: list[float] = field(default_factory=list)


def measure_processes(home: Path, settings: LoadSettings) -> dict[int, ProcessesMeasured]:
    """The cycle, for each number of web processes in turn."""
    found = {web: ProcessesMeasured() for web in PROCESSES}
    with database(home) as house:
        arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
        seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
        for _ in range(settings.repeats):
            for web in PROCESSES:
                turn = replace(settings, web=web)
                with serving(house, web=web, rater=settings.rater):
                    warm_up(house, arena, turn)
                    our_cycle(house, arena, turn, found[web])
                    found[web].memory.append(memory_of([*house.web, *house.rater]))
    return found


def processes_table(found: dict[int, ProcessesMeasured], settings: LoadSettings) -> str:
    """As Markdown."""
    lines = ["| web processes | " + " | ".join(map(str, found)) + " |", "|---|" + "--:|" * len(found)]

    def row(name: str, cells: list[str]) -> None:
        lines.append(f"| {name} | {' | '.join(cells)} |")

    row("cycles a second", [f"{one.rate('vote'):,.0f}" for one in found.values()])
    row(
        "repeats",
        [
            " · ".join(f"{seen.requests.get('vote', 0) / seen.seconds:,.0f}" for seen in one.seen)
            for one in found.values()
        ],
    )
    for group in ("web", "PostgreSQL", "rater", "clients"):
        row(
            f"CPU of {group}, µs", [f"{median(cpu[group] for cpu in one.cpu):,.0f}" for one in found.values()]
        )
    row("CPU of all, µs", [f"{median(sum(cpu.values()) for cpu in one.cpu):,.0f}" for one in found.values()])
    for name in ("p50", "p99"):
        row(
            f"vote, {name} ms",
            [f"{median(getattr(seen, name)['vote'] for seen in one.seen):.1f}" for one in found.values()],
        )
    row("memory of web processes and rater, MiB", [f"{median(one.memory):,.0f}" for one in found.values()])
    row("refused", [str(sum(sum(seen.refused.values()) for seen in one.seen)) for one in found.values()])
    about = (
        f"{settings.models} models × {settings.prompts:,} prompts, {settings.battles:,} battles in the log, "
        f"{settings.connections} connections, {settings.repeats} × {settings.seconds:g} s in turn; "
        f"{os.cpu_count()} cores for clients, servers and PostgreSQL."
    )
    return f"{datetime.now(tz=UTC):%Y-%m-%d}: {about}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True, help="an empty folder for the database")
    parser.add_argument("--out", type=Path)
    for name, kind in (
        ("models", int),
        ("prompts", int),
        ("battles", int),
        ("seconds", float),
        ("repeats", int),
    ):
        parser.add_argument(f"--{name}", type=kind, default=getattr(LoadSettings, name))
    args = vars(parser.parse_args())
    home, out = args.pop("home"), args.pop("out")
    settings = LoadSettings(**args)
    text = processes_table(measure_processes(home, settings), settings)
    print(text)
    if out is not None:
        out.write_text(f"# One arena, several processes\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
