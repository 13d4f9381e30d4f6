"""``tiltyard check``, ``tiltyard rate`` and ``tiltyard compare``: check files of battles, rate models from them, and compare two."""

from __future__ import annotations

import json
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand

from tiltyard.cli.options import (
    By,
    Cluster,
    DropDuplicates,
    Files,
    Level,
    MaxShare,
    PriorSd,
    Style,
    Where,
    WriteAsOption,
    given_options,
    joined_conditions,
    rating_option,
    read_options,
    with_reading_options,
)
from tiltyard.cli.progress import show_read_progress
from tiltyard.errors import BadOption, CannotRate
from tiltyard.foundation.option_names import with_options
from tiltyard.report.escapes import escape_controls
from tiltyard.settings.rating_options import JUDGE_ARENA, RATING_OPTIONS, TypedRatingOption

if TYPE_CHECKING:
    from tiltyard.core.battles import Table
    from tiltyard.core.board import RatedGroup
    from tiltyard.core.ratings import RatingMethod
    from tiltyard.core.ratings.comparison import Comparison
    from tiltyard.files import BattleSource
    from tiltyard.report.terminal import Terminal
    from tiltyard.runs.battle_rating import RateSettings
    from tiltyard.settings.rating_options import RateOptions

#: Something was found that an option repairs.
_REPAIRABLE_EXIT_CODE = 1
#: The options that most files need.
_FIRST_OPTIONS = frozenset(
    {
        *("preset", "by", "style", "where", "ties", "intervals", "cluster", "out", "arena"),
        *("columns", "outcomes", "skip_invalid", "csv", "json", "help"),
    }
)


@with_reading_options
def check(
    files: Files,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    **options: Any,
) -> None:
    """Check files of battles, with commands that repair what is found."""
    from tiltyard.report.terminal import Terminal, findings_list
    from tiltyard.runs.battle_rating import open_all
    from tiltyard.runs.log_check import check_log

    reading = read_options(options)
    sources = open_all(files, replace(reading, skip_invalid=True))
    with show_read_progress([None]) as progress:
        checked = check_log(sources, skip_invalid=reading.skip_invalid, progress=progress)
    if as_json:
        typer.echo(json.dumps(checked.to_dict(), indent=2, ensure_ascii=False))
    else:
        console = Terminal()
        for line in checked.heading.splitlines():
            console.print(escape_controls(line))
        for finding, option in checked.found:
            console.print()
            console.print(findings_list((finding,)))
            if option:
                _print_command(option)
        if len(checked.repairs) > 1:
            console.print("\nAll at once:")
            _print_command(" ".join(checked.repairs))
    if checked.repairs:
        raise typer.Exit(_REPAIRABLE_EXIT_CODE)


def _print_command(options: str) -> None:
    """The command as it was typed, with more options, on one line that can be pasted."""
    typer.echo(escape_controls(f"  tiltyard rate {shlex.join(sys.argv[2:])} {options}"))


def _with_rating_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option that says how battles are rated."""
    annotations = {name: _annotation(name, option) for name, option in RATING_OPTIONS.items()}
    defaults = {name: option.said.default for name, option in RATING_OPTIONS.items()}
    return with_options(command, annotations, defaults, after="files")


def _annotation(name: str, option: TypedRatingOption) -> Any:
    kind: Any = Literal[option.said.choices] if option.said.choices else option.kind
    if option.said.repeated:
        kind = list[str]
    return Annotated[kind | None if option.said.default is None else kind, rating_option(name)]


class RateCommand(TyperCommand):
    """Lists what most files need first, and all other options as advanced."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Advanced": []}
        for parameter in self.get_params(ctx):
            first = "Options" if parameter.name in _FIRST_OPTIONS else "Advanced"
            section = "Arguments" if parameter.param_type_name == "argument" else first
            if (record := parameter.get_help_record(ctx)) is not None:
                sections[section].append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


