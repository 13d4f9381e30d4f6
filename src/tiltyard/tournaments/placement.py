"""Placement: judges a new model against models that people have ranked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tiltyard.core.judging.matches import stable_id
from tiltyard.errors import BadOption
from tiltyard.files.answer import Answer
from tiltyard.files.answers import battle_answers, drop_replaced_answers, read_answers, write_answers
from tiltyard.files.battle_writer import write_rows
from tiltyard.foundation.local_files import (
    atomic_write,
    refuse_unwritable,
)
from tiltyard.settings.prices import PriceEntry, merged_prices, to_picodollars
from tiltyard.settings.rating_options import WriteAs
from tiltyard.settings.tournament_config import (
    PlacementConfig,
    load_config,
    load_placement,
    with_absolute_paths,
)
from tiltyard.settings.tournament_sections import ROUTE_SETTINGS, JudgeDefaults
from tiltyard.settings.yaml_file import write_yaml
from tiltyard.tournaments.answer_generation import GenerationResult, generate_answers
from tiltyard.tournaments.tournament_run import RunObserver

#: The judged dimension: overall preference, as in human votes.
DIMENSION = "preference"
MODE = "place"


@dataclass(frozen=True)
class PlacementRequest:
    """The model to place, the battles that it is placed by, and how many prompts of theirs it meets."""

    battles: Path
    model: str
    #: Files with its answers, and with opponents' where the battles hold none.
    answers: Sequence[Path]
    n: int
    seed: int
    #: ``None``: as the configuration says.
    both_bad: Literal["drop", "tie"] | None = None
    write_as: WriteAs = "tiltyard"


@dataclass(frozen=True, kw_only=True)
class PlacementJudge:
    """Who judges a placement and at what cost: a configuration, and options that go before it."""

    config_path: Path | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    rubric: Path | None = None
    budget_usd: float | None = None
    prices: Mapping[str, PriceEntry] | None = None

    @property
    def folder(self) -> Path:
        """Where the configuration's paths begin."""
        return (self.config_path or Path()).parent


@dataclass(frozen=True)
class Placement:
    """A placement, written as a tournament: its configuration, and how often each opponent was drawn."""

    config: Path
    opponents: Mapping[str, int]
    #: The generated answers of the new model; ``None`` if all its answers were given.
    generated: GenerationResult | None

    @property
    def spent(self) -> int | None:
        """The cost of the new model's answers in picodollars; ``None`` if unknown."""
        return 0 if self.generated is None else self.generated.spent


def draw_opponents(candidates: Mapping[str, Sequence[str]], n: int, seed: int) -> list[tuple[str, str]]:
    """Draw ``n`` prompts by a seeded hash, with one opponent each, opponents as evenly as possible."""
    met: Counter[str] = Counter()
    drawn: list[tuple[str, str]] = []
    for prompt in sorted(candidates, key=lambda name: stable_id([seed, name]))[:n]:
        opponent = min(candidates[prompt], key=lambda name: (met[name], stable_id([seed, prompt, name])))
        met[opponent] += 1
        drawn.append((prompt, opponent))
    return drawn


def prepare_placement(
    request: PlacementRequest, judge: PlacementJudge, folder: Path, watch: RunObserver
) -> Placement:
    """Draw prompts and opponents, generate missing answers of the new model, and write a tournament.

    Opponents' responses come from the battle file where it holds them, and from answers files.
    The budget holds for the answers too: what they cost is gone when judges are asked.
    """
    battles, model = request.battles, request.model
    settings = load_placement(judge.config_path)
    if judge.prices:
        merged = merged_prices(settings.prices, judge.prices, judge.folder)
        settings = settings.model_copy(update={"prices": merged})
    every = (answer for path in request.answers for answer in read_answers(path))
    stated = list(drop_replaced_answers(answer for answer in every if answer.comparable))
    mine = {one.prompt_id: one for one in stated if one.model == model}
    theirs = _by_prompt(battles, stated, model)
    if not theirs:
        raise BadOption(
            f"{battles} contains no responses to compare with, and neither do the answers files; "
            "give the opponents' answers with --answers"
        )
    generates = settings.generate is not None
    candidates = {
        prompt: list(by_model) for prompt, by_model in theirs.items() if generates or prompt in mine
    }
    if not candidates:
        raise BadOption(
            f"{model} has answered none of the {len(theirs):,} prompts of {battles}; give its answers with --answers "
            "(with the prompt_id of the battles), or configure its generation under generate: in --config"
        )
    drawn = draw_opponents(candidates, request.n, request.seed)
    chosen = [theirs[prompt][opponent] for prompt, opponent in drawn]
    document = _document(settings, request, judge, chosen)
    path = _write_inputs(folder, document, chosen, [mine[prompt] for prompt, _ in drawn if prompt in mine])
    opponents = Counter(opponent for _, opponent in drawn)
    if all(prompt in mine for prompt, _ in drawn):
        return Placement(path, opponents, None)
    beside = None if judge.config_path is None else judge.folder
    made = generate_answers(load_config(path, {"budget_usd": judge.budget_usd}), watch, beside)
    return Placement(path, opponents, made)


