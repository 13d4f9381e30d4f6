"""Verifies a tournament's folder offline: recomputes everything from answers, verdicts and attempts."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain, islice, zip_longest
from pathlib import Path

import numpy as np

from tiltyard.core.battles import Battle
from tiltyard.core.board.adaptive_matches import next_matches
from tiltyard.core.judging.canaries import CheckCounts, check_questions
from tiltyard.core.judging.judged_question import JudgedQuestion, reparse
from tiltyard.core.judging.match_design import BOTH_ORDERS, MatchDesign, match_questions
from tiltyard.core.judging.matches import Match, MatchList, PairRules, Prompt, all_pairs
from tiltyard.core.judging.question import Question, parse_rubric
from tiltyard.core.judging.verdict import PARSER_VERSION
from tiltyard.errors import BadBattle, TiltyardError, UnreadableFile
from tiltyard.files import BattleSource, open_battles
from tiltyard.files.answer import Answer
from tiltyard.report.verdict_parts import REPORT_DATA, VerdictParts
from tiltyard.runs.dimension_ratings import rate_dimensions
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    DIMENSION_RATINGS,
    MANIFEST,
    MANIFEST_HASH,
    RATINGS,
    REPORT,
    WINRATES,
    json_line,
    parse_document,
    read_lines,
    read_manifest_as,
)
from tiltyard.runs.run_costs import QuestionIndex, attempt_problem, costs_document, read_attempts
from tiltyard.runs.run_folder import evaluated_models
from tiltyard.runs.tournament_files import (
    ANSWERS,
    ATTEMPTS,
    CONFIG,
    COSTS,
    DIAGNOSTICS,
    ELO,
    MATCHES,
    PER_PERM,
    ComputedFiles,
    ReportDataCheck,
    expected_files,
    question_file,
    rubric_file,
    verdict_file,
)
from tiltyard.runs.tournament_manifest import TournamentManifest, configured_fields
from tiltyard.runs.verdict_pass import HumanVotes, ResponseIndex, VerdictPass, pair_rows
from tiltyard.runs.verification_checks import (
    RunCheck,
    Verification,
    comparison_check,
    first_difference,
    hash_check,
    json_round_trip,
    manifest_check,
    page_check,
    read_bytes,
    read_json,
    read_parquet,
    read_text_lines,
)
from tiltyard.settings.yaml_file import parse_yaml, write_yaml

#: Files that are computed from the others.
_COMPUTED = (COSTS, ELO, PER_PERM, DIMENSION_RATINGS, RATINGS, BOOTSTRAP, WINRATES, DIAGNOSTICS, REPORT)

_NAME = "configuration"


def configured_checks(manifest: TournamentManifest) -> CheckCounts:
    """The numbers of control questions and repeats."""
    stated, names = manifest.config.get("checks"), [field.name for field in fields(CheckCounts)]
    if (
        not isinstance(stated, dict)
        or set(stated) != set(names)
        or not all(type(count) is int and count >= 0 for count in stated.values())
    ):
        raise UnreadableFile(f"{CONFIG}: checks: expected a count, 0 or more, of each: {', '.join(names)}")
    return CheckCounts(**stated)


class ResponseTexts(Mapping[tuple[str, str], str]):
    """Responses by model and prompt, each read from the file on access."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[tuple[str, str], int] = {}
        place = 0
        with path.open("rb") as file:
            for line in file:
                answer = _answer(line)
                self._places[answer.model, answer.prompt_id] = place
                place += len(line)

    def __getitem__(self, key: tuple[str, str]) -> str:
        return self.answer(*key).response

    def answer(self, model: str, prompt_id: str) -> Answer:
        """A response with its prompt."""
        with self._path.open("rb") as file:
            file.seek(self._places[model, prompt_id])
            return _answer(file.readline())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _answer(line: bytes) -> Answer:
    return Answer.from_dict(_object(ANSWERS, line), ANSWERS)


