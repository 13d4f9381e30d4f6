"""The protocols that providers implement, for replies as a whole and as streams, and the JSON of their requests and replies."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from tiltyard.core.judging.question import TOOL_NAME, ChatPrompt
from tiltyard.core.judging.verdict import Reply
from tiltyard.errors import BadOption, ProviderFault

#: A provider that asks to wait longer, or serves nothing for so long, ends the run, which can be resumed.
LONGEST_WAIT_SECONDS = 900.0

#: A request or reply as the exact JSON document.
Body = dict[str, Any]

#: Why an answer ended: the model was done, its limit of tokens was reached, or it or its provider refused.
StreamStop = Literal["end", "length", "refused"]

#: Of a longer name of a served model only the beginning is kept.
_MODEL_NAME_CHARACTERS = 200
#: The tool of the reply form ``tool``.
VERDICT_TOOL = {"name": TOOL_NAME, "description": "Give the verdict on the two responses."}
_INSTEAD = {
    "model": "model",
    "system": "the rubric",
    "messages": "the rubric",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "tools": "form",
    "tool_choice": "form",
    "response_format": "form",
}
#: Field names of the limit: the old one, and the one of OpenAI's newer models.
LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")
#: Words in error messages for the output limit and for the context.
_OUTPUT = re.compile(
    r"max_(?:completion_|new_|output_)?tokens|maxOutputTokens|maximum tokens|(?:completion|output) tokens",
    re.IGNORECASE,
)
_CONTEXT = re.compile(r"context|\binputs?\b", re.IGNORECASE)
_REFUSED = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|not (?:supported|permitted|allowed)", re.IGNORECASE
)
#: A separate number: not part of a model name, a version or a URL.
_NUMBER = re.compile(r"(?<![\w.:/-])\d{1,3}(?>(?:,\d{3})+)(?![\w-])|(?<![\w.:/-])\d{1,9}(?![\w-]|[.,]\d)")
#: Each field name as a whole word.
_NAMED = {field: re.compile(rf"\b{field}\b") for field in LIMIT_FIELDS}
#: A verdict needs at least this many tokens: with less space, a request is not sent.
_MIN_REPLY_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do, and the limits of its batches."""

    schema: bool = False
    tool: bool = False
    batch: bool = False
    #: Prompt caching must be requested explicitly.
    prompt_cache: bool = False
    #: A call with ``max_tokens=0`` fills the prompt cache.
    prewarm: bool = False
    count_tokens: bool = False
    batch_requests: int = 0
    batch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as billed. ``input`` does not include those written to or read from a prompt cache."""

    input: int
    output: int
    cache_write: int = 0
    cache_read: int = 0


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One request of a batch. ``name`` matches ``^[a-zA-Z0-9_-]{1,64}$``."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The status of a batch. ``mark`` is the mark we gave it at creation, if the provider stores it."""

    id: str
    created_at: datetime
    ended: bool
    #: Number of requests, if the provider states it.
    size: int | None = None
    mark: str | None = None
    #: Why the whole batch failed, if it did: then it has no results, and nothing was billed.
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """The result of one request in a batch: ``succeeded`` with a body, else ``errored``, ``expired`` or ``canceled``."""

    name: str
    outcome: str
    body: Body | None = None
    error: str | None = None
    #: For ``errored``: whether asking again may help (a server's fault), or not (a bad request).
    retryable: bool = False
    #: For ``errored``: the provider's own words.
    said: str = ""


class Provider(Protocol):
    """One provider at one address. Every method that talks raises only `ProviderFault`.

    A provider that lacks a capability inherits the method of it, which refuses.
    """

    @property
    def name(self) -> str: ...
    @property
    def base_url(self) -> str: ...
    @property
    def address(self) -> str:
        """Who answers: the base URL, and path, query and headers of the configuration if there are any."""
        ...

    @property
    def adapter_version(self) -> int:
        """Must change when a `ChatPrompt` is sent as a different body, or a reply is parsed differently."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        """The exact request. ``options`` are the user's own fields of the request, e.g. ``temperature``;
        ``prompt_cache`` (``5m``, ``1h``) is ours and marks the system text if the provider needs it."""
        ...

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        """Parse a raw reply; pure. Usage is ``None`` if the provider stated none."""
        ...

    async def complete(self, body: Body) -> Body:
        """Send a request once, without retries; return the raw reply."""
        ...

    async def count_tokens(self, body: Body) -> int:
        """Input tokens of a request, as counted by the provider."""
        raise self._lacks(f"cannot count tokens of {body.get('model')}")

    async def prewarm(self, body: Body) -> Body:
        """Fill the prompt cache with the request's prefix, without output."""
        raise self._lacks(f"has no prompt cache to fill in advance for {body.get('model')}")

    async def submit_batch(self, items: Sequence[BatchItem], mark: str) -> str:
        """Create a batch and return its ID. ``mark`` is stored with it if the provider supports that.

        After a fault that is ``billed``, the batch may or may not exist.
        """
        raise self._lacks(f"does not support batches (of {len(items)}, marked {mark}); set batch: false")

    async def poll(self, batch_id: str) -> BatchStatus:
        raise self._lacks(f"has no batch {batch_id}")

    def list_batches(self, since: datetime) -> AsyncGenerator[BatchStatus]:
        """Batches created since a time, newest first: used to find one whose creation got no response."""
        raise self._lacks(f"has no batches since {since:%Y-%m-%d}")

    def results(self, batch_id: str) -> AsyncGenerator[BatchEntry]:
        """Stream the results of an ended batch, in any order."""
        raise self._lacks(f"has no batch {batch_id}")

    async def aclose(self) -> None: ...

    def _lacks(self, what: str) -> ProviderFault:
        return ProviderFault(f"{self.name} at {self.base_url}: {what}")


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation whose next message a model is to write. The last turn is the user's."""

    turns: tuple[ChatTurn, ...]
    system: str | None
    max_tokens: int

    def __post_init__(self) -> None:
        if not self.turns or self.turns[-1].role != "user":
            raise ValueError("the last turn of a request must be the user's")


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """Some more of the answer, of the model's thinking, or of both."""

    text: str
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a whole answer: always the last item of a stream, and only of one that did not break off.

    Tokens are ``None`` if the provider did not state them. ``input_tokens`` includes those read from or written
    to a prompt cache, which ``usage`` counts apart, because they have other prices.
    """

    input_tokens: int | None
    output_tokens: int | None
    stop: StreamStop
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """How long a stream may be silent. Only text and thinking count: keep-alives do not prolong it."""

    #: From the call to the first piece.
    first_token_seconds: float = 60.0
    #: From a piece to the next, or to the end.
    gap_seconds: float = 30.0
    #: From the call to the end.
    total_seconds: float = 900.0


def encode_body(body: Mapping[str, object]) -> bytes:
    """Encode a body: keys in their order, no spaces."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise BadOption(f"a request cannot be written as JSON: {error}; check options") from None


