"""Runs a tournament: plan, judge, rate, write the run folder."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tiltyard.core.board import RatedGroup
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.errors import BadOption, BrokenArtifact
from tiltyard.files import open_battles
from tiltyard.judges.judge_setup import JudgeSetup, judge_price, open_judges
from tiltyard.judges.judging_run import JudgingDatabases, JudgingOutcome, RunProgress, run_judging
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.question_results import QuestionResults
from tiltyard.runs.judged_run import JudgedRun
from tiltyard.runs.tournament_files import CONFIG
from tiltyard.runs.tournament_writer import begin_folder, read_draft, read_run_documents, write_judged_run
from tiltyard.settings.environment import Environment, read_environment
from tiltyard.settings.prices import (
    PriceEntry,
    format_dollars,
    merged_prices,
    open_prices,
    price_option,
    to_picodollars,
)
from tiltyard.settings.tournament_config import RunMode, TournamentConfig, load_config, resolve_config
from tiltyard.tournament.attempt_rows import attempt_rows
from tiltyard.tournament.cost_estimate import estimate_plan
from tiltyard.tournament.inputs import TournamentInputs, load_inputs
from tiltyard.tournament.plan_builder import make_plan
from tiltyard.tournament.tournament_plan import TournamentPlan

__all__ = [
    "FinishedRun",
    "PreparedRun",
    "RunObserver",
    "RunRequest",
    "check_budget",
    "join_run",
    "prepare_run",
    "run_tournament",
]


class RunObserver(Protocol):
    """Receives the progress of a run."""

    def begun(self, out: Path, calls: int, spent: int, cap: int | None, *, resumed: bool) -> None: ...
    def tick(self, progress: RunProgress) -> None: ...
    def rating(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Which run is asked for: a configuration, a mode, and options that go before what the file says."""

    config_path: str | Path
    mode: str
    judge_model: str | None = None
    n_perms: int | None = None
    limit_pairs: int | None = None
    budget_usd: float | None = None
    prices: Mapping[str, PriceEntry] | None = None


@dataclass(frozen=True)
class PreparedRun:
    """Everything that is known before judging."""

    config: TournamentConfig
    mode: RunMode
    inputs: TournamentInputs
    seats: tuple[JudgeSetup, ...]
    plan: TournamentPlan
    databases: JudgingDatabases
    #: Picodollars.
    cap: int | None = None
    #: The model under test and its arena, for a placement.
    evaluated: str | None = None
    arena: str | None = None

    @property
    def identity(self) -> str:
        """What a resumed run must have in common: the plan, the shard size, and live or batch calls.

        An open batch belongs to its shard; with other shards its requests would wait forever.
        """
        ways = " ".join("batch" if seat.settings.batch else "live" for seat in self.seats)
        return f"{self.plan.sha256} {self.config.shard_size} {ways}"


@dataclass(frozen=True)
class FinishedRun:
    """A run that has been written."""

    out: Path
    groups: list[RatedGroup]
    #: How judging ended; ``None`` if no judge was called.
    sat: JudgingOutcome | None
    #: Questions by state, and the first error message of each state.
    states: Counter[str]
    problems: Mapping[str, str]
    #: The first question whose reply could not be parsed.
    first_unreadable: JudgedQuestion | None
    judges: Sequence[JudgeSetup]
    #: Whether there was a budget.
    capped: bool
    #: Judged battles that were rated, and those dropped because the two orders contradict each other.
    rated_battles: int
    dropped_battles: int


def prepare_run(
    request: RunRequest,
    *,
    asking: bool = True,
    beside: Path | None = None,
    evaluated: str | None = None,
    arena: str | None = None,
) -> PreparedRun:
    """Read everything that a run needs. ``asking``: judges will be called, so their API keys are required.

    ``.env`` is looked for beside the configuration, or in the folder ``beside``. ``evaluated`` is a
    model under test: only its own pairs are judged.
    """
    overrides = {"elo.n_perms": request.n_perms, "budget_usd": request.budget_usd}
    config = load_config(request.config_path, overrides, request.prices)
    judge_model = request.judge_model
    if judge_model is not None and not (judge_model.strip() and judge_model.isprintable()):
        raise BadOption(f"--judge-model {judge_model!r} is not a model name")
    settings = config.mode(request.mode, judge_model)
    if request.limit_pairs is not None:
        settings = replace(settings, limit_pairs=request.limit_pairs)
    environment = read_environment(beside or config.folder)
    inputs = load_inputs(config)
    seats = tuple(open_judges(config, settings, environment, asking=asking))
    plan = make_plan(config, settings, inputs, seats, evaluated)
    return PreparedRun(
        config=config,
        mode=settings,
        inputs=inputs,
        seats=seats,
        plan=plan,
        databases=judging_databases(config, environment),
        cap=None if config.budget_usd is None else to_picodollars(config.budget_usd),
        evaluated=evaluated,
        arena=arena,
    )


