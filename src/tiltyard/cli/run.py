"""``tiltyard run`` and ``tiltyard work``: a tournament, led or helped with."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.exit_codes import INCOMPLETE_EXIT_CODE, JUDGE_UNUSABLE_EXIT_CODE
from tiltyard.cli.options import PriceOption, stated_prices
from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.core.judging.judged_question import JudgedQuestion
    from tiltyard.core.judging.verdict import Reply
    from tiltyard.tournament.tournament_plan import TournamentPlan
    from tiltyard.tournament.tournament_run import FinishedRun

__all__ = [
    "Budget",
    "Config",
    "ConfigOption",
    "JudgeModel",
    "LimitPairs",
    "Mode",
    "config_path",
    "run",
    "work",
]

#: What to do about replies that hold no verdict.
_WITHOUT_VERDICT = {
    "truncated": "raise max_tokens ({limit} now), or choose a judge that thinks less",
    "unparseable": "ask by another form ({form} now), or choose another judge",
    "refused": "look at the prompts, or choose another judge",
}
#: Characters shown of the beginning, and of the end, of a reply that could not be read.
_SHOWN_CHARACTERS = 200

Config = Annotated[Path | None, typer.Argument(metavar="CONFIG", help="The tournament's YAML file.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="The same, as an option.")]
Mode = Annotated[str, typer.Option(help="A mode of the configuration: pilot, headline, or one of your own.")]
JudgeModel = Annotated[str | None, typer.Option(help="Ask this model instead of the mode's judges.")]
LimitPairs = Annotated[
    int | None, typer.Option(min=1, help="Judge only the first so many pairs of each dimension.")
]
Budget = Annotated[float | None, typer.Option(min=0, help="Never spend more than this on the run.")]


def config_path(argument: Path | None, option: Path | None) -> Path:
    """The configuration, named either way."""
    if (argument is None) == (option is None):
        raise BadOption(
            "name the configuration once: tiltyard run tournament.yaml, or --config tournament.yaml"
        )
    return argument or option or Path()


def run(
    config: Config = None,
    config_option: ConfigOption = None,
    mode: Mode = "pilot",
    output_dir: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/<mode>_<time> unless given.")
    ] = None,
    judge_model: JudgeModel = None,
    n_perms: Annotated[int | None, typer.Option(min=1, help="Elo's permutations.")] = None,
    limit_pairs: LimitPairs = None,
    skip_judging: Annotated[
        bool, typer.Option("--skip-judging", help="Ask nothing; rate what the cache holds.")
    ] = False,
    budget_usd: Budget = None,
    price: PriceOption = None,
) -> None:
    """Judge every pair of cached responses, rate the models, and write a folder that anyone can verify.

    Ends with exit code 3 if providers failed to answer something or no battle was rated, with 4 if
    a judge gives no verdicts; either way it says what to do.
    """
    from tiltyard.cli.judging_progress import JudgingProgress
    from tiltyard.tournament.tournament_run import RunRequest, prepare_run, run_tournament

    request = RunRequest(
        config_path=config_path(config, config_option),
        mode=mode,
        judge_model=judge_model,
        n_perms=n_perms,
        limit_pairs=limit_pairs,
        budget_usd=budget_usd,
        prices=stated_prices(price),
    )
    prepared = prepare_run(request, asking=not skip_judging)
    tell_missing(prepared.plan)
    with JudgingProgress() as watcher:
        finished = run_tournament(prepared, watcher, output_dir=output_dir, skip_judging=skip_judging)
    show_summary(finished)


def work(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that is under way.")],
) -> None:
    """Help with a run that was started elsewhere, as one more worker, until all of it is judged."""
    from tiltyard.cli.judging_progress import JudgingProgress
    from tiltyard.tournament.tournament_run import join_run

    with JudgingProgress() as watcher:
        sat = join_run(folder, watcher)
    shown = escape_controls(str(folder))
    for problem in list(dict.fromkeys(sat.failures.values()))[:3]:
        typer.echo(f"{shown}: {escape_controls(problem)}", err=True)
    if sat.failures:
        raise typer.Exit(INCOMPLETE_EXIT_CODE if sat.unusable is None else JUDGE_UNUSABLE_EXIT_CODE)
    typer.echo(f"Nothing is left to ask in {shown}: {sat.shards['done']} shards done.", err=True)


def tell_missing(plan: TournamentPlan, *, retired: bool = True) -> None:
    """How many pairs are left out, and for want of whose responses; how many were cut off; retired judges."""
    from tiltyard.tournament.cost_estimate import retirement_note

    matches = plan.matches
    if matches.dropped:
        who = ", ".join(f"{name} lacks {n}" for name, n in matches.missing.items())
        typer.echo(
            f"{matches.dropped:,} pairs are left out for want of a response: {escape_controls(who)}.",
            err=True,
        )
    for seat in plan.seats:
        if retired and seat.retirement is not None:
            typer.echo(f"{escape_controls(retirement_note(seat.settings.model, seat.retirement))}.", err=True)
    cut = Counter(model for (model, _), answer in plan.answers.items() if answer.truncated)
    if cut:
        whose = escape_controls(", ".join(f"{name} {cut[name]:,}" for name in sorted(cut)))
        typer.echo(f"{cut.total():,} answers were cut off and are judged as they are: {whose}.", err=True)


def show_summary(finished: FinishedRun) -> None:
    """The closing summary; an exit code of its own where something is missing."""
    from tiltyard.report.terminal import Terminal
    from tiltyard.report.tournament_summary import tournament_summary
    from tiltyard.runs.tournament_writer import read_run_documents

    Terminal().print(tournament_summary(finished.groups, *read_run_documents(finished.out)))
    typer.echo(f"\nWritten to {escape_controls(str(finished.out))}: tiltyard verify {_word(finished.out)}")
    failed = _tell_failures(finished)
    if finished.first_unreadable is not None:
        _tell_unreadable(finished.first_unreadable, finished.states["unparseable"])
    unasked = finished.states["unasked"]
    if unasked and finished.sat is None:
        typer.echo(
            f"{unasked:,} questions have no reply in the cache: they would be asked without --skip-judging.",
            err=True,
        )
    elif unasked and finished.capped and not failed:
        typer.echo(
            f"{unasked:,} questions were not asked: the budget does not cover them, or a batch that was left "
            "behind holds what is missing. Run again, with a higher --budget-usd if need be, and --output-dir "
            f"{_word(finished.out)} to go on.",
            err=True,
        )
    if not finished.rated_battles:
        _tell_nothing_rated(finished, failed=failed)
    if finished.sat is not None and finished.sat.unusable is not None:
        raise typer.Exit(JUDGE_UNUSABLE_EXIT_CODE)
    if failed or not finished.rated_battles:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def _tell_nothing_rated(finished: FinishedRun, *, failed: bool) -> None:
    """Say that no battle was rated, and what to do where that has not been said yet."""
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
    typer.echo(f"No battle was rated: the judges say nothing of any model. {advice}", err=True)


def _tell_failures(finished: FinishedRun) -> bool:
    """Say how many questions judges failed to answer, and why; whether there are any."""
    failures = dict.fromkeys(finished.sat.failures.values() if finished.sat is not None else ())
    failed = {name: n for name in ("provider_error", "expired", "lost") if (n := finished.states[name])}
    if finished.sat is None or not (failed or failures):
        return False
    without = sum(failed.values()) + (finished.states["unasked"] if failures else 0)
    causes = dict.fromkeys(
        [*failures, *(finished.problems[name] for name in failed if name in finished.problems)]
    )
    stopped = finished.sat.unusable is not None
    what_to_do = "The run was stopped." if stopped else "Run the command again to go on."
    typer.echo(f"{without:,} questions have no reply. {what_to_do} Why:", err=True)
    for problem in list(causes)[:3]:
        typer.echo(f"  {escape_controls(problem)}", err=True)
    return True


def _tell_unreadable(first: JudgedQuestion, count: int) -> None:
    """Show the first reply that could not be read, and why."""
    question = first.question
    asked = f"{question.judge} on prompt {question.prompt_id}, {question.dimension}, form {first.form}"
    typer.echo(f"{count:,} replies could not be read. The first, of {escape_controls(asked)}:", err=True)
    typer.echo(f"  why: {escape_controls(first.problem or '')}", err=True)
    typer.echo(f"  reply: {_excerpt(first.reply)}", err=True)


def _excerpt(reply: Reply | None) -> str:
    """A reply on one line; of a long one, the beginning and the end, where verdicts stand."""
    whole = (reply.text or (reply.data and json.dumps(dict(reply.data))) if reply else None) or "(empty)"
    if len(whole) > 2 * _SHOWN_CHARACTERS:
        whole = f"{whole[:_SHOWN_CHARACTERS]} … {whole[-_SHOWN_CHARACTERS:]}"
    return escape_controls(whole)


def _word(path: Path) -> str:
    """A path as it can be pasted into a shell."""
    return shlex.quote(escape_controls(str(path)))