def _by_prompt(battles: Path, stated: Iterable[Answer], model: str) -> dict[str, dict[str, Answer]]:
    """Opponents' answers by prompt and model."""
    by_prompt: dict[str, dict[str, Answer]] = defaultdict(dict)
    for answer in (*battle_answers(battles), *stated):
        if answer.model != model and answer.kind == "text":
            by_prompt[answer.prompt_id].setdefault(answer.model, answer)
    return by_prompt


def _write_inputs(
    folder: Path, document: Mapping[str, object], opponents: Sequence[Answer], mine: Sequence[Answer]
) -> Path:
    """Write the bank, the answers and the configuration; return the path of the configuration."""
    bank = [
        {
            "prompt_id": one.prompt_id,
            "text": one.prompt,
            "source": one.source,
            "category": one.category,
            "language": one.language,
            "gold": one.gold,
            "expected_behavior": one.expected_behavior,
        }
        for one in opponents
    ]
    path = folder / "tournament.yaml"
    with refuse_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / "prompts.jsonl", bank)
        write_answers(folder / "answers.jsonl", [*opponents, *mine])
        with atomic_write(str(path)) as file:
            file.write(write_yaml(dict(document)).encode())
    return path


def _document(
    settings: PlacementConfig,
    request: PlacementRequest,
    judge: PlacementJudge,
    opponents: Sequence[Answer],
) -> dict[str, object]:
    document = with_absolute_paths(settings.model_dump(mode="json"), judge.folder)
    generate = document.pop("generate")
    _override(document["judge"], judge.overrides)
    judge_model = document["judge"].get("headline_model") or document["judge"].get("pilot_model")
    if judge_model is None:
        raise BadOption("name the judge with --judge-model, or in --config as judge.headline_model")
    names = sorted({answer.model for answer in opponents})
    document["entrants"] = [
        {"entrant_id": request.model, "generate": generate},
        *({"entrant_id": name} for name in names),
    ]
    document["prompts"] = {"bank_path": "prompts.jsonl"}
    document["answers"] = ["answers.jsonl"]
    rubric = None if judge.rubric is None else str(judge.rubric.resolve())
    document["rubrics"] = {DIMENSION: {"path": rubric}}
    document["modes"] = {MODE: {"judges": [judge_model], "prompts": "all", "seed": request.seed}}
    document["overall"] = {DIMENSION: 1.0}
    document["anchors"] = [str(request.battles.resolve())]
    if request.both_bad is not None:
        document["ratings"]["both_bad"] = request.both_bad
    if request.write_as != "tiltyard":
        document["ratings"]["write_as"] = request.write_as
    if generate is not None and document["caches"]["responses_dir"] is None:
        document["caches"]["responses_dir"] = "responses"
    return document


def _override(judge: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Apply options over the file. With another provider, the file's URL, key and options are dropped.

    With another URL, what belongs to the file's URL is dropped.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    if any(stated.get(name, judge[name]) != judge[name] for name in ("provider", "base_url")):
        judge.update(JudgeDefaults().model_dump(include=set(ROUTE_SETTINGS)))
    if stated.get("provider", judge["provider"]) != judge["provider"]:
        judge.update(base_url=None, api_key_env=None, prompt_cache="off", family=None, options={})
    judge.update(stated)
    if "base_url" in stated and judge["provider"] == "replay":
        judge["base_url"] = str(Path(stated["base_url"]).expanduser().resolve())


def new_folder(model: str) -> Path:
    """The default folder for the inputs of a placement."""
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in model)
    return Path("runs") / f"{MODE}_{stamp}_{name[:60]}.inputs"


def remaining_budget(budget_usd: float | None, spent: int | None) -> float | None:
    """The budget left for the judges, in dollars, rounded down."""
    if budget_usd is None:
        return None
    return max(to_picodollars(budget_usd) - (spent or 0), 0) / 10**12
