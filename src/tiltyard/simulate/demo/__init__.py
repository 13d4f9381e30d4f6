"""Something to try: a sample file of battles, and an invented arena with answers of every kind.

Everything is made when it is asked for, the same each time; nothing is downloaded.
"""

from tiltyard.simulate.demo.answering import demo_answers
from tiltyard.simulate.demo.battles import demo_battles
from tiltyard.simulate.demo.remarks import COMPLAINT, REMARKS
from tiltyard.simulate.demo.roster import MODELS, NEWCOMER, PUSHED, RETIRED, Level, demo_prompts
from tiltyard.simulate.demo.tastes import Taste, judges_taste, peoples_taste

__all__ = [
    "COMPLAINT",
    "MODELS",
    "NEWCOMER",
    "PUSHED",
    "REMARKS",
    "RETIRED",
    "Level",
    "Taste",
    "demo_answers",
    "demo_battles",
    "demo_prompts",
    "judges_taste",
    "peoples_taste",
]
