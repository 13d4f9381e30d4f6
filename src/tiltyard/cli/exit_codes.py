"""Additional exit codes of the commands that call models."""

from __future__ import annotations

__all__ = ["INCOMPLETE_EXIT_CODE", "JUDGE_UNUSABLE_EXIT_CODE"]

#: Results were written but are incomplete: run the command again, or follow its message.
INCOMPLETE_EXIT_CODE = 3
#: Stopped because a judge gives no usable verdicts.
JUDGE_UNUSABLE_EXIT_CODE = 4