@_with_rating_options
@with_reading_options
def rate(
    context: typer.Context,
    files: Files,
    out: Annotated[Path | None, typer.Option(help="Write artifacts and a report to this folder.")] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="With --out: write battles.jsonl even above 1,000,000 battles.")
    ] = False,
    write_as: WriteAsOption = "tiltyard",
    arena: Annotated[str | None, typer.Option(help="Arena name to record in the artifacts.")] = None,
    model: Annotated[str | None, typer.Option(help="Model under test, to record in the artifacts.")] = None,
    drop_duplicates: DropDuplicates = False,
    json: Annotated[bool, typer.Option("--json", help="Print the board as JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the board as CSV, unrounded.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the board in Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the board in LaTeX.")] = False,
    top: Annotated[int | None, typer.Option(min=1, help="Print only the first N models.")] = None,
    every_eval_ever: Annotated[Path | None, typer.Option(help="Write files of Every Eval Ever here.")] = None,
    **options: Any,
) -> None:
    """Rate models from battles, with confidence intervals."""
    from tiltyard.runs.battle_rating import (
        choose_by_format,
        chosen_battles,
        open_all,
        rate_files,
        rate_settings,
    )

    output = BoardOutput(chosen_form({"json": json, "csv": csv, "markdown": markdown, "latex": latex}), top)
    given = {name: value for name, value in given_options(context).items() if name in RATING_OPTIONS}
    if "where" in given:
        given["where"] = joined_conditions(options["where"])
    as_other = write_as == JUDGE_ARENA
    if as_other:
        given.setdefault("preset", write_as)
    settings = rate_settings(cast("RateOptions", given))
    for option, is_given in (("--jsonl", jsonl), ("--write-as", as_other)):
        if is_given and out is None:
            raise BadOption(f"{option} has no effect without --out; name a folder")
    settings = replace(settings if out is None else settings.for_folder(), arena=arena, model=model)
    reading = replace(read_options(options), baseline=options["baseline"])
    sources = chosen_battles(open_all(files, reading), settings, drop_duplicates=drop_duplicates)
    settings = choose_by_format(settings, sources)
    with show_read_progress([source.rows for source in sources]) as progress:
        if out is None:
            groups, evaluated = rate_files(sources, settings, progress=progress), None
        else:
            from tiltyard.core.battles.outcome import TIE_BOTH_BAD
            from tiltyard.runs.run_folder import write_run

            both_bad = TIE_BOTH_BAD if as_other else None
            run = write_run(out, sources, settings, lines=jsonl, both_bad=both_bad, progress=progress)
            groups, evaluated = run.groups, run.evaluated
    output.print_boards(groups, settings, evaluated)
    print_notes(sources)
    if every_eval_ever is not None:
        from tiltyard.foundation.local_files import refuse_unwritable
        from tiltyard.report.every_eval_ever import evaluation_logs
        from tiltyard.runs.manifest import json_bytes

        with refuse_unwritable(every_eval_ever):
            every_eval_ever.mkdir(parents=True, exist_ok=True)
            for log in evaluation_logs(groups, arena, int(time.time())):
                (every_eval_ever / f"{uuid.uuid4()}.json").write_bytes(json_bytes(log))
    if out is not None:
        if run.without_lines:
            typer.echo(escape_controls(f"\nbattles.jsonl was not written: {run.without_lines}"), err=True)
        output.print_message(f"\nWritten to {out}: tiltyard verify {out}")


def chosen_form(flags: Mapping[str, bool]) -> str | None:
    """The only form that is asked for, or none; two are an error."""
    chosen = [name for name, asked in flags.items() if asked]
    if len(chosen) > 1:
        raise BadOption(f"{' and '.join(f'--{name}' for name in chosen)}: choose one of them")
    return chosen[0] if chosen else None


@dataclass(frozen=True)
class BoardOutput:
    """What is printed of the boards: a table, or a document; all models, or the first ``top`` of each board."""

    form: str | None
    top: int | None

    def print_boards(
        self, groups: Sequence[RatedGroup], settings: RateSettings, evaluated: frozenset[str] | None
    ) -> None:
        """Print to standard output; beside a document without findings, these go to standard error."""
        if self.form is None:
            from tiltyard.report.terminal import Terminal, rated_lines

            console = Terminal()
            for rated in groups:
                console.print()
                console.print(rated_lines(rated, width=console.width, top=self.top))
            return
        if self.form == "json":
            from tiltyard.runs.rating_documents import ratings_json

            text = ratings_json(groups, settings, evaluated, top=self.top) + "\n"
        else:
            from tiltyard.report.board_formats import boards_csv, boards_latex, boards_markdown

            forms = {"csv": boards_csv, "markdown": boards_markdown, "latex": boards_latex}
            boards = [replace(rated.board, rows=rated.board.rows[: self.top]) for rated in groups]
            text = forms[self.form](
                [replace(one, board=board) for one, board in zip(groups, boards, strict=True)]
            )
            self._print_notes(groups)
        typer.echo(text, nl=False)

    def print_message(self, text: str) -> None:
        """Print to standard output, or beside a document to standard error."""
        typer.echo(text, err=self.form is not None)

    def _print_notes(self, groups: Sequence[RatedGroup]) -> None:
        from tiltyard.report.board_formats import left_out_sentence
        from tiltyard.report.terminal import Terminal, findings_list

        console = Terminal(stderr=True)
        for rated in groups:
            left_out = left_out_sentence(rated.board, self.top)
            if rated.name is not None and (left_out or rated.board.findings):
                console.print(f"{escape_controls(rated.name)}:")
            if left_out:
                console.print(left_out)
            if rated.board.findings:
                console.print(findings_list(rated.board.findings))


