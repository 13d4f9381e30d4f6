"""The options of `rate`: the same words and meanings on the command line and in Python."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, TypedDict, cast

from tiltyard.core.board.win_rates import BaselineChoice
from tiltyard.core.ratings import BradleyTerry, RatingMethod
from tiltyard.errors import BadOption
from tiltyard.files.conditions import parse_condition
from tiltyard.foundation.option_names import option_name, require_flag
from tiltyard.runs.battle_rating import METHODS, RateSettings, method_of

_BRADLEY_TERRY, _ELO = "bradley-terry", "elo"
_INTERVALS = ("prompts", "battles", "none")
#: Options that only some methods use.
_TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    "preset": (_BRADLEY_TERRY,),
    "style": (_BRADLEY_TERRY,),
    "both_bad": (_BRADLEY_TERRY,),
    "intervals": (_BRADLEY_TERRY, _ELO),
    "bootstrap": (_BRADLEY_TERRY,),
    "n_bootstraps": (_BRADLEY_TERRY, _ELO),
    "level": (_BRADLEY_TERRY, _ELO),
    "seed": (_BRADLEY_TERRY, _ELO),
    "soft": (_BRADLEY_TERRY, _ELO),
    "prior_sd": (_BRADLEY_TERRY,),
    "max_share": (_BRADLEY_TERRY,),
    "anchor": (_BRADLEY_TERRY,),
    "scale": (_BRADLEY_TERRY, _ELO),
    "k": (_ELO,),
    "n_perms": (_ELO,),
}
#: Options that are fields of a method, where the field has the same name and where it has another.
_FIELDS = ("ties", "both_bad", "soft", "level", "seed", "n_bootstraps", "prior_sd", "max_share", "k")
_MAX_ANCHOR_POINTS = 1e6
#: The least and the largest value of each number, as the command line has them, and which are whole numbers.
RANGES: Mapping[str, tuple[float, float]] = {
    "n_bootstraps": (2, math.inf),
    "level": (0.01, 0.9999),
    "seed": (0, math.inf),
    "prior_sd": (1, 1e6),
    "max_share": (0.001, 1),
    "scale": (1, 1e6),
    "k": (0.001, 1000),
    "n_perms": (0, math.inf),
}
_WHOLE = ("n_bootstraps", "seed", "n_perms")
#: Numbers for which ``None`` means that there is no prior or no limit.
_MAY_BE_NONE = ("prior_sd", "max_share")
_FLAGS = ("overlapping", "bootstrap", "soft")
#: For each preset: its parameters of Bradley–Terry, and those that it adds where style is controlled for.
PRESETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lmarena": (
        {"both_bad": "tie", "max_share": None, "base": 1000.0},
        {"even_pairs": 50, "style_penalty": 1.0, "style_centred": True},
    ),
}


class RateOptions(TypedDict, total=False):
    """Options of `rate`; those left out have the defaults of the command line."""

    #: ``bradley-terry``, ``elo`` or ``glicko-2``; or a method with its own parameters.
    method: str | RatingMethod
    #: Count as a published board does: ``lmarena``. Options given beside it win.
    preset: str | None
    #: A column, such as ``category`` or ``language``, or several: also rate each group of battles separately.
    by: str | Sequence[str] | None
    #: Let a battle count in every group that its value joins by ``+``.
    overlapping: bool
    #: Style to control for: ``length``, ``markdown``, ``position`` or numeric columns.
    style: str | Sequence[str] | None
    #: Rate only battles that meet a condition: ``language = "en" and turn > 2``.
    where: str | None
    #: ``half``, ``davidson`` or ``drop``.
    ties: str
    #: The outcome both_bad: ``drop`` or ``tie``.
    both_bad: str
    #: The uncertainty to cover: ``prompts`` (new prompts like these), ``battles`` (new battles on these) or ``none``.
    intervals: str
    bootstrap: bool
    n_bootstraps: int
    level: float
    seed: int
    soft: bool
    prior_sd: float | None
    max_share: float
    #: A model, or ``MODEL=RATING``.
    anchor: str | None
    #: A model: also give win rates against it. Files of arena-hard and alpaca_eval name it themselves.
    baseline: str | None
    scale: float
    k: float
    n_perms: int


def rate_settings(options: RateOptions) -> RateSettings:
    """The settings that these options mean."""
    _refuse_unknown(options)
    _refuse_values(options)
    method, styles = options.get("method", _BRADLEY_TERRY), _style_names(options.get("style"))
    by, preset = _groupings(options.get("by")), options.get("preset")
    where = options.get("where")
    if where is not None:
        parse_condition(where)
    overlapping = options.get("overlapping", preset is not None)
    if overlapping and by is None and "overlapping" in options:
        raise BadOption(f"{option_name('overlapping')} has no effect without {option_name('by')}")
    model = options.get("baseline")
    settings = RateSettings(
        by=by,
        overlapping=overlapping,
        style=styles,
        where=where,
        baseline=(None if model is None else BaselineChoice(model)),
    )
    if not isinstance(method, str):
        return replace(settings, method=_own_method(method, options, bool(styles)))
    if method not in METHODS:
        raise BadOption(f"method is {method!r}; expected one of {', '.join(METHODS)}, or a method")
    for name, methods in _TAKEN_BY.items():
        if name in options and method not in methods:
            takers = " or ".join(methods)
            raise BadOption(f"{option_name(name)} has no effect with {method}; use it with {takers}")
    parameters: dict[str, object] = {}
    if preset is not None:
        parameters |= preset_parameters(preset, style=bool(styles))
    parameters |= {name: options[name] for name in _FIELDS if name in options}  # type: ignore[literal-required]
    if method != "glicko-2":
        parameters |= _interval_fields(method, options)
    if method == _BRADLEY_TERRY:
        parameters |= {"style": bool(styles), **_anchor_fields(options.get("anchor"), option_name("anchor"))}
    return replace(settings, method=method_of(str(method), parameters))


def _interval_fields(method: str, options: RateOptions) -> dict[str, object]:
    """What is spelled differently as a parameter."""
    wanted = options.get("intervals", "prompts")
    if wanted not in _INTERVALS:
        raise BadOption(f"intervals is {wanted!r}; expected one of {', '.join(_INTERVALS)}")
    parameters: dict[str, object] = {"clusters": "battle" if wanted == "battles" else "auto"}
    resampled = method == _ELO or options.get("bootstrap", False)
    parameters["interval"] = "none" if wanted == "none" else "bootstrap" if resampled else "sandwich"
    if "scale" in options:
        parameters["spread" if method == _ELO else "scale"] = options["scale"]
    if "n_perms" in options:
        parameters["n_permutations"] = options["n_perms"]
    return parameters


def _refuse_unknown(options: RateOptions) -> None:
    known = RateOptions.__annotations__
    for name in options:
        if name not in known:
            raise BadOption(
                f"rate has no option {name!r}; it has {', '.join(known)}, columns, outcomes, skip_invalid and format"
            )


def _refuse_values(options: RateOptions) -> None:
    """Refuse numbers out of their ranges, and what is no number or neither true nor false."""
    for name, value in options.items():
        if name in RANGES and not (value is None and name in _MAY_BE_NONE):
            low, high = RANGES[name]
            kind, noun = (Integral, "whole number") if name in _WHOLE else (Real, "number")
            if isinstance(value, bool) or not isinstance(value, kind) or not low <= float(value) <= high:
                range_text = f"{low:g} or more" if high == math.inf else f"from {low:g} to {high:g}"
                raise BadOption(f"{name} is {value!r}; expected a {noun}, {range_text}")
        if name in _FLAGS:
            require_flag(name, value)


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
