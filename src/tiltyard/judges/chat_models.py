"""A model with its parameters, which answers conversations as streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from tiltyard.errors import BadConfig, BadOption, ProviderFault
from tiltyard.judges.providers.json_bodies import encode_body
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.providers.provider_factory import open_streaming_provider
from tiltyard.judges.providers.streams import (
    ChatRequest,
    ChatTurn,
    StreamEnd,
    StreamingProvider,
    StreamPiece,
    StreamTimeouts,
    broken_stream,
)
from tiltyard.judges.providers.token_limits import token_limit, with_token_limit
from tiltyard.judges.reply_limits import ADAPTATION_LIMIT, LearnedLimits
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveEntrant

__all__ = ["ChatModel", "open_chat_model"]

#: The field of OpenAI's protocol that asks for the usage of a stream. Some servers refuse it.
_USAGE_FIELD = "stream_options"
_REFUSED_STATUSES = frozenset({400, 422})
#: A server that sends more than this for each token of the limit ignores the limit: its answer is cut.
_TOKEN_CHARACTERS = 64


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
                    raise broken_stream(fault) from None
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
