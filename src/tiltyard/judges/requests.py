"""Requests to judges, and their cache keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import JudgeUnusable
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.providers.provider import Body, Provider, Usage
from tiltyard.judges.providers.token_limits import token_limit, with_token_limit
from tiltyard.judges.reply_limits import LearnedLimits, ReplyLimits
from tiltyard.judges.token_estimate import token_upper_bound
from tiltyard.judges.unusable_judges import UnusableReplies
from tiltyard.settings.prices import Price

__all__ = ["JudgeCaller", "JudgeRequest", "request_key"]


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One request. ``judge`` names the `JudgeCaller` that sends it; ``worst`` is its worst-case cost in picodollars."""

    key: str
    question_id: str
    judge: str
    dimension: str
    body: Body
    #: Size of the request in bytes, but of an image what it may cost in tokens.
    size: int
    worst: int | None
    #: The prompt of the question.
    prompt_id: str = ""
    #: The bytes of images beyond what ``size`` counts for them.
    image_bytes: int = 0
    #: The match that it is an order of; ``None`` for checks.
    match: Match | None = None
    #: Picodollars that must be left for the other order of the match, so that it is not left half judged.
    headroom: int = 0


@dataclass(frozen=True)
class JudgeCaller:
    """How the requests of one judge are sent and its replies parsed."""

    name: str
    provider: Provider
    price: Price | None
    gate: ConcurrencyLimiter
    #: Returns the state of a raw reply; truncated and unparseable replies are retried once.
    read: Callable[[Body], QuestionState]
    batch: bool = False
    ttl: str | None = None
    retries: int = 5
    limits: ReplyLimits = field(default_factory=ReplyLimits)
    learned: LearnedLimits = field(default_factory=LearnedLimits)
    #: Counts replies without a verdict; ``None`` for models that are not judges.
    unusable: UnusableReplies | None = None
    #: Called when the judge is found to be unusable.
    stop: Callable[[JudgeUnusable], None] = lambda _reason: None

    def due(self, request: JudgeRequest, bodies: Sequence[Body]) -> JudgeRequest | None:
        """The request to send after these replies; ``None`` if none is needed.

        The key does not change: adapting the token limit does not make it another question.
        """
        states = [self.read(body) for body in bodies]
        planned = token_limit(request.body)
        limit = self.limits.next_limit(states, planned, request.size)
        if limit is None:
            return None
        limit = self.learned.bounded(limit, request.size)
        if states and states[0] is QuestionState.TRUNCATED and limit <= self._had(request, bodies[0]):
            return None
        field = self.learned.field
        if limit == planned and (field is None or field in request.body):
            return request
        worst = None
        if self.price is not None:
            worst = self.price.worst(token_upper_bound(request.size), limit, batch=self.batch, ttl=self.ttl)
        return replace(request, body=with_token_limit(request.body, limit, field), worst=worst)

    def heard(self, request: JudgeRequest, bodies: Sequence[Body]) -> None:
        """Record a new reply, the last of these."""
        if self.unusable is None:
            return
        ended = self.due(request, bodies) is None
        reason = self.unusable.add(request.prompt_id, self.read(bodies[-1]), ended=ended)
        if reason is not None:
            self.stop(reason)

    def _had(self, request: JudgeRequest, body: Body) -> int:
        """The tokens of a truncated reply: at least the limit that we sent."""
        _, usage = self.provider.read(body)
        allowed = self.learned.bounded(token_limit(request.body), request.size)
        return allowed if usage is None else max(allowed, usage.output)

    def cost(self, usage: Usage | None, worst: int | None) -> int | None:
        """The cost of a reply: the worst case if the usage is unknown, ``None`` if the price is unknown."""
        if self.price is None:
            return None
        if usage is None:
            return worst
        return self.price.cost(usage, batch=self.batch, ttl=self.ttl)


def request_key(provider: Provider, body: Body, replicate: int) -> tuple[str, int]:
    """The cache key of a request, a hash of everything that determines its reply, and the size of the request.

    Names of entrants, IDs, concurrency and batching are not part of it.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sent = text.encode("utf-8", "surrogatepass")
    name, address = json.dumps(provider.name), json.dumps(provider.address)
    digest = hashlib.sha256()
    digest.update(f'{{"adapter_version":{provider.adapter_version},"base_url":{address},"body":'.encode())
    digest.update(sent)
    digest.update(f',"provider":{name},"replicate":{replicate}}}'.encode())
    return digest.hexdigest(), len(sent)