class ExpectedQuestions:
    """The questions of one dimension in canonical order, checked off as their rows are read.

    Every match has a row for each judge and order, whatever the result; control questions and repeats follow.
    """

    def __init__(
        self,
        matches: Sequence[Match],
        judges: Sequence[str],
        checks: CheckCounts,
        texts: Mapping[tuple[str, str], str],
        drawn_prompts: Sequence[str] = (),
        design: MatchDesign = BOTH_ORDERS,
        checked: Sequence[Match] | None = None,
    ) -> None:
        asked = chain.from_iterable(match_questions(match, judges, design) for match in matches)
        some = matches if checked is None else checked
        self._due = chain(asked, check_questions(some, texts, judges, checks, drawn_prompts, design))

    def problem(self, judged: JudgedQuestion) -> str | None:
        """The problem with the position of the next row, if any."""
        question, due = judged.question, next(self._due, None)
        if due is None:
            return f"question {question.id} is not part of this run, or is a duplicate"
        return None if question == due else f"question {question.id} is in the place of {_named(due)}"

    def left(self) -> str | None:
        """What is missing after all rows have been read, if anything."""
        due = next(self._due, None)
        return None if due is None else f"ends before {_named(due)}"


def _named(question: Question) -> str:
    return (
        f"question {question.id} ({question.purpose.value}, judge {question.judge}, "
        f"prompt {question.prompt_id}, {question.first} and {question.second})"
    )


def config_file_check(path: Path, manifest: TournamentManifest) -> RunCheck:
    """Compare the configuration file with the copy in the manifest."""
    try:
        text = read_bytes(path).decode()
        if text == write_yaml(manifest.config):
            return RunCheck(path.name, passed=True, detail="as in the manifest")
        same = parse_yaml(text, path.name).value == manifest.config
    except UnicodeDecodeError:
        same = False
    return RunCheck(
        path.name, same, "as in the manifest" if same else "differs from the manifest", exact=False
    )


def rubrics_check(folder: Path, manifest: TournamentManifest) -> RunCheck:
    for name, stated in manifest.rubrics.items():
        where = rubric_file(name)
        rubric = parse_rubric(name, read_bytes(folder / where).decode(), where)
        if (rubric.version, rubric.sha256) != (stated.version, stated.sha256):
            return RunCheck("rubrics", passed=False, detail=f"{where} is not the rubric in the manifest")
        if rubric.file_text().encode() != read_bytes(folder / where):
            return RunCheck("rubrics", passed=False, detail=f"{where} contains more than its rubric")
    return RunCheck("rubrics", passed=True, detail=f"{len(manifest.rubrics)}, as in the manifest")


def read_responses(folder: Path, manifest: TournamentManifest, parts: VerdictParts) -> ResponseIndex:
    """Read and measure the answers, and show them to ``parts``; their texts are not kept."""
    rows = (Answer.from_dict(row, where) for where, row in read_lines(folder / ANSWERS))
    return ResponseIndex(parts.texts(rows), manifest.entrants, manifest.families)


def prompts_check(responses: ResponseIndex, manifest: TournamentManifest) -> RunCheck:
    if responses.prompt_set != manifest.prompt_set:
        return RunCheck(ANSWERS, passed=False, detail="the prompts do not match their hash in the manifest")
    asked = len(responses.prompts) + len(set(manifest.unanswered) - responses.prompts.keys())
    if asked != manifest.selected_prompt_count:
        detail = f"{asked} prompts, but the manifest says {manifest.selected_prompt_count}"
        return RunCheck(ANSWERS, passed=False, detail=detail)
    return RunCheck(ANSWERS, passed=True, detail=f"{len(responses.prompts)} prompts, hash matches")


def matches_check(
    folder: Path, manifest: TournamentManifest, responses: ResponseIndex, texts: ResponseTexts
) -> tuple[MatchList, RunCheck]:
    """Recompute the matches from answers and manifest, and compare them with the file."""
    silent = [Prompt(name, "") for name in manifest.unanswered]
    prompts = [*responses.prompts.values(), *silent]
    has = set(responses.pairs())
    gold_only = [name for name, rubric in manifest.rubrics.items() if rubric.needs]
    whole = manifest.missing_drops == "prompt"
    rules = PairRules(manifest.limit_pairs, manifest.model, gold_only, whole)
    every = all_pairs(prompts, manifest.entrants, manifest.dimensions, has, rules)
    pool = manifest.design.pool(every, manifest.sample_pairs)
    matches = manifest.design.first(pool)
    if manifest.design.adaptive:
        judged = [*_judged_rounds(folder, manifest, pool)]
        matches = replace(matches, matches=judged, checked=matches.matches)
    if (matches.dropped, dict(matches.missing)) != (manifest.dropped, manifest.missing):
        detail = "the missing responses in the manifest differ from those of the answers"
        return matches, RunCheck(MATCHES, passed=False, detail=detail)
    with (folder / MATCHES).open("rb") as file:
        rows = pair_rows(matches.matches, manifest.entrants, texts.answer)
        for number, (row, line) in enumerate(zip_longest(rows, file), start=1):
            if row is None or line != json_line(row):
                detail = f"line {number} is not the match computed from the answers"
                return matches, RunCheck(MATCHES, passed=False, detail=detail)
    return matches, RunCheck(
        MATCHES, passed=True, detail=f"{len(matches.matches)}, as computed from the answers"
    )


