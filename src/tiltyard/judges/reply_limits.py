"""Reply limits: whether to retry a request, and how many tokens its reply may have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.providers.token_limits import allowed_tokens, alternative_limit_field, token_limit
from tiltyard.judges.token_estimate import EXPECTED_BYTES_PER_TOKEN, expected_tokens

__all__ = ["ADAPTATION_LIMIT", "ASK_LIMIT", "LearnedLimits", "ReplyLimits"]

#: A request is sent at most twice: once more if its reply cannot be parsed.
ASK_LIMIT = 2
#: How often one request is adapted to the limits of its endpoint.
ADAPTATION_LIMIT = 4
#: A truncated reply is retried with this many times the tokens.
_RAISED_LIMIT_RATIO = 4
#: The lowest limit to send, even if less space seems to be left: our count is only an estimate.
_MIN_REPLY_TOKENS = 64
#: Statuses of a rejected request; items of a batch have none.
_REFUSALS = frozenset({None, 400, 422})


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """The known limits of a model in tokens: its output, and its context (request and reply together)."""

    max_output: int | None = None
    context: int | None = None
    #: Whether to retry a truncated reply with a larger limit, and one that cannot be parsed with the same.
    raised: bool = True
    repeated: bool = True

    def next_limit(self, states: Sequence[QuestionState], planned: int, size: int) -> int | None:
        """The limit of the next attempt after replies with these states; ``None`` if none is needed.

        ``planned`` is the request's own limit, ``size`` its bytes. A truncated reply is never retried
        with the same limit: it would be truncated again.
        """
        if not states:
            return planned
        if len(states) >= ASK_LIMIT:
            return None
        if states[0] is QuestionState.UNPARSEABLE:
            return planned if self.repeated else None
        if states[0] is not QuestionState.TRUNCATED or not self.raised:
            return None
        room = math.inf if self.context is None else self.context - expected_tokens(size)
        raised = min(
            _RAISED_LIMIT_RATIO * planned, math.inf if self.max_output is None else self.max_output, room
        )
        return int(raised) if raised > planned else None


@dataclass(slots=True)
class LearnedLimits:
    """Limits learnt from error messages of an endpoint, kept for the rest of the run."""

    output: int | None = None
    context: int | None = None
    #: Input tokens per byte of a request: the highest seen.
    tokens_per_byte: float = 1.0 / EXPECTED_BYTES_PER_TOKEN
    #: The field name for the limit, if the endpoint wants another one.
    field: str | None = None

    def bounded(self, limit: int, size: int) -> int:
        """The limit, reduced to what is known to be allowed for a request of this size."""
        most = limit if self.output is None else min(limit, self.output)
        if self.context is None:
            return most
        room = self.context - math.ceil(size * self.tokens_per_byte)
        return min(most, max(room, _MIN_REPLY_TOKENS))

    def learn(self, fault: ProviderFault, body: Body, size: int) -> bool:
        """Learn from a rejection; return whether the request will be sent differently now."""
        if fault.status not in _REFUSALS or fault.billed:
            return False
        self.field = alternative_limit_field(fault.said, body) or self.field
        sent = token_limit(body)
        allowed = allowed_tokens(fault.said, sent)
        if allowed is not None and allowed.context is not None:
            self.context = allowed.context
            self.tokens_per_byte = max(self.tokens_per_byte, (allowed.input or 0) / max(size, 1))
        elif allowed is not None:
            self.output = min(allowed.output, self.output or allowed.output)
        renamed = self.field is not None and self.field not in body
        return renamed or self.bounded(sent, size) < sent
