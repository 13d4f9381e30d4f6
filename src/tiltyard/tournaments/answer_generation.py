"""Generates the entrants' answers, through the same providers, ledger and job engine as judges; and those of functions."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from tiltyard.core.judging.matches import Prompt
from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.errors import BadConfig, BadOption
from tiltyard.files.answer import Answer, read_flag
from tiltyard.files.answers import read_answers
from tiltyard.files.format_detection import open_records
from tiltyard.foundation.local_files import refuse_unwritable
from tiltyard.jobs.engine import Shard
from tiltyard.judges.judging_run import JudgingDatabases, RunProgress, run_judging
from tiltyard.judges.ledger import Attempt, Ledger
from tiltyard.judges.providers.local_replies import ModelFunction, function_fields
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.requests import JudgeRequest, JudgeSetup, open_model, request_key
from tiltyard.settings.config_section import repeated
from tiltyard.settings.environment import Environment, read_environment
from tiltyard.settings.prices import PriceBook, open_prices, to_picodollars
from tiltyard.settings.tournament_config import TournamentConfig, complete_judge
from tiltyard.settings.tournament_sections import Entrant, JudgeSection
from tiltyard.tournaments.inputs import bank_prompts, read_bank, responses_path
from tiltyard.tournaments.tournament_plan import cut_into_shards
from tiltyard.tournaments.tournament_run import RunObserver, check_budget, judging_databases

_DIMENSION = "generate"
_PROMPT_BATCH_COUNT = 200
_FAILED = (QuestionState.PROVIDER_ERROR, QuestionState.EXPIRED, QuestionState.LOST)
#: Prompts that functions answer: a file of them, texts, or mappings with ``prompt`` and other fields of an answer.
PromptInputs = str | os.PathLike[str] | Iterable[str | Mapping[str, Any]]
_PROMPT_FIELDS = ("prompt_id", "prompt", "category", "language", "gold", "expected_behavior", "source")
_SHARD_COUNT = 500


@dataclass(frozen=True)
class GenerationResult:
    """By entrant: answers that existed, were written now, and are still missing by state."""

    had: Mapping[str, int]
    written: Mapping[str, int]
    missing: Mapping[str, Counter[str]]
    #: Truncated answers in the file, including earlier ones.
    truncated: Mapping[str, int]
    #: The token limit of each entrant's replies.
    max_tokens: Mapping[str, int]
    #: Picodollars spent on this plan, including earlier runs; ``None`` if a price is unknown.
    spent: int | None
    #: Providers' error messages for missing answers.
    problems: Sequence[str]

    @property
    def complete(self) -> bool:
        """Whether every entrant has a complete answer to every prompt."""
        return not any(map(Counter.total, self.missing.values())) and not any(self.truncated.values())

    @property
    def nothing(self) -> bool:
        """Whether there are no answers at all."""
        return not any((*self.had.values(), *self.written.values()))


@dataclass(frozen=True)
class ExistingAnswers:
    """Existing answers of one entrant: prompts with a complete answer, and truncated texts by prompt."""

    whole: set[str]
    truncated: dict[str, str]

    def add(self, prompt_id: str, text: str, *, truncated: bool) -> None:
        if truncated:
            self.truncated[prompt_id] = text
        else:
            self.whole.add(prompt_id)

    def __len__(self) -> int:
        return len(self.whole | self.truncated.keys())


@dataclass(frozen=True)
class EntrantSetup(JudgeSetup):
    """An entrant that generates answers. Any final text counts as its answer, even a refusal."""

    judges: ClassVar[bool] = False

    def read(self, body: Body) -> QuestionState:
        reply, _ = self.provider.read(body)
        if reply.stop == "length":
            return QuestionState.TRUNCATED
        if reply.text and reply.text.strip():
            return QuestionState.OK
        return QuestionState.REFUSED if reply.stop == "refusal" else QuestionState.UNPARSEABLE

    def answer(self, bodies: Sequence[Body]) -> tuple[QuestionState, str] | None:
        """The answer among the replies to a prompt: a complete one, else a truncated one."""
        for state in (QuestionState.OK, QuestionState.TRUNCATED):
            for body in bodies:
                text = self.provider.read(body)[0].text
                if self.read(body) is state and text and text.strip():
                    return state, text
        return None


@dataclass(frozen=True)
class GenerationPlan:
    """All prompts for all entrants, numbered; those with a complete answer are skipped."""

    seats: Sequence[EntrantSetup]
    systems: Mapping[str, str]
    bank: Sequence[Prompt]
    #: Existing answers by entrant.
    kept: Mapping[str, ExistingAnswers]

    def __len__(self) -> int:
        return len(self.seats) * len(self.bank)

    def open(self, first: int = 0, last: int | None = None) -> Iterator[tuple[EntrantSetup, Prompt]]:
        """The entrants and prompts without a complete answer, in a range of numbers."""
        for number in range(first, len(self) if last is None else last):
            seat, prompt = self.seats[number // len(self.bank)], self.bank[number % len(self.bank)]
            if prompt.prompt_id not in self.kept[seat.name].whole:
                yield seat, prompt

    def requests(self, first: int, last: int) -> Iterator[JudgeRequest]:
        return (self.request(seat, prompt) for seat, prompt in self.open(first, last))

    def request(self, seat: EntrantSetup, prompt: Prompt) -> JudgeRequest:
        ask = ChatPrompt(self.systems[seat.name], prompt.text, seat.settings.max_tokens)
        body = seat.provider.body(seat.settings.model, ask, seat.options)
        key, size = request_key(seat.provider, body, 0)
        worst = seat.worst(size, batch=seat.settings.batch)
        name = f"{seat.name}/{prompt.prompt_id}"
        return JudgeRequest(key, name, seat.name, _DIMENSION, body, size, worst, prompt.prompt_id)

    def shards(self, run: str, generation: int, size: int) -> Iterator[Shard]:
        return cut_into_shards(len(self), run, generation, size)

    def prewarm_requests(self) -> Iterator[JudgeRequest]:
        return iter(())

    def trial(self) -> Iterator[JudgeRequest]:
        return iter(())

    @cached_property
    def sha256(self) -> str:
        """A hash that does not depend on existing answers: the budget applies to the whole plan."""
        said = [[[*seat.identity, seat.settings.batch] for seat in self.seats], dict(self.systems)]
        said += [[prompt.prompt_id, prompt.text] for prompt in self.bank]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def generate_answers(
    config: TournamentConfig, watch: RunObserver, beside: Path | None = None
) -> GenerationResult:
    """Append missing answers to ``responses_<entrant>.jsonl`` for every entrant with a section ``generate``.

    A truncated answer is written with ``truncated``, and generated again once its request changes, for
    example with a larger limit; the new answer is appended and replaces it. ``.env`` is read from the
    folder of the configuration, or from ``beside``.
    """
    if config.caches.responses_dir is None:
        raise BadConfig(f"{config.path}: set caches.responses_dir, the folder for generated answers")
    environment = read_environment(beside or config.folder)
    bank = read_bank(config)
    authors = [entrant for entrant in config.entrants if entrant.generate is not None]
    if not authors:
        raise BadConfig(f"{config.path}: no entrant has a section generate: with its provider and model")
    prices = open_prices(config.prices, config.folder)
    seats = [_author(entrant, environment, prices) for entrant in authors]
    kept = {author.entrant_id: _kept(responses_path(config, author.entrant_id)) for author in authors}
    for path in config.answers:
        for answer in read_answers(config.at(path)):
            if answer.model in kept and answer.comparable:
                kept[answer.model].add(answer.prompt_id, answer.response, truncated=answer.truncated)
    systems = {
        author.entrant_id: (author.generate.system if author.generate else None) or "" for author in authors
    }
    return _asked(config, GenerationPlan(seats, systems, bank, kept), environment, watch)


def _asked(
    config: TournamentConfig, errands: GenerationPlan, environment: Environment, watch: RunObserver
) -> GenerationResult:
    """Request the missing answers, then append them to the files."""
    databases = judging_databases(config, environment)
    check_budget(config, errands.seats)
    cap = None if config.budget_usd is None else to_picodollars(config.budget_usd)
    run = f"generate-{errands.sha256[:16]}-{config.shard_size}"
    sat = None
    with closing(Ledger(databases.ledger)) as ledger:
        resumed = ledger.plan_of(run) is not None
        row = ledger.open_run(run, errands.sha256, cap)
        calls = missing_calls(errands, ledger)
        assert config.caches.responses_dir is not None
        watch.begun(config.at(config.caches.responses_dir), calls, row.spent, cap, resumed=resumed)
        if calls:
            heard = RunProgress(on_tick=watch.tick)
            sat = run_judging(errands, run, databases, shard_size=config.shard_size, heard=heard)
        failed = {one.request_key: one for one in ledger.attempts(run) if one.state in _FAILED}
        why = dict.fromkeys(sat.failures.values() if sat is not None else ())
        written: Counter[str] = Counter()
        truncated: Counter[str] = Counter()
        missing: dict[str, Counter[str]] = {seat.name: Counter() for seat in errands.seats}
        for seat in errands.seats:
            for ending in _append(responses_path(config, seat.name), seat, errands, ledger, failed):
                written[seat.name] += ending.written
                truncated[seat.name] += ending.kept and ending.state == QuestionState.TRUNCATED
                if not ending.kept:
                    missing[seat.name][ending.state] += 1
                if ending.problem is not None:
                    why[ending.problem] = None
        spent = None if any(seat.price is None for seat in errands.seats) else ledger.run(run).spent
    had = {name: len(existing) for name, existing in errands.kept.items()}
    limits = {seat.name: seat.settings.max_tokens for seat in errands.seats}
    return GenerationResult(had, written, missing, truncated, limits, spent, list(why))


def missing_calls(errands: GenerationPlan, ledger: Ledger) -> int:
    """The number of calls to make; identical requests of two entrants count once."""
    calls: set[str] = set()
    still_open = errands.open()
    while together := list(islice(still_open, _PROMPT_BATCH_COUNT)):
        asked = {(request := errands.request(seat, prompt)).key: (seat, request) for seat, prompt in together}
        known = ledger.replies(asked)
        calls.update(key for key, (seat, request) in asked.items() if seat.asks(request, known.get(key, [])))
    return len(calls)


@dataclass(frozen=True, slots=True)
class _Ending:
    """The result for one prompt: the state of its answer, and the provider's error message."""

    state: str
    #: Whether the responses file now has an answer, and whether it was written now.
    kept: bool
    written: bool = False
    problem: str | None = None


