"""``tiltyard plan``: estimate calls, cost and interval widths of a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.options import PriceOption, stated_prices
from tiltyard.cli.run import (
    Budget,
    Config,
    ConfigOption,
    JudgeModel,
    LimitPairs,
    Mode,
    config_path,
    tell_missing,
)

if TYPE_CHECKING:
    from tiltyard.judges.ledger import Ledger
    from tiltyard.tournament.tournament_run import PreparedRun

__all__ = ["plan"]


def plan(
    config: Config = None,
    config_option: ConfigOption = None,
    mode: Mode = "pilot",
    judge_model: JudgeModel = None,
    limit_pairs: LimitPairs = None,
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
        Path | None,
        typer.Option(metavar="FILE", help="Write all questions of the run to this file, as JSON Lines."),
    ] = None,
) -> None:
    """Estimate the calls, cost and precision of a run.

    No judge is called.
    """
    from tiltyard.judges.ledger import Ledger
    from tiltyard.report.plan_tables import plan_tables
    from tiltyard.report.terminal import Terminal
    from tiltyard.tournament.cost_estimate import estimate_plan, measure_bytes_per_token
    from tiltyard.tournament.tournament_run import RunRequest, prepare_run
    from tiltyard.tournament.width_forecast import pilot_expectation

    request = RunRequest(
        config_path=config_path(config, config_option),
        mode=mode,
        judge_model=judge_model,
        limit_pairs=limit_pairs,
        budget_usd=budget_usd,
        prices=stated_prices(price),
    )
    prepared = prepare_run(request, asking=count_tokens)
    # The plan itself has a note on judges that were retired.
    tell_missing(prepared.plan, retired=False)
    measured = measure_bytes_per_token(prepared.plan) if count_tokens else None
    with closing(Ledger(prepared.databases.ledger)) as ledger:
        estimate = estimate_plan(prepared.plan, ledger, bytes_per_token=measured)
        if questions is not None:
            _write_questions(questions, prepared, ledger)
    carried = None if earlier is None else pilot_expectation(earlier, estimate.expectation)
    Terminal().print(plan_tables(estimate.to_dict(), carried, prepared.cap, estimate.notes))
    if questions is not None:
        typer.echo(f"All questions were written to {questions}.", err=True)


def _write_questions(path: Path, prepared: PreparedRun, ledger: Ledger) -> None:
    from tiltyard.files.battle_writer import write_rows
    from tiltyard.tournament.cost_estimate import planned_questions

    write_rows(path, (question.to_dict() for question in planned_questions(prepared.plan, ledger)))
