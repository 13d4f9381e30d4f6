"""Options shared by several commands, and their parsers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.errors import BadOption

if TYPE_CHECKING:
    from tiltyard.settings.prices import PriceEntry

__all__ = [
    "Columns",
    "Files",
    "Format",
    "Level",
    "MaxShare",
    "PriceOption",
    "PriorSd",
    "column_map",
    "comma_list",
    "stated_prices",
]

Files = Annotated[
    list[Path], typer.Argument(help="Files of battles in any supported format; - for standard input.")
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAME=HEADER,…", help="Map fields to column headers: model_a=left,winner=who."),
]
Level = Annotated[
    float, typer.Option(min=0.01, max=0.9999, help="Confidence level of intervals and rank ranges.")
]
PriceOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=INPUT,OUTPUT",
        help="A model's price in dollars per million tokens; may be repeated.",
    ),
]
PriorSd = Annotated[
    float | None,
    typer.Option(min=1, max=1e6, help="Weak prior: standard deviation of ratings, in points."),
]
MaxShare = Annotated[
    float,
    typer.Option(min=0.001, max=1, help="Most that one prompt or voter may weigh; 1: no limit."),
]
Format = Annotated[str | None, typer.Option(help="Format of the files; default: detect it.")]


def column_map(text: str | None) -> dict[str, str]:
    """Parse ``model_a=left,winner=who`` into a mapping."""
    columns: dict[str, str] = {}
    for part in comma_list(text):
        name, equals, header = part.partition("=")
        if not equals or not name or not header:
            raise BadOption(f"--columns: {part!r} is not of the form name=header")
        columns[name] = header
    return columns


def comma_list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def stated_prices(options: list[str] | None) -> dict[str, PriceEntry]:
    """Parse the values of ``--price``, by model."""
    from tiltyard.settings.prices import parse_price_option

    prices: dict[str, PriceEntry] = {}
    for text in options or ():
        model, entry = parse_price_option(text)
        if prices.setdefault(model, entry) != entry:
            raise BadOption(f"--price gives two prices for {model}; keep one")
    return prices
