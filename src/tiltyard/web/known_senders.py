"""Who is known: requests that need not wait in line when a process is flooded.

Known is who holds a cookie that we signed, a token that was valid lately, or the proof of the gate. A session whose
requests fail again and again is a stranger for a while. This decides about waiting only, never about access.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from tiltyard.foundation.caches import BoundedCache

if TYPE_CHECKING:
    from starlette.types import Scope

    from tiltyard.web.access import Access

__all__ = ["KnownSenders"]

#: Failed requests that a session may have; with more it is a stranger. One is forgotten in so many seconds.
_FAILURE_LIMIT = 1
_FORGIVEN_SECONDS = 30.0
_TRACKED_SESSION_LIMIT = 50_000
#: More are not remembered, so that nobody is a stranger for longer than some minutes.
_MAX_FAILURE_COUNT = 6.0
#: Statuses that honest voters meet as well: a matchup that ended meanwhile.
_HARMLESS = frozenset({408, 409, 410})


@dataclass(slots=True)
class _Failures:
    count: float
    at: float


class KnownSenders:
    """Tells the requests of known voters, operators and programs from others, without a query."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._failures: BoundedCache[int, _Failures] = BoundedCache(_TRACKED_SESSION_LIMIT)

    def knows(self, scope: Scope) -> bool:
        """Whether a request comes from somebody who is known and whose requests did not fail lately."""
        request = HTTPConnection(scope)
        session = self._access.session_of(request)
        if session is not None:
            failures = self._failures.get(session)
            return failures is None or _left(failures) <= _FAILURE_LIMIT
        return self._access.recognizes(request)

    def answered(self, scope: Scope, status: int) -> None:
        """Count a request that failed by its sender's fault."""
        if not 400 <= status < 500 or status in _HARMLESS:
            return
        session = self._access.session_of(HTTPConnection(scope))
        if session is not None:
            failures = self._failures.get(session)
            count = 1.0 if failures is None else min(_left(failures) + 1.0, _MAX_FAILURE_COUNT)
            self._failures.put(session, _Failures(count, time.monotonic()))


def _left(failures: _Failures) -> float:
    return max(failures.count - (time.monotonic() - failures.at) / _FORGIVEN_SECONDS, 0.0)
