"""Demo data: a sample file of battles, and an invented arena with answers of every kind.

Everything is made when it is asked for, the same each time; nothing is downloaded.
"""

from tiltyard.simulate.demo.demo_comments import COMPLAINT, REMARKS
from tiltyard.simulate.demo.demo_roster import MODELS, NEWCOMER, PUSHED, RETIRED, AnswerLevel, demo_prompts
from tiltyard.simulate.demo.model_answers import demo_answers
from tiltyard.simulate.demo.sample_battles import demo_battles
from tiltyard.simulate.demo.voter_preferences import VoterPreference, human_preference, judge_preference

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
