"""Replays replies from a file, found by the nonce of the question. No network, no cost."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import Reply
from tiltyard.errors import ProviderFault, UnreadableFile
from tiltyard.foundation.local_files import read_regular
from tiltyard.judges.providers.json_bodies import (
    checked_options,
    parse_body,
    parse_token_count,
    repair_surrogates,
    served_model,
)
from tiltyard.judges.providers.provider import Body, Capabilities, Provider, Usage

_NONCE = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{32}(?![0-9a-zA-Z])")
_OURS = ("model", "system", "user", "max_tokens", "form")
_STOPS = ("end", "length", "refusal", "other")


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
