"""Exit codes beyond 0, 1 and 2."""

from __future__ import annotations

#: `ab`: the second is worse than the first.
WORSE_EXIT_CODE = 1
#: Results were written but are incomplete: run the command again, or follow its message.
INCOMPLETE_EXIT_CODE = 3
#: Stopped because a judge gives no usable verdicts.
JUDGE_UNUSABLE_EXIT_CODE = 4
#: `ab`: neither better, nor the same, nor worse can be said yet.
UNDECIDED_EXIT_CODE = 5
