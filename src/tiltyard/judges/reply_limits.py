"""Reply limits: whether a request is asked for once more, and how many tokens its reply may have."""

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

#: A reply that cannot be read is asked for once more, and never again.
ASK_LIMIT = 2
#: How often one request is changed to what its endpoint says it allows.
ADAPTATION_LIMIT = 4
#: A reply that was cut off is asked for again with so many times the tokens.
_RAISED_LIMIT_RATIO = 4
#: The least that is asked for, however little room there seems to be: the endpoint knows better.
_MIN_REPLY_TOKENS = 64
#: What endpoints answer to a request that they do not accept as it is; a batch states no status.
_REFUSALS = frozenset({None, 400, 422})


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """What is known of a model beforehand: its longest reply, and request and reply together, in tokens."""

    max_output: int | None = None
    context: int | None = None
    #: Whether a reply that was cut off is asked for again, with a larger limit.
    raised: bool = True

    def next_limit(self, states: Sequence[QuestionState], planned: int, size: int) -> int | None:
        """The limit of the next ask after replies that read like this; ``None`` where nothing is left to ask.

        ``planned`` is the request's own limit, ``size`` its bytes. A reply that was cut off is
        never asked for with the same limit: that would cut it off again.
        """
        if not states:
            return planned
        if len(states) >= ASK_LIMIT:
            return None
        if states[0] is QuestionState.UNPARSEABLE:
            return planned
        if states[0] is not QuestionState.TRUNCATED or not self.raised:
            return None
        room = math.inf if self.context is None else self.context - expected_tokens(size)
        raised = min(
            _RAISED_LIMIT_RATIO * planned, math.inf if self.max_output is None else self.max_output, room
        )
        return int(raised) if raised > planned else None


@dataclass(slots=True)
class LearnedLimits:
    """What an endpoint said it allows while it was asked; remembered as long as the run is under way."""

    output: int | None = None
    context: int | None = None
    #: Input tokens for each byte of a request: the most that was seen.
    tokens_per_byte: float = 1.0 / EXPECTED_BYTES_PER_TOKEN
    #: The name of the limit's field, where another than ours is wanted.
    field: str | None = None

    def bounded(self, limit: int, size: int) -> int:
        """A limit for a request of so many bytes, as far as it is known to be allowed."""
        most = limit if self.output is None else min(limit, self.output)
        if self.context is None:
            return most
        room = self.context - math.ceil(size * self.tokens_per_byte)
        return min(most, max(room, _MIN_REPLY_TOKENS))

    def learn(self, fault: ProviderFault, body: Body, size: int) -> bool:
        """Take in why a request was refused; whether it will be sent otherwise now."""
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
