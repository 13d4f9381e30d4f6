"""What is known about models, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.report.terminal_escape import escape_controls

#: Longer names are wrapped where the terminal is narrow.
_MIN_NAME_CHARACTERS = 20
_THINKS = {True: "yes", False: "no", None: "?"}


def models_table(models: Sequence[Mapping[str, Any]], as_of: str) -> RenderableType:
    """One line for each model: prices per million tokens, thinking, limits."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold", min_width=_MIN_NAME_CHARACTERS)
    for head in ("$ in", "cached", "out", "batch"):
        table.add_column(head, justify="right")
    table.add_column("thinks")
    for head in ("context", "output"):
        table.add_column(head, justify="right")
    table.add_column("until", no_wrap=True)
    for model in models:
        table.add_row(
            escape_controls(model["model"]),
            *(_number(model[name]) for name in ("input", "cache_read", "output", "batch")),
            _THINKS[model["thinks"]],
            *(_short(model[name]) for name in ("context", "max_output")),
            model.get("retired") or "",
        )
    note = (
        f"Compiled on {as_of} from public pages: compare with the provider's. ? is unknown. "
        "tiltyard models NAME shows one model with its sources; prices: in a configuration overrides."
    )
    return Group(table, Text(), Text(note, style="dim"))


def model_details(model: Mapping[str, Any]) -> RenderableType:
    """All that is known about one model."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _details(model):
        table.add_row(name, escape_controls(value))
    return Group(Text(escape_controls(model["model"]), style="bold"), table)


def _details(model: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "provider", model["provider"] or "any"
    if model["base_url"]:
        yield "address", ", ".join(model["base_url"])
    for name, words in (
        ("input", "input"),
        ("cache_read", "cached input"),
        ("cache_write_5m", "writing to the prompt cache, 5m"),
        ("cache_write_1h", "writing to the prompt cache, 1h"),
        ("output", "output"),
    ):
        yield words, _dollars(model[name])
    yield "batch", "?" if model["batch"] is None else f"{model['batch']:.0%} of the price"
    if model["long_above"] is not None:
        yield (
            f"prompts above {model['long_above']:,} tokens",
            f"input {_dollars(model['long_input'])}, output {_dollars(model['long_output'])}",
        )
    yield "thinks", _THINKS[model["thinks"]]
    yield "thinking on, off", ", ".join(_switch(model[name]) for name in ("thinking_on", "thinking_off"))
    for name, words in (
        ("efforts", "effort"),
        ("forms", "reply forms"),
        ("refuses", "rejects"),
        ("refuses_thinking", "rejects while thinking"),
    ):
        yield words, "?" if model[name] is None else ", ".join(model[name]) or "none"
    yield "context", _tokens(model["context"])
    yield "longest reply", _tokens(model["max_output"])
    if model.get("retired"):
        follows = f"; the provider recommends {model['successor']}" if model["successor"] else ""
        yield "retired", f"{model['retired']}{follows}"
    if model.get("as_of"):
        yield "as of", model["as_of"]


def _switch(fields: object) -> str:
    return "?" if fields is None else str(fields)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"


def _dollars(value: float | None) -> str:
    return "?" if value is None else f"${value:g} per million tokens"


def _short(value: int | None) -> str:
    if value is None:
        return "?"
    return f"{value / 1e6:.3g}M" if value >= 1_000_000 else f"{value / 1e3:.4g}k"


def _tokens(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
