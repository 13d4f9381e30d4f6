"""Runs a tournament: plan, judge, rate, write the run folder."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tiltyard.core.board import RatedGroup
from tiltyard.core.board.adaptive_matches import next_matches
from tiltyard.core.judging.canaries import KEPT_PLANTED_COUNT, JudgeProof
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.reconciliation import build_match_battles
from tiltyard.errors import BadOption, BrokenArtifact
from tiltyard.files import open_battles
from tiltyard.foundation.local_files import refuse_unwritable
from tiltyard.judges.judging_run import (
    JudgingDatabases,
    JudgingOutcome,
    QuestionResults,
    RunProgress,
    run_judging,
)
from tiltyard.judges.ledger import Attempt, Ledger
from tiltyard.judges.requests import JudgeSetup, judge_price, open_judges
from tiltyard.report.run_documents import PlanEstimate
from tiltyard.runs.tournament_files import (
    CONFIG,
    begin_folder,
    read_draft,
    read_run_documents,
    write_judged_run,
)
from tiltyard.runs.tournament_manifest import AttemptRow, JudgedRun
from tiltyard.settings.environment import Environment, read_environment
from tiltyard.settings.model_endpoints import REPLAY
from tiltyard.settings.prices import (
    PriceEntry,
    dollars_text,
    format_dollars,
    merged_prices,
    open_prices,
    price_option,
    to_picodollars,
)
from tiltyard.settings.tournament_config import RunMode, TournamentConfig, load_config, resolve_config
from tiltyard.tournaments.cost_estimate import estimate_plan
from tiltyard.tournaments.inputs import TournamentInputs, load_inputs
from tiltyard.tournaments.kept_proofs import check_proofs, has_kept_proofs
from tiltyard.tournaments.paid_judgments import PaidJudgments, read_paid_judgments
from tiltyard.tournaments.preflight import cached_forms, run_preflight
from tiltyard.tournaments.tournament_plan import TournamentPlan, make_plan


class RunObserver(Protocol):
    """Receives the progress of a run."""

    def begun(self, out: Path, calls: int, spent: int, cap: int | None, *, resumed: bool) -> None: ...
    def tick(self, progress: RunProgress) -> None: ...
    def note(self, sentence: str) -> None:
        """Something about a judge that is worth knowing."""
        ...

    def rating(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Which run is asked for: a configuration, a mode, and options that go before what the file says."""

    config_path: str | Path
    mode: str
    judge_model: str | None = None
    n_perms: int | None = None
    limit_pairs: int | None = None
    sample_pairs: int | None = None
    design: str | None = None
    orders: str | None = None
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
    #: The identity of the plan of which this is a part, if it is judged part by part.
    whole_plan: str | None = None

    def with_seats(self, seats: Sequence[JudgeSetup]) -> PreparedRun:
        """The same run with these judges, which may be asked in other forms."""
        if tuple(seats) == tuple(self.seats):
            return self
        judges = tuple(
            replace(judge, found_form=seat.settings.found_form)
            for judge, seat in zip(self.mode.judges, seats, strict=True)
        )
        mode, plan = replace(self.mode, judges=judges), self.plan.with_seats(seats)
        return replace(self, seats=tuple(seats), mode=mode, plan=plan)

    def planting(self, count: int) -> PreparedRun:
        """The same run with so many spoilt answers for each judge and dimension."""
        if count == self.config.checks.planted:
            return self
        checks = self.config.checks.model_copy(update={"planted": count})
        config = self.config.model_copy(update={"checks": checks})
        plan = make_plan(config, self.mode, self.inputs, self.seats, self.evaluated)
        return replace(self, config=config, plan=replace(plan, free_ties=self.plan.free_ties))

    @property
    def identity(self) -> str:
        """What a resumed run must have in common: the plan, the shard size, and live or batch calls.

        An open batch belongs to its shard; with other shards its requests would wait forever.
        """
        ways = " ".join("batch" if seat.settings.batch else "live" for seat in self.seats)
        return f"{self.whole_plan or self.plan.sha256} {self.config.shard_size} {ways}"


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
    #: Of those without a reply, how many only test the judge.
    unasked_checks: int
    #: The first question whose reply could not be parsed.
    first_unreadable: JudgedQuestion | None
    judges: Sequence[JudgeSetup]
    #: Whether there was a budget.
    capped: bool
    #: Judged battles that were rated, and those dropped because the two orders contradict each other.
    rated_battles: int
    dropped_battles: int
    #: The run's name in the ledger.
    run_id: str


