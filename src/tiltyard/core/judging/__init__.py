"""Judging: the questions for a judge, the parsing of its replies, and the result of two orders.

This package is pure: no clock, no environment, no logging, no files, no network and no
random state of its own. It contains rubrics, matches, questions, verdicts and results; calls to
providers, their costs and the cache of replies are handled elsewhere.
"""

from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of, reparse
from tiltyard.core.judging.matches import (
    Match,
    MatchList,
    Prompt,
    all_pairs,
    pilot_subset,
    sample_pairs,
    spread_order,
)
from tiltyard.core.judging.question import (
    TOOL_NAME,
    VERDICT_SCHEMA,
    ChatPrompt,
    Question,
    QuestionPurpose,
    QuestionTexts,
    Rubric,
    build_chat_prompt,
    parse_rubric,
    question_nonce,
)
from tiltyard.core.judging.reconciliation import (
    DimensionTally,
    JudgedMatch,
    MatchResult,
    MatchTally,
    build_match_battles,
    panel_name,
    panel_result,
    reconcile,
)
from tiltyard.core.judging.verdict import (
    PARSER_VERSION,
    ParsedReply,
    QuestionState,
    Reply,
    Verdict,
    VerdictForm,
    VerdictStep,
    read_reply,
)

__all__ = [
    "PARSER_VERSION",
    "TOOL_NAME",
    "VERDICT_SCHEMA",
    "ChatPrompt",
    "DimensionTally",
    "JudgedMatch",
    "JudgedQuestion",
    "Match",
    "MatchList",
    "MatchResult",
    "MatchTally",
    "ParsedReply",
    "Prompt",
    "Question",
    "QuestionPurpose",
    "QuestionState",
    "QuestionTexts",
    "Reply",
    "Rubric",
    "Verdict",
    "VerdictForm",
    "VerdictStep",
    "all_pairs",
    "build_chat_prompt",
    "build_match_battles",
    "match_id_of",
    "panel_name",
    "panel_result",
    "parse_rubric",
    "pilot_subset",
    "question_nonce",
    "read_reply",
    "reconcile",
    "reparse",
    "sample_pairs",
    "spread_order",
]
