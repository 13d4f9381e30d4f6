"""Tiltyard: rank AI models by pairwise comparison, with rankings that can be defended.

>>> import tiltyard
>>> board = tiltyard.rate("battles.jsonl")            # doctest: +SKIP
>>> board.rows[0].model                               # doctest: +SKIP
'argent-70b'

Names are imported when they are first used, so ``import tiltyard`` costs nothing.
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
    from tiltyard.core.policy.matchmaking.matchmaker import Choice, choose
    from tiltyard.core.policy.state.policy import Policy
    from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
    from tiltyard.core.policy.state.standing import Standing
    from tiltyard.core.policy.validity.evaluation import evaluate
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
    from tiltyard.report.ab_report import ABReport
    from tiltyard.runs.rated_board import RatedBoard, rate
    from tiltyard.runs.run_verification import verify
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
    "BradleyTerry",
    "Choice",
    "Client",
    "Elo",
    "Finding",
    "Glicko2",
    "Glicko2State",
    "Label",
    "OnlineBradleyTerry",
    "OnlineState",
    "Outcome",
    "Policy",
    "RatedBoard",
    "Rater",
    "RaterSettings",
    "Ratings",
    "Row",
    "Standing",
    "Table",
    "TiltyardError",
    "TournamentResult",
    "Verification",
    "__version__",
    "ab",
    "ab_async",
    "check_fit",
    "choose",
    "compare_models",
    "evaluate",
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

_HOMES = {
    "ABReport": "tiltyard.report.ab_report",
    "Answer": "tiltyard.files.answer",
    "AsyncClient": "tiltyard.client",
    "Battle": "tiltyard.core.battles",
    "Board": "tiltyard.core.board",
    "BradleyTerry": "tiltyard.core.ratings",
    "Choice": "tiltyard.core.policy.matchmaking.matchmaker",
    "Client": "tiltyard.client",
    "Elo": "tiltyard.core.ratings",
    "Finding": "tiltyard.core.ratings",
    "Glicko2": "tiltyard.core.ratings",
    "Glicko2State": "tiltyard.core.ratings",
    "Label": "tiltyard.core.battles",
    "OnlineBradleyTerry": "tiltyard.core.ratings",
    "OnlineState": "tiltyard.core.ratings",
    "Outcome": "tiltyard.core.battles",
    "Policy": "tiltyard.core.policy.state.policy",
    "RatedBoard": "tiltyard.runs.rated_board",
    "Rater": "tiltyard.core.policy.state.rating_fold",
    "RaterSettings": "tiltyard.core.policy.state.rating_fold",
    "Ratings": "tiltyard.core.ratings",
    "Row": "tiltyard.core.board",
    "Standing": "tiltyard.core.policy.state.standing",
    "Table": "tiltyard.core.battles",
    "TiltyardError": "tiltyard.errors",
    "TournamentResult": "tiltyard.tournaments.python_tournament",
    "Verification": "tiltyard.runs.verification_checks",
    "ab": "tiltyard.tournaments.ab_comparison",
    "ab_async": "tiltyard.tournaments.ab_comparison",
    "check_fit": "tiltyard.core.ratings.fit_check",
    "choose": "tiltyard.core.policy.matchmaking.matchmaker",
    "compare_models": "tiltyard.core.ratings.comparison",
    "evaluate": "tiltyard.core.policy.validity.evaluation",
    "make_board": "tiltyard.core.board",
    "open_answers": "tiltyard.files.answers",
    "open_battles": "tiltyard.files",
    "predict_ahead": "tiltyard.core.ratings.fit_check",
    "rank_models": "tiltyard.core.ratings.ranks",
    "rate": "tiltyard.runs.rated_board",
    "read_answers": "tiltyard.files.answers",
    "read_battles": "tiltyard.files",
    "simulate": "tiltyard.simulation.arena_forecast",
    "tournament": "tiltyard.tournaments.python_tournament",
    "tournament_async": "tiltyard.tournaments.python_tournament",
    "validity_report": "tiltyard.core.policy.validity.report",
    "verify": "tiltyard.runs.run_verification",
    "votes_to_flip": "tiltyard.core.ratings.ranks",
    "write_answers": "tiltyard.files.answers",
    "write_battles": "tiltyard.files",
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
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tiltyard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
