"""The reasons why a record of a file is not an answer or has no score, as counted and shown."""

from __future__ import annotations

FAILED_NOTE = "failed or was cancelled"
INVALID_NOTE = "was marked as invalid"
#: Said of a whole log, with its status.
LOG_STATUS_NOTE = "the log did not end well: its status is"
NO_RESPONSE_NOTE = "has neither a response nor a score"
NOT_IN_FILE_NOTE = "is in the data set, but not in the log"
MORE_RESPONSES_NOTE = "has more responses; only the first is read"
UNSCORED_NOTE = "has a metric without a value"
UNREADABLE_SCORE_NOTE = "has a metric that is not one number"
