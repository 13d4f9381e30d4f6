"""``tiltyard run``, ``generate`` and ``place``: run a tournament or join one, generate answers, rank a new model by a judge."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.options import (
    INCOMPLETE_EXIT_CODE,
    JUDGE_UNUSABLE_EXIT_CODE,
    JudgeAddress,
    JudgeKey,
    JudgeProvider,
    Judges,
    PriceOption,
    Rubrics,
    named_judges,
    refuse_beside,
    stated_prices,
)
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.core.judging.judged_question import JudgedQuestion
    from tiltyard.settings.ready_tournaments import QuickJudge
    from tiltyard.settings.tournament_config import TournamentConfig
    from tiltyard.tournaments.tournament_run import FinishedRun, PreparedRun
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from tiltyard.cli.options import (
    WriteAsOption,
    rating_option,
)

if TYPE_CHECKING:
    from tiltyard.tournaments.answer_generation import GenerationResult

#: What to do about replies without a verdict.
_WITHOUT_VERDICT = {
    "truncated": "raise max_tokens ({limit} now), or choose a judge that thinks less",
    "unparseable": "use another reply form ({form} now), or choose another judge",
    "refused": "check the prompts, or choose another judge",
}
#: Characters shown of the beginning, and of the end, of a reply that could not be parsed.
_SHOWN_CHARACTERS = 200

Config = Annotated[Path | None, typer.Argument(metavar="CONFIG", help="The tournament's YAML file.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The same as CONFIG, given as an option.")
]
Mode = Annotated[str, typer.Option(help="Mode of the configuration: pilot, headline, or a custom one.")]
JudgeModel = Annotated[str | None, typer.Option(help="Use this judge model instead of the mode's judges.")]
LimitPairs = Annotated[
    int | None, typer.Option(min=1, help="Judge only the first N pairs of each dimension.")
]
SamplePairs = Annotated[
    int | None,
    typer.Option(min=1, help="Judge only N pairs of each dimension, spread over prompts and models."),
]
DesignOption = Annotated[
    str | None,
    typer.Option(
        "--design",
        metavar="DESIGN",
        help="Which pairs are judged: all, baseline, sparse, or adaptive, until the order is settled.",
    ),
]
OrdersOption = Annotated[
    str | None,
    typer.Option("--orders", metavar="ORDERS", help="Ask in both orders, or in one drawn at random."),
]
NeedsAgreement = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", help="Refuse judges that are not proved to agree with people so far: 0.6, say."
    ),
]
Agreement = Annotated[
    Path, typer.Option(metavar="FILE", help="With --needs-agreement: what `tiltyard agree --json` printed.")
]
Budget = Annotated[float | None, typer.Option(min=0, help="Spending limit of the run, in dollars.")]

#: Why a reply is not an answer, and what to do.
_NO_TEXT = {
    "truncated": "the reply was cut off before any text: raise max_tokens ({limits} now) under generate: and run "
    "the command again.",
    "unparseable": "the reply contained no text: check the model, or change its options under generate:, and run the "
    "command again.",
    "refused": "the model refused without any text: write an answer by hand, or remove the prompts.",
}


def config_path(argument: Path | None, option: Path | None) -> Path:
    """The path of the configuration, from the argument or the option."""
    if (argument is None) == (option is None):
        raise BadOption(
            "give the configuration exactly once: tiltyard run tournament.yaml, or --config tournament.yaml"
        )
    return argument or option or Path()


def run(
    context: typer.Context,
    config: Config = None,
    config_option: ConfigOption = None,
    mode: Mode = "pilot",
    output_dir: Annotated[
        Path | None, typer.Option(help="Folder of the run; default runs/<mode>_<time>.")
    ] = None,
    judge_model: JudgeModel = None,
    n_perms: Annotated[int | None, typer.Option(min=1, help="Elo's permutations.")] = None,
    limit_pairs: LimitPairs = None,
    sample_pairs: SamplePairs = None,
    design: DesignOption = None,
    orders: OrdersOption = None,
    skip_judging: Annotated[
        bool, typer.Option("--skip-judging", help="Call no judge; rate the cached replies.")
    ] = False,
    budget_usd: Budget = None,
    price: PriceOption = None,
    needs_agreement: NeedsAgreement = None,
    agreement: Agreement = Path("agreement.json"),
    answers: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Answers or logs, instead of a configuration; may be repeated."),
    ] = None,
    judge: Judges = None,
    rubric: Rubrics = None,
    provider: JudgeProvider = None,
    base_url: JudgeAddress = None,
    api_key_env: JudgeKey = None,
    join: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Instead join this run in progress as an additional worker, until everything is judged.",
        ),
    ] = None,
) -> None:
    """Run a tournament: judge pairs and rate the models.

    Without a configuration, --answers and --judge are enough: the configuration is written beside the run. Writes a run folder that `tiltyard verify` can check. Exit code 3 means that calls to a provider failed or
    that no battle was rated; 4 means that a judge gives no verdicts. The output says what to do.
    """
    from tiltyard.cli.progress import JudgingProgress
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run, run_tournament

    if join is not None:
        refuse_beside(context, "--join", "join")
        _join(join)
        return
    if answers:
        if config is not None or config_option is not None or judge_model is not None or mode != "pilot":
            raise BadOption("--answers takes the place of CONFIG, --mode and --judge-model")
        if not judge:
            raise BadOption("--answers needs --judge MODEL")
        judges = named_judges(judge, provider, base_url, api_key_env)
        folder = _quick_folder(answers, judges, rubric or [], budget_usd, price)
        config, mode = folder / "tournament.yaml", "quick"
        output_dir = output_dir or folder / "run"
    elif judge or rubric or provider or base_url or api_key_env:
        raise BadOption("--judge, --rubric, --provider, --base-url and --api-key-env need --answers FILE")
    request = RunRequest(
        config_path=config_path(config, config_option),
        mode=mode,
        judge_model=judge_model,
        n_perms=n_perms,
        limit_pairs=limit_pairs,
        sample_pairs=sample_pairs,
        design=design,
        orders=orders,
        budget_usd=budget_usd,
        prices=stated_prices(price),
    )
    prepared = prepare_run(request, asking=not skip_judging)
    problem = agreement_problem(prepared, needs_agreement, agreement)
    if problem is not None:
        raise BadOption(problem)
    tell_ignored(prepared.config)
    tell_missing(prepared)
    if not skip_judging:
        tell_findings(prepared)
    with JudgingProgress() as watcher:
        finished = run_tournament(prepared, watcher, output_dir=output_dir, skip_judging=skip_judging)
    show_elo(finished)
    show_summary(finished)


def agreement_problem(prepared: PreparedRun, least: float | None, proof: Path) -> str | None:
    """Why the judges are not proved to agree with people, if that was asked for."""
    from tiltyard.tournaments.needed_agreement import NeededAgreement

    return None if least is None else NeededAgreement(least, proof).problem(prepared.plan)


def _quick_folder(
    answers: list[str],
    judges: list[QuickJudge],
    rubrics: list[str],
    budget_usd: float | None,
    price: list[str] | None,
) -> Path:
    """Write the tournament that was asked for in options; return its folder."""
    from tiltyard.tournaments.inputs import quick_run_inputs

    folder = quick_run_inputs(
        answers, judges, rubrics, parent=Path("runs"), budget_usd=budget_usd, prices=stated_prices(price)
    )
    typer.echo(f"Wrote the configuration to {escape_controls(str(folder / 'tournament.yaml'))}.", err=True)
    return folder


def _join(folder: Path) -> None:
    """Work on a run until everything is judged."""
    from tiltyard.cli.progress import JudgingProgress
    from tiltyard.tournaments.tournament_run import join_run

    with JudgingProgress() as watcher:
        session = join_run(folder, watcher)
    shown = escape_controls(str(folder))
    for problem in list(dict.fromkeys(session.failures.values()))[:3]:
        typer.echo(f"{shown}: {escape_controls(problem)}", err=True)
    if session.failures:
        raise typer.Exit(INCOMPLETE_EXIT_CODE if session.unusable is None else JUDGE_UNUSABLE_EXIT_CODE)
    if not session.shards:
        typer.echo(f"{shown} has no work to join: start it with tiltyard run.", err=True)
        raise typer.Exit(INCOMPLETE_EXIT_CODE)
    typer.echo(f"Everything in {shown} has been judged: {session.shards['done']} shards done.", err=True)


def tell_ignored(config: TournamentConfig) -> None:
    """Name the fields of a configuration that are not used."""
    if config.ignored:
        typer.echo(f"{escape_controls(config.warning)}.", err=True)


def tell_missing(prepared: PreparedRun, *, retired: bool = True) -> None:
    """Report pairs left out because of missing responses, truncated answers, and retired judges."""
    from tiltyard.tournaments.cost_estimate import retirement_note
    from tiltyard.tournaments.inputs import responses_path

    plan, matches = prepared.plan, prepared.plan.matches
    for name in matches.missing if prepared.config.caches.responses_dir is not None else ():
        path = responses_path(prepared.config, name)
        if not path.is_file():
            typer.echo(f"{escape_controls(str(path))}: there is no such file.", err=True)
    if matches.dropped:
        who = ", ".join(f"{name} lacks {n}" for name, n in matches.missing.items())
        typer.echo(
            f"{matches.dropped:,} pairs are left out because a response is missing: {escape_controls(who)}.",
            err=True,
        )
    for seat in plan.seats:
        if retired and seat.retirement is not None:
            typer.echo(f"{escape_controls(retirement_note(seat.settings.model, seat.retirement))}.", err=True)
    cut = Counter(model for (model, _), answer in plan.answers.items() if answer.truncated)
    if cut:
        whose = escape_controls(", ".join(f"{name} {cut[name]:,}" for name in sorted(cut)))
        typer.echo(f"{cut.total():,} answers were cut off and are judged as they are: {whose}.", err=True)


def tell_findings(prepared: PreparedRun) -> None:
    """Report what the plan should make its reader think of before anything is paid."""
    from tiltyard.tournaments.preflight import plan_findings

    for finding in plan_findings(prepared.plan, prepared.mode):
        typer.echo(escape_controls(str(finding)), err=True)


def _unasked_text(questions: int, checks: int) -> str:
    """What has no reply, where no judge was called."""
    if not questions:
        return f"{checks:,} control questions have no reply, so little is known of the judge; ratings do not need them."
    return f"{questions:,} questions have no reply: run without --skip-judging to ask what the ledger lacks."


def show_elo(finished: FinishedRun) -> None:
    """Print the Elo summary, with lines as long as they are, and why the ratings after it differ."""
    from tiltyard.report.judging_sections import ELO_NOTE, elo_table
    from tiltyard.report.terminal import Terminal
    from tiltyard.runs.tournament_files import read_elo

    terminal, document = Terminal(), read_elo(finished.out)
    terminal.print(f"\n{elo_table(document)}\n", soft_wrap=True)
    if any(document["primary"].values()):
        terminal.print(f"{ELO_NOTE}\n")
    none = [name for name, matches in document["n_decisive_matches"].items() if not matches]
    if none:
        typer.echo(f"No Elo of {escape_controls(', '.join(none))}: no match is decisive.", err=True)


def show_summary(finished: FinishedRun) -> None:
    """Print the summary of a run; exit with a nonzero code if something is missing."""
    from tiltyard.report.terminal import Terminal
    from tiltyard.report.tournament_tables import tournament_summary
    from tiltyard.runs.tournament_files import read_run_documents

    Terminal().print(tournament_summary(finished.groups, *read_run_documents(finished.out)))
    typer.echo(
        f"\nWritten to {escape_controls(str(finished.out))}: tiltyard verify {_shell_quoted(finished.out)}"
    )
    failed = _tell_failures(finished)
    if finished.first_unreadable is not None:
        _tell_unreadable(finished.first_unreadable, finished.states["unparseable"])
    unasked = finished.states["unasked"]
    if unasked and finished.sat is None:
        typer.echo(_unasked_text(unasked - finished.unasked_checks, finished.unasked_checks), err=True)
    elif unasked and finished.capped and not failed:
        typer.echo(
            f"{unasked:,} questions were not asked: the budget does not cover them, or an unfinished batch "
            "contains them. To resume, run again with --output-dir "
            f"{_shell_quoted(finished.out)}, and with a higher --budget-usd if necessary.",
            err=True,
        )
    if not finished.rated_battles:
        _tell_nothing_rated(finished, failed=failed)
    if finished.sat is not None and finished.sat.unusable is not None:
        raise typer.Exit(JUDGE_UNUSABLE_EXIT_CODE)
    if failed or not finished.rated_battles:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def _tell_nothing_rated(finished: FinishedRun, *, failed: bool) -> None:
    """Report that no battle was rated, with advice unless it was already printed."""
    counts = {state: finished.states[state] for state in _WITHOUT_VERDICT}
    advice = "See above for what to do."
    if finished.dropped_battles:
        advice = (
            f"In {finished.dropped_battles:,} matches the judge preferred one response in one order and the other "
            "in the other, and ratings.inconsistent drops these: set it to half, or choose a steadier judge."
        )
    elif not failed and not finished.states["unasked"] and any(counts.values()):
        state = max(counts, key=lambda name: counts[name])
        seats = finished.judges
        forms = " or ".join(sorted({seat.form for seat in seats}))
        limits = " or ".join(f"{limit:,}" for limit in sorted({seat.settings.max_tokens for seat in seats}))
        said = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        todo = _WITHOUT_VERDICT[state].format(form=forms, limit=limits)
        advice = f"Replies without a verdict: {said}. To get verdicts, {todo}, then run the command again."
    typer.echo(f"No battle was rated: the judges gave no usable verdict. {advice}", err=True)


def _tell_failures(finished: FinishedRun) -> bool:
    """Report failed questions and their causes; return whether there are any."""
    failures = dict.fromkeys(finished.sat.failures.values() if finished.sat is not None else ())
    failed = {name: n for name in ("provider_error", "expired", "lost") if (n := finished.states[name])}
    if finished.sat is None or not (failed or failures):
        return False
    without = sum(failed.values()) + (finished.states["unasked"] if failures else 0)
    causes = dict.fromkeys(
        [*failures, *(finished.problems[name] for name in failed if name in finished.problems)]
    )
    stopped = finished.sat.unusable is not None
    what_to_do = "The run was stopped." if stopped else "Run the command again to resume."
    typer.echo(f"{without:,} questions have no reply. {what_to_do} Errors:", err=True)
    for problem in list(causes)[:3]:
        typer.echo(f"  {escape_controls(problem)}", err=True)
    return True


def _tell_unreadable(first: JudgedQuestion, count: int) -> None:
    """Print the first reply that could not be parsed, and why."""
    question = first.question
    asked = f"{question.judge} on prompt {question.prompt_id}, {question.dimension}, form {first.form}"
    typer.echo(f"{count:,} replies could not be parsed. The first, from {escape_controls(asked)}:", err=True)
    typer.echo(f"  why: {escape_controls(first.problem or '')}", err=True)
    reply = first.reply
    whole = (reply.text or (reply.data and json.dumps(dict(reply.data))) if reply else None) or "(empty)"
    # A long one is cut in the middle, because verdicts are often at the end.
    if len(whole) > 2 * _SHOWN_CHARACTERS:
        whole = f"{whole[:_SHOWN_CHARACTERS]} … {whole[-_SHOWN_CHARACTERS:]}"
    typer.echo(f"  reply: {escape_controls(whole)}", err=True)


def _shell_quoted(path: Path) -> str:
    """A path that can be pasted into a shell."""
    return shlex.quote(escape_controls(str(path)))


def place(
    battles: Annotated[
        Path, typer.Argument(metavar="BATTLES", help="Human battles in any supported format.")
    ],
    model: Annotated[str, typer.Option(help="The new model.")],
    answers: Annotated[
        list[Path] | None,
        typer.Option(help="Answers of the new model (and of opponents, if the battles have none)."),
    ] = None,
    judge_model: Annotated[str | None, typer.Option(help="The judge model.")] = None,
    provider: Annotated[
        str | None, typer.Option(help="Provider of the judge, such as anthropic or openai, or replay.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="URL of the provider, if not its default.")] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Number of prompts, with one opponent each.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    rubric: Annotated[
        Path | None, typer.Option(help="Rubric file to use instead of the shipped one.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML with the sections judge, generate, prices, caches, checks, ratings."),
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Folder to write the run to.")] = None,
    skip_judging: Annotated[
        bool, typer.Option("--skip-judging", help="Call no judge; rate the cached replies.")
    ] = False,
    budget_usd: Budget = None,
    price: PriceOption = None,
    arena: Annotated[str | None, typer.Option(help="Arena name to record in the artifacts.")] = None,
    both_bad: Annotated[Literal["drop", "tie"] | None, rating_option("both_bad")] = None,
    write_as: WriteAsOption = "tiltyard",
) -> None:
    """Rank a new model among models that people have ranked.

    Judges the new model against them, and rates it together with the human battles. Exit code 3 means
    that answers are missing or cut off, that calls to a provider failed, or that no judged battle was
    rated; 4 means that the judge gives no verdicts. The output says what to do.
    """
    from tiltyard.cli.progress import JudgingProgress
    from tiltyard.tournaments.placement import (
        MODE,
        PlacementJudge,
        PlacementRequest,
        new_folder,
        prepare_placement,
        remaining_budget,
    )
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run, run_tournament

    folder = new_folder(model) if output_dir is None else output_dir.with_name(f"{output_dir.name}.inputs")
    with JudgingProgress() as watcher:
        placement = prepare_placement(
            PlacementRequest(battles, model, answers or [], n, seed, both_bad, write_as),
            PlacementJudge(
                config_path=config,
                overrides={"provider": provider, "base_url": base_url, "headline_model": judge_model},
                rubric=rubric,
                budget_usd=budget_usd,
                prices=stated_prices(price),
            ),
            folder,
            watcher,
        )
        met = len(placement.opponents)
        typer.echo(
            f"{sum(placement.opponents.values()):,} prompts, {met} opponents; inputs in {escape_controls(str(folder))}.",
            err=True,
        )
        answered = placement.generated
        if answered is not None and not answered.complete:
            tell_incomplete(answered)
            if answered.nothing:
                typer.echo(f"Nothing was judged: {escape_controls(model)} has no answers.", err=True)
                raise typer.Exit(INCOMPLETE_EXIT_CODE)
        prepared = prepare_run(
            RunRequest(
                config_path=placement.config,
                mode=MODE,
                budget_usd=remaining_budget(budget_usd, placement.spent),
            ),
            asking=not skip_judging,
            beside=None if config is None else config.parent,
            evaluated=model,
            arena=arena,
        )
        tell_missing(prepared)
        if not skip_judging:
            tell_findings(prepared)
        finished = run_tournament(prepared, watcher, output_dir=output_dir, skip_judging=skip_judging)
    show_summary(finished)
    if answered is not None and not answered.complete:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def generate(
    config: Config = None,
    config_option: ConfigOption = None,
    budget_usd: Budget = None,
    price: PriceOption = None,
) -> None:
    """Generate the answers that entrants still lack.

    Answers are appended, never changed. Exit code 3 means that answers are missing or cut off; the
    output says what to do.
    """
    from tiltyard.cli.progress import JudgingProgress
    from tiltyard.settings.prices import format_dollars
    from tiltyard.settings.tournament_config import load_config
    from tiltyard.tournaments.answer_generation import generate_answers

    path = config_path(config, config_option)
    loaded = load_config(path, {"budget_usd": budget_usd}, stated_prices(price))
    tell_ignored(loaded)
    with JudgingProgress() as watcher:
        generated = generate_answers(loaded, watcher)
    for name, had in generated.had.items():
        why = ", ".join(f"{state} {n:,}" for state, n in generated.missing[name].items())
        cut = generated.truncated[name]
        left = [f"{cut:,} truncated"] if cut else []
        left += [f"{generated.missing[name].total():,} missing ({why})"] if why else []
        lacks = f"; {', '.join(left)}" if left else ""
        typer.echo(f"{escape_controls(name)}: {had:,} existing, {generated.written[name]:,} written{lacks}.")
    typer.echo(f"Paid: {format_dollars(generated.spent)}.")
    tell_incomplete(generated)
    if not generated.complete:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def tell_incomplete(generated: GenerationResult) -> None:
    """Report answers that are missing or cut off, and what to do."""
    missing = sum(generated.missing.values(), Counter[str]())
    if generated.problems:
        typer.echo("Some prompts have no answer. Run the command again to resume. Errors:", err=True)
        for problem in generated.problems[:3]:
            typer.echo(f"  {escape_controls(problem)}", err=True)
    elif missing["unasked"]:
        typer.echo(
            "Some prompts were not sent: the budget does not cover them. Run again with a higher budget.",
            err=True,
        )
    cut = sum(generated.truncated.values())
    if cut:
        typer.echo(
            f"{cut:,} answers were cut off at max_tokens ({_limits(generated, generated.truncated)} now). They are "
            "kept, marked as truncated. To replace them, raise max_tokens under generate: and run the command "
            "again.",
            err=True,
        )
    for state, why in _NO_TEXT.items():
        if missing[state]:
            lacking = {name: states[state] for name, states in generated.missing.items()}
            advice = why.format(limits=_limits(generated, lacking))
            typer.echo(f"{missing[state]:,} prompts have no answer, because {advice}", err=True)


def _limits(generated: GenerationResult, counts: Mapping[str, int]) -> str:
    """The token limits of the entrants with a nonzero count."""
    limits = {generated.max_tokens[name] for name, count in counts.items() if count}
    return " or ".join(f"{limit:,}" for limit in sorted(limits))