def _judged_rounds(folder: Path, manifest: TournamentManifest, pool: MatchList) -> Iterator[Match]:
    """The matches of an adaptive run, round by round from its battles, until as many as the folder has of a dimension."""
    written = Counter(str(row.get("dimension")) for _, row in read_lines(folder / MATCHES))
    battles: dict[Match, Battle] = {}
    rows = [Battle.from_dict(row) for _, row in read_lines(folder / BATTLE_LINES)]
    for one in rows[: len(rows) - manifest.anchor_battles]:
        battles[Match(one.dimension or "", one.question_id or "", one.model_a, one.model_b)] = one
    for name in manifest.dimensions:
        mine = [match for match in pool.matches if match.dimension == name]
        asked: set[Match] = set()
        while len(asked) < written[name]:
            known = [battles[match] for match in mine if match in asked and match in battles]
            more = next_matches(mine, asked, known, manifest.pilot_seed)
            if not more:
                break
            asked.update(more)
        yield from (match for match in mine if match in asked)


def battles_check(
    folder: Path,
    manifest: TournamentManifest,
    gathering: VerdictPass,
    matches: MatchList,
    texts: ResponseTexts,
    parts: VerdictParts,
) -> Iterator[RunCheck]:
    """Parse every reply again, reconcile every pair of orders again, and compare the resulting battles."""
    number, problem = 0, ""
    checks = configured_checks(manifest)
    yield RunCheck("checks", passed=True, detail="planted questions follow from the configuration")
    drawn = gathering.drawn_prompts()
    with (folder / BATTLE_LINES).open("rb") as file:
        for place, name in enumerate(manifest.dimensions):
            where = question_file(name)
            mine = [match for match in matches.matches if match.dimension == name]
            checked = [match for match in matches.checked or matches.matches if match.dimension == name]
            due = ExpectedQuestions(mine, manifest.judges, checks, texts, drawn, manifest.design, checked)
            verdicts = _Verdicts(folder / where, manifest, due)
            with (folder / verdict_file(name)).open("rb") as lines:
                judgments = _Judgments(lines)
                try:
                    for settled, battle in gathering.settle(mine, parts.verdicts(place, verdicts.read())):
                        number += 1
                        judgments.compare(gathering.judgment_row(settled, battle))
                        if next(file, b"") != json_line(battle.to_dict()) and not problem:
                            problem = (
                                f"line {number} is not the result of the verdicts on {battle.question_id}"
                            )
                except TiltyardError as error:
                    yield RunCheck(where, passed=False, detail=str(error))
                    raise UnreadableFile(f"{where} cannot be read further") from None
                yield verdicts.check(where)
                yield judgments.check(verdict_file(name))
        anchors, odd = _anchors(file, number)
    if not problem and anchors != manifest.anchor_battles:
        problem = (
            f"{anchors} battles follow those of the verdicts; the manifest says {manifest.anchor_battles}"
        )
    problem = problem or odd
    detail = problem or f"{number} from the verdicts, {anchors} anchors"
    yield RunCheck(BATTLE_LINES, not problem, detail)


def _anchors(lines: Iterable[bytes], before: int) -> tuple[int, str]:
    """The number of battles in the rest of the file, and the problem with the first invalid one."""
    count, problem = 0, ""
    for line in lines:
        count += 1
        try:
            battle = Battle.from_dict(_object(BATTLE_LINES, line))
            fit = battle.dimension is not None and json_line(battle.to_dict()) == line
        except (BadBattle, UnreadableFile):
            fit = False
        if not fit and not problem:
            problem = f"line {before + count} is not a valid battle"
    return count, problem


def _object(where: str, line: bytes) -> dict[str, object]:
    row = parse_document(where, line)
    if not isinstance(row, dict):
        raise UnreadableFile(f"{where}: not a JSON object")
    return row


