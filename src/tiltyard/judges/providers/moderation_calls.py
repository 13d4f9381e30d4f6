"""Calls to moderation endpoints and guard models, both in OpenAI's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.endpoints import Endpoint, checked_base_url
from tiltyard.judges.providers.faults import unreadable_reply
from tiltyard.judges.providers.http_client import HttpClient
from tiltyard.judges.providers.provider import ChatTurn, encode_body
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import CheckEndpointSection, GuardSection, ModerationEndpointSection

#: Words that name the categories of a refusal; more than these are not kept.
_CATEGORY_LIMIT = 8
_MAX_CATEGORY_CHARACTERS = 60

S = TypeVar("S", bound=CheckEndpointSection)


class _Check(Generic[S]):
    """A check at an endpoint. Opens nothing before the first call."""

    def __init__(self, section: S, environment: Environment, timeout_seconds: float) -> None:
        self._section = section
        route = environment.route(section, asking=True)
        endpoint = Endpoint("openai", checked_base_url(section.base_url, "openai"), route)
        credentials = endpoint.credentials(environment.api_key(section), "Authorization")
        self._wire = HttpClient(endpoint, credentials, timeout_seconds)

    async def close(self) -> None:
        """Close its connections."""
        await self._wire.close()


class ModerationEndpoint(_Check[ModerationEndpointSection]):
    """An endpoint that is asked whether texts are harmful."""

    async def harm(self, conversation: Sequence[ChatTurn]) -> tuple[str, ...] | None:
        """The categories of the harm that it sees in a conversation; ``None`` if there is none.

        Raises `ProviderFault` if it does not answer, or not in its protocol.
        """
        texts = [message.text for message in conversation if message.text]
        if not texts:
            return None
        body = {"model": self._section.model, "input": texts}
        reply = await self._wire.post(self._section.path, encode_body(body), model=self._section.model)
        results = reply.get("results")
        if not isinstance(results, list) or not results:
            raise unreadable_reply(self._wire.where, "the reply has no results", billable=False)
        found: dict[str, None] = {}
        harmful = False
        for result in results:
            if not isinstance(result, Mapping) or not isinstance(result.get("flagged"), bool):
                raise unreadable_reply(
                    self._wire.where, "a result is not flagged true or false", billable=False
                )
            categories = result.get("categories")
            held = categories.items() if isinstance(categories, Mapping) else ()
            named = [str(name) for name, is_held in held if is_held is True]
            counted = [name for name in named if name in self._section.categories]
            if self._section.categories:
                harmful |= bool(counted)
                found.update(dict.fromkeys(counted))
            elif result["flagged"]:
                harmful = True
                found.update(dict.fromkeys(named))
        return tuple(_shortened(found)) if harmful else None


class GuardModel(_Check[GuardSection]):
    """A model that is asked whether a conversation is safe."""

    def __init__(self, section: GuardSection, environment: Environment, timeout_seconds: float) -> None:
        super().__init__(section, environment, timeout_seconds)
        self._safe = {word.casefold() for word in section.safe}
        self._unsafe = {word.casefold() for word in section.unsafe}

    async def harm(self, conversation: Sequence[ChatTurn]) -> tuple[str, ...] | None:
        """The categories that it names of an unsafe conversation; ``None`` if it says that it is safe.

        Raises `ProviderFault` if it does not answer, or neither of the two.
        """
        system = [{"role": "system", "content": self._section.system}] if self._section.system else []
        body = {
            "model": self._section.model,
            "messages": [*system, *({"role": one.role, "content": one.text} for one in conversation)],
            "max_tokens": self._section.max_tokens,
            "temperature": 0,
        }
        reply = await self._wire.post(self._section.path, encode_body(body), model=self._section.model)
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, Mapping) else None
        text = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(text, str):
            raise ProviderFault("the guard model's reply has no text", status=200)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # "unsafe", or "Safety: Unsafe".
        words = lines[0].rpartition(":")[2].split() if lines else []
        said = words[0].strip(".,;!").casefold() if words else ""
        if said in self._safe:
            return None
        if said not in self._unsafe:
            problem = f"the guard model answered neither {'/'.join(self._safe)} nor {'/'.join(self._unsafe)}"
            raise unreadable_reply(self._wire.where, problem, billable=False)
        named = [part.rpartition(":")[2].strip() for line in lines[1:] for part in line.split(",")]
        return tuple(_shortened(dict.fromkeys(name for name in named if name)))


def _shortened(names: Mapping[str, None]) -> list[str]:
    return [name[:_MAX_CATEGORY_CHARACTERS] for name in names][:_CATEGORY_LIMIT]
