"""Lists of many arenas: what a page of the home page and of the API costs, and the first matchup of a cold arena.

    python bench/arena_lists.py --arenas 100000

Arenas are rows that are inserted by SQL, each with the summary of a board of 20 models; one in a hundred is private. CPU is
that of the web process and of PostgreSQL, as Linux counts it: waiting for a busy machine is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx2
from psycopg.types.json import Jsonb

from arena_seed import make_arena
from arena_servers import House, database, serving
from arena_usage import Usage
from tiltyard.core.board.board_summary import BoardSummary, Headline
from tiltyard.core.ratings import Finding
from tiltyard.postgres.connections import connect

_COPY_ARENAS = """
INSERT INTO arenas (arena, name, title, settings, bucket) OVERRIDING SYSTEM VALUE
SELECT n, 'copy-' || k, 'Questions of kind ' || k %% 997 || ', part ' || k,
       a.settings || jsonb_build_object('entry', CASE WHEN k %% 100 = 0 THEN 'passcode' ELSE 'open' END), n %% 64
FROM (SELECT k, nextval(pg_get_serial_sequence('arenas', 'arena')) AS n FROM generate_series(1, %s) AS k) made
CROSS JOIN (SELECT settings FROM arenas WHERE arena = 1) a
"""
_COPY_BOARDS = """
INSERT INTO snapshots (arena, source, generation, position, sha256, votes, evaluated, document, strengths, summary)
SELECT arena, 0, 0, 50, '', 12345, false, '', '{}', %s FROM arenas WHERE name LIKE 'copy-%%'
"""
_SUMMARY = BoardSummary(
    status="calibrating",
    votes=12_345,
    models=20,
    retired=1,
    headline=Headline("shared", ("model-1", "model-2", "model-3"), more=2, below=13, unplaced=(), error=0.05),
    claim=Finding("settled", {"case": "first"}, "Five models share first place.", "Collect more votes."),
)


def fill(house: House, arenas: int) -> None:
    """Copies of the one arena there is, as far as lists read them."""
    with connect(house.url) as connection:
        connection.execute(_COPY_ARENAS, [arenas])
        connection.execute(_COPY_BOARDS, [Jsonb(_SUMMARY.to_dict())])
        connection.execute("INSERT INTO raters (arena) SELECT arena FROM arenas ON CONFLICT DO NOTHING")
        connection.execute("VACUUM ANALYZE")


def measure(house: House, client: httpx2.Client, path: str, count: int) -> None:
    """Print CPU by group, bytes and the median time of a path."""
    client.get(path).raise_for_status()
    before, times, size = Usage.of(house.groups()), [], 0
    for _ in range(count):
        start = time.perf_counter()
        size = len(client.get(path).raise_for_status().content)
        times.append(time.perf_counter() - start)
    spent = (Usage.of(house.groups()) - before).cpu
    print(
        f"{path:40} {1000 * spent['web'] / count:7.1f} ms web  {1000 * spent['PostgreSQL'] / count:7.1f} ms PostgreSQL"
        f"  {size / 1000:7.1f} kB  {1000 * statistics.median(times):7.1f} ms median"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arenas", type=int, default=100_000)
    parser.add_argument("--count", type=int, default=100)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tiltyard-lists-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with database(home / "home") as house:
            asyncio.run(make_arena(house.url, models=20, prompts=30))
            for name in ("cold-1", "cold-2", "cold-3"):
                asyncio.run(make_arena(house.url, models=20, prompts=100, name=name))
            fill(house, chosen.arenas)
            with serving(house, web=1) as running:
                base = f"http://127.0.0.1:{running.port}"
                with httpx2.Client(base_url=base, timeout=60) as client:
                    for path in (
                        "/",
                        "/?after=copy-5",
                        "/?q=kind+996",
                        "/?q=questions",
                        "/api/v1/arenas?limit=20",
                        "/api/v1/arenas?limit=100",
                    ):
                        measure(running, client, path, chosen.count)
                for name in ("cold-1", "cold-2", "cold-3"):
                    with httpx2.Client(base_url=base, timeout=60) as voter:
                        before, start = Usage.of(running.groups()), time.perf_counter()
                        voter.post(f"/api/v1/arenas/{name}/matchups").raise_for_status()
                        took = time.perf_counter() - start
                        spent = (Usage.of(running.groups()) - before).cpu
                        print(
                            f"first matchup of {name}: {took:.2f} s, of which {spent['web']:.2f} s CPU of web and"
                            f" {spent['PostgreSQL']:.2f} s of PostgreSQL"
                        )


if __name__ == "__main__":
    main()
