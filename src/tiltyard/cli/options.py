"""Options shared by several commands, and their parsers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.models import OptionInfo

from tiltyard.errors import BadOption
from tiltyard.foundation.option_names import quoted, with_options
from tiltyard.report.escapes import escape_controls
from tiltyard.settings.rating_options import RATING_OPTIONS, WriteAs

if TYPE_CHECKING:
    from tiltyard.files.read_options import ReadOptions
    from tiltyard.settings.prices import PriceEntry
    from tiltyard.settings.ready_tournaments import QuickJudge


def rating_option(name: str) -> OptionInfo:
    """An option of `rate` as the command line takes it."""
    said = RATING_OPTIONS[name].said
    low, high = (bound if math.isfinite(bound) else None for bound in said.bounds)
    flag = f"--{name.replace('_', '-')}"
    if RATING_OPTIONS[name].kind is bool and said.default is None:
        flag += f"/--no-{flag.removeprefix('--')}"
    info: OptionInfo = typer.Option(flag, help=said.help, metavar=said.metavar, min=low, max=high)
    return info


Files = Annotated[
    list[str],
    typer.Argument(help="Files of battles in any supported format, hf:// or https://; - for standard input."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=HEADER,…", help="Map fields to column headers: model_a=left,winner=who."),
]
Outcomes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD=OUTCOME,…",
        help="What words of the winner column mean: left=a,right=b,0.5=tie; =tie for an empty value.",
    ),
]
WriteAsOption = Annotated[
    WriteAs,
    typer.Option("--write-as", help="Spell, count and centre as this tool does in the files written."),
]
By = Annotated[list[str] | None, rating_option("by")]
Style = Annotated[str | None, rating_option("style")]
Where = Annotated[list[str] | None, rating_option("where")]
Level = Annotated[float, rating_option("level")]
PriorSd = Annotated[float | None, rating_option("prior_sd")]
MaxShare = Annotated[float, rating_option("max_share")]
Cluster = Annotated[str | None, rating_option("cluster")]
SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Leave out rows that are no battles, and count them.")
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW",
        help="Call a model otherwise; a name alone stands for all spelled alike. May be repeated.",
    ),
]
DropDuplicates = Annotated[
    bool,
    typer.Option("--drop-duplicates", help="Leave out battles that repeat an earlier one, and count them."),
]
PriceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=INPUT,OUTPUT",
        help="A model's price in dollars per million tokens; may be repeated.",
    ),
]
Judges = Annotated[
    list[str] | None, typer.Option("--judge", metavar="MODEL", help="Let this model judge; may be repeated.")
]
Rubrics = Annotated[
    list[str] | None,
    typer.Option("--rubric", metavar="NAME|FILE", help="What the judge compares; may be repeated."),
]
JudgeProvider = Annotated[
    str | None, typer.Option("--provider", help="The judge's protocol, such as anthropic or openai.")
]
JudgeAddress = Annotated[
    str | None,
    typer.Option(
        "--base-url", help="The judge's address; default: OPENAI_BASE_URL or ANTHROPIC_BASE_URL, if set."
    ),
]
JudgeKey = Annotated[
    str | None, typer.Option("--api-key-env", help="The environment variable that holds the judge's key.")
]
JudgeConfig = Annotated[
    Path | None,
    typer.Option(
        "--judge-config",
        metavar="FILE",
        help="A YAML file with judges, as those of a mode in a configuration.",
    ),
]
JudgeTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="The limit of a judge's reply, in tokens.")
]
JudgeForm = Annotated[
    Literal["auto", "schema", "tool", "text"] | None,
    typer.Option("--form", help="How a verdict is asked for; default: the strictest form that works."),
]
JudgeConcurrency = Annotated[
    int | None, typer.Option("--concurrency", min=1, help="The most calls to a judge at a time.")
]
Format = Annotated[str | None, typer.Option(help="Format of the files; default: detect it.")]
READING = {
    "columns": Columns,
    "outcomes": Outcomes,
    "skip_invalid": SkipInvalid,
    "rename": Rename,
    "format": Format,
}

#: `ab`: the second is worse than the first.
WORSE_EXIT_CODE = 1
#: Results were written but are incomplete: run the command again, or follow its message.
INCOMPLETE_EXIT_CODE = 3
#: Stopped because a judge gives no usable verdicts.
JUDGE_UNUSABLE_EXIT_CODE = 4
#: `ab`: neither better, nor the same, nor worse can be said yet.
UNDECIDED_EXIT_CODE = 5


def with_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how files are read; `read_options` takes their values."""
    return with_options(command, READING, {"skip_invalid": False})


