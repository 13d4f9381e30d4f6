"""Detects judges that give no verdicts, so that the run stops before more is spent."""

from __future__ import annotations

from collections import Counter

from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.errors import JudgeUnusable

__all__ = ["FIRST_UNUSABLE_REPLY_COUNT", "UNUSABLE", "UnusableReplies"]

#: Prefix of the reason, by which it is recognised among the failures of other workers.
UNUSABLE = "judge unusable: "
#: Consecutive replies without a verdict, retries included, and finished prompts among them.
_UNUSABLE_REPLY_COUNT, _UNUSABLE_PROMPT_COUNT = 10, 3
#: The replies that are enough where a judge has given no verdict yet, and is asked one question after the other.
FIRST_UNUSABLE_REPLY_COUNT = 6
_WITHOUT_VERDICT = (QuestionState.TRUNCATED, QuestionState.UNPARSEABLE, QuestionState.REFUSED)


class UnusableReplies:
    """Counts consecutive replies of one judge without a verdict.

    A prompt counts once a question on it has ended: many calls are in flight together, and all of
    their first replies may be truncated although the retries, with a larger limit, are not.
    """

    def __init__(
        self, judge: str, form: VerdictForm, max_tokens: int, replies: int = _UNUSABLE_REPLY_COUNT
    ) -> None:
        self._judge = judge
        self._replies = replies
        self._advice = {
            QuestionState.TRUNCATED: f"raise max_tokens ({max_tokens:,} now), or choose a judge that thinks less",
            QuestionState.UNPARSEABLE: f"use another reply form ({form} now), or choose another judge",
            QuestionState.REFUSED: "check the prompts, or choose another judge",
        }
        self._states: Counter[QuestionState] = Counter()
        self._prompts: set[str] = set()

    @property
    def has_long_streak(self) -> bool:
        """Whether the last verdict was many replies ago."""
        return self._states.total() >= self._replies

    def add(self, prompt_id: str, state: str, *, ended: bool) -> JudgeUnusable | None:
        """Record the state of a reply; return the reason once the judge is unusable.

        ``ended``: the question needs no further request.
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
            f"prompts, contained no verdict ({states}); {self._advice[common]}, then run the command again"
        )
