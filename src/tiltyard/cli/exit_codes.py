"""Exit codes of commands that ask models, beside those of every command."""

from __future__ import annotations

__all__ = ["INCOMPLETE", "JUDGE_UNUSABLE"]

#: Done and written, but something is missing: run the command again, or do what it says.
INCOMPLETE = 3
#: Stopped, because a judge gives no verdicts.
JUDGE_UNUSABLE = 4