class _Verdicts:
    """The verdicts of one dimension, each row checked for consistency and position as it is read."""

    def __init__(self, path: Path, manifest: TournamentManifest, due: ExpectedQuestions) -> None:
        self._path = path
        self._entrants = frozenset(manifest.entrants)
        self._judges = frozenset(manifest.judges)
        self._due = due
        self._rows = 0

    def read(self) -> Iterator[JudgedQuestion]:
        for where, row in read_lines(self._path):
            judged = JudgedQuestion.from_dict(row, where)
            self._rows += 1
            problem = self._strange(judged) or self._due.problem(judged) or self._misread(judged)
            if problem:
                raise UnreadableFile(f"{where}: {problem}")
            yield judged
        missing = self._due.left()
        if missing:
            raise UnreadableFile(f"{self._path.name}: {missing}")

    def check(self, name: str) -> RunCheck:
        return RunCheck(name, passed=True, detail=f"{self._rows} replies parsed again, same verdicts")

    def _misread(self, judged: JudgedQuestion) -> str | None:
        if judged.parser != PARSER_VERSION:
            return (
                f"question {judged.question.id}: read by parser {judged.parser}, and this version has parser "
                f"{PARSER_VERSION}; run the tournament again, which asks no judge twice, or use the version that wrote it"
            )
        if reparse(judged) != judged:
            return f"question {judged.question.id}: the reply does not match the verdict"
        return None

    def _strange(self, judged: JudgedQuestion) -> str | None:
        question = judged.question
        if question.judge not in self._judges or not {question.first, question.second} <= self._entrants:
            return f"question {question.id} has a judge that is not in this run, or a model that is not an entrant"
        return None


