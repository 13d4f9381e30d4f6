"""Where models are served: the providers that are known, and how calls reach an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from tiltyard.settings.config_section import expecting, one_of


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """What is known of a provider before it is called. Its protocol is the module of its name in `judges.providers`."""

    #: Its own address: the built-in prices apply only to this one.
    base_url: str
    #: The default environment variable of its key.
    key_variable: str
    #: The request fields of the setting ``effort``.
    effort_fields: Callable[[str], dict[str, Any]]
    #: How the names of its own models begin, if they all begin alike.
    model_prefixes: tuple[str, ...] = ()


PROVIDERS: Final[Mapping[str, KnownProvider]] = {
    "anthropic": KnownProvider(
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        lambda effort: {"output_config": {"effort": effort}},
        model_prefixes=("claude",),
    ),
    "openai": KnownProvider(
        "https://api.openai.com/v1", "OPENAI_API_KEY", lambda effort: {"reasoning_effort": effort}
    ),
}
#: Stands for a provider: a file of recorded replies.
REPLAY: Final = "replay"
#: Stands for a provider: a function of a Python program.
PYTHON: Final = "python"


def _known(name: str) -> str:
    if name not in PROVIDERS:
        raise ValueError(name)
    return name


def _known_or_local(name: str) -> str:
    return name if name in {REPLAY, PYTHON} else _known(name)


ProviderName = Annotated[str, AfterValidator(_known), one_of(*PROVIDERS)]
JudgeProviderName = Annotated[str, AfterValidator(_known_or_local), one_of(*PROVIDERS, REPLAY)]
HeaderName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=200),
    expecting("the name of a header: letters, digits and '-'"),
]
HeaderValue = Annotated[
    str,
    Field(pattern=r"^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$"),
    expecting("the value of a header: ASCII text on one line (put a number in quotes)"),
]
UrlPath = Annotated[
    str,
    Field(pattern=r"^/[^\s?#\x00-\x1f\x7f]*$"),
    expecting("a path that begins with '/', without '?'"),
]
#: Headers that the HTTP client sets by itself.
_OURS = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "transfer-encoding",
    }
)
#: Names of headers and query fields whose values are keys, which must not be written in a file.
_SECRET = re.compile(
    r"authorization|cookie|(?:^|[-_.])(?:apikey|key|token|secret|signature|sig|password|credential)$"
)


@dataclass(frozen=True, slots=True)
class EndpointRoute:
    """Path, query and headers of the calls to one endpoint. Secret values are not shown in its repr."""

    path: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    api_key_header: str | None = None
    secret_query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def identity(self) -> dict[str, object]:
        """What may decide who answers, and how: everything that is written in the configuration, but no secrets.

        Gateways choose models by headers, and versions of APIs are chosen by both. What comes from environment
        variables only says who asks.
        """
        headers = {name.lower(): value for name, value in self.headers.items()}
        stated = {"path": self.path, "query": dict(self.query), "headers": headers}
        return {name: value for name, value in stated.items() if value}


def route_problems(
    headers: Mapping[str, str],
    headers_env: Mapping[str, str],
    query: Mapping[str, str],
    query_env: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """The problems of headers and query fields: the setting that has one, and what is wrong."""
    for setting, names in (("headers", headers), ("headers_env", headers_env)):
        for name in names:
            if name.lower() in _OURS:
                yield setting, f"{name} cannot be set: it is set for each request"
    for setting, names in (("headers", headers), ("query", query)):
        for name in names:
            if _SECRET.search(name.lower()):
                yield (
                    setting,
                    f"{name} looks like a key; put it in a variable, and name that in {setting}_env",
                )
    lowered = [name.lower() for name in (*headers, *headers_env)]
    twice = next((name for name in lowered if lowered.count(name) > 1), None)
    if twice is not None:
        yield "headers", f"{twice} is set twice"
    both = next((name for name in query if name in query_env), None)
    if both is not None:
        yield "query", f"{both} is set twice"


def address_problem(provider: str, base_url: str | None) -> str | None:
    """The problem with a provider's address; ``None`` if it is valid."""
    if provider == REPLAY:
        return None if base_url else "replay needs base_url: the file of recorded replies"
    if base_url is None or provider == PYTHON:
        return None
    if not re.match(r"https?://[^/]", base_url):
        return f"expected an address that begins with http:// or https://, found {base_url!r}"
    if "@" in base_url.split("/")[2]:
        return "expected an address without a password; name the key's variable in api_key_env"
    return None


def key_variable(provider: str, stated: str | None, base_url: str | None) -> str | None:
    """The environment variable of a key: the stated one, or the provider's own at its own address.

    Any other address gets a key only if the configuration names the variable.
    """
    if stated is not None or base_url is not None or provider in {REPLAY, PYTHON}:
        return stated
    return PROVIDERS[provider].key_variable
