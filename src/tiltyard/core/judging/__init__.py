"""Judging: what a judge is asked, how its reply is read, and what two orders make together.

This room is pure. It has no clock, no environment, no logging, no files, no network and no
random state of its own. It knows rubrics, matches, questions, verdicts and results; how a
question travels to a provider, what it costs and where replies are kept is known elsewhere.
"""

from tiltyard.core.judging.battles import DimensionTally, Settled, Tally, battles_of, panel_name
from tiltyard.core.judging.judged import Judged, match_id_of, reread
from tiltyard.core.judging.matches import Match, MatchList, Prompt, all_pairs, pilot_subset
from tiltyard.core.judging.question import (
    TOOL_NAME,
    VERDICT_SCHEMA,
    Ask,
    Purpose,
    Question,
    Shown,
    ask_of,
    nonce_of,
)
from tiltyard.core.judging.reconcile import Result, panel_result, reconcile, reconcile_outcomes
from tiltyard.core.judging.rubric import Rubric, parse_rubric
from tiltyard.core.judging.verdict import PARSER, Form, Reading, Reply, State, Step, Verdict, read_reply

__all__ = [
    "PARSER",
    "TOOL_NAME",
    "VERDICT_SCHEMA",
    "Ask",
    "DimensionTally",
    "Form",
    "Judged",
    "Match",
    "MatchList",
    "Prompt",
    "Purpose",
    "Question",
    "Reading",
    "Reply",
    "Result",
    "Rubric",
    "Settled",
    "Shown",
    "State",
    "Step",
    "Tally",
    "Verdict",
    "all_pairs",
    "ask_of",
    "battles_of",
    "match_id_of",
    "nonce_of",
    "panel_name",
    "panel_result",
    "parse_rubric",
    "pilot_subset",
    "read_reply",
    "reconcile",
    "reconcile_outcomes",
    "reread",
]
