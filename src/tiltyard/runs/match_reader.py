"""Reads the matches of a tournament's folder with their prompts, responses and verdicts, by filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tiltyard.core.judging.canaries import question_texts
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.question import QuestionPurpose, QuestionTexts
from tiltyard.core.judging.reconciliation import VerdictGroup, group_verdicts
from tiltyard.errors import BadOption, BrokenArtifact, UnreadableFile
from tiltyard.report.match_text import ReadMatch, context_of
from tiltyard.runs.manifest import MANIFEST, locate_run, manifest_kind, read_lines, read_manifest_as
from tiltyard.runs.tournament_files import ANSWERS, question_file
from tiltyard.runs.tournament_manifest import TournamentManifest
from tiltyard.runs.tournament_verification import ResponseTexts


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchFilter:
    """Which matches are read. Of the first four, one must fit; without them, every match but no check does."""

    flips: bool = False
    disagreements: bool = False
    failed_checks: bool = False
    no_verdict: bool = False
    dimension: str | None = None
    pair: tuple[str, str] | None = None
    judge: str | None = None
    prompt_id: str | None = None

    def fits(self, group: VerdictGroup) -> bool:
        judges = {one.question.judge for one in group.judged}
        about = (
            self.prompt_id in (None, group.prompt_id)
            and (self.pair is None or set(self.pair) == {group.model_a, group.model_b})
            and (self.judge is None or self.judge in judges)
        )
        return about and self._kind(group)

    def _kind(self, group: VerdictGroup) -> bool:
        if not (self.flips or self.disagreements or self.failed_checks or self.no_verdict):
            return group.purpose is QuestionPurpose.MATCH
        return (
            (self.flips and group.flips(self.judge))
            or (self.disagreements and group.disputed)
            or (self.failed_checks and group.failed)
            or (self.no_verdict and group.lacks(self.judge))
        )


def read_matches(folder: Path, wanted: MatchFilter) -> Iterator[ReadMatch]:
    """The matches and checks of a finished run that fit, in canonical order; streams."""
    folder, manifest, texts = open_tournament(folder)
    known: dict[str, tuple[str | None, Collection[str]]] = {
        "--dimension": (wanted.dimension, manifest.dimensions),
        "--judge": (wanted.judge, manifest.judges),
    }
    for model in wanted.pair or ():
        known[f"--pair {model}"] = (model, manifest.entrants)
    for option, (name, names) in known.items():
        if name is not None and name not in names:
            raise BadOption(f"{option}: {name!r} is not in this run; expected one of {', '.join(names)}")
    if wanted.prompt_id is not None and wanted.prompt_id not in {prompt_id for _, prompt_id in texts}:
        raise BadOption(f"--prompt: {wanted.prompt_id!r} is not a prompt of this run, or has no answer")
    return _read(folder, manifest, texts, wanted)


def open_tournament(folder: Path) -> tuple[Path, TournamentManifest, ResponseTexts]:
    """The folder of a finished tournament, its manifest and its responses."""
    folder = locate_run(folder)
    if (folder / MANIFEST).is_file() and manifest_kind(folder) != "tournament":
        raise BadOption(f"{folder} is not the run of a tournament: it has no verdicts to read")
    manifest = read_manifest_as(TournamentManifest, folder)
    if manifest.finished_at is None:
        raise BrokenArtifact(f"{folder}: the run did not finish; resume it")
    try:
        return folder, manifest, ResponseTexts(folder / ANSWERS)
    except OSError as error:
        raise UnreadableFile(f"{folder / ANSWERS}: {error.strerror or error}") from None


def _read(
    folder: Path, manifest: TournamentManifest, texts: ResponseTexts, wanted: MatchFilter
) -> Iterator[ReadMatch]:
    for dimension in manifest.dimensions:
        if wanted.dimension not in (None, dimension):
            continue
        line = 1
        rows = read_lines(folder / question_file(dimension))
        for group in group_verdicts(JudgedQuestion.from_dict(row, where) for where, row in rows):
            if wanted.fits(group):
                yield _with_texts(group, texts, line)
            line += len(group.judged)


def _with_texts(group: VerdictGroup, texts: ResponseTexts, line: int) -> ReadMatch:
    try:
        one, other = (texts.answer(model, group.prompt_id) for model in (group.model_a, group.model_b))
        texts_shown = QuestionTexts("", one.response, other.response)
        shown = question_texts(group.judged[0].question, texts_shown, texts)
    except KeyError:
        raise UnreadableFile(f"{ANSWERS} has no answer to {group.prompt_id!r} that was judged") from None
    contexts = context_of(one), context_of(other)
    return ReadMatch(group, one.prompt, one.category, (shown.first, shown.second), contexts, line)