def print_notes(sources: Sequence[BattleSource]) -> None:
    """Say on standard error what was left out of the input, and what was changed in it."""
    for source in sources:
        for remark in source.remarks:
            typer.echo(escape_controls(remark), err=True)


@with_reading_options
def compare(
    model_a: Annotated[str, typer.Argument(metavar="A", help="First model.")],
    model_b: Annotated[str, typer.Argument(metavar="B", help="Second model.")],
    files: Files,
    level: Level = 0.95,
    by: By = None,
    style: Style = None,
    where: Where = None,
    prior_sd: PriorSd = None,
    max_share: MaxShare = 0.1,
    cluster: Cluster = None,
    drop_duplicates: DropDuplicates = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    **reading: Any,
) -> None:
    """Compare two models: difference, interval, verdict."""
    from tiltyard.files.battle_tables import count_table
    from tiltyard.report.terminal import Terminal
    from tiltyard.runs.battle_rating import chosen_battles, count_named, open_all, rate_settings

    given = {"by": by, "style": style, "level": level, "prior_sd": prior_sd, "max_share": max_share}
    given |= {"where": joined_conditions(where), "cluster": cluster}
    settings = rate_settings(cast("RateOptions", given))
    model_a, model_b, files = _models_and_files([model_a, model_b, *files])
    opened = open_all(files, read_options(reading))
    sources = chosen_battles(opened, settings, drop_duplicates=drop_duplicates)
    with show_read_progress([source.rows for source in sources]) as progress:
        if settings.by is None:
            tables = {
                "": count_table(sources, style=settings.style, levels=settings.levels, progress=progress)
            }
        else:
            tables = count_named(sources, settings, progress=progress)
    found = _comparisons(tables, (model_a, model_b), settings.method)
    if as_json:
        shown: dict[str, object] = {
            name: {"problem": result} if isinstance(result, str) else result.to_dict()
            for name, result in found.items()
        }
        document = shown[""] if settings.by is None else {"groups": shown}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        console = Terminal()
        for name, comparison in found.items():
            _show(console, name, comparison)
    print_notes(sources)


def _models_and_files(words: list[str]) -> tuple[str, str, list[str]]:
    """Two models and files, in any order where only two words are no files; otherwise the models come first."""
    models = [word for word in words if not (word == "-" or "://" in word or Path(word).exists())]
    if len(models) != 2:
        return words[0], words[1], words[2:]
    return models[0], models[1], [word for word in words if word not in models]


def _comparisons(
    tables: dict[str, Table], models: tuple[str, str], method: RatingMethod
) -> dict[str, Comparison | str]:
    """The comparison in each group, or the reason why there is none; raises if there is none at all."""
    from tiltyard.core.ratings import BradleyTerry
    from tiltyard.core.ratings.comparison import compare_models

    assert isinstance(method, BradleyTerry)
    found: dict[str, Comparison | str] = {}
    errors: list[BadOption | CannotRate] = []
    for name, table in tables.items():
        try:
            found[name] = compare_models(table, *models, method)
        except (BadOption, CannotRate) as error:
            errors.append(error)
            found[name] = str(error)
    if len(errors) == len(tables):
        raise errors[0] if errors else CannotRate("no battles to compare models by")
    return found


def _show(console: Terminal, name: str, comparison: Comparison | str) -> None:
    from tiltyard.report.terminal import findings_list

    if name:
        console.print(f"{escape_controls(name)}:", style="bold")
    if isinstance(comparison, str):
        console.print(escape_controls(comparison))
        return
    a, b = escape_controls(comparison.model_a), escape_controls(comparison.model_b)
    console.print(escape_controls(comparison.sentence))
    console.print(
        f"Difference {comparison.difference:+.0f} ({100 * comparison.level:g}% interval {comparison.low:+.0f} to {comparison.high:+.0f}); "
        f"expected score of {a} against {b}: {comparison.expected_score:.2f}."
    )
    direct = comparison.wins + comparison.losses + comparison.ties
    console.print(
        f"Direct battles: {direct:,} ({comparison.wins} won, {comparison.losses} lost, {comparison.ties} tied; "
        f"{comparison.both_bad} more where both were bad)."
    )
    if direct and comparison.prompts_ahead is not None:
        console.print(
            f"Prompts on which {a} did better: {comparison.prompts_ahead}; worse: {comparison.prompts_behind}."
        )
    if comparison.findings:
        console.print(findings_list(comparison.findings))
