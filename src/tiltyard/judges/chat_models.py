"""A model of live battles: it answers conversations as streams, and is rested while it keeps failing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from tiltyard.errors import BadConfig, BadOption, EmptyAnswer, ProviderFault, StreamBroken
from tiltyard.judges.providers.local_replies import open_http_provider
from tiltyard.judges.providers.provider import (
    Body,
    ChatRequest,
    ChatTurn,
    StreamEnd,
    StreamPiece,
    StreamTimeouts,
    encode_body,
    token_limit,
    with_token_limit,
)
from tiltyard.judges.requests import ADAPTATION_LIMIT, LearnedLimits
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveEntrant

if TYPE_CHECKING:
    from tiltyard.judges.providers.http_client import HttpProvider

#: The field of OpenAI's protocol that asks for the usage of a stream. Some servers refuse it.
_USAGE_FIELD = "stream_options"
_REFUSED_STATUSES = frozenset({400, 422})
_PROMPT_STATUSES = frozenset({400, 413, 422})
#: Some gateways answer 402 and 403 to a prompt that is too long or too bad.
_SERVER_STATUSES = frozenset({401, 404, 410})
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
    """One model behind a provider. It learns what its endpoint refuses, and does not ask twice."""

    def __init__(
        self,
        provider: HttpProvider,
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
        """Ask; send the request in another form if the endpoint refuses this one.

        Closing the iterator closes the connection. Raises only `ProviderFault`; once a piece has been given, only its
        subclass `StreamBroken`.
        """
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
    provider = open_http_provider(
        entrant.provider,
        entrant.base_url,
        environment.api_key(entrant),
        timeouts.total_seconds,
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


#: Consecutive failures that rest it. A failure that every call would share, such as a wrong key, rests it at once.
FAILURE_LIMIT = 3
#: The first rest. Each one that follows without a success between is twice as long, up to the longest.
_FIRST_REST_SECONDS, _MAX_REST_SECONDS = 30.0, 3600.0
#: A trial of which nothing is heard for so long is forgotten, and another one allowed.
_TRIAL_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class EntrantHealth:
    """The health of one model that has failed since its last success; a model that has not is well."""

    state: HealthState = "well"
    #: When this state began.
    since: datetime | None = None
    #: Failures and rests since the last success, and the last problem in our own words: nothing that a provider wrote
    #: is repeated.
    failures: int = 0
    rests: int = 0
    problem: str | None = None
    #: When it is tried again; ``None`` if it was not rested.
    until: datetime | None = None

    def available(self, now: datetime) -> bool:
        """Whether it may be asked now. After a rest, for one call at a time."""
        if self.state == "trial" and self.since is not None:
            return now >= self.since + timedelta(seconds=_TRIAL_SECONDS)
        return self.until is None or now >= self.until

    def started(self, now: datetime) -> EntrantHealth:
        """A call begins. If it is rested, this call is the trial."""
        if self.state != "well" and self.available(now):
            return replace(self, state="trial", since=now)
        return self

    def failed(self, fault: ProviderFault, now: datetime, *, confirmed: bool) -> EntrantHealth:
        """A call has failed. A call that was already under way when the rest began does not prolong the rest.

        ``confirmed``: whether a question of our own failed. Without it, only what no prompt can cause rests it.
        """
        worse = replace(self, failures=self.failures + 1, problem=describe_problem(fault))
        due = self.state == "trial" or fault.fatal or worse.failures >= FAILURE_LIMIT
        if not (confirmed or _is_of_server(fault)):
            return worse.stopped(now)
        if (self.state == "rested" and not self.available(now)) or not due:
            return worse
        # A growing time, and as long as its provider asked for, within the longest.
        grown = _FIRST_REST_SECONDS * 2.0 ** min(self.rests, 16)
        seconds = min(max(grown, fault.retry_after or 0.0), _MAX_REST_SECONDS)
        until = now + timedelta(seconds=seconds)
        return replace(worse, state="rested", since=now, rests=self.rests + 1, until=until)

    def stopped(self, now: datetime) -> EntrantHealth:
        """A call was stopped before it was known how it ends. If it was the trial, another one is allowed."""
        return replace(self, state="rested", since=now) if self.state == "trial" else self


def is_of_prompt(fault: ProviderFault) -> bool:
    """Whether another prompt may well be answered: this one was refused, or answered by nothing."""
    return isinstance(fault, EmptyAnswer) or (fault.status in _PROMPT_STATUSES and not fault.fatal)


def _is_of_server(fault: ProviderFault) -> bool:
    """Whether no prompt can cause it: nobody listens, the key is wrong, or the model is not there."""
    unreached = fault.status is None and fault.retryable and not fault.billed
    return fault.status in _SERVER_STATUSES or unreached


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
