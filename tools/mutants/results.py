"""What became of each mutant: one line of JSON each, so that a run can be stopped and resumed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sampling import Mutant


@dataclass(frozen=True)
class Result:
    """One mutant and its outcome: killed, timeout, survived, or no change at all."""

    name: str
    group: str
    outcome: str
    before: str = ""
    after: str = ""
    #: The test that failed.
    note: str = ""
    seconds: float = 0.0
    #: A short hash of the file that was changed: results of another version of it do not count.
    version: str = ""

    @classmethod
    def of(
        cls,
        mutant: Mutant,
        group: str,
        outcome: str,
        *,
        changed: tuple[str, str] = ("", ""),
        note: str = "",
        seconds: float = 0.0,
    ) -> Result:
        return cls(mutant.name, group, outcome, *changed, note, seconds)


class Results:
    """Results by the name of the mutant; the last line counts."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        #: Of each file as it was when first asked for, which is before any test is run.
        self._versions: dict[str, str] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = [Result(**json.loads(line)) for line in lines]
        self._known = {one.name: one for one in found if one.version == self._version(one.name)}

    def wants(self, mutant: Mutant, *, again: bool) -> bool:
        """Whether it is still to be tested."""
        known = self._known.get(mutant.name)
        self._version(mutant.name)
        return known is None or (again and known.outcome == "survived")

    def add(self, result: Result) -> None:
        result = replace(result, version=self._version(result.name))
        self._known[result.name] = result
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")

    def _version(self, name: str) -> str:
        file = name.partition(":")[0]
        if file not in self._versions:
            path = self._root / file
            known = hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""
            self._versions[file] = known
        return self._versions[file]

    def of(self, mutants: Sequence[Mutant]) -> list[Result]:
        """Of these mutants those that were tested."""
        found = [self._known[one.name] for one in mutants if one.name in self._known]
        return [one for one in found if one.outcome != "no change"]

    def table(self, mutants: Sequence[Mutant]) -> str:
        """Counts by group."""
        rows = [
            "| group | mutants | killed | timeout | survived | killed % |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        results = self.of(mutants)
        for group in [*dict.fromkeys(one.group for one in results), "all"]:
            found = Counter(one.outcome for one in results if group in {one.group, "all"})
            total, dead = found.total(), found["killed"] + found["timeout"]
            rows.append(
                f"| {group} | {total} | {found['killed']} | {found['timeout']} | {found['survived']} | "
                f"{100 * dead / max(total, 1):.1f} |"
            )
        return "\n".join(rows)


def write_survivors(results: Results, mutants: Sequence[Mutant], path: Path) -> None:
    """A page of the mutants that no test noticed."""
    parts = [results.table(mutants), ""]
    for one in results.of(mutants):
        if one.outcome == "survived":
            parts += [f"## {one.name}", one.note, "```diff"]
            parts += [f"-{line}" for line in one.before.splitlines()]
            parts += [f"+{line}" for line in one.after.splitlines()]
            parts += ["```", ""]
    path.write_text("\n".join(parts), encoding="utf-8")