@dataclass(frozen=True)
class JudgedTournament:
    """A run that was judged, as far as possible, and is not written yet. Usable while its ledger is open."""

    out: Path
    run: JudgedRun
    readings: QuestionResults
    judges: Sequence[JudgeSetup]
    #: Whether there was a budget.
    capped: bool
    #: How judging ended; ``None`` if no judge was called.
    sat: JudgingOutcome | None = None
    #: How many spoilt answers each judge found; none if none were planted.
    proofs: tuple[JudgeProof, ...] = ()
    #: The run with its next round, where an adaptive design asks more.
    grown: PreparedRun | None = None

    def write(self, watch: RunObserver) -> FinishedRun:
        """Rate, and write the run folder."""
        watch.rating()
        finished = replace(self.run, finished_at=_now())
        groups = write_judged_run(self.out, finished)
        # Human battles are not counted.
        tallies = read_run_documents(self.out)[0]["matches"].values()
        contradicted = sum(tally["labels"]["inconsistent"] for tally in tallies)
        dropped = contradicted if finished.draft.bradley_terry["inconsistent"] is None else 0
        return FinishedRun(
            self.out,
            groups,
            self.sat,
            self.readings.states,
            self.readings.problems,
            self.readings.unasked_checks,
            self.readings.first_unreadable,
            self.judges,
            capped=self.capped,
            rated_battles=sum(tally["settled"] for tally in tallies) - dropped,
            dropped_battles=dropped,
            run_id=self.run.run_id,
        )


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
    own = {name: getattr(request, name) for name in ("limit_pairs", "sample_pairs", "design", "orders")}
    if request.mode in config.modes:
        given = {name: value for name, value in own.items() if value is not None}
        mode = config.modes[request.mode].model_copy(update=given)
        config = config.model_copy(update={"modes": {**config.modes, request.mode: mode}})
    judge_model = request.judge_model
    if judge_model is not None and not (judge_model.strip() and judge_model.isprintable()):
        raise BadOption(f"--judge-model {judge_model!r} is not a model name")
    settings = config.mode(request.mode, judge_model)
    environment = read_environment(beside or config.folder)
    inputs = load_inputs(config)
    seats = tuple(open_judges(config, settings, environment, asking=asking))
    plan = make_plan(config, settings, inputs, seats, evaluated)
    whole = f"adaptive {plan.sha256}" if plan.design.adaptive else None
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
        whole_plan=whole,
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
    while True:
        with judge_tournament(prepared, watch, output_dir=output_dir, skip_judging=skip_judging) as judged:
            if judged.grown is None:
                return judged.write(watch)
        # A run closes its providers.
        seats = [replace(seat, provider=seat.reopen()) for seat in judged.judges]
        prepared, output_dir = judged.grown.with_seats(seats), judged.out


def _caught_up(prepared: PreparedRun, ledger: Ledger, watch: RunObserver) -> tuple[PreparedRun, PlanEstimate]:
    """The run with all rounds that the replies so far decide, and what is left to ask."""
    while True:
        estimate = estimate_plan(prepared.plan, ledger)
        more = [] if estimate.calls or not prepared.plan.design.adaptive else _next_round(prepared, ledger)
        if not more:
            return prepared, estimate
        prepared = replace(prepared, plan=prepared.plan.grown(more))
        counts = Counter(match.dimension for match in more)
        said = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        watch.note(f"the order is not settled; matches in the next round: {said}")


def _grown(prepared: PreparedRun, ledger: Ledger, watch: RunObserver) -> PreparedRun | None:
    """The run with its next rounds, where an adaptive design asks more."""
    if not prepared.plan.design.adaptive:
        return None
    later, _ = _caught_up(prepared, ledger, watch)
    return None if later is prepared else later


