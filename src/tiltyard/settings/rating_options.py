"""The options of `rate`, each defined once: the command line, Python, their checks and reference pages follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_args, get_type_hints

if TYPE_CHECKING:
    from tiltyard.core.ratings import RatingMethod

BRADLEY_TERRY, ELO, GLICKO_2 = "bradley-terry", "elo", "glicko-2"
#: A preset, and the tool for which files can be written: spelled, counted and centred as it does.
JUDGE_ARENA = "judgearena"
WriteAs = Literal["tiltyard", "judgearena"]


@dataclass(frozen=True, slots=True)
class RatingOption:
    """What an option says of itself besides its type."""

    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    bounds: tuple[float, float] = (-math.inf, math.inf)
    #: What stands for its value in the help of the command line.
    metavar: str | None = None
    #: Whether the command line takes it several times.
    repeated: bool = False
    #: The methods that use it; without any, all do.
    methods: tuple[str, ...] = ()
    #: Whether it is a parameter of the methods, of the same name.
    is_parameter: bool = False


class RateOptions(TypedDict, total=False):
    """Options of `rate`; those left out have the defaults of the command line."""

    #: ``bradley-terry``, ``elo`` or ``glicko-2``; or a method with its own parameters.
    method: Annotated[
        str | RatingMethod,
        RatingOption("Rating method.", BRADLEY_TERRY, choices=(BRADLEY_TERRY, ELO, GLICKO_2)),
    ]
    #: Count as a published board does: ``lmarena`` or ``judgearena``. Options given beside it win.
    preset: Annotated[
        str | None,
        RatingOption(
            "Count as a published board does: lmarena or judgearena. Other options win.",
            methods=(BRADLEY_TERRY,),
        ),
    ]
    #: A column, such as ``category`` or ``language``, or several: also rate each group of battles separately.
    by: Annotated[
        str | Sequence[str] | None,
        RatingOption(
            "Rate each group of a column separately; may be repeated.", metavar="COLUMN", repeated=True
        ),
    ]
    #: Let a battle count in every group that its value joins by ``+``; LMArena's categories do by default.
    overlapping: Annotated[
        bool, RatingOption("With --by: a battle of 'a+b' counts in a and in b; LMArena's do by default.")
    ]
    #: Style to control for: ``length``, ``markdown``, ``position`` or numeric columns.
    style: Annotated[
        str | Sequence[str] | None,
        RatingOption(
            "Control for style: length, markdown, position, or a column.",
            metavar="NAME,…",
            methods=(BRADLEY_TERRY,),
        ),
    ]
    #: Rate only battles that meet a condition: ``language = "en" and turn > 2``.
    where: Annotated[
        str | None,
        RatingOption(
            "Use only battles that meet a condition: 'turn = 1'; may be repeated.",
            metavar="CONDITION",
            repeated=True,
        ),
    ]
    ties: Annotated[
        str,
        RatingOption(
            "Count ties as half a win, model them (Davidson), or drop them.",
            "half",
            choices=("half", "davidson", "drop"),
            is_parameter=True,
        ),
    ]
    both_bad: Annotated[
        str,
        RatingOption(
            "Drop battles whose outcome is both_bad, or count them as ties.",
            "drop",
            choices=("drop", "tie"),
            methods=(BRADLEY_TERRY,),
            is_parameter=True,
        ),
    ]
    intervals: Annotated[
        str,
        RatingOption(
            "Uncertainty to cover: new prompts like these, or new battles on these.",
            "prompts",
            choices=("prompts", "battles", "none"),
            methods=(BRADLEY_TERRY, ELO),
        ),
    ]
    #: A column, such as ``category`` or ``repository``: prompts of one value count as one; or ``prompt``.
    cluster: Annotated[
        str | None,
        RatingOption(
            "Column by which prompts depend on each other, such as category or day; prompt: they do not.",
            metavar="COLUMN",
            methods=(BRADLEY_TERRY,),
        ),
    ]
    bootstrap: Annotated[
        bool,
        RatingOption("Compute intervals by bootstrap instead of sandwich.", False, methods=(BRADLEY_TERRY,)),
    ]
    n_bootstraps: Annotated[
        int,
        RatingOption(
            "Number of bootstrap refits, with --bootstrap or --out.",
            100,
            bounds=(2, math.inf),
            methods=(BRADLEY_TERRY, ELO),
            is_parameter=True,
        ),
    ]
    level: Annotated[
        float,
        RatingOption(
            "Confidence level of intervals and rank ranges.",
            0.95,
            bounds=(0.01, 0.9999),
            methods=(BRADLEY_TERRY, ELO),
            is_parameter=True,
        ),
    ]
    seed: Annotated[
        int,
        RatingOption(
            "Random seed.", 0, bounds=(0, math.inf), methods=(BRADLEY_TERRY, ELO), is_parameter=True
        ),
    ]
    soft: Annotated[
        bool,
        RatingOption(
            "Use stated preferences (pref) instead of outcomes.",
            False,
            methods=(BRADLEY_TERRY, ELO),
            is_parameter=True,
        ),
    ]
    #: ``None``: no prior.
    prior_sd: Annotated[
        float | None,
        RatingOption(
            "Weak prior: standard deviation of ratings, in points.",
            bounds=(1, 1e6),
            methods=(BRADLEY_TERRY,),
            is_parameter=True,
        ),
    ]
    #: ``None``: no limit.
    max_share: Annotated[
        float | None,
        RatingOption(
            "Most that one prompt or voter may weigh; 1: no limit.",
            0.1,
            bounds=(0.001, 1),
            methods=(BRADLEY_TERRY,),
            is_parameter=True,
        ),
    ]
    anchor: Annotated[
        str | None,
        RatingOption(
            "Shift all ratings so that this model has this rating.",
            metavar="MODEL[=RATING]",
            methods=(BRADLEY_TERRY,),
        ),
    ]
    #: Files of arena-hard and alpaca_eval name it themselves.
    baseline: Annotated[str | None, RatingOption("Also give win rates against this model.", metavar="MODEL")]
    scale: Annotated[
        float,
        RatingOption(
            "Rating points that mean odds of ten to one.",
            400.0,
            bounds=(1, 1e6),
            methods=(BRADLEY_TERRY, ELO),
        ),
    ]
    k: Annotated[
        float,
        RatingOption("Elo's K factor.", 16.0, bounds=(0.001, 1000), methods=(ELO,), is_parameter=True),
    ]
    n_perms: Annotated[
        int,
        RatingOption(
            "Elo's permutations; 0 processes the log once, in order.",
            100,
            bounds=(0, math.inf),
            methods=(ELO,),
        ),
    ]


@dataclass(frozen=True, slots=True)
class TypedRatingOption:
    """An option of `rate` with what its type says."""

    said: RatingOption
    #: ``bool``, ``int``, ``float`` or ``str``.
    kind: type
    optional: bool


def _read_options() -> Mapping[str, TypedRatingOption]:
    hints = get_type_hints(RateOptions, localns={"RatingMethod": object}, include_extras=True)
    found: dict[str, TypedRatingOption] = {}
    for name, hint in hints.items():
        stated, said = get_args(hint)
        kinds = get_args(stated) or (stated,)
        kind = next((kind for kind in (bool, int, float) if kind in kinds), str)
        found[name] = TypedRatingOption(said, kind, NoneType in kinds)
    return MappingProxyType(found)


#: By name, in the order of the help.
RATING_OPTIONS = _read_options()
