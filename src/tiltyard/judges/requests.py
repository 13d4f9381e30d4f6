"""Requests: what is asked of whom, and the name under which its reply is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

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
    """One request. ``judge`` names the `JudgeCaller` that sends it; ``worst`` is its dearest cost in picodollars."""

    key: str
    question_id: str
    judge: str
    dimension: str
    body: Body
    #: Bytes of the request as text.
    size: int
    worst: int | None
    #: The prompt that it is about.
    prompt_id: str = ""


@dataclass(frozen=True)
class JudgeCaller:
    """How requests of one judge are sent and read."""

    name: str
    provider: Provider
    price: Price | None
    gate: ConcurrencyLimiter
    #: How a raw reply reads; truncated and unparseable ones are asked for once more.
    read: Callable[[Body], QuestionState]
    batch: bool = False
    ttl: str | None = None
    retries: int = 5
    limits: ReplyLimits = field(default_factory=ReplyLimits)
    learned: LearnedLimits = field(default_factory=LearnedLimits)
    #: Counts replies without a verdict; ``None`` for those that are not asked for verdicts.
    unusable: UnusableReplies | None = None
    #: Called once the judge is found to be unusable.
    stop: Callable[[JudgeUnusable], None] = lambda _reason: None

    def due(self, request: JudgeRequest, bodies: Sequence[Body]) -> JudgeRequest | None:
        """A request as it is to be sent after these replies to it; ``None`` where nothing is left to ask.

        Its key stays that of the plan: the limit that its endpoint allows is no other question.
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
        """Take in a new reply, the last of these."""
        if self.unusable is None:
            return
        ended = self.due(request, bodies) is None
        reason = self.unusable.add(request.prompt_id, self.read(bodies[-1]), ended=ended)
        if reason is not None:
            self.stop(reason)

    def _had(self, request: JudgeRequest, body: Body) -> int:
        """The tokens of a reply that was cut off: as many as it was allowed, so far as we know."""
        _, usage = self.provider.read(body)
        allowed = self.learned.bounded(token_limit(request.body), request.size)
        return allowed if usage is None else max(allowed, usage.output)

    def cost(self, usage: Usage | None, worst: int | None) -> int | None:
        """What a reply cost; where the provider does not say, the worst case; where no price is known, nothing."""
        if self.price is None:
            return None
        if usage is None:
            return worst
        return self.price.cost(usage, batch=self.batch, ttl=self.ttl)


def request_key(provider: Provider, body: Body, replicate: int) -> tuple[str, int]:
    """The hash under which a reply is kept, of all that decides it and nothing else; and the request's size.

    Names of models, ids, concurrency and whether it went by batch are no part of it.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sent = text.encode("utf-8", "surrogatepass")
    name, address = json.dumps(provider.name), json.dumps(provider.base_url)
    digest = hashlib.sha256()
    digest.update(f'{{"adapter_version":{provider.adapter_version},"base_url":{address},"body":'.encode())
    digest.update(sent)
    digest.update(f',"provider":{name},"replicate":{replicate}}}'.encode())
    return digest.hexdigest(), len(sent)
