"""Demo data: a sample file of battles, and an invented arena with answers of every kind.

Everything is made when it is asked for, the same each time; nothing is downloaded.
"""

from tiltyard.simulation.demo.demo_roster import MODELS, NEWCOMER, PUSHED, RETIRED, AnswerLevel, demo_prompts
from tiltyard.simulation.demo.demo_voters import (
    COMPLAINT,
    REMARKS,
    VoterPreference,
    human_preference,
    judge_preference,
)
from tiltyard.simulation.demo.model_answers import demo_answers
from tiltyard.simulation.demo.sample_battles import demo_battles

__all__ = [
    "COMPLAINT",
    "MODELS",
    "NEWCOMER",
    "PUSHED",
    "REMARKS",
    "RETIRED",
    "AnswerLevel",
    "VoterPreference",
    "demo_answers",
    "demo_battles",
    "demo_prompts",
    "human_preference",
    "judge_preference",
]