def _next_round(prepared: PreparedRun, ledger: Ledger) -> list[Match]:
    """The matches of the next round, when those so far have been judged."""
    plan, more = prepared.plan, []
    results = QuestionResults(plan, ledger, "", plan.free_tie)
    for section in plan.sections:
        judged = results.dimension(section.rubric.dimension)
        settled = build_match_battles(
            section.matches, judged, plan.judges, prepared.mode.quorum, {}, plan.design
        )
        battles = [one.battle for one in settled if one.battle is not None]
        more += next_matches(plan.pool_of(section), {*section.matches}, battles, plan.design.seed)
    return more


@contextmanager
def judge_tournament(
    prepared: PreparedRun, watch: RunObserver, *, output_dir: Path | None = None, skip_judging: bool = False
) -> Iterator[JudgedTournament]:
    """Judge what is not cached. Until the folder is written, it only says whose run it is: replies are in the ledger."""
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        prepared = prepared.with_seats(cached_forms(prepared.plan, ledger))
        most_planted = prepared.config.checks.planted
        prepared = prepared.planting(0 if skip_judging else _planted_count(prepared, output_dir, ledger))
        prepared, expected = _caught_up(prepared, ledger, watch)
        left = 0 if skip_judging else expected.calls
        out, run_id, started_at = _place(prepared, output_dir, ledger, new=skip_judging, left=left > 0)
        prepared = _priced_as_begun(prepared, out)
        if left:
            check_budget(prepared.config, prepared.seats)
        resumed = ledger.plan_of(run_id) is not None
        if resumed and left and prepared.cap is not None and (unpriced := ledger.unpriced_calls(run_id)):
            raise BadOption(
                f"{out}: {unpriced:,} calls of this run were made at an unknown price, so a budget cannot count "
                "them; choose another --output-dir: what was answered is not asked again"
            )
        if resumed and skip_judging:
            # Another process may be judging: do not change its budget.
            row = ledger.run(run_id)
        else:
            estimate = json.dumps(expected.to_dict(), sort_keys=True)
            row = ledger.open_run(run_id, prepared.identity, prepared.cap, estimate)

        reads = skip_judging or left > 0
        bought = read_paid_judgments(prepared.config, prepared.plan) if reads else PaidJudgments()
        paid = bought if skip_judging else PaidJudgments()

        def begin() -> JudgedTournament:
            plan = prepared.plan
            readings = QuestionResults(plan, ledger, run_id, lambda one: paid.find(one) or plan.free_tie(one))
            run = _judged_run(prepared, ledger, out, run_id, started_at, readings, json.loads(row.estimate))
            run = replace(run, paid_judgments=paid.counts)
            begin_folder(out, run)
            return JudgedTournament(out, run, readings, prepared.seats, capped=prepared.cap is not None)

        judged = begin()
        watch.begun(out, left, row.spent, prepared.cap, resumed=resumed)
        for note in bought.notes() if skip_judging else bought.unused_notes():
            watch.note(note)
        if left:
            heard = RunProgress(on_tick=watch.tick)
            found = run_preflight(prepared.plan, run_id, prepared.databases, heard)
            if found.seats != tuple(prepared.seats):
                prepared = prepared.with_seats(found.seats)
                judged = begin()
            costs = _measured_costs(prepared, ledger, expected)
            for note in (*found.notes, *_untried_batches(prepared, expected), *costs):
                watch.note(note)
            if found.unusable is not None:
                sat = JudgingOutcome(Counter(), {"preflight": found.unusable})
            else:
                sat = run_judging(
                    prepared.plan,
                    run_id,
                    prepared.databases,
                    shard_size=prepared.config.shard_size,
                    prewarm=prepared.mode.prewarm,
                    heard=heard,
                )
            heard.tick()
            judged = replace(judged, sat=sat)
        planted = prepared.config.checks.planted
        few = None if not planted else planted < most_planted
        proofs = check_proofs(prepared.plan, ledger, judged.readings, few=few)
        yield replace(judged, proofs=proofs, grown=_grown(prepared, ledger, watch) if left else None)


