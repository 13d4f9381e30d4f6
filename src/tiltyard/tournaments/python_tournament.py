"""A tournament from Python: the same run as `tiltyard run`, with its result as values; and what such functions share."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from tiltyard.core.board import Board
from tiltyard.core.ratings import Finding
from tiltyard.errors import BadOption
from tiltyard.foundation.option_names import refuse_unknown
from tiltyard.judges.judging_run import RunProgress
from tiltyard.judges.providers.local_replies import JudgeFunction, function_fields
from tiltyard.runs.tournament_files import read_run_documents
from tiltyard.settings.prices import PriceEntry, read_prices
from tiltyard.settings.ready_tournaments import QuickJudge
from tiltyard.tournaments.inputs import CONFIG_NAME, QUICK_MODE, AnswerInputs, quick_run_inputs
from tiltyard.tournaments.tournament_run import FinishedRun, RunRequest, prepare_run, run_tournament

T = TypeVar("T")

#: The name of a model, the fields of a judge as in a configuration, or a function.
Judge = str | Mapping[str, Any] | JudgeFunction

#: States of questions that were asked and answered, or need not be.
_ANSWERED = frozenset({"ok", "refused", "truncated", "unparseable"})


class JudgingOptions(TypedDict, total=False):
    """Options of what a judge decides."""

    #: Built-in rubrics or files; ``preference`` by default.
    rubric: str | Sequence[str]
    #: ``anthropic`` or ``openai``, the address, and the variable with the key, where they are not those of the model.
    provider: str
    base_url: str
    api_key_env: str
    #: Of judges that are functions: a new version is asked again.
    judge_version: str
    budget_usd: float
    #: Dollars for a million tokens, by model: ``{"my-model": {"input": 0.2, "output": 0.8}}``.
    prices: Mapping[str, Mapping[str, Any]]
    #: Where the result is written; a folder in ``runs`` by default.
    output_dir: str | os.PathLike[str]
    #: Called a few times a second with the calls that were made, and with all that are planned so far.
    progress: Callable[[int, int], None]


class FollowedRun:
    """A run whose progress a function follows. A comparison that goes on begins again, with more calls."""

    def __init__(self, progress: Callable[[int, int], None] | None = None) -> None:
        self._progress = progress or (lambda _done, _planned: None)
        self._before = self._calls = 0

    def begun(self, out: Path, calls: int, spent: int, cap: int | None, *, resumed: bool) -> None:  # noqa: ARG002
        self._before, self._calls = self._before + self._calls, calls
        self._progress(self._before, self._before + calls)

    def tick(self, progress: RunProgress) -> None:
        # Calls that were repeated are more than planned.
        self._progress(self._before + min(progress.calls, self._calls), self._before + self._calls)

    def note(self, sentence: str) -> None: ...
    def rating(self) -> None: ...


def named_judges(judge: Judge | Sequence[Judge], options: JudgingOptions) -> list[QuickJudge]:
    """The judges, each with the place that the options state unless it has its own."""
    judges = [judge] if isinstance(judge, str | Mapping) or callable(judge) else list(judge)
    version = options.get("judge_version")
    if (version is not None) != any(map(callable, judges)):
        raise BadOption("judge_version and a judge that is a function need each other")
    place = options.get("provider"), options.get("base_url"), options.get("api_key_env")
    stated = [function_fields(one, version or "") if callable(one) else one for one in judges]
    return [QuickJudge(one, *place) if isinstance(one, str) else _stated_judge(one, place) for one in stated]


def _stated_judge(fields: Mapping[str, Any], place: tuple[str | None, str | None, str | None]) -> QuickJudge:
    if not isinstance(fields.get("model"), str):
        raise BadOption("a judge's settings need the field model: the model's name")
    own = dict(zip(("provider", "base_url", "api_key_env"), place, strict=True))
    named = own | {name: fields[name] for name in own if name in fields}
    rest = {name: value for name, value in fields.items() if name not in (*own, "model")}
    return QuickJudge(fields["model"], **named, options=rest)


def several(one_or_many: str | Sequence[str]) -> Sequence[str]:
    return [one_or_many] if isinstance(one_or_many, str) else one_or_many


def off_the_loop(work: Callable[[], T]) -> T:
    """Do it in a thread of its own where this one runs an event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


class TournamentOptions(JudgingOptions, total=False):
    """Options of a tournament."""

    #: The mode of a configuration; ``pilot`` by default.
    mode: str
    #: Judge only so many pairs of each dimension, spread over prompts and models.
    sample_pairs: int
    #: ``all``, ``baseline``, ``sparse`` or ``adaptive``; and ``both`` or ``random``.
    design: str
    orders: str