def judging_databases(config: TournamentConfig, environment: Environment) -> JudgingDatabases:
    judgments = config.caches.judgments_dir
    return JudgingDatabases.of(environment, None if judgments is None else config.at(judgments))


def check_budget(config: TournamentConfig, seats: Sequence[JudgeSetup]) -> None:
    """Raise if there is a budget and a price is unknown: the budget could not be enforced."""
    for seat in seats:
        if config.budget_usd is not None and seat.price is None:
            raise BadOption(
                f"a budget of {format_dollars(to_picodollars(config.budget_usd))} cannot be enforced: the price of "
                f"{seat.settings.model} at {seat.provider.base_url} is unknown; give it with "
                f"{price_option(seat.settings.model)} (dollars per million tokens), or under prices: in "
                f"{config.path}, or remove the budget"
            )


def run_tournament(
    prepared: PreparedRun, watch: RunObserver, *, output_dir: Path | None = None, skip_judging: bool = False
) -> FinishedRun:
    """Judge what is not cached, rate, and write the run folder. Resumes an interrupted run."""
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        expected = estimate_plan(prepared.plan, ledger)
        left = 0 if skip_judging else expected.calls
        out, run_id, started_at = _place(prepared, output_dir, ledger, new=skip_judging, left=left > 0)
        prepared = _priced_as_begun(prepared, out)
        if left:
            check_budget(prepared.config, prepared.seats)
        resumed = ledger.plan_of(run_id) is not None
        if resumed and skip_judging:
            # Another process may be judging: do not change its budget.
            row = ledger.run(run_id)
        else:
            estimate = json.dumps(expected.to_dict(), sort_keys=True)
            row = ledger.open_run(run_id, prepared.identity, prepared.cap, estimate)
        readings = QuestionResults(prepared.plan, ledger, run_id)
        run = _judged_run(prepared, ledger, out, run_id, started_at, readings, json.loads(row.estimate))
        begin_folder(out, run)
        watch.begun(out, left, row.spent, prepared.cap, resumed=resumed)
        sat = None
        if left:
            heard = RunProgress(on_tick=watch.tick)
            sat = run_judging(
                prepared.plan,
                run_id,
                prepared.databases,
                shard_size=prepared.config.shard_size,
                prewarm=prepared.mode.prewarm,
                heard=heard,
            )
            heard.tick()
        finished = replace(run, finished_at=_now())
        watch.rating()
        groups = write_judged_run(out, finished)
    rated, dropped = _battles(out, finished)
    return FinishedRun(
        out,
        groups,
        sat,
        readings.states,
        readings.problems,
        readings.first_unreadable,
        prepared.seats,
        capped=prepared.cap is not None,
        rated_battles=rated,
        dropped_battles=dropped,
    )


def _priced_as_begun(prepared: PreparedRun, out: Path) -> PreparedRun:
    """Reuse prices that the run was started with, such as by ``--price``, if they are not given again."""
    path = out / CONFIG
    if all(seat.price is not None for seat in prepared.seats) or not path.is_file():
        return prepared
    begun = load_config(path)
    stated = open_prices(begun.prices, begun.folder).own
    known = {
        seat.settings.model: stated.get(seat.settings.model) for seat in prepared.seats if not seat.price
    }
    given = {model: entry for model, entry in known.items() if entry is not None}
    if not given:
        return prepared
    merged = merged_prices(prepared.config.prices, given, prepared.config.folder)
    book = open_prices(merged)
    seats = tuple(replace(seat, price=judge_price(seat, book)) for seat in prepared.seats)
    return replace(
        prepared,
        config=prepared.config.model_copy(update={"prices": merged}),
        seats=seats,
        plan=replace(prepared.plan, seats=seats),
    )


def _battles(out: Path, run: JudgedRun) -> tuple[int, int]:
    """The number of judged battles that were rated, and of those dropped; human battles are not counted."""
    tallies = read_run_documents(out)[0]["matches"].values()
    settled = sum(tally["settled"] for tally in tallies)
    contradicted = sum(tally["labels"]["inconsistent"] for tally in tallies)
    dropped = contradicted if run.inconsistent is None else 0
    return settled - dropped, dropped


def join_run(folder: Path, watch: RunObserver) -> JudgingOutcome:
    """Join a run as an additional worker, until everything is judged."""
    manifest = read_draft(folder)
    if manifest is None:
        raise BrokenArtifact(f"{folder} has no manifest: name the folder of a run in progress")
    prepared = prepare_run(
        RunRequest(config_path=folder / CONFIG, mode=manifest["mode"]),
        beside=Path(str(manifest.get("config_path"))).parent,
        evaluated=manifest.get("model"),
    )
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        if ledger.plan_of(manifest["run_id"]) is None:
            raise BrokenArtifact(
                f"the run in {folder} does not exist in {prepared.databases.shown}; "
                "set TILTYARD_HOME or DATABASE_URL to the same values as where it was started"
            )
        row = ledger.run(manifest["run_id"])
        if row.plan != prepared.identity:
            raise BadOption(
                f"{folder} was started with other prompts, answers, rubrics or judges than its configuration "
                "has now; a worker needs the same files as the run"
            )
        left = estimate_plan(prepared.plan, ledger).calls
        watch.begun(folder, left, row.spent, row.cap, resumed=True)
    return run_judging(
        prepared.plan,
        manifest["run_id"],
        prepared.databases,
        shard_size=prepared.config.shard_size,
        lead=False,
        heard=RunProgress(on_tick=watch.tick),
    )


