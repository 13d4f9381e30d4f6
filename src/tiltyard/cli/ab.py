"""``tiltyard ab``: is B better than A? By the scores that their files carry, or by a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.options import (
    INCOMPLETE_EXIT_CODE,
    JUDGE_UNUSABLE_EXIT_CODE,
    UNDECIDED_EXIT_CODE,
    WORSE_EXIT_CODE,
    JudgeAddress,
    JudgeConcurrency,
    JudgeConfig,
    JudgeForm,
    JudgeKey,
    JudgeProvider,
    Judges,
    JudgeTokens,
    PriceOption,
    Rubrics,
    named_judges,
    stated_prices,
)
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls, plain_table

if TYPE_CHECKING:
    from tiltyard.cli.progress import QuietProgress
    from tiltyard.report.ab_report import ABReport
    from tiltyard.tournaments.ab_run import JudgedComparison


_EXIT_CODES = {
    "worse": WORSE_EXIT_CODE,
    "guard failed": WORSE_EXIT_CODE,
    "cannot tell": JUDGE_UNUSABLE_EXIT_CODE,
}


def ab(
    a: Annotated[str, typer.Argument(metavar="A", help="Answers or a log of the first: the baseline.")],
    b: Annotated[
        list[str] | None,
        typer.Argument(metavar="B", help="The same of each candidate; none if A has several models."),
    ] = None,
    model_a: Annotated[
        str | None, typer.Option("--a", metavar="MODEL", help="The baseline, in a file of several models.")
    ] = None,
    model_b: Annotated[
        list[str] | None,
        typer.Option("--b", metavar="MODEL", help="A candidate in it; may be repeated; default: all others."),
    ] = None,
    judge: Judges = None,
    rubric: Rubrics = None,
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A score that decides, without a judge; may be repeated; default: all."
        ),
    ] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=MARGIN]",
            help="A score that must not be worse by more than the margin, or 0; may be repeated.",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(min=0, help="Differences up to this count as the same: points, or units of the score."),
    ] = None,
    goal: Annotated[
        Literal["decide", "not-worse"], typer.Option(help="With not-worse, B not being worse is enough.")
    ] = "decide",
    bounds: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="The least and the greatest value of the score.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="A field by which prompts belong together, such as a passage; or prompt."),
    ] = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Lower scores are better, as of errors; not of guards.")
    ] = False,
    lower: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A score or guard of which lower is better; may be repeated."),
    ] = None,
    provider: JudgeProvider = None,
    base_url: JudgeAddress = None,
    api_key_env: JudgeKey = None,
    judge_config: JudgeConfig = None,
    max_tokens: JudgeTokens = None,
    form: JudgeForm = None,
    concurrency: JudgeConcurrency = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="Spending limit, in dollars.")] = None,
    price: PriceOption = None,
    max_prompts: Annotated[int | None, typer.Option(min=1, help="Judge at most this many prompts.")] = None,
    fixed: Annotated[int | None, typer.Option(min=2, help="Judge this many prompts, and look once.")] = None,
    ties_are_same: Annotated[
        bool, typer.Option("--ties-are-same", help="A judge that ties nearly everything may say: the same.")
    ] = False,
    output_dir: Annotated[
        Path, typer.Option(help="Where the folder of a judged comparison is written.")
    ] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    comment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Markdown comment for a pull request.")
    ] = None,
) -> None:
    """Say whether B is better than A.

    Without a judge, the scores that both files carry are compared sample by sample, offline. With one, prompts are
    judged until it is decided. With several scores, guards or candidates all intervals hold at once. Exit code 0:
    better, not worse or the same; 1: worse, or a guard failed; 3: stopped; 4: the judge cannot tell; 5: undecided. Of
    several candidates the first of 1, 4, 3 and 5 that one of them has.
    """
    from tiltyard.cli.progress import QuietProgress
    from tiltyard.tournaments.ab_comparison import ABSettings, compare_ab

    stated = {"max_tokens": max_tokens, "form": form, "concurrency": concurrency}
    settings = ABSettings(
        judges=named_judges(judge, provider, base_url, api_key_env, judge_config, stated),
        rubrics=rubric or [],
        scores=score or [],
        guards=dict(map(_guard, guard or [])),
        model_a=model_a,
        models_b=model_b or [],
        margin=margin,
        lower_is_better=lower_is_better,
        lower=lower or [],
        budget_usd=budget_usd,
        prices=stated_prices(price) or {},
        max_prompts=max_prompts,
        fixed=fixed,
        goal=goal,
        bounds=None if bounds is None else _bounds(bounds),
        cluster=cluster,
        ties_are_same=ties_are_same,
        output_dir=output_dir,
    )
    with QuietProgress() as watcher:
        report = compare_ab([a, *(b or [])], settings, watcher, lambda found: _tell_look(watcher, found))
    for sentence in report.notes:
        typer.echo(f"{escape_controls(sentence)}.", err=True)
    for finding in report.findings:
        typer.echo(escape_controls(str(finding)), err=True)
    if comment is not None:
        from tiltyard.foundation.local_files import refuse_unwritable

        with refuse_unwritable(comment):
            comment.write_text(report.to_markdown(), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=1))
    else:
        typer.echo(plain_table(report.table))
        typer.echo(escape_controls(report.numbers))
        for line in (*report.cost_lines, *report.verdicts):
            typer.echo(escape_controls(line))
    raise typer.Exit(_exit_code(report))


def _tell_look(watcher: QuietProgress, found: JudgedComparison) -> None:
    from tiltyard.report.ab_report import difference_text, interval_text

    if not found.judged:
        return
    lead, low, high = found.lead
    said = f"{difference_text(lead, 'points')} ({interval_text(low, high, 'points')})"
    watcher.tell(f"{found.inputs.name_b}, {found.judged:,} prompts: {said}")


def _exit_code(report: ABReport) -> int:
    """The code of a result; why it is none is printed."""
    if report.decision not in {"undecided", "cannot tell"}:
        return _EXIT_CODES.get(report.decision, 0)
    for problem in report.problems[:3]:
        typer.echo(escape_controls(problem), err=True)
    if report.decision in _EXIT_CODES:
        return _EXIT_CODES[report.decision]
    return INCOMPLETE_EXIT_CODE if report.stopped else UNDECIDED_EXIT_CODE


def _guard(text: str) -> tuple[str, float]:
    """The name of a guard and its margin; names may have an equals sign too."""
    name, _, margin = text.rpartition("=")
    try:
        return (name, float(margin)) if name else (text, 0.0)
    except ValueError:
        return text, 0.0


def _bounds(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise BadOption(f"--bounds {text}: expected two numbers, such as 0,1") from None
    return low, high