def _planted_count(prepared: PreparedRun, output_dir: Path | None, ledger: Ledger) -> int:
    """How many spoilt answers to plant: as many as the folder's run has, or few where a proof is kept."""
    most = prepared.config.checks.planted
    if any(seat.provider.name == REPLAY for seat in prepared.seats):
        return 0
    begun = None if output_dir is None else output_dir / CONFIG
    if begun is not None and begun.is_file() and load_config(begun).checks.planted == most:
        return most
    return min(most, KEPT_PLANTED_COUNT) if has_kept_proofs(prepared.plan, ledger) else most


def _untried_batches(prepared: PreparedRun, planned: PlanEstimate) -> Iterator[str]:
    """Judges that are asked by batch and of which no reply is known: nobody knows whether they give verdicts."""
    known = {line.judge for line in planned.lines if line.measured}
    for seat in prepared.seats:
        if seat.settings.batch and seat.name not in known:
            yield (
                f"{seat.name} is asked by batch, without a preflight: to try it with a few calls first, stop this run, "
                "set batch: false and run with --limit-pairs 2"
            )


def _measured_costs(prepared: PreparedRun, ledger: Ledger, planned: PlanEstimate) -> Iterator[str]:
    """What the calls that are left will cost, by the length of the replies so far, where these were assumed before."""
    assumed = {(line.judge, line.dimension) for line in planned.lines if not line.measured}
    now = estimate_plan(prepared.plan, ledger)
    for line in now.lines:
        if line.measured and line.calls and (line.judge, line.dimension) in assumed:
            way = "batch" if prepared.plan.seat_named(line.judge).settings.batch else "live"
            cost = line.costs[way, "no cache hits"].expected
            dollars = "at an unknown price" if cost is None else f"about {format_dollars(cost)}"
            yield (
                f"{line.judge}, {line.dimension}: replies of {line.output_tokens // line.calls:,} tokens so far; "
                f"{line.calls:,} calls left, {dollars}"
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
    if prepared.plan.design.adaptive:
        raise BadOption(
            f"{folder} has an adaptive design, which one worker judges: each round follows from all verdicts of the one "
            "before; set a higher concurrency of the judge instead"
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
    # A new folder name that does not exist.
    mode = prepared.mode.name
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    names = (Path("runs") / f"{mode}_{stamp}{suffix}" for suffix in ("", *(f"_{n}" for n in range(2, 1000))))
    return next(name for name in names if not name.exists()), _run_id(), _now()


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
    with refuse_unwritable(folder):
        return folder.exists() and (
            not folder.is_dir() or any(not path.name.endswith(".part") for path in folder.iterdir())
        )


def _run_id() -> str:
    return uuid.uuid4().hex[:16]


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
        bank_size=len(prepared.inputs.bank),
        prompts=plan.prompts,
        answers=list(prepared.inputs.answers.values()),
        rubrics=prepared.inputs.rubrics,
        matches=plan.matches,
        judged=readings.dimension,
        anchors=[open_battles(config.at(path)) for path in config.anchors],
        attempts=lambda: attempt_rows(ledger.attempts(run_id)),
        estimate=expected,
        prompt_cache_asked=any(seat.settings.prompt_cache != "off" for seat in plan.seats),
        started_at=started_at,
        evaluated=prepared.evaluated,
        arena=prepared.arena,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def attempt_rows(attempts: Iterable[Attempt]) -> Iterator[AttemptRow]:
    """The published form of the ledger's attempts."""
    for one in attempts:
        yield {
            "attempt_id": one.attempt_id,
            "question_id": one.question_id,
            "request_key": one.request_key,
            "ask": one.ask,
            "judge_model": one.judge,
            "dimension": one.dimension,
            "mode": "live" if one.batch is None else "batch",
            "batch_id": one.batch or None,
            # Another worker is still waiting for it, or its batch was not collected.
            "state": "in_flight" if one.state == "intent" else one.state,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "cache_write_tokens": one.cache_write_tokens,
            "cache_read_tokens": one.cache_read_tokens,
            "usd": None if one.cost is None else dollars_text(one.cost),
            "reserved_usd": dollars_text(one.reserved),
            "error": one.error,
            "worker": one.worker,
            "started_at": _moment(one.started_at),
            "finished_at": None if one.finished_at is None else _moment(one.finished_at),
        }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")
