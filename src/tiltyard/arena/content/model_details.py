"""What operators say about models: maker, family, licence, link, price, open weights.

It is shown beside ratings and is in none of them. The texts are hostile, as names are.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.errors import InputError, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

_MAX_LINK_CHARACTERS = 500
#: Dollars for a million tokens; more is a mistake in the unit.
_MAX_PRICE_USD = 1_000_000.0
_FLAGS = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What is said about one model; ``None`` is unknown, and never zero."""

    maker: str | None = None
    family: str | None = None
    licence: str | None = None
    #: An address with http or https.
    link: str | None = None
    open_weights: bool | None = None
    #: US dollars for a million tokens of the prompt, and of the response.
    input_usd: float | None = None
    output_usd: float | None = None

    @property
    def priced(self) -> bool:
        """Whether both prices are known."""
        return self.input_usd is not None and self.output_usd is not None

    def changed(self, texts: Mapping[str, str]) -> ModelDetails:
        """The details with some fields given as text, empty for unknown; `InputError` names the field that is wrong."""
        parsed: dict[str, Any] = {name: _parse(name, text.strip()) for name, text in texts.items()}
        return replace(self, **parsed)

    def texts(self) -> dict[str, str]:
        """The fields as text, as `changed` reads them."""
        return {one.name: _text(getattr(self, one.name)) for one in fields(self)}


DETAIL_FIELDS = tuple(one.name for one in fields(ModelDetails))


@dataclass(frozen=True, slots=True, eq=False)
class ArenaModelDetails:
    """What is said about the models of an arena, by name."""

    by_model: Mapping[str, ModelDetails]
    #: Differs when anything else is said.
    version: str

    def of(self, model: str) -> ModelDetails:
        return self.by_model.get(model, ModelDetails())


async def read_model_details(pool: ConnectionPool, arena: int) -> ArenaModelDetails:
    """What is said about the models of an arena."""
    rows = await fetch_rows(pool, "model_details_all", {"arena": arena})
    return ArenaModelDetails(
        {str(name): ModelDetails(*said) for name, *said in rows}, sha256(repr(rows).encode()).hexdigest()
    )


async def write_model_details(
    connection: Connection, arena: int, model: str, texts: Mapping[str, str]
) -> dict[str, list[object]]:
    """Change what is said about a model; return the fields that changed, each with its value before and after.

    Call it in a transaction. `NotFound` if there is no such model.
    """
    row = None
    if model.isprintable():
        row = await fetch_row(connection, "model_details_lock", {"arena": arena, "name": model})
    if row is None:
        raise NotFound(f"this arena has no model {model[:200]!r}; see the list of its models")
    values: dict[str, Any] = {"arena": arena, "model": row[0]}
    said = await fetch_row(connection, "model_details_one", values)
    before = ModelDetails() if said is None else ModelDetails(*said)
    after = before.changed(texts)
    if after == before:
        return {}
    pairs = zip(DETAIL_FIELDS, astuple(before), astuple(after), strict=True)
    await connection.execute(
        statement("model_details_set"), values | dict(zip(DETAIL_FIELDS, astuple(after), strict=True))
    )
    return {name: [old, new] for name, old, new in pairs if old != new}


def parse_details_file(data: bytes) -> dict[str, dict[str, str]]:
    """The texts of a CSV file by model: a column ``model``, and any of the fields. `InputError` names the wrong line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"the file is not UTF-8 at byte {error.start}; save it as CSV in UTF-8") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    found: dict[str, dict[str, str]] = {}
    try:
        given = reader.fieldnames or ()
        known = ("model", *DETAIL_FIELDS)
        unknown = [name for name in given if name not in known]
        if "model" not in given or unknown or len(set(given)) < len(given):
            wrong = "the first line must name each column once, with model"
            if unknown:
                wrong = f"the column {unknown[0][:100]!r} is unknown"
            raise InputError(f"{wrong}; expected columns among {', '.join(known)}")
        for row in reader:
            where = f"line {reader.line_num}"
            if None in row or None in row.values():
                raise InputError(f"{where}: it has another number of cells than the first line")
            model = row.pop("model").strip()
            if not model or model in found:
                raise InputError(f"{where}: the model is {'missing' if not model else 'named twice'}")
            try:
                ModelDetails().changed(row)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            found[model] = row
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: this is not CSV: {error}") from None
    if not found:
        raise InputError("the file names no models; expected a line of columns and a line for each model")
    return found


def _parse(name: str, text: str) -> object:
    if name not in DETAIL_FIELDS:
        raise InputError(
            f"{name[:100]!r} is no detail of a model; expected one of {', '.join(DETAIL_FIELDS)}"
        )
    if not text:
        return None
    if name == "link":
        return _link(text)
    if name == "open_weights":
        flag = _FLAGS.get(text.lower())
        if flag is None:
            raise InputError(f"open_weights is {text[:100]!r}; expected yes, no or nothing")
        return flag
    if not name.endswith("_usd"):
        return validate_name(name, text)
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0.0 <= price <= _MAX_PRICE_USD:
        raise InputError(f"{name} is {text[:100]!r}; expected dollars for a million tokens, or nothing")
    return price


def _link(text: str) -> str:
    """An address that may be linked to: http or https with a host, printable, and without a name or password."""
    try:
        parts = urlsplit(text)
        host, plain = parts.hostname, parts.username is None and parts.password is None
    except ValueError:
        parts, host, plain = urlsplit(""), None, False
    printable = (
        text.isascii() and text.isprintable() and " " not in text and len(text) <= _MAX_LINK_CHARACTERS
    )
    if parts.scheme not in ("http", "https") or not host or not plain or not printable or "\\" in text:
        raise InputError(f"link is {text[:100]!r}; expected an address such as https://example.org/model")
    # The scheme is written in small letters, as the database and the pages expect it.
    return f"{parts.scheme}{text[len(parts.scheme) :]}"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
