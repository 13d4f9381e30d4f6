"""The files beside a tournament's report: written with the run, and compared by `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiltyard.report.board_charts import charts_available
from tiltyard.report.page_shell import charts_script
from tiltyard.report.verdict_browser import CHARTS_NAME, REPORT_DATA
from tiltyard.report.verdict_parts import VerdictParts
from tiltyard.runs.json_files import write_bytes
from tiltyard.runs.manifest import Platform
from tiltyard.runs.tournament_files import report_data_file
from tiltyard.runs.tournament_manifest import ReportDataEntry, TournamentManifest
from tiltyard.runs.verification_checks import RunCheck, drawn_alike, read_bytes

_Responses = Mapping[tuple[str, str], str]


class ReportDataWriter:
    """Writes the parts of the report while ``parts`` sees the answers and verdicts of a run."""

    def __init__(self, out: Path, manifest: TournamentManifest, responses: _Responses) -> None:
        self._out = out
        self._names: set[str] = set()
        self.parts = VerdictParts(self._write, manifest.judges, manifest.entrants, responses)

    def finish(self) -> ReportDataEntry:
        """Write the rest, and remove parts that an earlier draft of this run left."""
        charts = charts_available()
        if charts:
            self._write(CHARTS_NAME, charts_script().encode())
        for path in (self._out / REPORT_DATA).glob("*.js"):
            if path.stem not in self._names:
                path.unlink()
        if not self._names:
            (self._out / REPORT_DATA).rmdir()
        return _entry(self.parts, charts=charts)

    def _write(self, name: str, data: bytes) -> None:
        self._names.add(name)
        write_bytes(self._out / report_data_file(name), data)


class ReportDataCheck:
    """Makes the parts again and compares them with the files, if the same versions made them."""

    def __init__(self, folder: Path, manifest: TournamentManifest, responses: _Responses) -> None:
        self._folder = folder
        self._manifest = manifest
        self._problem: str | None = None
        self._count = 0
        self._alike = drawn_alike(manifest.platform, Platform.here())
        self.parts = VerdictParts(self._compare, manifest.judges, manifest.entrants, responses)

    def _compare(self, name: str, data: bytes) -> None:
        if not self._alike or self._problem is not None:
            return
        self._count += 1
        if read_bytes(self._folder / report_data_file(name)) != data:
            self._problem = f"{report_data_file(name)} differs from the answers and verdicts"

    def finish(self) -> RunCheck:
        """The result, after all answers and verdicts were seen."""
        if not self._alike:
            return RunCheck(
                REPORT_DATA,
                passed=True,
                detail="not compared: made with other versions",
                exact=False,
                unchecked=f"the folder {REPORT_DATA}, which was made with other versions",
            )
        written = self._manifest.report_data
        if written.charts:
            self._compare(CHARTS_NAME, charts_script().encode())
        if self._problem is None and written != _entry(self.parts, charts=written.charts):
            self._problem = "the manifest gives another number of files"
        detail = self._problem or f"{self._count} files, made again, equal"
        return RunCheck(REPORT_DATA, self._problem is None, detail)


def _entry(parts: VerdictParts, *, charts: bool) -> ReportDataEntry:
    counts = parts.counts
    return ReportDataEntry(index=counts.index, texts=counts.texts, verdicts=counts.verdicts, charts=charts)
