"""Diagnostics: what a judge's verdicts say of the judge.

Verdicts are shown to a `VerdictObserver` in any order; it keeps a few whole numbers of each. Out of it
come `JudgeDiagnostics`: shares with prompt-clustered intervals, and `list_judge_findings` drawn from them.
`measure_agreement` compares a judge with people.
"""

from tiltyard.core.judging.diagnostics.judge_diagnostics import (
    JudgeDiagnostics,
    ResponseTraits,
    VerdictObserver,
    list_judge_findings,
)
from tiltyard.core.judging.diagnostics.rater_agreement import HumanAgreement, match_outcome, measure_agreement
from tiltyard.core.ratings.proportions import ShareEstimate

__all__ = [
    "HumanAgreement",
    "JudgeDiagnostics",
    "ResponseTraits",
    "ShareEstimate",
    "VerdictObserver",
    "list_judge_findings",
    "match_outcome",
    "measure_agreement",
]