def parse_body(data: bytes | str) -> Any:
    """Parse strict JSON: no NaN or infinities. Raises `ValueError`."""
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_token_count(value: object) -> int | None:
    """The value if it is a nonnegative integer, else ``None``."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def repair_surrogates(text: str) -> str:
    """Make text encodable: join surrogate pairs, replace lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def served_model(body: Body) -> str | None:
    """The model that a reply says it is from."""
    model = body.get("model")
    return repair_surrogates(model[:_MODEL_NAME_CHARACTERS]) if isinstance(model, str) and model else None


def parse_time(value: object) -> datetime:
    """Parse a provider's time: Unix seconds or ISO 8601. Raises `ValueError`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError) as error:
            raise ValueError(str(error)) from None
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time")  # noqa: TRY004  one error type for all bad input
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


#: Made once: `json.loads` would make one for every call.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def checked_options(options: Mapping[str, Any], ours: Collection[str]) -> tuple[dict[str, Any], str | None]:
    """The user's own fields, and the requested lifetime of the prompt cache, if any.

    Fields that we set ourselves are rejected: the reserved budget depends on them.
    """
    extra = dict(options)
    cache = extra.pop("prompt_cache", None)
    if cache not in {None, False, "off", "5m", "1h"}:
        raise BadOption(f"prompt_cache: {cache!r}; expected off, 5m or 1h")
    for field in extra:
        if field in ours:
            instead = f"; use {_INSTEAD[field]}" if field in _INSTEAD else ""
            raise BadOption(f"options: {field} cannot be set here{instead}")
    return extra, cache if cache in {"5m", "1h"} else None


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """The output tokens that an endpoint allows for one request.

    If the context limits it, ``context`` is its size and ``input`` the part that the request uses.
    """

    output: int
    context: int | None = None
    input: int | None = None


def token_limit(body: Body) -> int:
    """The limit of reply tokens in a request."""
    return next((int(body[field]) for field in LIMIT_FIELDS if field in body), 0)


def with_token_limit(body: Body, limit: int, field: str | None = None) -> Body:
    """The same request with another limit; ``field`` renames the field."""
    return {
        ((field or key) if key in LIMIT_FIELDS else key): (limit if key in LIMIT_FIELDS else value)
        for key, value in body.items()
    }


def allowed_tokens(said: str, asked: int) -> AllowedTokens | None:
    """The limit stated in an error message after ``asked`` tokens were rejected; ``None`` if there is none.

    Two kinds of sentences are understood: "at most 4096, you asked for 16384",
    and "the context is 8192, your messages take 900, you asked for 16384".
    """
    numbers = {int(number[0].replace(",", "")) for number in _NUMBER.finditer(said)}
    if _CONTEXT.search(said) and (allowed := _by_context(numbers, asked)) is not None:
        return allowed if allowed.output >= _MIN_REPLY_TOKENS else None
    if not _OUTPUT.search(said):
        return None
    most = max((number for number in numbers if number < asked), default=0)
    if _excluding(most).search(said):
        most -= 1
    return AllowedTokens(most) if most >= _MIN_REPLY_TOKENS else None


def _excluding(limit: int) -> re.Pattern[str]:
    """Words that exclude the limit itself."""
    return re.compile(rf"(?:less|lower|smaller) than \W?{limit}\b|\b{limit} \(exclusive", re.IGNORECASE)


def _by_context(numbers: set[int], asked: int) -> AllowedTokens | None:
    """Context and input are the two numbers left besides the requested limit and the sum of both."""
    if asked not in numbers:
        return None
    rest = sorted(n for n in numbers if n != asked and n - asked not in numbers)
    if len(rest) != 2:
        return None
    given, context = rest
    output = context - given
    return AllowedTokens(output, context, given) if output < asked else None


def alternative_limit_field(said: str, body: Body) -> str | None:
    """The other field name of the limit, if an endpoint rejects the one that was used."""
    used = next((field for field in LIMIT_FIELDS if field in body), None)
    if used is None or not _REFUSED.search(said) or not _NAMED[used].search(said):
        return None
    other = next(field for field in LIMIT_FIELDS if field != used)
    return other if other in said or used == "max_completion_tokens" else None
