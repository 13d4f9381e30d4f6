"""Retries with exponential backoff and rate-limited logging."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping

from tiltyard.errors import TiltyardError

#: The default maximum delay between two attempts. A database that recovers is used again within
#: this time.
MAX_WAIT_SECONDS = 10.0
#: Repeated failures are logged at most once per this interval.
LOG_INTERVAL_SECONDS = 60.0
#: Caps the exponent, so that the power of two stays bounded.
_DOUBLING_LIMIT = 16


class Backoff:
    """Exponential backoff: delays double up to ``longest`` seconds, then shrink by up to half at random.

    The jitter keeps loops that failed at the same moment from retrying at the same moment.
    """

    def __init__(
        self,
        first: float,
        longest: float = MAX_WAIT_SECONDS,
        *,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.failures = 0
        self._first = first
        self._longest = longest
        self._draw = draw

    def next(self, *, at_least: float = 0.0) -> float:
        """Seconds to wait after one more failure; ``at_least`` raises the delay before jitter is applied."""
        whole = min(self._first * 2.0 ** min(self.failures, _DOUBLING_LIMIT), self._longest)
        self.failures += 1
        return max(whole, at_least) * (1.0 - self._draw() / 2.0)

    def reset(self) -> None:
        """Reset the delay after a successful attempt."""
        self.failures = 0


class Retries:
    """Tracks the failures of one loop: how long to wait after each, and when to log them.

    The first failure is logged at once. Failures in the following minute are counted, and the count is
    part of the next line. The first success after a logged failure is logged too. ``facts`` are
    added to each line, such as the arena's name.
    """

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        backoff: Backoff,
        *,
        facts: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._what = what
        self._backoff = backoff
        self._extra = {"facts": dict(facts or {})}
        self._clock = clock
        #: When a failure was last logged, how many came since, and whether the current streak was logged.
        self._logged_at = -LOG_INTERVAL_SECONDS
        self._unlogged = 0
        self._row_logged = False

    def failed(self, error: Exception, *, at_least: float = 0.0) -> float:
        """Count and log a failure; return the seconds to wait before the next attempt."""
        seconds = self._backoff.next(at_least=at_least)
        self.report(error)
        return seconds

    def report(self, error: Exception) -> None:
        """Log a failure, or only count it if another was logged less than a minute ago."""
        now = self._clock()
        if now - self._logged_at < LOG_INTERVAL_SECONDS:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more since the last line)" if self._unlogged else ""
        self._logged_at, self._unlogged, self._row_logged = now, 0, True
        self._log.warning(
            "%s failed and will be retried%s: %s",
            self._what,
            more,
            str(error).partition("\n")[0] or type(error).__name__,
            exc_info=None if isinstance(error, TiltyardError) else error,
            extra=self._extra,
        )

    def succeeded(self) -> None:
        """Reset the backoff, and log the recovery if the failure was logged."""
        if self._row_logged:
            self._log.info("%s works again", self._what, extra=self._extra)
            self._row_logged = False
        self._backoff.reset()
