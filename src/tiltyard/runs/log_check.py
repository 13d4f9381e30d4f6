"""What is wrong with files of battles, and the options of `rate` that repair it."""

from __future__ import annotations

import inspect
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from tiltyard.core.board import RatedGroup
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.log_findings import one_sided_voters
from tiltyard.core.ratings.sentences import first_of
from tiltyard.errors import CannotRate
from tiltyard.files import BattleSource
from tiltyard.files.battle_source import BattleData, open_data
from tiltyard.files.battle_tables import Progress, voters_of
from tiltyard.files.read_options import READ_DEFAULTS, ReadDataOptions, ReadOptions
from tiltyard.foundation.option_names import refuse_unknown, with_options
from tiltyard.runs.battle_rating import RateSettings, rate_files

#: Findings that options of reading repair. The others say how far ratings can be trusted.
_REPAIRS = {
    "empty-winners": "--skip-invalid",
    "invalid-rows": "--skip-invalid",
    "repeated-battles": "--drop-duplicates",
    "repeated-block": "--drop-duplicates",
}


@dataclass(frozen=True)
class CheckedLog:
    """Files that were checked, their ratings, and each finding with the option that repairs it; empty if none does."""

    sources: tuple[BattleSource, ...]
    rated: RatedGroup
    found: tuple[tuple[Finding, str], ...]

    @property
    def repairs(self) -> list[str]:
        """All options that repair what was found, as on the command line."""
        return list(dict.fromkeys(option for _, option in self.found if option))

    @property
    def options(self) -> dict[str, Any]:
        """The same for `rate` in Python: ``tiltyard.rate(data, **checked.options)``."""
        found: dict[str, Any] = {}
        words = iter(shlex.split(" ".join(self.repairs)))
        for word in words:
            name = word.removeprefix("--").replace("-", "_")
            if name == "rename":
                found.setdefault(name, []).append(next(words))
            else:
                found[name] = next(words) if name == "where" else True
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the files, what they hold, and each finding with the option that repairs it, if one does."""
        board = self.rated.board
        return {
            "files": [{"path": source.path, "format": source.format} for source in self.sources],
            "battles": board.n_battles,
            "models": len(board.rows),
            "findings": [{**finding.to_dict(), "repair": option or None} for finding, option in self.found],
            "repairs": self.repairs,
        }

    @property
    def heading(self) -> str:
        """The files with their formats, and how much was found."""
        board, count = self.rated.board, len(self.found) or "no"
        files = "".join(f"{source.path}: {source.format}\n" for source in self.sources)
        return f"{files}{board.n_battles:,} battles of {len(board.rows)} models; findings: {count}"

    def __str__(self) -> str:
        return "\n\n".join([self.heading, *(f"{finding.name}: {finding}" for finding, _ in self.found)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(str(self))


def check(data: BattleData, **options: Unpack[ReadDataOptions]) -> CheckedLog:
    """What is wrong with battles, and the options of `rate` that repair it: `tiltyard check` in Python.

    ``data`` is what `rate` takes.
    """
    refuse_unknown("check", options, ReadDataOptions)
    reading = ReadOptions(**options)
    sources = open_data(data, replace(reading, skip_invalid=True))
    return check_log(sources, skip_invalid=reading.skip_invalid)


with_options(check, dict.fromkeys(READ_DEFAULTS, inspect.Parameter.empty), READ_DEFAULTS, evaluated=False)


def check_log(
    sources: Sequence[BattleSource], *, skip_invalid: bool, progress: Progress | None = None
) -> CheckedLog:
    """Rate sources that count invalid rows; ``skip_invalid``: whoever asks knows of them."""
    try:
        rated = rate_files(sources, RateSettings(), progress=progress)[0]
    except CannotRate:
        for source in sources:
            if (invalid := source.find_invalid()).problems:
                raise invalid.error(("rename", "outcomes")) from None
        raise
    found = [*_read_findings(sources, skip_invalid), *rated.board.findings]
    repaired = [(one, _repair(one, rated, sources)) for one in found]
    # What can be done something about comes first.
    return CheckedLog(tuple(sources), rated, tuple(sorted(repaired, key=lambda pair: not pair[1])))


def _repair(finding: Finding, rated: RatedGroup, sources: Sequence[BattleSource]) -> str:
    if finding.name == "one-sided-voters":
        names = voters_of(sources, one_sided_voters(rated.table)[0])
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        return f"--where {shlex.quote(f'voter is null or not voter in ({listed})')}"
    return str(finding.values.get("option", _REPAIRS.get(finding.name, "")))


def _read_findings(sources: Sequence[BattleSource], skip_invalid: bool) -> Iterator[Finding]:
    """What reading repaired or left out, of all sources together."""
    readers = [reader for source in sources for reader in source.readers]
    headers = dict.fromkeys(f"“{header}”" for reader in readers for header in reader.repairs.headers)
    if headers:
        yield Finding("padded-headers", first_of("headers", list(headers)))
    stripped = sum((reader.repairs.stripped for reader in readers), Counter[str]())
    if stripped:
        yield Finding("outer-spaces", {"rows": stripped.total(), **first_of("columns", list(stripped))})
    invalid = [reader.invalid for reader in readers if reader.invalid is not None]
    misspelt = sum((one.misspelt_names for one in invalid), Counter[str]())
    empty = sum(one.empty_winners for one in invalid)
    others = sum(one.rows for one in invalid) - empty - misspelt.total()
    if misspelt:
        option = " ".join(f"--rename {shlex.quote(name)}" for name in misspelt)
        values = {"rows": misspelt.total(), "option": option, **first_of("names", list(misspelt))}
        yield Finding("winner-spellings", values)
    if empty and not skip_invalid:
        yield Finding("empty-winners", {"rows": empty})
    if others and not skip_invalid:
        reasons = [reason for one in invalid for reason, _ in one.notes()]
        yield Finding("invalid-rows", {"rows": others, **first_of("reasons", reasons)})
