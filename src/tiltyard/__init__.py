"""Tiltyard: rank AI models by pairwise comparison, with rankings that can be defended.

>>> import tiltyard
>>> board = tiltyard.rate("battles.jsonl")            # doctest: +SKIP
>>> board.rows[0].model                               # doctest: +SKIP
'argent-70b'

Names are imported when they are first used, so ``import tiltyard`` costs nothing. `tiltyard.policy` has the parts of
an arena's ranking policy, `tiltyard.errors` the errors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tiltyard._version import __version__

if TYPE_CHECKING:
    from tiltyard.client import AsyncClient, Client
    from tiltyard.core.battles import Battle, Label, Outcome, Table
    from tiltyard.core.board import Board, Row, make_board
    from tiltyard.core.policy.validity.report import validity_report
    from tiltyard.core.ratings import (
        BradleyTerry,
        Elo,
        Finding,
        Glicko2,
        Glicko2State,
        OnlineBradleyTerry,
        OnlineState,
        Ratings,
    )
    from tiltyard.core.ratings.comparison import compare_models
    from tiltyard.core.ratings.fit_check import check_fit, predict_ahead
    from tiltyard.core.ratings.ranks import rank_models, votes_to_flip
    from tiltyard.errors import TiltyardError
    from tiltyard.files import open_battles, read_battles, write_battles
    from tiltyard.files.answer import Answer
    from tiltyard.files.answers import open_answers, read_answers, write_answers
    from tiltyard.files.score_battles import battles_from_scores
    from tiltyard.report.ab_report import ABReport
    from tiltyard.runs.log_check import CheckedLog, check
    from tiltyard.runs.rated_board import BoardTable, RatedBoard, rate
    from tiltyard.runs.site_verification import verify
    from tiltyard.runs.verification_checks import Verification
    from tiltyard.simulation.arena_forecast import simulate
    from tiltyard.tournaments.ab_comparison import ab, ab_async
    from tiltyard.tournaments.python_tournament import TournamentResult, tournament, tournament_async

__all__ = [
    "ABReport",
    "Answer",
    "AsyncClient",
    "Battle",
    "Board",
    "BoardTable",
    "BradleyTerry",
    "CheckedLog",
    "Client",
    "Elo",
    "Finding",
    "Glicko2",
    "Glicko2State",
    "Label",
    "OnlineBradleyTerry",
    "OnlineState",
    "Outcome",
    "RatedBoard",
    "Ratings",
    "Row",
    "Table",
    "TiltyardError",
    "TournamentResult",
    "Verification",
    "__version__",
    "ab",
    "ab_async",
    "battles_from_scores",
    "check",
    "check_fit",
    "compare_models",
    "make_board",
    "open_answers",
    "open_battles",
    "predict_ahead",
    "rank_models",
    "rate",
    "read_answers",
    "read_battles",
    "read_table",
    "simulate",
    "tournament",
    "tournament_async",
    "validity_report",
    "verify",
    "votes_to_flip",
    "write_answers",
    "write_battles",
]

#: The names of each module.
_HOMES = {
    "tiltyard.client": ("AsyncClient", "Client"),
    "tiltyard.core.battles": ("Battle", "Label", "Outcome", "Table"),
    "tiltyard.core.board": ("Board", "Row", "make_board"),
    "tiltyard.core.policy.validity.report": ("validity_report",),
    "tiltyard.core.ratings": (
        "BradleyTerry",
        "Elo",
        "Finding",
        "Glicko2",
        "Glicko2State",
        "OnlineBradleyTerry",
        "OnlineState",
        "Ratings",
    ),
    "tiltyard.core.ratings.comparison": ("compare_models",),
    "tiltyard.core.ratings.fit_check": ("check_fit", "predict_ahead"),
    "tiltyard.core.ratings.ranks": ("rank_models", "votes_to_flip"),
    "tiltyard.errors": ("TiltyardError",),
    "tiltyard.files": ("open_battles", "read_battles", "write_battles"),
    "tiltyard.files.answer": ("Answer",),
    "tiltyard.files.answers": ("open_answers", "read_answers", "write_answers"),
    "tiltyard.files.score_battles": ("battles_from_scores",),
    "tiltyard.report.ab_report": ("ABReport",),
    "tiltyard.runs.log_check": ("CheckedLog", "check"),
    "tiltyard.runs.rated_board": ("BoardTable", "RatedBoard", "rate"),
    "tiltyard.runs.site_verification": ("verify",),
    "tiltyard.runs.verification_checks": ("Verification",),
    "tiltyard.simulation.arena_forecast": ("simulate",),
    "tiltyard.tournaments.ab_comparison": ("ab", "ab_async"),
    "tiltyard.tournaments.python_tournament": ("TournamentResult", "tournament", "tournament_async"),
}


def read_table(
    *files: str | os.PathLike[str], style: Sequence[str] = (), clusters: bool = True, log: bool = True
) -> Table:
    """All the battles of some files, of any known format, as one table ready to be rated.

    ``style`` names covariates to read for style control: ``length``, ``markdown``, or any
    numeric column. ``clusters=False`` passes over prompts and voters; with ``log=False`` too,
    counts alone are kept, in memory that does not grow with the number of battles.
    """
    from tiltyard.files import open_battles
    from tiltyard.files.battle_tables import count_table

    return count_table([open_battles(file) for file in files], clusters=clusters, style=style, log=log)


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tiltyard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