def _place(
    prepared: PreparedRun, output_dir: Path | None, ledger: Ledger, *, new: bool, left: bool
) -> tuple[Path, str, str]:
    """The folder, ledger ID and start time of the run: those of an earlier run if it can be resumed.

    That is the newest run of the same mode and plan that is not finished, or that finished while
    questions were ``left``: its budget then applies to them too.
    """
    if output_dir is not None:
        return _stated_place(prepared, output_dir, ledger)
    for folder in () if new else sorted(Path("runs").glob(f"{prepared.mode.name}_*"), reverse=True):
        draft = read_draft(folder)
        if (
            draft is not None
            and draft["mode"] == prepared.mode.name
            and (left or draft.get("finished_at") is None)
            and ledger.plan_of(draft["run_id"]) == prepared.identity
        ):
            return folder, draft["run_id"], draft["started_at"]
    return _new_folder(prepared.mode.name), _run_id(), _now()


def _stated_place(prepared: PreparedRun, output_dir: Path, ledger: Ledger) -> tuple[Path, str, str]:
    draft = read_draft(output_dir)
    if draft is None and _foreign(output_dir):
        raise BadOption(f"--output-dir {output_dir} contains other files; name a new folder")
    if draft is None:
        return output_dir, _run_id(), _now()
    if ledger.plan_of(draft["run_id"]) not in (None, prepared.identity):
        raise BadOption(
            f"--output-dir {output_dir} is a run of another plan (its prompts, answers, rubrics, judges, "
            "shard_size or batch differ); name a new folder: replies that still fit are taken from the cache"
        )
    return output_dir, draft["run_id"], draft["started_at"]


def _foreign(folder: Path) -> bool:
    """Whether a folder contains anything but temporary files of a killed run."""
    with _writing(folder):
        return folder.exists() and (
            not folder.is_dir() or any(not path.name.endswith(".part") for path in folder.iterdir())
        )


def _new_folder(mode: str) -> Path:
    """A new folder name that does not exist."""
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    names = (Path("runs") / f"{mode}_{stamp}{suffix}" for suffix in ("", *(f"_{n}" for n in range(2, 1000))))
    return next(name for name in names if not name.exists())


def _run_id() -> str:
    return uuid.uuid4().hex[:16]


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadOption(f"cannot write {out}: {error.strerror or error}") from None


def _judged_run(
    prepared: PreparedRun,
    ledger: Ledger,
    out: Path,
    run_id: str,
    started_at: str,
    readings: QuestionResults,
    expected: dict[str, object],
) -> JudgedRun:
    config, plan = prepared.config, prepared.plan
    return JudgedRun(
        run_id=run_id,
        mode=prepared.mode.name,
        config_path=str(config.path),
        config=resolve_config(config, prepared.mode, out),
        judges=plan.judges,
        judge_models=tuple(seat.settings.model for seat in plan.seats),
        judge_families={seat.name: seat.settings.family for seat in plan.seats},
        entrants=tuple(entrant.entrant_id for entrant in config.entrants),
        families={entrant.entrant_id: entrant.family for entrant in config.entrants},
        bank_size=len(prepared.inputs.bank),
        pilot_seed=prepared.mode.seed,
        limit_pairs=prepared.mode.limit_pairs,
        prompts=plan.prompts,
        answers=list(prepared.inputs.answers.values()),
        rubrics=prepared.inputs.rubrics,
        matches=plan.matches,
        judged=readings.dimension,
        quorum=prepared.mode.quorum,
        anchors=[open_battles(config.at(path)) for path in config.anchors],
        overall=config.overall,
        n_perms=config.elo.n_perms,
        shuffle_seed=config.elo.shuffle_seed,
        initial_rating=config.elo.initial_rating,
        default_k=config.elo.default_k,
        k_sweep=tuple(config.elo.k_factor_sweep),
        lean=config.ratings.lean,
        inconsistent=0.5 if config.ratings.inconsistent == "half" else None,
        n_bootstraps=config.ratings.n_bootstraps,
        seed=config.ratings.seed,
        attempts=lambda: attempt_rows(ledger.attempts(run_id)),
        estimate=expected,
        prompt_cache_asked=any(seat.settings.prompt_cache != "off" for seat in plan.seats),
        started_at=started_at,
        evaluated=prepared.evaluated,
        arena=prepared.arena,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
