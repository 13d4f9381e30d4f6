"""Fuzzes the parsers by name, for some time: ``python tests/fuzz/fuzzer.py NAME… --seconds 600``

Seeds are the kept files of `corpus/NAME`. Each input is read in a child with limits of time and memory; one that
crashes, hangs, floods or raises what it must not is kept there as a new file, and the run fails.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from limited_runs import HANG_SECONDS, MEMORY_BYTES, InputResult, ParserServer, parser_server
from mutations import mutate

CORPUS = Path(__file__).parent / "corpus"
_BATCH_INPUTS = 100


@dataclass
class FuzzRun:
    """What became of the inputs of one parser."""

    parser: str
    inputs: int = 0
    read: int = 0
    slowest_seconds: float = 0.0
    most_bytes: int = 0
    seconds: float = 0.0
    found: list[InputResult] | None = None

    def row(self) -> str:
        found = ", ".join(sorted({one.ending for one in self.found or ()})) or "nothing"
        return (
            f"| `{self.parser}` | {self.seconds:.0f} s | {self.inputs:,} | {self.read:,} | "
            f"{self.slowest_seconds:.2f} s | {self.most_bytes / 2**20:.0f} MiB | {found} |"
        )


HEADER = "| parser | time | inputs | read to the end | slowest, CPU | most memory | found |\n|---|---|---|---|---|---|---|"


def seeds_of(parser: str) -> list[Path]:
    """The kept files of a parser."""
    return sorted(path for path in (CORPUS / parser).iterdir() if path.is_file())


def fuzz(server: ParserServer, parser: str, seconds: float, seed: int) -> FuzzRun:
    """Read changed seeds for so many seconds; keep those that do harm."""
    seeds = [path.read_bytes() for path in seeds_of(parser)]
    rng, run = random.Random(f"{parser} {seed}"), FuzzRun(parser, found=[])
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tiltyard-fuzz-") as name:
        paths = [Path(name) / f"input-{number}" for number in range(_BATCH_INPUTS)]
        while not run.inputs or time.monotonic() - began < seconds:
            for path in paths:
                path.write_bytes(mutate(seeds, rng))
            for path, result in zip(paths, server.run(parser, paths), strict=True):
                _count(run, result)
                if not result.is_harmless:
                    kept = CORPUS / parser / f"found-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
                    kept.write_bytes(path.read_bytes())
                    print(
                        f"{parser}: {kept.name}: {result.ending}: {result.detail}",
                        file=sys.stderr,
                        flush=True,
                    )
    run.seconds = time.monotonic() - began
    return run


def _count(run: FuzzRun, result: InputResult) -> None:
    run.inputs += 1
    run.read += result.ending == "read"
    run.slowest_seconds = max(run.slowest_seconds, result.seconds)
    run.most_bytes = max(run.most_bytes, result.memory_bytes)
    if not result.is_harmless:
        assert run.found is not None
        run.found.append(result)


def main() -> None:
    names = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
    options = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], epilog=f"Parsers: {', '.join(names)}"
    )
    options.add_argument("parsers", nargs="*", help="names of parsers; all if none is given")
    options.add_argument("--seconds", type=float, default=60.0, help="for each parser")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--list", action="store_true", help="list the parsers and end")
    given = options.parse_args()
    if given.list:
        print("\n".join(names))
        return
    unknown = set(given.parsers) - set(names)
    if unknown:
        options.error(f"unknown: {', '.join(sorted(unknown))}; --list shows all")
    print(f"Limits: {HANG_SECONDS:.0f} s of CPU, {MEMORY_BYTES >> 20} MiB of address space for each input.\n")
    print(HEADER, flush=True)
    harm = False
    with parser_server() as server:
        for parser in given.parsers or names:
            run = fuzz(server, parser, given.seconds, given.seed)
            print(run.row(), flush=True)
            harm = harm or bool(run.found)
    sys.exit(1 if harm else 0)


if __name__ == "__main__":
    main()
