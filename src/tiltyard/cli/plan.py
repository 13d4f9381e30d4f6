"""``tiltyard plan``: estimate calls, cost and interval widths of a run."""

from __future__ import annotations

from contextlib import closing
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tiltyard.cli.options import PriceOption, stated_prices
from tiltyard.cli.run import (
    Budget,
    Config,
    ConfigOption,
    JudgeModel,
    LimitPairs,
    Mode,
    SamplePairs,
    config_path,
    tell_missing,
)

if TYPE_CHECKING:
    from tiltyard.judges.ledger import Ledger
    from tiltyard.tournaments.tournament_plan import TournamentPlan
    from tiltyard.tournaments.tournament_run import PreparedRun


#: The value of ``--questions`` without one.
_EACH_DIMENSION = "each"


class PlanCommand(TyperCommand):
    """Accepts ``--questions`` without a value, which no option of typer can."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given: list[str] = []
        for arg, following in zip_longest(args, args[1:]):
            given.append(arg)
            if arg == "--questions" and (following is None or following.startswith("--")):
                given.append(_EACH_DIMENSION)
        return super().parse_args(ctx, given)


def plan(
    config: Config = None,
    config_option: ConfigOption = None,
    mode: Mode = "pilot",
    judge_model: JudgeModel = None,
    limit_pairs: LimitPairs = None,
    sample_pairs: SamplePairs = None,
    budget_usd: Budget = None,
    price: PriceOption = None,
    count_tokens: Annotated[
        bool,
        typer.Option("--count-tokens", help="Let the provider count the tokens of a sample of requests."),
    ] = False,
    earlier: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Base the expected interval widths on this earlier run."),
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            metavar="[N|FILE]",
            help="Print the exact requests of the first N questions, by default of one in each dimension; "
            "or write all questions to a file, as JSON Lines.",
        ),
    ] = None,
) -> None:
    """Estimate the calls, cost and precision of a run.

    No judge is called.
    """
    if questions is not None and config is None and config_option is None and _is_config(questions):
        config, questions = Path(questions), _EACH_DIMENSION
    file = (
        None
        if questions is None or questions == _EACH_DIMENSION or questions.isdecimal()
        else Path(questions)
    )
    from tiltyard.judges.ledger import Ledger
    from tiltyard.report.plan_tables import plan_tables
    from tiltyard.report.terminal import Terminal
    from tiltyard.tournaments.cost_estimate import estimate_plan, measure_bytes_per_token
    from tiltyard.tournaments.tournament_run import RunRequest, prepare_run
    from tiltyard.tournaments.width_forecast import pilot_expectation

    request = RunRequest(
        config_path=config_path(config, config_option),
        mode=mode,
        judge_model=judge_model,
        limit_pairs=limit_pairs,
        sample_pairs=sample_pairs,
        budget_usd=budget_usd,
        prices=stated_prices(price),
    )
    prepared = prepare_run(request, asking=count_tokens)
    # The plan itself has a note on judges that were retired.
    tell_missing(prepared.plan, retired=False)
    measured = measure_bytes_per_token(prepared.plan) if count_tokens else None
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        estimate = estimate_plan(prepared.plan, ledger, bytes_per_token=measured)
        if file is not None:
            _write_questions(file, prepared, ledger)
    carried = None if earlier is None else pilot_expectation(earlier, estimate.expectation)
    Terminal().print(plan_tables(estimate.to_dict(), carried, prepared.cap, estimate.notes))
    if file is not None:
        typer.echo(f"All questions were written to {file}.", err=True)
    elif questions is not None:
        _print_questions(questions, prepared.plan)


def _is_config(name: str) -> bool:
    """Whether the value of ``--questions`` is rather the configuration, after ``--questions`` alone."""
    return Path(name).suffix in (".yaml", ".yml")


def _print_questions(wanted: str, planned: TournamentPlan) -> None:
    """Print the first questions, or the first of each dimension, as they would be sent."""
    from tiltyard.report.question_text import SentQuestion, question_lines

    if wanted == _EACH_DIMENSION:
        first = (next(planned.dimension(part.rubric.dimension), None) for part in planned.sections)
        chosen = [question for question in first if question is not None]
    else:
        chosen = list(islice(planned.questions(), int(wanted)))
    for number, question in enumerate(chosen, start=1):
        provider = planned.seat(question).provider
        body = planned.request(question).body
        sent = SentQuestion(question, planned.chat_prompt(question), provider.name, provider.address, body)
        typer.echo()
        for line in question_lines(sent, number):
            typer.echo(line)
    typer.echo(f"{len(chosen):,} of {len(planned):,} questions are shown. Nothing was sent.", err=True)


def _write_questions(path: Path, prepared: PreparedRun, ledger: Ledger) -> None:
    from tiltyard.files.battle_writer import write_rows
    from tiltyard.tournaments.cost_estimate import planned_questions

    write_rows(path, (question.to_dict() for question in planned_questions(prepared.plan, ledger)))
