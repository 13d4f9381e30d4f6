"""``tiltyard generate`` and ``tiltyard place``: generate answers, and place a model on a board by a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.options import (
    INCOMPLETE_EXIT_CODE,
    PriceOption,
    WriteAsOption,
    rating_option,
    stated_prices,
)
from tiltyard.cli.run import (
    Budget,
    Config,
    ConfigOption,
    config_path,
    show_summary,
    tell_findings,
    tell_ignored,
    tell_missing,
)
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.tournaments.answer_generation import GenerationResult

#: Why a reply is not an answer, and what to do.
_NO_TEXT = {
    "truncated": "the reply was cut off before any text: raise max_tokens ({limits} now) under generate: and run "
    "the command again.",
    "unparseable": "the reply contained no text: check the model, or change its options under generate:, and run the "
    "command again.",
    "refused": "the model refused without any text: write an answer by hand, or remove the prompts.",
}


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
