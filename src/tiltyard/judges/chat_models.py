"""A model of live battles: it answers conversations as streams, and is rested while it keeps failing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from tiltyard.errors import BadConfig, BadOption, ProviderFault, StreamBroken
from tiltyard.judges.providers.json_bodies import encode_body, token_limit, with_token_limit
from tiltyard.judges.providers.provider import (
    Body,
    ChatRequest,
    ChatTurn,
    StreamEnd,
    StreamingProvider,
    StreamPiece,
    StreamTimeouts,
)
from tiltyard.judges.providers.provider_factory import open_streaming_provider
from tiltyard.judges.requests import ADAPTATION_LIMIT, LearnedLimits
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveEntrant

#: The field of OpenAI's protocol that asks for the usage of a stream. Some servers refuse it.
_USAGE_FIELD = "stream_options"
_REFUSED_STATUSES = frozenset({400, 422})
#: A server that sends more than this for each token of the limit ignores the limit: its answer is cut.
_TOKEN_CHARACTERS = 64
_PROBLEMS = {
    401: "its key was refused",
    402: "its account has no credit",
    403: "its key lacks permission",
    404: "its address or its model does not exist",
    410: "its model is no longer served",
    200: "its answer could not be read",
}


class ChatModel:
    """One model behind a provider: a `ChatProvider`. It learns what its endpoint refuses, and does not ask twice."""

    def __init__(
        self,
        provider: StreamingProvider,
        model: str,
        options: Mapping[str, Any],
        timeouts: StreamTimeouts | None = None,
        *,
        thinking_open: bool = False,
    ) -> None:
        self.provider = provider
        self.model = model
        self.timeouts = timeouts or StreamTimeouts()
        self._options = dict(options)
        self._thinking_open = thinking_open
        self._learned = LearnedLimits()
        self._states_usage = True

    def body(self, request: ChatRequest) -> Body:
        """The exact request. Its encoded size bounds its tokens (`token_upper_bound`)."""
        body = self.provider.chat_body(self.model, request, self._options)
        if not self._states_usage:
            body.pop(_USAGE_FIELD, None)
        limit = self._learned.bounded(token_limit(body), len(encode_body(body)))
        return with_token_limit(body, limit, self._learned.field)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPiece | StreamEnd]:
        """Ask; send the request in another form if the endpoint refuses this one. See `ChatProvider.stream`."""
        for _ in range(ADAPTATION_LIMIT):
            body = self.body(request)
            begun, left = False, token_limit(body) * _TOKEN_CHARACTERS
            try:
                answer = self.provider.stream(body, self.timeouts, thinking_open=self._thinking_open)
                async with aclosing(answer) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                        if isinstance(piece, StreamPiece):
                            left -= len(piece.text) + len(piece.thinking)
                            if left < 0:
                                yield StreamEnd(None, None, "length")
                                return
            except ProviderFault as fault:
                if begun:
                    raise _broken(fault) from None
                if not self._learn(fault, body):
                    raise
            else:
                return
        raise ProviderFault(f"{self.provider.address}: refused {ADAPTATION_LIMIT} forms of the same request")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.provider.aclose()

    def _learn(self, fault: ProviderFault, body: Body) -> bool:
        """Whether the request will be sent in another form after this refusal."""
        if self._learned.learn(fault, body, len(encode_body(body))):
            return True
        if fault.status not in _REFUSED_STATUSES or fault.billed:
            return False
        # Mistral names the refused field in a document of its own form, so that nothing is said.
        asked = _USAGE_FIELD in body
        named = not fault.said or _USAGE_FIELD in fault.said or "include_usage" in fault.said
        self._states_usage = not (asked and named) and (self._states_usage or not fault.said)
        return asked and named


def _broken(fault: ProviderFault) -> StreamBroken:
    """The fault of a stream of which a part has arrived: that part was billed."""
    return StreamBroken(
        str(fault),
        status=fault.status,
        retryable=fault.retryable,
        throttled=fault.throttled,
        billed=True,
        fatal=fault.fatal,
        retry_after=fault.retry_after,
        said=fault.said,
    )


def open_chat_model(
    entrant: LiveEntrant, environment: Environment, timeouts: StreamTimeouts | None = None
) -> ChatModel:
    """The model of a live arena's entrant. Nothing is sent yet.

    Raises `BadConfig` if it cannot be asked: the variable of a key is not set, or an option is one that we set.
    """
    timeouts = timeouts or StreamTimeouts()
    provider = open_streaming_provider(
        entrant.provider,
        entrant.base_url,
        environment.api_key(entrant),
        timeouts,
        environment.route(entrant, asking=True),
    )
    model = ChatModel(provider, entrant.model, entrant.options, timeouts, thinking_open=entrant.thinking_open)
    try:
        model.body(ChatRequest((ChatTurn("user", "?"),), entrant.system, entrant.max_tokens))
    except BadOption as error:
        raise BadConfig(f"model {entrant.name}: {error}") from None
    return model


#: ``well``: it is asked. ``rested``: it is not. ``trial``: it was rested, and one call finds out whether it answers.
HealthState = Literal["well", "rested", "trial"]


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When a model is rested, and for how long."""

    #: Consecutive failures that rest it. A failure that every call would share, such as a wrong key, rests it at once.
    failures: int = 3
    #: The first rest. Each one that follows without a success between is twice as long, up to the longest.
    first_rest_seconds: float = 30.0
    longest_rest_seconds: float = 3600.0
    #: A trial of which nothing is heard for so long is forgotten, and another one allowed.
    trial_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What an operator is told about one model."""

    state: HealthState
    #: When this state began.
    since: datetime
    #: Failures since the last success.
    failures: int
    #: The last problem since the last success, in our own words: nothing that a provider wrote is repeated.
    problem: str | None
    #: When it is tried again; ``None`` if it is not rested.
    tries_again_at: datetime | None


class EntrantHealth:
    """The health of one model, without a clock: every call is given the time. Call `started` for every call, and one of the three `record_…` when it has ended."""

    def __init__(self, now: datetime, policy: HealthPolicy | None = None) -> None:
        self._policy = policy or HealthPolicy()
        self._state: HealthState = "well"
        self._since = now
        self._failures = 0
        #: Rests since the last success.
        self._rests = 0
        self._problem: str | None = None
        self._until: datetime | None = None

    def available(self, now: datetime) -> bool:
        """Whether it may be asked now. After a rest, for one call at a time."""
        if self._state == "trial":
            return now >= self._since + timedelta(seconds=self._policy.trial_seconds)
        return self._until is None or now >= self._until

    def started(self, now: datetime) -> None:
        """A call begins. If it is rested, this call is the trial."""
        if self._state != "well" and self.available(now):
            self._become("trial", now)

    def record_success(self, now: datetime) -> None:
        """It has answered: it is well."""
        self._failures, self._rests, self._problem, self._until = 0, 0, None, None
        if self._state != "well":
            self._become("well", now)

    def record_failure(self, fault: ProviderFault, now: datetime) -> None:
        """A call has failed. A call that was already under way when the rest began does not prolong the rest."""
        self._failures += 1
        self._problem = describe_problem(fault)
        due = self._state == "trial" or fault.fatal or self._failures >= self._policy.failures
        if self._state != "rested" and due:
            self._rest(now, fault.retry_after or 0.0)

    def record_stopped(self, now: datetime) -> None:
        """A call was stopped before it was known how it ends. If it was the trial, another one is allowed."""
        if self._state == "trial":
            self._become("rested", now)

    def report(self) -> HealthReport:
        """What to tell the operator."""
        return HealthReport(self._state, self._since, self._failures, self._problem, self._until)

    def _rest(self, now: datetime, asked_seconds: float) -> None:
        """Rest it for a growing time, and for as long as its provider asked for, within the longest."""
        policy = self._policy
        grown = policy.first_rest_seconds
        for _ in range(self._rests):
            grown = min(2 * grown, policy.longest_rest_seconds)
        seconds = min(max(grown, asked_seconds), policy.longest_rest_seconds)
        self._rests += 1
        self._until = now + timedelta(seconds=seconds)
        self._become("rested", now)

    def _become(self, state: HealthState, now: datetime) -> None:
        self._state, self._since = state, now


def describe_problem(fault: ProviderFault) -> str:
    """A failure in our own words, to follow a model's name."""
    status = fault.status
    if isinstance(fault, StreamBroken):
        return "an answer broke off"
    if fault.throttled:
        return "its provider asks for fewer calls"
    if status in _PROBLEMS:
        return _PROBLEMS[status]
    if status is not None:
        return f"its server {'failed' if status >= 500 else 'rejected the request'} with status {status}"
    if fault.billed:
        return "it did not answer in time, or the connection was lost"
    return "its server could not be reached" if fault.retryable else "it could not be asked"
