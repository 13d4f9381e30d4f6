"""Unusable judges: when replies without a verdict are so many in a row that asking on is a waste."""

from __future__ import annotations

from collections import Counter

from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.errors import JudgeUnusable

__all__ = ["UNUSABLE", "UnusableReplies"]

#: How the reason begins, by which it is recognised among the failures of other workers.
UNUSABLE = "judge unusable: "
#: So many replies in a row, second ones counted, and so many prompts on which nothing more is asked.
_UNUSABLE_REPLY_COUNT, _UNUSABLE_PROMPT_COUNT = 10, 3
_WITHOUT_VERDICT = (QuestionState.TRUNCATED, QuestionState.UNPARSEABLE, QuestionState.REFUSED)


class UnusableReplies:
    """Counts the consecutive replies of one judge that held no verdict.

    A prompt counts once a question on it has ended: many calls are under way together, and all
    of their first replies may be cut off although the second ones, with a larger limit, are not.
    """

    def __init__(self, judge: str, form: VerdictForm, max_tokens: int) -> None:
        self._judge = judge
        self._advice = {
            QuestionState.TRUNCATED: f"raise max_tokens ({max_tokens:,} now), or choose a judge that thinks less",
            QuestionState.UNPARSEABLE: f"use another reply form ({form} now), or choose another judge",
            QuestionState.REFUSED: "check the prompts, or choose another judge",
        }
        self._states: Counter[QuestionState] = Counter()
        self._prompts: set[str] = set()

    @property
    def has_long_streak(self) -> bool:
        """Whether it has been long since a verdict came."""
        return self._states.total() >= _UNUSABLE_REPLY_COUNT

    def add(self, prompt_id: str, state: str, *, ended: bool) -> JudgeUnusable | None:
        """Take in how a reply reads; why the judge is not to be asked any more, once that is so.

        ``ended``: nothing is left to ask of the question that it replies to.
        """
        if state not in _WITHOUT_VERDICT:
            self._states.clear()
            self._prompts.clear()
            return None
        self._states[QuestionState(state)] += 1
        if ended:
            self._prompts.add(prompt_id)
        if not self.has_long_streak or len(self._prompts) < _UNUSABLE_PROMPT_COUNT:
            return None
        return JudgeUnusable(self._reason())

    def _reason(self) -> str:
        common = self._states.most_common(1)[0][0]
        states = ", ".join(f"{state} {count}" for state, count in self._states.most_common())
        return (
            f"{UNUSABLE}the last {self._states.total()} replies of {self._judge}, on {len(self._prompts)} or more "
            f"prompts, held no verdict ({states}); {self._advice[common]}, then run the command again"
        )