@dataclass(frozen=True)
class TournamentResult:
    """The result of a tournament: the numbers of its folder."""

    #: The run folder, as `tiltyard run` writes it.
    folder: Path
    #: By dimension, and ``overall`` if the configuration weights the dimensions. Each has its own findings.
    boards: Mapping[str, Board]
    #: What to know about the run as a whole.
    findings: tuple[Finding, ...]
    #: What the run has spent, in dollars; ``None`` if a price is unknown.
    cost_usd: float | None
    #: Questions by state: ``ok``, ``unasked``, and what went wrong.
    questions: Mapping[str, int]
    #: Why calls failed, and why a judge cannot be used.
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every question has a reply. Otherwise calling again with the same arguments resumes the run."""
        return self.questions.keys() <= _ANSWERED

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "folder": str(self.folder),
            "boards": {name: [asdict(row) for row in board.rows] for name, board in self.boards.items()},
            "findings": [finding.to_dict() for finding in self.findings],
            "board_findings": {
                name: [finding.to_dict() for finding in board.findings] for name, board in self.boards.items()
            },
            "cost_usd": self.cost_usd,
            "questions": dict(self.questions),
            "complete": self.complete,
            "problems": list(self.problems),
        }


def tournament(
    config: str | os.PathLike[str] | None = None,
    *,
    answers: AnswerInputs = (),
    judge: Judge | Sequence[Judge] = (),
    **options: Unpack[TournamentOptions],
) -> TournamentResult:
    """Run a tournament: of a configuration, or of answers and a judge.

    ``answers`` are files in any known format, answers, mappings with their fields, or frames. The configuration of
    such a tournament is written to ``runs/quick-…/tournament.yaml``. Calling again resumes an interrupted run.
    """
    return off_the_loop(partial(_run, config, answers, judge, options))


async def tournament_async(
    config: str | os.PathLike[str] | None = None,
    *,
    answers: AnswerInputs = (),
    judge: Judge | Sequence[Judge] = (),
    **options: Unpack[TournamentOptions],
) -> TournamentResult:
    """The same as `tournament`, without blocking the event loop."""
    return await asyncio.to_thread(partial(tournament, config, answers=answers, judge=judge, **options))


def _run(
    config: str | os.PathLike[str] | None,
    answers: AnswerInputs,
    judge: Judge | Sequence[Judge],
    options: TournamentOptions,
) -> TournamentResult:
    refuse_unknown("tournament", options, TournamentOptions)
    given = not isinstance(answers, tuple) or bool(answers)
    output_dir = None if "output_dir" not in options else Path(options["output_dir"])
    prices = read_prices(options.get("prices", {}))
    if given == (config is not None):
        raise BadOption("a tournament needs either a configuration, or answers and a judge")
    if config is not None:
        if judge or any(name in options for name in ("rubric", "provider", "base_url", "api_key_env")):
            raise BadOption(
                "judge, rubric, provider, base_url and api_key_env go with answers; the configuration has its own"
            )
        request = _request(config, options.get("mode", "pilot"), options, prices)
    else:
        if "mode" in options:
            raise BadOption("mode goes with a configuration")
        judges = named_judges(judge, options)
        if not judges:
            raise BadOption("answers need a judge: the name of a model, or its settings")
        folder = quick_run_inputs(
            answers,
            judges,
            several(options.get("rubric", ())),
            parent=Path("runs"),
            budget_usd=options.get("budget_usd"),
            prices=prices,
        )
        output_dir = output_dir or folder / "run"
        request = _request(folder / CONFIG_NAME, QUICK_MODE, options, prices)
    prepared = prepare_run(request)
    if prepared.config.ignored:
        warnings.warn(prepared.config.warning, stacklevel=3)
    return _result(run_tournament(prepared, FollowedRun(options.get("progress")), output_dir=output_dir))


def _request(
    config: str | os.PathLike[str], mode: str, options: TournamentOptions, prices: Mapping[str, PriceEntry]
) -> RunRequest:
    return RunRequest(
        config_path=Path(config),
        mode=mode,
        sample_pairs=options.get("sample_pairs"),
        design=options.get("design"),
        orders=options.get("orders"),
        budget_usd=options.get("budget_usd"),
        prices=prices,
    )


def _result(finished: FinishedRun) -> TournamentResult:
    diagnostics, costs = read_run_documents(finished.out)
    spent = costs["actual"]["usd"]
    failures = () if finished.sat is None else tuple(finished.sat.failures.values())
    return TournamentResult(
        folder=finished.out,
        boards={group.name or "": group.board for group in finished.groups},
        findings=tuple(Finding.from_dict(one) for one in diagnostics["findings"]),
        cost_usd=None if spent is None else float(spent),
        questions={str(state): count for state, count in sorted(finished.states.items()) if count},
        problems=tuple(dict.fromkeys((*failures, *finished.problems.values()))),
    )
