"""``tiltyard place``: rank a new model among models that people have ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltyard.cli.exit_codes import INCOMPLETE_EXIT_CODE
from tiltyard.cli.generate import tell_incomplete
from tiltyard.cli.options import PriceOption, stated_prices
from tiltyard.cli.run import Budget, show_summary, tell_missing
from tiltyard.report.terminal_escape import escape_controls


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
) -> None:
    """Rank a new model among models that people have ranked.

    Judges the new model against them, and rates it together with the human battles. Exit code 3 means
    that answers are missing or cut off, that calls to a provider failed, or that no judged battle was
    rated; 4 means that the judge gives no verdicts. The output says what to do.
    """
    from tiltyard.cli.judging_progress import JudgingProgress
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
            PlacementRequest(battles, model, answers or [], n, seed),
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
        tell_missing(prepared.plan)
        finished = run_tournament(prepared, watcher, output_dir=output_dir, skip_judging=skip_judging)
    show_summary(finished)
    if answered is not None and not answered.complete:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)
