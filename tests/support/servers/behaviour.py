"""How the billed server behaves: delays, limits, prices, and faults by a seeded schedule."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from support.servers.replies import Prices

#: Faults of a live call, in the order in which their chances are laid end to end.
LIVE = ("throttle", "overload", "server_error", "drop_before", "drop_after", "truncate")
#: Faults of an item of a batch.
ITEM = ("expire", "item_error")


@dataclass(frozen=True)
class Behaviour:
    """Chances are between 0 and 1 and drawn by seed, request and how often it has come: no clock, no order.

    A request meets at most ``times`` faults; a ``bad_item`` is bad for ever. Those that are not
    billed: throttle, overload, server_error, drop_before, expire, item_error, bad_item.
    """

    #: Seconds until a live reply.
    latency: float = 0.0
    #: Seconds until a batch has ended.
    batch_seconds: float = 0.05
    seed: int = 0
    #: At most so many faults for one request.
    times: int = 2
    throttle: float = 0.0
    #: Seconds that a 429 or 529 asks to wait.
    retry_after: float = 0.02
    overload: float = 0.0
    server_error: float = 0.0
    drop_before: float = 0.0
    drop_after: float = 0.0
    truncate: float = 0.0
    expire: float = 0.0
    item_error: float = 0.0
    bad_item: float = 0.0
    #: Replies (billed) that refuse, or that are no verdict: always the same requests.
    refuse: float = 0.0
    garble: float = 0.0
    #: The first so many creations of a batch succeed, but their answer is dropped.
    lost_creates: int = 0
    #: The first so many creations succeed, but are answered with a 504.
    late_creates: int = 0
    #: The first so many creations fail with a 500 and create nothing.
    failed_creates: int = 0
    #: The first so many OpenAI batches fail as a whole.
    failed_batches: int = 0
    #: The first so many downloads of results are cut in the middle.
    cut_results: int = 0
    #: The first so many downloads of results end after half of the lines, as if that were all.
    short_results: int = 0
    #: The first so many looks at an OpenAI batch that has ended do not say yet where its results are.
    late_files: int = 0
    #: Every so many-th poll, list or download meets a 529, a 500 or a dropped connection in turn.
    poll_fault_every: int = 0
    #: Seconds between the first line of results and the others.
    results_pause: float = 0.0
    batch_requests: int = 100_000
    batch_bytes: int = 256_000_000
    #: After so many live replies a model whose name begins with ``stops_model`` is served no more: see `stopped`.
    stops_after: int | None = None
    stops_model: str = ""
    stops_with: str = "retired"
    #: Keep a prompt cache where requests ask for one (usage then depends on what came before).
    prompt_cache: bool = False
    #: Keep every body that came, for GET /bodies.
    keep_bodies: bool = False
    #: The only key accepted; any, where there is none.
    key: str | None = None
    #: Base URL of a server that answers instead, e.g. a real model.
    forward: str | None = None
    prices: Prices = field(default_factory=Prices)

    def live_fault(self, digest: bytes, arrival: int) -> str | None:
        return self._drawn(LIVE, b"live", digest, arrival)

    def item_fault(self, digest: bytes, arrival: int) -> str | None:
        if self.bad_item and _chance(b"bad", self.seed, digest, 0) < self.bad_item:
            return "bad_item"
        return self._drawn(ITEM, b"item", digest, arrival)

    def _drawn(self, kinds: tuple[str, ...], kind: bytes, digest: bytes, arrival: int) -> str | None:
        if arrival >= self.times or not any(getattr(self, name) for name in kinds):
            return None
        chance = _chance(kind, self.seed, digest, arrival)
        for name in kinds:
            chance -= getattr(self, name)
            if chance < 0:
                return name
        return None


def _chance(kind: bytes, seed: int, digest: bytes, arrival: int) -> float:
    drawn = hashlib.sha256(b"%b %d %d %b" % (kind, seed, arrival, digest)).digest()
    return int.from_bytes(drawn[:8]) / 2**64
