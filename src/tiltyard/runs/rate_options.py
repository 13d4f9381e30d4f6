"""The options of `rate`: the same words and meanings on the command line and in Python."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

from tiltyard.core.board.win_rates import BaselineChoice
from tiltyard.core.ratings import BradleyTerry, RatingMethod
from tiltyard.errors import BadOption
from tiltyard.files.conditions import parse_condition
from tiltyard.foundation.option_names import option_name, require_flag
from tiltyard.runs.battle_rating import METHODS, RateSettings, method_of
from tiltyard.settings.rating_options import BRADLEY_TERRY, ELO, JUDGE_ARENA, RATING_OPTIONS, RateOptions

_MAX_ANCHOR_POINTS = 1e6
#: Names of the column of prompts.
_PROMPT_NAMES = ("prompt", "question_id", "prompt_id")
#: For each preset: its parameters of Bradley–Terry, and those that it adds where style is controlled for.
_LMARENA: dict[str, Any] = {"both_bad": "tie", "max_share": None, "base": 1000.0}
PRESETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lmarena": (_LMARENA, {"even_pairs": 50, "style_penalty": 1.0, "style_centred": True}),
    JUDGE_ARENA: (_LMARENA, {}),
}


def rate_settings(options: RateOptions) -> RateSettings:
    """The settings that these options mean."""
    _refuse_unknown(options)
    _refuse_values(options)
    method, styles = options.get("method", BRADLEY_TERRY), _style_names(options.get("style"))
    by, preset = _groupings(options.get("by")), options.get("preset")
    where = options.get("where")
    if where is not None:
        parse_condition(where)
    overlapping = options.get("overlapping", preset == "lmarena")
    if overlapping and by is None and "overlapping" in options:
        raise BadOption(f"{option_name('overlapping')} has no effect without {option_name('by')}")
    model = options.get("baseline")
    settings = RateSettings(
        by=by,
        overlapping=overlapping,
        overlapping_by_format="overlapping" not in options and preset is None,
        style=styles,
        where=where,
        baseline=(None if model is None else BaselineChoice(model)),
    )
    if not isinstance(method, str):
        return replace(settings, method=_own_method(method, options, bool(styles)))
    if method not in METHODS:
        raise BadOption(f"method is {method!r}; expected one of {', '.join(METHODS)}, or a method")
    for name in options:
        takers = RATING_OPTIONS[name].said.methods
        if takers and method not in takers:
            raise BadOption(
                f"{option_name(name)} has no effect with {method}; use it with {' or '.join(takers)}"
            )
    parameters: dict[str, object] = {}
    if preset is not None:
        parameters |= preset_parameters(preset, style=bool(styles))
    parameters |= {name: value for name, value in options.items() if RATING_OPTIONS[name].said.is_parameter}
    if method != "glicko-2":
        parameters |= _interval_fields(method, options)
    if method == BRADLEY_TERRY:
        parameters |= {"style": bool(styles), **_anchor_fields(options.get("anchor"), option_name("anchor"))}
    return replace(settings, method=method_of(str(method), parameters))


def _interval_fields(method: str, options: RateOptions) -> dict[str, object]:
    """What is spelled differently as a parameter."""
    wanted = options.get("intervals", "prompts")
    choices = RATING_OPTIONS["intervals"].said.choices
    if wanted not in choices:
        raise BadOption(f"intervals is {wanted!r}; expected one of {', '.join(choices)}")
    parameters: dict[str, object] = {"clusters": "battle" if wanted == "battles" else "auto"}
    cluster = options.get("cluster")
    if cluster is not None:
        if wanted != "prompts":
            raise BadOption(f"{option_name('cluster')} has no effect with {option_name('intervals', wanted)}")
        if not cluster or cluster in ("auto", "battle"):
            raise BadOption(f"{option_name('cluster', cluster)}: expected prompt, or the name of a column")
        parameters["clusters"] = "prompt" if cluster in _PROMPT_NAMES else cluster
    resampled = method == ELO or options.get("bootstrap", False)
    parameters["interval"] = "none" if wanted == "none" else "bootstrap" if resampled else "sandwich"
    if "scale" in options:
        parameters["spread" if method == ELO else "scale"] = options["scale"]
    if "n_perms" in options:
        parameters["n_permutations"] = options["n_perms"]
    return parameters


def _refuse_unknown(options: RateOptions) -> None:
    for name in options:
        if name not in RATING_OPTIONS:
            raise BadOption(
                f"rate has no option {name!r}; it has {', '.join(RATING_OPTIONS)}, columns, outcomes, skip_invalid, "
                "rename, drop_duplicates and format"
            )


def _refuse_values(options: RateOptions) -> None:
    """Refuse numbers out of their ranges, and what is no number or neither true nor false."""
    for name, value in options.items():
        option = RATING_OPTIONS[name]
        if option.kind is bool:
            require_flag(name, value)
        elif option.kind is not str and not (value is None and option.optional):
            low, high = option.said.bounds
            kind, noun = (Integral, "whole number") if option.kind is int else (Real, "number")
            if isinstance(value, bool) or not isinstance(value, kind) or not low <= float(value) <= high:
                range_text = f"{low:g} or more" if high == math.inf else f"from {low:g} to {high:g}"
                raise BadOption(f"{name} is {value!r}; expected a {noun}, {range_text}")


def _own_method(method: object, options: RateOptions, style: bool) -> RatingMethod:
    """A method that the caller made: its parameters are its own."""
    made = not isinstance(method, type) and dataclasses.is_dataclass(method) and hasattr(method, "name")
    if not made:
        raise BadOption(f"method is {method!r}; expected a name or a method, such as BradleyTerry(level=0.9)")
    for name in options:
        if name not in ("method", "by", "overlapping", "style", "where", "baseline"):
            raise BadOption(f"{name} has no effect with a method of your own; set it there: {method!r}")
    if style and isinstance(method, BradleyTerry):
        return replace(method, style=True)
    return cast("RatingMethod", method)


def _groupings(by: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    listed = by if isinstance(by, list | tuple) else () if by is None else (by,)
    names = tuple(dict.fromkeys(listed))
    if not all(isinstance(name, str) and name for name in names):
        raise BadOption(f"{option_name('by')} is {by!r}; expected the name of a column, or a list of names")
    return names if len(names) > 1 else names[0] if names else None


def _style_names(style: str | Sequence[str] | None) -> tuple[str, ...]:
    names = style.split(",") if isinstance(style, str) else (style or ())
    return tuple(name.strip() for name in names if name.strip())


def _anchor_fields(text: str | None, option: str) -> dict[str, object]:
    if text is None:
        return {}
    name, equals, rating = text.rpartition("=")
    if not equals:
        return {"anchor": text}
    try:
        anchor_rating = float(rating)
    except ValueError:
        return {"anchor": text}
    if not -_MAX_ANCHOR_POINTS <= anchor_rating <= _MAX_ANCHOR_POINTS:
        raise BadOption(f"{option} {text}: the rating must lie between -1e6 and 1e6")
    return {"anchor": name, "anchor_rating": anchor_rating}


def preset_parameters(name: str, *, style: bool) -> dict[str, Any]:
    """The parameters of Bradley–Terry that a preset sets."""
    if name not in PRESETS:
        raise BadOption(f"preset is {name!r}; expected {', '.join(PRESETS)}")
    plain, styled = PRESETS[name]
    return plain | styled if style else dict(plain)
