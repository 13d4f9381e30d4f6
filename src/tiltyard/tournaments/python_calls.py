"""What the functions for Python have in common: options, a run that nobody watches, and event loops."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from tiltyard.errors import BadOption
from tiltyard.judges.judging_run import RunProgress
from tiltyard.settings.ready_tournaments import QuickJudge

T = TypeVar("T")

#: The name of a model, or the fields of a judge as in a configuration.
Judge = str | Mapping[str, Any]


class JudgingOptions(TypedDict, total=False):
    """Options of what a judge decides."""

    #: Built-in rubrics or files; ``preference`` by default.
    rubric: str | Sequence[str]
    #: ``anthropic`` or ``openai``, the address, and the variable with the key, where they are not those of the model.
    provider: str
    base_url: str
    api_key_env: str
    budget_usd: float
    #: Dollars for a million tokens, by model: ``{"my-model": {"input": 0.2, "output": 0.8}}``.
    prices: Mapping[str, Mapping[str, Any]]
    #: Where the result is written; a folder in ``runs`` by default.
    output_dir: str | os.PathLike[str]


class UnwatchedRun:
    """Nobody watches."""

    def begun(self, out: Path, calls: int, spent: int, cap: int | None, *, resumed: bool) -> None: ...
    def tick(self, progress: RunProgress) -> None: ...
    def note(self, sentence: str) -> None: ...
    def rating(self) -> None: ...


def named_judges(judge: Judge | Sequence[Judge], options: JudgingOptions) -> list[QuickJudge]:
    """The judges, each with the place that the options state unless it has its own."""
    judges = [judge] if isinstance(judge, str | Mapping) else list(judge)
    place = options.get("provider"), options.get("base_url"), options.get("api_key_env")
    return [QuickJudge(one, *place) if isinstance(one, str) else _stated_judge(one, place) for one in judges]


def _stated_judge(fields: Mapping[str, Any], place: tuple[str | None, str | None, str | None]) -> QuickJudge:
    if not isinstance(fields.get("model"), str):
        raise BadOption("a judge's settings need the field model: the model's name")
    own = dict(zip(("provider", "base_url", "api_key_env"), place, strict=True))
    named = own | {name: fields[name] for name in own if name in fields}
    rest = {name: value for name, value in fields.items() if name not in (*own, "model")}
    return QuickJudge(fields["model"], **named, options=rest)


def several(one_or_many: str | Sequence[str]) -> Sequence[str]:
    return [one_or_many] if isinstance(one_or_many, str) else one_or_many


def off_the_loop(work: Callable[[], T]) -> T:
    """Do it in a thread of its own where this one runs an event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
