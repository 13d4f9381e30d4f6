"""Diagnostics: what a judge's verdicts say of the judge.

Verdicts are shown to an `Observer` in any order; it keeps a few whole numbers of each. Out of it
come `JudgeDiagnostics`: shares with prompt-clustered intervals, and `findings` drawn from them.
`agreement` compares a judge with people.
"""

from tiltyard.core.judging.diagnostics.agreement import Agreement, agreement, match_outcome
from tiltyard.core.judging.diagnostics.concerns import findings
from tiltyard.core.judging.diagnostics.observer import Observer, Traits
from tiltyard.core.judging.diagnostics.shares import JudgeDiagnostics
from tiltyard.core.judging.proportions import Share

__all__ = [
    "Agreement",
    "JudgeDiagnostics",
    "Observer",
    "Share",
    "Traits",
    "agreement",
    "findings",
    "match_outcome",
]