def given_options(context: typer.Context) -> dict[str, object]:
    """The options and arguments that the command line states, with their values."""
    return {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in context.params.items()
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }


def refuse_beside(context: typer.Context, option: str, *allowed: str) -> None:
    """Refuse what has no effect beside an option."""
    given = given_options(context)
    for parameter in context.command.params:
        if parameter.name in given and parameter.name not in allowed:
            raise BadOption(f"{parameter.opts[0]} has no effect with {option}; remove it")


def _pairs(text: str | None, option: str, form: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """What stands before each ``=``, which must not be empty unless it ``may_be_empty``, and what behind."""
    pairs: dict[str, str] = {}
    for part in comma_list(text):
        left, equals, right = part.partition("=")
        if not equals or not right or not (left or may_be_empty):
            raise BadOption(f"{option}: {part!r} is not of the form {form}")
        pairs[left] = right
    return pairs


def read_options(given: Mapping[str, Any]) -> ReadOptions:
    """How files are read, as the options of a command say."""
    from tiltyard.files.read_options import ReadOptions

    words = _pairs(",".join(given.get("outcomes") or ()), "--outcomes", "word=outcome", may_be_empty=True)
    headers = _pairs(",".join(given.get("columns") or ()), "--columns", "name=header")
    names = dict(_two_names(text) for text in given.get("rename") or ())
    return ReadOptions(given.get("format"), headers, words, given.get("skip_invalid", False), rename=names)


def _two_names(text: str) -> tuple[str, str]:
    """The names around the middle one of the equals signs; a name alone twice."""
    parts = text.split("=")
    half, odd = divmod(len(parts), 2)
    if odd and half:
        raise BadOption(f"--rename: {quoted(text)} is not of the form old=new")
    return ("=".join(parts[:half]), "=".join(parts[half:])) if half else (text, text)


def comma_list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def named_judges(
    models: list[str] | None,
    provider: str | None,
    base_url: str | None,
    api_key_env: str | None,
    file: Path | None = None,
    stated: Mapping[str, Any] = MappingProxyType({}),
) -> list[QuickJudge]:
    """The judges that options or a file name, with settings that options state for all of them.

    An address that an environment variable names is told.
    """
    from tiltyard.settings.ready_tournaments import QuickJudge, judges_in_file

    given = {name: value for name, value in stated.items() if value is not None}
    listed = () if file is None else judges_in_file(file)
    judges = [QuickJudge(model, provider, base_url, api_key_env) for model in models or ()]
    judges = [replace(judge, options={**judge.options, **given}) for judge in (*judges, *listed)]
    if not judges and (given or provider or base_url or api_key_env):
        raise BadOption("a judge's address, key or settings need --judge MODEL or --judge-config FILE")
    for line in filter(None, (judge.told() for judge in judges)):
        typer.echo(escape_controls(line), err=True)
    return judges


def stated_prices(options: list[str] | None) -> dict[str, PriceEntry]:
    """Parse the values of ``--price``, by model."""
    from tiltyard.settings.prices import parse_price_option

    prices: dict[str, PriceEntry] = {}
    for text in options or ():
        model, entry = parse_price_option(text)
        if prices.setdefault(model, entry) != entry:
            raise BadOption(f"--price gives two prices for {model}; keep one")
    return prices


def joined_conditions(conditions: list[str] | None) -> str | None:
    """Several conditions as one: all must be met."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else " and ".join(f"({one})" for one in conditions)