def _append(
    path: Path, seat: EntrantSetup, errands: GenerationPlan, ledger: Ledger, failed: Mapping[str, Attempt]
) -> Iterator[_Ending]:
    """Append the answers of one entrant to its file, in the order of the bank; yield the result of each prompt."""
    mine = (prompt for other, prompt in errands.open() if other is seat)
    kept = errands.kept[seat.name].truncated
    with refuse_unwritable(path):
        while together := list(islice(mine, _PROMPT_BATCH_COUNT)):
            keys = [errands.request(seat, prompt).key for prompt in together]
            replies = ledger.replies(keys)
            endings: list[_Ending] = []
            rows: list[dict[str, object]] = []
            for prompt, key in zip(together, keys, strict=True):
                answer = seat.answer(replies.get(key, []))
                earlier = kept.get(prompt.prompt_id)
                if answer is None:
                    endings.append(_without(seat, replies.get(key, []), failed.get(key), earlier))
                    continue
                state, text = answer
                new = state is QuestionState.OK or text != earlier
                if new:
                    rows.append(_row(seat, prompt, text, truncated=state is QuestionState.TRUNCATED))
                endings.append(_Ending(state, kept=True, written=new))
            if rows:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8", newline="\n") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
            yield from endings


def _row(seat: EntrantSetup, prompt: Prompt, text: str, *, truncated: bool) -> dict[str, object]:
    row: dict[str, object] = {"entrant_id": seat.name, "prompt_id": prompt.prompt_id, "response_text": text}
    return {**row, "truncated": True} if truncated else row


