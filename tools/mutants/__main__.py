"""Mutation testing of the core and of access checks: `python tools/mutants --size 400`.

A mutant is the code with one small change; at least one test should fail. The sample is drawn by a seed:
files in proportion to their lines, places in a file evenly. Each mutant is tested in its own process, by
the tests that run the changed line, shortest first. Results are kept in OUT/results.jsonl: run the same
command again to resume an interrupted run. Survivors are listed in OUT/survivors.md.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from copies import Copy
from covering import Covered, measure
from forked import Child, Tests, fork_tests, load_libraries
from results import Result, Results, write_survivors
from sampling import Mutant, sample

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Group:
    """Sources that are mutated, and the tests nearest to them."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    database: bool = False

    @property
    def files(self) -> list[str]:
        found = []
        for source in self.sources:
            path = ROOT / source
            found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
        return [str(path.relative_to(ROOT)) for path in found]


@dataclass
class Running:
    """A mutant whose tests are being run."""

    mutant: Mutant
    child: Child
    copy: Copy
    limit: float
    changed: tuple[str, str]


_TARGETS = tomllib.loads((Path(__file__).parent / "targets.toml").read_text(encoding="utf-8"))


def groups() -> list[Group]:
    """The groups of targets.toml, in its order."""
    return [
        Group(one["name"], tuple(one["sources"]), tuple(one["tests"]), one.get("database", False))
        for one in _TARGETS["group"]
    ]


def chosen_groups(paths: Sequence[str]) -> dict[str, Group]:
    """The group of every file that is asked for; all of them if none is."""
    wanted = tuple(str((ROOT / path).resolve().relative_to(ROOT)) for path in paths)
    names = {group.name for group in groups()} & set(paths)
    found = {}
    for group in groups():
        for file in group.files:
            if not paths or group.name in names or any((file + "/").startswith(one + "/") for one in wanted):
                found[file] = group
    return found


@contextmanager
def shared_server(needed: bool) -> Iterator[str | None]:
    """A PostgreSQL with a migrated template for all runs, made by a process of its own."""
    if not needed:
        yield None
        return
    sys.path.insert(0, str(ROOT / "tests"))
    from support import postgres_servers

    with postgres_servers.postgres() as url:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                postgres_servers.migrated_template(url)
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            sys.exit("the template database could not be made")
        yield url


def fingerprint(group: Group) -> str:
    """A short hash of the sources and tests of a group."""
    digest = hashlib.sha256()
    for name in (*group.sources, *group.tests):
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def covered_by(group: Group, copy: Copy, out: Path, database: str | None) -> Covered:
    """Which test runs which line of a group; measured again only if sources or tests have changed."""
    kept = out / f"covered-{group.name}-{fingerprint(group)}.json"
    if kept.exists():
        return Covered.read(kept)
    print(f"{group.name}: measuring which tests run which lines", flush=True)
    return measure(copy.root, group.tests, kept, database if group.database else None)


def start(mutant: Mutant, group: Group, covered: Covered, copy: Copy, options: Options) -> Running | Result:
    """Begin to test a mutant, unless its result is known without that."""
    changed = copy.change(mutant)
    if changed is None:
        return Result.of(mutant, group.name, "no change")
    tests = covered.nearest(mutant, options.seconds)
    if not tests:
        copy.restore()
        return Result.of(mutant, group.name, "survived", changed=changed, note="no test runs this")
    files = tuple(sorted({name.partition("::")[0] for name in tests}))
    database = options.database if group.database else None
    child = fork_tests(copy.root, Tests(files, tuple(tests), database=database), copy.log)
    limit = options.grace + options.patience * sum(covered.seconds[test] for test in tests)
    return Running(mutant, child, copy, limit, changed)


def finished(running: Running, group: Group) -> Result | None:
    """The result, if there is one by now."""
    code, seconds = running.child.poll(), time.monotonic() - running.child.started
    if code is None and seconds < running.limit:
        return None
    if code is None:
        running.child.kill()
    outcome = "timeout" if code is None else "survived" if code == 0 else "killed"
    running.copy.restore()
    return Result.of(
        running.mutant,
        group.name,
        outcome,
        changed=running.changed,
        note=running.child.failed if code else "",
        seconds=round(seconds, 1),
    )


@dataclass(frozen=True)
class Options:
    """How mutants are run."""

    seconds: float
    patience: float
    grace: float
    database: str | None


def run(pending: list[Mutant], of: dict[str, Group], covered: dict[str, Covered], copies: list[Copy],
        results: Results, options: Options) -> None:  # fmt: skip
    """Test mutants, as many at once as there are copies."""
    free, active, total = list(copies), list[Running](), len(pending)
    waiting = iter(pending)
    done = 0
    try:
        while True:
            while free and (mutant := next(waiting, None)) is not None:
                begun = start(mutant, of[mutant.path], covered[of[mutant.path].name], free[-1], options)
                if isinstance(begun, Result):
                    done += 1
                    results.add(begun)
                else:
                    active.append(begun)
                    free.pop()
            if not active:
                return
            for one in list(active):
                result = finished(one, of[one.mutant.path])
                if result is not None:
                    active.remove(one)
                    free.append(one.copy)
                    done += 1
                    results.add(result)
                    print(
                        f"{done}/{total} {result.outcome:9} {result.seconds:6.1f} s {result.name}", flush=True
                    )
            time.sleep(0.05)
    finally:
        for one in active:
            one.child.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help="files, folders or groups of targets.toml; without any, all")
    parser.add_argument("--size", type=int, default=400, help="mutants in the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of tests that each mutant meets")
    parser.add_argument("--patience", type=float, default=10.0, help="times these until it is stopped")
    parser.add_argument("--grace", type=float, default=60.0, help="seconds besides")
    parser.add_argument(
        "--again", action="store_true", help="test survivors again, for example after adding tests"
    )
    parser.add_argument("--out", type=Path, default=Path("build/mutants"))
    asked = parser.parse_args()
    out: Path = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    load_libraries(_TARGETS["libraries"])
    of = chosen_groups(asked.paths)
    results = Results(out / "results.jsonl", ROOT)
    mutants = sample(ROOT, sorted(of), asked.size, asked.seed)
    pending = [one for one in mutants if results.wants(one, again=asked.again)]
    used = {of[one.path].name: of[one.path] for one in pending}
    copies = [Copy.make(ROOT, out / f"copy-{k}") for k in range(asked.processes)]
    with shared_server(any(group.database for group in used.values())) as database:
        covered = {name: covered_by(group, copies[0], out, database) for name, group in used.items()}
        options = Options(asked.seconds, asked.patience, asked.grace, database)
        run(pending, of, covered, copies, results, options)
    write_survivors(results, mutants, out / "survivors.md")
    print(results.table(mutants))


if __name__ == "__main__":
    main()
