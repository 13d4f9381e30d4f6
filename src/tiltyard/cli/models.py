"""``tiltyard models``: what is known about models before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.errors import BadOption

if TYPE_CHECKING:
    from tiltyard.settings.prices import PriceBook


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A model, or a part of the names of several.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="The tournament's YAML file: what it states under prices: is included."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show prices, limits, reply forms and settings of models.

    Nothing is fetched: it is a dated file, and a configuration's prices: override it.
    """
    from tiltyard.report.model_tables import model_details, models_table
    from tiltyard.report.terminal import Terminal

    book = _book(config)
    found = _found(book, name)
    if as_json:
        typer.echo(json.dumps({"as_of": book.as_of, "models": found}, indent=1))
    elif len(found) == 1:
        Terminal().print(model_details(found[0]))
        for source in dict.fromkeys((*found[0].get("source", ()), *found[0].get("traits_source", ()))):
            address, day = book.sources[source]
            typer.echo(f"{address}{f' ({day})' if day else ''}")
    else:
        Terminal().print(models_table(found, book.as_of))


def _book(config: Path | None) -> PriceBook:
    from tiltyard.settings.prices import open_prices
    from tiltyard.settings.tournament_config import load_config

    if config is None:
        return open_prices()
    loaded = load_config(config)
    return open_prices(loaded.prices, loaded.folder)


def _found(book: PriceBook, name: str | None) -> list[dict[str, Any]]:
    """The models of this name, or whose names contain it; an exact name excludes longer ones."""
    known = book.known()
    if name is None:
        return known
    exact = [model for model in known if model["model"] == name]
    found = exact or [model for model in known if name.lower() in model["model"].lower()]
    if not found:
        raise BadOption(
            f"nothing is known about {name}: it can be used all the same; state its price with --price or under "
            "prices: in a configuration. tiltyard models lists the models that are known"
        )
    return found
