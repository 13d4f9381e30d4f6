"""The answers of functions, for comparisons in Python: asked for and kept as those of models are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tiltyard.core.judging.matches import Prompt
from tiltyard.errors import BadOption
from tiltyard.files.answer import Answer
from tiltyard.judges.judging_run import JudgingDatabases, RunProgress, run_judging
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.python_functions import ModelFunction, function_fields
from tiltyard.settings.config_section import repeated
from tiltyard.settings.environment import read_environment
from tiltyard.settings.prices import open_prices
from tiltyard.settings.tournament_sections import JudgeSection
from tiltyard.tournaments.answer_generation import (
    EntrantSetup,
    ExistingAnswers,
    GenerationPlan,
    missing_calls,
    open_author,
)
from tiltyard.tournaments.inputs import bank_prompts
from tiltyard.tournaments.tournament_run import RunObserver

#: Prompts that functions answer: a file of them, texts, or mappings with ``prompt`` and other fields of an answer.
PromptInputs = str | os.PathLike[str] | Iterable[str | Mapping[str, Any]]
_PROMPT_FIELDS = ("prompt_id", "prompt", "category", "language", "gold", "expected_behavior", "source")
_SHARD_COUNT = 500


def function_answers(
    functions: Sequence[ModelFunction], prompts: PromptInputs, version: str, watch: RunObserver
) -> list[list[Answer]]:
    """What each function answers to the prompts. The same version of a function is not asked the same twice.

    Raises `BadOption` if one has no answer to some prompt: calling again asks for what is missing.
    """
    if isinstance(prompts, str | os.PathLike):
        prompts = [asdict(one) | {"prompt": one.text} for _, one in bank_prompts(Path(prompts))]
    asked = [_prompt(one, number) for number, one in enumerate(prompts, start=1)]
    environment, prices = read_environment(), open_prices()
    seats: dict[str, EntrantSetup] = {}
    for fields in (function_fields(one, version, "model_version") for one in functions):
        name = fields.pop("model")
        served = JudgeSection(**fields).model_dump() | {"model": name}
        seats[name] = open_author(served, name, environment, prices)
    if len(seats) < len(functions):
        raise BadOption(f"functions: two are called {name}; give each a name of its own")
    bank = [Prompt(one.prompt_id, one.prompt) for one in asked]
    if not bank or (twice := repeated(one.prompt_id for one in bank)):
        problem = f"{twice!r} is there twice" if bank else "there are none"
        raise BadOption(f"prompts: {problem}; expected prompts, each with a prompt_id of its own")
    kept = dict.fromkeys(seats, ExistingAnswers(set(), {}))
    plan = GenerationPlan([*seats.values()], dict.fromkeys(seats, ""), bank, kept)
    databases, run = JudgingDatabases.of(environment, None), f"functions-{plan.sha256[:16]}"
    failures: Mapping[str, str] = {}
    with closing(Ledger(databases.ledger)) as ledger:
        ledger.open_run(run, plan.sha256, None)
        calls = missing_calls(plan, ledger)
        watch.begun(Path(), calls, 0, None, resumed=False)
        if calls:
            heard = RunProgress(on_tick=watch.tick)
            failures = run_judging(plan, run, databases, shard_size=_SHARD_COUNT, heard=heard).failures
        found = []
        for name, seat in seats.items():
            keys = [plan.request(seat, prompt).key for prompt in bank]
            bodies = ledger.replies(keys)
            if missing := sum(key not in bodies for key in keys):
                why = "; ".join(failures.values()) or "calls failed"
                raise BadOption(f"{name} gave no answer to {missing:,} of {len(keys):,} prompts: {why}")
            rows = (one.to_dict() | bodies[key][-1] for one, key in zip(asked, keys, strict=True))
            found.append([Answer.from_dict({**row, "model": name}, name) for row in rows])
    return found


def _prompt(given: str | Mapping[str, Any], number: int) -> Answer:
    """A prompt as an answer without a response; one without an id has its hash."""
    row = {"prompt": given} if isinstance(given, str) else given
    digest = hashlib.sha256(str(row.get("prompt")).encode("utf-8", "surrogatepass")).hexdigest()
    row = {name: row[name] for name in _PROMPT_FIELDS if name in row}
    blank = {"prompt_id": f"p{digest[:16]}", "model": "", "response": ""}
    return Answer.from_dict(blank | row, f"prompt {number}")
