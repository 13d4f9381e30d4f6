"""Providers by name, and those without a network: replies from a file, found by the nonce of the question, and of functions.

Functions are called in this process, and what they return is kept as replies are.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import Reply, VerdictForm, VerdictStep, read_reply
from tiltyard.errors import BadOption, MissingExtra, ProviderFault, UnreadableFile
from tiltyard.files.answer import Answer
from tiltyard.foundation.local_files import read_regular
from tiltyard.foundation.option_names import quoted
from tiltyard.judges.providers.provider import (
    Body,
    Capabilities,
    Provider,
    Usage,
    checked_options,
    parse_body,
    parse_token_count,
    repair_surrogates,
    served_model,
)
from tiltyard.settings.model_endpoints import PROVIDERS, PYTHON, REPLAY, EndpointRoute

if TYPE_CHECKING:
    from tiltyard.judges.providers.http_client import HttpProvider

_NONCE = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{32}(?![0-9a-zA-Z])")
_OURS = ("model", "system", "user", "max_tokens", "form")
_STOPS = ("end", "length", "refusal", "other")
#: Takes the prompt and the responses that are shown first and second; returns ``A``, ``B``, ``tie``, one of the five
#: steps, or a mapping with ``verdict`` and ``reasoning``. It may be a coroutine function.
JudgeFunction = Callable[[str, str, str], Any]
#: Takes a prompt; returns the answer, or a mapping with ``response``, and ``usage`` or ``scores`` as in a file of answers.
#: It may be a coroutine function.
ModelFunction = Callable[[str], Any]

_TIE = "tie"
_BLANK = dict.fromkeys(("prompt_id", "prompt", "model"), "")
#: The functions of this process, by address.
_functions: dict[str, Callable[..., Any]] = {}


class ReplayProvider(Provider):
    """A file of lines ``{"nonce": …, "reply": {"text": …, "stop": "end", "usage": {…}}}``.

    ``stop`` defaults to ``end``; ``data`` may be given with or instead of ``text``, and ``usage`` (input,
    output, cache_write, cache_read) may be absent.
    """

    name = "replay"
    adapter_version = 1
    capabilities = Capabilities(schema=True, tool=True)

    def __init__(self, path: str) -> None:
        self._path = path
        self._replies, self._sha256 = _recorded(path)

    @property
    def base_url(self) -> str:
        """The hash of the file: independent of its path, different if any reply changes."""
        return f"replay:{self._sha256}"

    @property
    def address(self) -> str:
        return self.base_url

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        extra, _ = checked_options(options, _OURS)
        body = {"model": model, "system": ask.system, "user": ask.user}
        images = {"images": list(ask.images)} if ask.images else {}
        return body | images | {"max_tokens": ask.max_tokens, "form": ask.form.value} | extra

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        text, data, stop, usage = (body.get(key) for key in ("text", "data", "stop", "usage"))
        reply = Reply(
            text=repair_surrogates(text) if isinstance(text, str) else None,
            data=data if isinstance(data, Mapping) else None,
            stop=stop if isinstance(stop, str) and stop in _STOPS else "end" if stop is None else "other",
            model=served_model(body),
        )
        return reply, _usage(usage)

    async def complete(self, body: Body) -> Body:
        match = _NONCE.search(str(body.get("user")))
        reply = self._replies.get(match[0]) if match else None
        if reply is None:
            nonce = match[0] if match else "without a nonce"
            raise ProviderFault(
                f"{self._path}: no recorded reply for this question ({nonce}); "
                "the prompt, a response or the rubric changed since it was recorded: record it again, or use a real judge"
            )
        return reply

    async def aclose(self) -> None:
        """Nothing to close."""


def _recorded(path: str) -> tuple[dict[str, Body], str]:
    try:
        content = read_regular(Path(path))
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot read the recorded replies: {error.strerror or error}") from None
    replies: dict[str, Body] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = parse_body(line)
        except ValueError as error:
            raise UnreadableFile(f"{where}: not JSON ({error})") from None
        nonce, reply = (row.get("nonce"), row.get("reply")) if isinstance(row, dict) else (None, None)
        if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce) or not isinstance(reply, dict):
            raise UnreadableFile(f'{where}: expected {{"nonce": "<32 hex digits>", "reply": {{"text": …}}}}')
        replies[nonce] = reply
    return replies, hashlib.sha256(content).hexdigest()


def _usage(stated: object) -> Usage | None:
    if not isinstance(stated, Mapping):
        return None
    counts = [
        parse_token_count(stated.get(key, 0)) for key in ("input", "output", "cache_write", "cache_read")
    ]
    known = [count for count in counts if count is not None]
    return Usage(*known) if len(known) == len(counts) else None


def function_fields(
    function: Callable[..., Any], version: str, option: str = "judge_version"
) -> dict[str, Any]:
    """The settings of a judge or model that is this function. What it said in this version is not asked again.

    A coroutine function is called many times at once, another one once at a time, in a thread.
    """
    name = getattr(function, "__name__", type(function).__name__).strip("<>")
    if not (version and version.isprintable()):
        raise BadOption(f"{option} is {version!r}; expected a text, such as '1'")
    address = f"{PYTHON}:{name}@{version}{'' if option == 'judge_version' else ' as a model'}"
    _functions[address] = function
    at_once = {} if inspect.iscoroutinefunction(function) else {"concurrency": 1}
    return {"model": name, "provider": PYTHON, "base_url": address, "form": VerdictForm.TOOL.value, **at_once}


class PythonFunction(Provider):
    """A function as a judge or model. Its address has its name and version."""

    name = PYTHON
    adapter_version = 1
    capabilities = Capabilities(tool=True)
    base_url = address = ""

    def __init__(self, address: str) -> None:
        self.base_url = self.address = address

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        if ask.shown is None:
            return {"model": model, "prompt": ask.user}
        shown = {"prompt": ask.shown.prompt, "first": ask.shown.first, "second": ask.shown.second}
        return {"model": model, **shown, **options}

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        return (Reply(body["response"]) if "response" in body else Reply(None, body)), None

    async def complete(self, body: Body) -> Body:
        function = _functions.get(self.address)
        if function is None:
            raise self._failed("is a function: compare in Python, with judge=FUNCTION")
        shown = [body[name] for name in ("prompt", "first", "second") if name in body]
        try:
            if inspect.iscoroutinefunction(function):
                said = await function(*shown)
            else:
                said = await asyncio.to_thread(function, *shown)
        except Exception as error:
            raise self._failed(f"raised {type(error).__name__}: {error}") from error
        return self._verdict(said) if len(shown) > 1 else self._answer(said)

    def _answer(self, said: object) -> Body:
        """An answer as it is kept; anything else is an error of the function, as with a verdict."""
        stated = said if isinstance(said, Mapping) else {"response": said}
        kept = {name: stated[name] for name in ("response", "usage", "scores") if name in stated}
        try:
            row = Answer.from_dict({**_BLANK, **kept}, "its answer").to_dict()
        except UnreadableFile as error:
            raise self._failed(f"returned {quoted(said)}: {error}") from None
        if not str(row["response"]).strip():
            raise self._failed("returned an empty answer")
        return {name: row[name] for name in kept if name in row}

    def _verdict(self, said: object) -> Body:
        """A verdict as it is kept; anything else is an error of the function, and not kept."""
        stated = said if isinstance(said, Mapping) else {"verdict": said}
        if stated.get("verdict") == _TIE:
            stated = {**stated, "verdict": VerdictStep.EVEN.value}
        found = read_reply(Reply(None, stated), VerdictForm.TOOL)
        if found.verdict is None:
            raise self._failed(f"returned {quoted(said)}, expected A, B or {_TIE}: {found.problem}")
        verdict = found.verdict
        return {"verdict": verdict.step.value, "both_bad": verdict.both_bad, "reasoning": verdict.reasoning}

    def _failed(self, problem: str) -> ProviderFault:
        return ProviderFault(
            f"the function {self.address} {problem}", status=HTTPStatus.INTERNAL_SERVER_ERROR, fatal=True
        )

    async def aclose(self) -> None:
        """Nothing to close."""


def open_provider(
    name: str,
    base_url: str | None,
    api_key: str | None,
    timeout_seconds: float = 600.0,
    route: EndpointRoute | None = None,
) -> Provider:
    """Create a provider; a ``base_url`` of ``None`` is its default. Nothing is sent yet, and no key is needed yet.

    Use it on one event loop, and close it before that loop ends. For ``replay``, ``base_url`` is the path of the
    file of recorded replies. ``route`` adds path, query and headers.
    """
    if name == PYTHON:
        return PythonFunction(base_url or "")
    if name != REPLAY:
        return open_http_provider(name, base_url, api_key, timeout_seconds, route)
    if base_url is None:
        raise BadOption("base_url: a replayed judge needs the path of its file of recorded replies")
    return ReplayProvider(base_url)


def open_http_provider(
    name: str, base_url: str | None, api_key: str | None, timeout_seconds: float, route: EndpointRoute | None
) -> HttpProvider:
    """The same for a provider over HTTP, whose answers can be streamed: the ``ADAPTER`` of the module with its name."""
    if name not in PROVIDERS:
        raise BadOption(f"provider: {name!r}; expected one of {', '.join((*PROVIDERS, REPLAY))}")
    try:
        adapter: type[HttpProvider] = import_module(f"tiltyard.judges.providers.{name}").ADAPTER
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "truststore", "yarl"}:
            raise
        raise MissingExtra("judges", f"calling {name} models") from None
    return adapter(base_url, api_key, timeout_seconds, route)