def _without(
    seat: EntrantSetup, bodies: Sequence[Body], failed: Attempt | None, earlier: str | None
) -> _Ending:
    """The result for a prompt without a new answer; a truncated answer of an earlier request is kept."""
    if earlier is not None:
        return _Ending(QuestionState.TRUNCATED, kept=True, problem=None if failed is None else failed.error)
    if bodies:
        return _Ending(seat.read(bodies[-1]), kept=False)
    if failed is None:
        return _Ending(QuestionState.UNASKED, kept=False)
    return _Ending(failed.state, kept=False, problem=failed.error)


def _kept(path: Path) -> ExistingAnswers:
    kept = ExistingAnswers(set(), {})
    if path.is_file():
        _repair_last_line(path)
    if not path.is_file() or not path.stat().st_size:
        return kept
    for where, record in open_records(path).records():
        text = str(record.get("response_text") or "")
        kept.add(str(record.get("prompt_id")), text, truncated=read_flag(record, "truncated", where))
    return kept


def _repair_last_line(path: Path) -> None:
    """Remove an incomplete last line, left by a process that died while writing; its reply is in the ledger.

    A complete line without a newline, as editors may leave it, gets one.
    """
    try:
        with path.open("r+b") as file:
            data = file.read()
            if not data or data.endswith(b"\n"):
                return
            start = data.rfind(b"\n") + 1
            if _is_record(data[start:]):
                file.write(b"\n")
            else:
                file.truncate(start)
    except OSError as error:
        raise BadOption(f"cannot repair the last line of {path}: {error.strerror or error}") from None


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _author(entrant: Entrant, environment: Environment, prices: PriceBook) -> EntrantSetup:
    generate = entrant.generate
    assert generate is not None
    fields = generate.model_dump(exclude={"system"})
    return open_author({**fields, "family": entrant.family}, entrant.entrant_id, environment, prices)


def open_author(
    fields: Mapping[str, Any], name: str, environment: Environment, prices: PriceBook
) -> EntrantSetup:
    """A model that answers under this name, by the fields of where it is served."""
    settings = complete_judge({**fields, "name": name, "form": "text", "prompt_cache": "off"}, prices)
    provider, price = open_model(settings, environment, prices)
    return EntrantSetup(
        settings, provider, VerdictForm.TEXT, price, prices.traits(settings.provider, settings.model)
    )


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
