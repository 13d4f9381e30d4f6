"""Ratings: methods that compute ratings from a table of battles.

This package is pure: no clock, no environment, no logging and no files; randomness comes
from a seed that is a parameter of the method. A method is a frozen dataclass that is called with a
table; its result contains the method, its parameters and its findings.
"""

from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.elo import Elo
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.core.ratings.kernels.glicko2 import Glicko2State
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry, OnlineState
from tiltyard.core.ratings.result import Interval, RatingMethod, Ratings

__all__ = [
    "BradleyTerry",
    "Elo",
    "Finding",
    "Glicko2",
    "Glicko2State",
    "Interval",
    "OnlineBradleyTerry",
    "OnlineState",
    "RatingMethod",
    "Ratings",
]
