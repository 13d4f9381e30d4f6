"""Which tests run which lines, and how long each takes: measured once for each group of tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forked import Tests, fork_tests
from sampling import Mutant


@dataclass(frozen=True)
class Covered:
    """Seconds of every test, and the tests of every line; tests of imports alone are not among them."""

    seconds: dict[str, float]
    #: Path, then line.
    lines: dict[str, dict[str, list[str]]]

    @classmethod
    def read(cls, path: Path) -> Covered:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def nearest(self, mutant: Mutant, most_seconds: float) -> list[str]:
        """The tests that run the changed line, shortest first, as long as they take so many seconds at most.

        A line that is run at import, or is SQL, has every test that runs anything of its module, and after
        these all other tests of the group: one that only reads a constant runs no line of its module.
        """
        module = mutant.path.replace("/sql/", "/").removesuffix(".sql").removesuffix(".py") + ".py"
        lines = self.lines.get(module, {})
        tests = lines.get(str(mutant.line)) if mutant.path.endswith(".py") else None
        if tests:
            return self._shortest(tests, most_seconds)
        near = {test for those in lines.values() for test in those}
        return self._shortest(near, most_seconds) + self._shortest(self.seconds.keys() - near, most_seconds)

    def _shortest(self, tests: Iterable[str], most_seconds: float) -> list[str]:
        chosen: list[str] = []
        total = 0.0
        for test in sorted(tests, key=lambda one: (self.seconds[one], one)):
            total += self.seconds[test]
            if total > most_seconds and chosen:
                break
            chosen.append(test)
        return chosen


def measure(root: Path, tests: Sequence[str], out: Path, database: str | None) -> Covered:
    """Run these tests with every line traced; one that fails without any mutant ends it."""
    log = out.with_suffix(".log")
    child = fork_tests(root, Tests(tuple(tests), traced=str(out), database=database), log)
    if child.wait(7200.0) != 0:
        sys.exit(f"tests fail without any mutant; see {log}")
    return Covered.read(out)
