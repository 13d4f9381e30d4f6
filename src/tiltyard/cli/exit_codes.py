"""Exit codes of commands that ask models, beside those of every command."""

from __future__ import annotations

__all__ = ["INCOMPLETE_EXIT_CODE", "JUDGE_UNUSABLE_EXIT_CODE"]

#: Done and written, but something is missing: run the command again, or do what it says.
INCOMPLETE_EXIT_CODE = 3
#: Stopped, because a judge gives no verdicts.
JUDGE_UNUSABLE_EXIT_CODE = 4
