"""The till: what was paid, counted by the server itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Till:
    """Every accepted request is paid for, whoever is still there to hear the answer."""

    #: How often each request (by hash) was paid.
    paid: Counter[bytes] = field(default_factory=Counter)
    session_rate_limit: Counter[bytes] = field(default_factory=Counter)
    picodollars: int = 0
    live_calls: int = 0
    batch_calls: int = 0
    prewarms: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    #: Paid, and the answer was spoilt or dropped on purpose, or nobody was there any more.
    paid_and_lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def arrival(self, digest: bytes) -> int:
        """How often this request came before."""
        number = self.session_rate_limit[digest]
        self.session_rate_limit[digest] = number + 1
        return number

    def pay(self, digest: bytes, picodollars: int, *, batch: bool) -> None:
        self.paid[digest] += 1
        self.picodollars += picodollars
        if batch:
            self.batch_calls += 1
        else:
            self.live_calls += 1

    def begin(self) -> None:
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def tally(self, batches: int) -> dict[str, Any]:
        paid = self.live_calls + self.batch_calls
        return {
            "paid_calls": paid,
            "distinct": len(self.paid),
            "paid_again": paid - len(self.paid),
            "live_calls": self.live_calls,
            "batch_calls": self.batch_calls,
            "prewarms": self.prewarms,
            "picodollars": self.picodollars,
            "dollars": f"{self.picodollars // 10**12}.{self.picodollars % 10**12:012d}",
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "paid_and_lost": self.paid_and_lost,
            "batches": batches,
            "faults": dict(self.faults),
            "requests": dict(self.requests),
        }
