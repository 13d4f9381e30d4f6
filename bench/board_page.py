"""Speed of the leaderboard page: `python bench/board_page.py --home DIR --out RESULTS.md`.

300 models and 1,000,000 battles are seeded and rated (`arena_seed.py`); then one web process on one core is asked
for its board: pages that were made before, pages that are made anew, 304s, filtered boards, and everything that a
browser loads at first sight, compressed.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import http.client
import os
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np

from arena_seed import make_arena, seed_log
from arena_servers import House, database, serving
from arena_usage import cpu_of
from tiltyard.postgres.connections import connect

_BOARD = "/arenas/arena"
_ASSET = re.compile(rb'(?:href|src)="(/assets/[^"]+)"')
_PICTURE = re.compile(rb'<img src="([^"]+)"')


@dataclass(frozen=True)
class PageSettings:
    """How large the arena is, and how often each thing is asked for."""

    models: int = 300
    prompts: int = 300
    battles: int = 1_000_000
    requests: int = 200
    #: Seconds that the rater may take.
    patience: float = 3_600.0


@dataclass(frozen=True)
class Measured:
    """Milliseconds of one kind of request: as the client sees them, and of the server's CPU."""

    name: str
    p50: float
    p95: float
    cpu: float
    status: int
    size: int


@dataclass
class Seen:
    """The results."""

    rows: list[Measured] = field(default_factory=list)
    #: Bytes by what a browser loads first.
    first: dict[str, int] = field(default_factory=dict)


def measure(home: Path, settings: PageSettings) -> Seen:
    """Seed an empty home, rate it, and ask."""
    seen = Seen()
    with database(home) as house:
        with connect(house.url) as connection:
            row = connection.execute("SELECT count(*) FROM arenas").fetchone()
        if row is not None and row[0] == 0:
            arena = asyncio.run(make_arena(house.url, settings.models, settings.prompts))
            seed_log(house.url, arena, settings.models, settings.prompts, settings.battles)
            with connect(house.url) as connection:
                connection.execute("UPDATE prompts SET category = 'category-' || prompt % 5")
        with serving(house, web=0):
            _wait(house, settings)
        with serving(house, web=1, rater=False):
            _pin(house.web)
            _ask_all(house, seen, settings)
    return seen


def _wait(house: House, settings: PageSettings) -> None:
    """Wait until the newest board includes every vote."""
    query = """
        SELECT (SELECT max(position) FROM events WHERE arena = 1)
            - coalesce((SELECT max(position) FROM snapshots WHERE arena = 1 AND source = 0), 0)
    """
    end = time.monotonic() + settings.patience
    while True:
        with connect(house.url) as connection:
            row = connection.execute(query).fetchone()
        if row is not None and int(row[0]) <= 0:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"the rater is behind after {settings.patience:g} s")
        time.sleep(0.5)


def _pin(pids: list[int]) -> None:
    """Pin the server to one core."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {0})


def _ask_all(house: House, seen: Seen, settings: PageSettings) -> None:
    n = settings.requests
    first = _get(house, _BOARD)[1]
    etag = _get(house, _BOARD)[2]
    seen.first = _first_view(house, first)
    kinds = {
        "board, made before": [(_BOARD, {})] * n,
        "board, made anew": [(f"{_BOARD}?{query}", {}) for query in _queries()][:n],
        "board, 304": [(_BOARD, {"If-None-Match": etag})] * n,
        "board, sorted and searched, anew": [(f"{_BOARD}?sort=votes&q={k}", {}) for k in range(n)],
        "filtered board, first": [(f"{_BOARD}?category=category-0", {})],
        "filtered board, made before": [(f"{_BOARD}?category=category-0", {})] * n,
        "heatmap, first": [(f"{_BOARD}?chart=win-rates", {})],
        "history, first": [(f"{_BOARD}?chart=history", {})],
        "CSV, made before": [(f"{_BOARD}/board.csv", {})] * n,
    }
    for name, asked in kinds.items():
        seen.rows.append(_timed(house, name, asked))


def _queries() -> list[str]:
    """Addresses of boards with all rows, each in another order or with another chart: none was made before."""
    sorts = ("model", "rating", "confidence", "coverage", "consistency", "spread", "score", "record", "votes")
    charts = ("ratings", "win-rates", "battle-counts", "history")
    choices = product(sorts, ("asc", "desc"), charts)
    return [f"sort={sort}&order={order}&chart={chart}" for sort, order, chart in choices]


def _timed(house: House, name: str, asked: list[tuple[str, dict[str, str]]]) -> Measured:
    took: list[float] = []
    status, size, before = 0, 0, cpu_of(house.web)
    for path, headers in asked:
        start = time.perf_counter()
        status, data, _ = _get(house, path, headers)
        took.append(1000.0 * (time.perf_counter() - start))
        size = len(data)
    spent = 1000.0 * (cpu_of(house.web) - before) / len(asked)
    return Measured(name, float(np.median(took)), float(np.quantile(took, 0.95)), spent, status, size)


def _get(house: House, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=120)
    try:
        asked = {"Accept": "text/html", "Accept-Encoding": "gzip", **(headers or {})}
        connection.request("GET", path, headers=asked)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("ETag", "")
    finally:
        connection.close()


def _first_view(house: House, html: bytes) -> dict[str, int]:
    """Compressed bytes of the page, of what it names, and of the islands on it."""
    text = gzip.decompress(html)
    parts = {"HTML": len(html)}
    for found in sorted(set(_ASSET.findall(text))):
        path = found.decode()
        parts[path.rpartition("/")[2]] = len(_get(house, path)[1])
    bundle = Path(__file__).parents[1] / "src/tiltyard/web/bundle"
    for island in sorted({*re.findall(r'data-island="(\w+)"', text.decode())}):
        for file in bundle.glob(f"{island}-*.js"):
            parts[file.name] = len(_get(house, f"/assets/{file.name}")[1])
    picture = _PICTURE.search(text)
    if picture is not None:
        address = picture.group(1).decode().replace("&amp;", "&")
        parts["chart (SVG)"] = len(_get(house, address)[1])
    return parts


def page(seen: Seen, settings: PageSettings) -> str:
    """Everything as Markdown."""
    about = (
        f"{datetime.now(tz=UTC):%Y-%m-%d}: {settings.models} models × {settings.prompts} prompts, "
        f"{settings.battles:,} battles; one web process on one core, {settings.requests} requests of each kind."
    )
    lines = [
        about,
        "",
        "| | p50, ms | p95, ms | server's CPU, ms | bytes | status |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row.name} | {row.p50:.1f} | {row.p95:.1f} | {row.cpu:.1f} | {row.size:,} | {row.status} |"
        for row in seen.rows
    ]
    lines += ["", "First view, compressed bytes:", "", "| | |", "|---|--:|"]
    lines += [f"| {name} | {size:,} |" for name, size in seen.first.items()]
    lines += [f"| all | {sum(seen.first.values()):,} |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--models", type=int, default=PageSettings.models)
    parser.add_argument("--prompts", type=int, default=PageSettings.prompts)
    parser.add_argument("--battles", type=int, default=PageSettings.battles)
    parser.add_argument("--requests", type=int, default=PageSettings.requests)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    settings = PageSettings(given.models, given.prompts, given.battles, given.requests)
    told = page(measure(given.home, settings), settings)
    print(told)
    if given.out is not None:
        given.out.write_text(told, encoding="utf-8")


if __name__ == "__main__":
    main()