class _Judgments:
    """The judgments of one dimension, each line compared with what the replies give."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._rows = 0
        self._problem = ""

    def compare(self, row: Mapping[str, object]) -> None:
        self._rows += 1
        if next(self._lines, b"") != json_line(row) and not self._problem:
            self._problem = f"line {self._rows} is not the judgment that the replies give"

    def check(self, name: str) -> RunCheck:
        if not self._problem and next(self._lines, None) is not None:
            self._problem = f"has more than the {self._rows} judgments that the replies give"
        detail = self._problem or f"{self._rows} judgments, as the replies give them"
        return RunCheck(name, not self._problem, detail)


def same_battles_check(lines: Path, source: BattleSource) -> RunCheck:
    """Whether the battles in Parquet equal those in JSON Lines."""
    number = first_difference(lines, source)
    if number is not None:
        return RunCheck(BATTLES, passed=False, detail=f"row {number} is not line {number} of {lines.name}")
    return RunCheck(BATTLES, passed=True, detail=f"the same battles as {lines.name}")


def attempts_check(path: Path, asked: QuestionIndex) -> RunCheck:
    seen: set[object] = set()
    for number, row in enumerate(read_attempts(path), start=1):
        problem = attempt_problem(row, asked)
        if problem is None and row["attempt_id"] in seen:
            problem = f"duplicate attempt {row['attempt_id']}"
        if problem is not None:
            return RunCheck(path.name, passed=False, detail=f"row {number}: {problem}")
        seen.add(row["attempt_id"])
    return RunCheck(path.name, passed=True, detail=f"{len(seen)}, each of a question of this run")


def verify_tournament(folder: Path, *, recompute: bool = True) -> Verification:
    """Check the folder of a tournament; without ``recompute`` its hashes only."""
    manifest = read_manifest_as(TournamentManifest, folder)
    checks = [manifest_check(folder), _finished(manifest)]
    if manifest.finished_at is None:
        return Verification(tuple(checks))
    checks += _files(folder, manifest)
    if recompute and all(check.passed for check in checks if not _is_computed(check.name)):
        step = "manifest"
        try:
            for check in _recomputed(folder, manifest):
                checks.append(check)
                step = check.name
        except (TiltyardError, ValueError, LookupError, ArithmeticError, MemoryError, OSError) as error:
            # Forged data can raise anything, or request more than any machine can compute.
            checks.append(RunCheck(f"after {step}", passed=False, detail=str(error)))
    return Verification(tuple(checks))


def _is_computed(name: str) -> bool:
    return name in _COMPUTED or name.startswith(f"{REPORT_DATA}/")


def _finished(manifest: TournamentManifest) -> RunCheck:
    if manifest.finished_at is None:
        return RunCheck("finished", passed=False, detail="the run did not finish; resume it")
    return RunCheck("finished", passed=True, detail=f"at {manifest.finished_at}")


def _files(folder: Path, manifest: TournamentManifest) -> Iterator[RunCheck]:
    expected = list(expected_files(manifest))
    for name in expected:
        yield hash_check(folder, name, manifest.files.get(name))
    folders = {str(Path(name).parent) for name in expected}
    present = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not (path.is_dir() and path.relative_to(folder).as_posix() in folders)
    }
    for name in sorted((present | set(manifest.files)) - {MANIFEST, MANIFEST_HASH, *expected}):
        yield RunCheck(name, passed=False, detail="is not a file of this run")


def _recomputed(folder: Path, manifest: TournamentManifest) -> Iterator[RunCheck]:
    problem = manifest.contradiction()
    yield RunCheck("manifest", problem is None, problem or "consistent")
    if problem is not None:
        return
    yield config_file_check(folder / CONFIG, manifest)
    configured = configured_check(manifest)
    yield configured
    if not configured.passed:
        return
    yield rubrics_check(folder, manifest)
    texts = ResponseTexts(folder / ANSWERS)
    report_data = ReportDataCheck(folder, manifest, texts)
    parts = report_data.parts
    responses = read_responses(folder, manifest, parts)
    yield prompts_check(responses, manifest)
    matches, found = matches_check(folder, manifest, responses, texts)
    yield found
    source = open_battles(folder / BATTLES)
    anchors = islice(source.battles(), max((source.rows or 0) - manifest.anchor_battles, 0), None)
    gathering = VerdictPass(manifest, responses, HumanVotes(anchors, manifest.entrants))
    yield from battles_check(folder, manifest, gathering, matches, texts, parts)
    yield same_battles_check(folder / BATTLE_LINES, source)
    yield attempts_check(folder / ATTEMPTS, gathering.asked)
    costs = costs_document(manifest, gathering.asked, read_attempts(folder / ATTEMPTS))
    evaluated = evaluated_models(source, manifest.settings()) if source.rows else frozenset[str]()
    same = sorted(evaluated) == manifest.evaluated
    yield RunCheck("evaluated models", same, "as the battles say" if same else "differ from the battles")
    groups = rate_dimensions(source, manifest)
    computed = ComputedFiles.of(manifest, groups, gathering, costs, parts.categories)
    for name, document in computed.documents():
        yield comparison_check(name, read_json(folder / name), json_round_trip(document))
    yield _archive(folder / PER_PERM, computed.archive)
    if computed.manifest.n_bootstraps:
        yield comparison_check(BOOTSTRAP, read_parquet(folder / BOOTSTRAP), computed.bootstrap())
    yield comparison_check(WINRATES, read_text_lines(folder / WINRATES), computed.winrates.split("\n"))
    yield page_check(folder / REPORT, computed.manifest.platform, computed.page)
    yield report_data.finish()


def _archive(path: Path, computed: bytes) -> RunCheck:
    written = read_bytes(path)
    if written == computed:
        return RunCheck(path.name, passed=True, detail="recomputed, equal")
    return comparison_check(path.name, _arrays(written), _arrays(computed))


def _arrays(data: bytes) -> dict[str, object] | None:
    """The arrays of an archive as plain values; ``None`` if it is not an archive, or contains anything else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: [str(archive[name].dtype.kind), archive[name].tolist()] for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile):
        return None


def configured_check(manifest: TournamentManifest) -> RunCheck:
    """Compare the manifest with the resolved configuration in it."""
    config = manifest.config
    try:
        stated = configured_fields(config, manifest.mode)
        needs = [(name, rubric["needs"]) for name, rubric in config["rubrics"].items()]
        anchors = len(config["anchors"])
    except (TiltyardError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return RunCheck(_NAME, passed=False, detail=f"cannot be compared with the manifest: {error!r}")
    pairs = {name: (value, getattr(manifest, name)) for name, value in stated.items()}
    pairs["rubrics"] = needs, [(name, rubric.needs) for name, rubric in manifest.rubrics.items()]
    pairs["anchors"] = anchors, len(manifest.anchors)
    for name, (own, used) in pairs.items():
        if own != used:
            return RunCheck(_NAME, passed=False, detail=f"{name}: it has {own}, but the manifest {used}")
    return RunCheck(_NAME, passed=True, detail="the manifest agrees with it")
