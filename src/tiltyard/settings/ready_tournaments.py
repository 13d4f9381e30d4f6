"""Tournaments that are written for the user: a configuration from a few words, and the sample with a recorded judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from tiltyard.core.judging.question import QuestionTexts, Rubric, question_nonce
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.errors import BadOption
from tiltyard.foundation.option_names import option_name
from tiltyard.settings.config_section import ConfigSection, Many, validate_section
from tiltyard.settings.environment import read_environment
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.settings.prices import PriceEntry, open_prices
from tiltyard.settings.tournament_config import SHIPPED, shipped_rubric
from tiltyard.settings.tournament_sections import Judges
from tiltyard.settings.yaml_file import parse_yaml, read_yaml, write_yaml

#: The rubric where none is named.
DEFAULT_RUBRIC = "preference"
_COMMENTS = {
    "entrants": "The models that are compared, by their names in the answers.",
    "prompts": "The prompts, and the files with the answers to them. Paths are relative to this file.",
    "rubrics": f"What judges compare: {', '.join(SHIPPED)}, or your own: `my_dimension: {{path: FILE}}`.",
    "modes": "Who judges, and on which prompts. `tiltyard run FILE --mode NAME` runs one of these modes.",
    "checks": "Control questions for each judge and dimension.",
    "budget_usd": "A run never spends more than this, in dollars.",
    "prices": "Dollars for a million tokens.",
}
_EXAMPLES = {"budget_usd": 5.0, "prices": {"my-model": {"input": 0.2, "output": 0.8}}}
#: How the first model compares with the second, as seen from slot A and from slot B.
_STEPS = {
    ">>": (VerdictStep.FIRST_MUCH, VerdictStep.SECOND_MUCH),
    ">": (VerdictStep.FIRST, VerdictStep.SECOND),
    "=": (VerdictStep.EVEN, VerdictStep.EVEN),
    "<": (VerdictStep.SECOND, VerdictStep.FIRST),
    "<<": (VerdictStep.SECOND_MUCH, VerdictStep.FIRST_MUCH),
}


@dataclass(frozen=True, slots=True)
class QuickJudge:
    """A judge as a command names it; what is not stated is taken from what is known of the model."""

    model: str
    provider: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    #: Further fields of a judge, as in a configuration.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _place(self) -> tuple[str, str | None, str | None]:
        """The provider, the address unless it is the provider's own, and the variable that names it."""
        known = open_prices().shipped.get(self.model)
        provider = self.provider or (known.provider if known is not None else None)
        if provider is None:
            provider = next(
                (name for name, one in PROVIDERS.items() if self.model.startswith(one.model_prefixes)),
                "openai",
            )
        if self.base_url is not None:
            return provider, self.base_url, None
        if self.provider is None and known is not None and known.base_url:
            return provider, known.base_url[0], None
        variable = f"{provider.upper()}_BASE_URL"
        address = _variables().get(variable, "").strip() if provider in PROVIDERS else ""
        return (provider, address, variable) if address else (provider, None, None)

    def told(self) -> str | None:
        """A line about an address that an environment variable names."""
        _, address, variable = self._place
        return f"{self.model} is asked at {address} ({variable})." if variable else None

    def settings(self) -> dict[str, Any]:
        """The fields of a judge that differ from their defaults."""
        provider, address, variable = self._place
        key = self.api_key_env
        if key is None and variable and PROVIDERS[provider].key_variable in _variables():
            # The provider's own library sends its key there too.
            key = PROVIDERS[provider].key_variable
        stated = {"model": self.model, "provider": provider, "base_url": address, "api_key_env": key}
        return {name: value for name, value in stated.items() if value is not None} | dict(self.options)


class _JudgeFile(ConfigSection):
    judges: Annotated[Judges, Many]


def judges_in_file(path: Path) -> list[QuickJudge]:
    """The judges of a YAML file with ``judges``, as a mode of a configuration has them."""
    found = []
    for judge in validate_section(_JudgeFile, read_yaml(path), {}).judges:
        stated = judge.model_dump(mode="json", exclude_unset=True)
        place = {name: stated.pop(name, None) for name in ("provider", "base_url", "api_key_env")}
        found.append(QuickJudge(stated.pop("model"), **place, options=stated))
    return found


def _variables() -> Mapping[str, str]:
    return read_environment().variables


def quick_rubric(stated: str | None) -> tuple[str, dict[str, Any] | None]:
    """The dimension and section of a rubric: the name of a built-in one, or a file."""
    name = stated or DEFAULT_RUBRIC
    if name in SHIPPED:
        return name, None
    path = Path(name)
    if not path.is_file():
        raise BadOption(f"{option_name('rubric', name)} is neither a file nor one of {', '.join(SHIPPED)}")
    return path.stem, {"path": str(path.resolve())}


def quick_document(
    entrants: Sequence[str],
    judges: Sequence[QuickJudge],
    rubrics: Sequence[str],
    *,
    mode: str,
    budget_usd: float | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
) -> dict[str, Any]:
    """A configuration beside ``prompts.jsonl`` and ``answers.jsonl``, as written to its file."""
    document: dict[str, Any] = {
        "entrants": [{"entrant_id": name} for name in entrants],
        "prompts": {"bank_path": "prompts.jsonl"},
        "answers": ["answers.jsonl"],
        "rubrics": dict(quick_rubric(one) for one in rubrics or (DEFAULT_RUBRIC,)),
        "modes": {mode: {"judges": [judge.settings() for judge in judges]}},
    }
    if budget_usd is not None:
        document["budget_usd"] = budget_usd
    if prices:
        document["prices"] = {
            name: entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            for name, entry in prices.items()
        }
    return document


def quick_yaml(document: Mapping[str, Any]) -> str:
    """The text of a configuration, with a comment before each section; common sections that it lacks are comments."""
    blocks = []
    for name, value in document.items():
        comment = f"# {_COMMENTS[name]}\n" if name in _COMMENTS else ""
        blocks.append(f"{comment}{write_yaml({name: value})}")
    for name, value in _EXAMPLES.items():
        if name not in document:
            lines = f"{_COMMENTS[name]}\n{write_yaml({name: value})}".splitlines()
            blocks.append("".join(f"# {line}\n" for line in lines))
    return "\n".join(blocks)


@dataclass(frozen=True, slots=True)
class SampleVerdict:
    """The recorded judge's verdict on one question: ``first`` is in slot A, ``second`` in slot B."""

    dimension: str
    prompt_id: str
    first: str
    second: str
    step: VerdictStep
    both_bad: bool
    reasoning: str


def write_sample(folder: Path) -> list[Path]:
    """Write the sample's files to a folder, created if missing; raises if one of the files exists."""
    texts = {folder / name: text for name, text in sample_files().items()}
    there = next((path for path in texts if path.exists()), None)
    if there is not None:
        raise BadOption(f"{there} already exists; choose another folder, or move the file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise BadOption(f"cannot write into {folder}: {error.strerror or error}") from None
    return list(texts)


def sample_files() -> dict[str, str]:
    """The sample's files: name to text."""
    shipped = {name: _text(name) for name in ("tournament.yaml", "prompts.jsonl", "answers.jsonl")}
    lines = (json.dumps(reply, ensure_ascii=False) + "\n" for reply in _replies(shipped))
    return {**shipped, "replies.jsonl": "".join(lines)}


def sample_verdicts() -> Iterator[SampleVerdict]:
    """The recorded judge's verdicts, each pair in both orders."""
    for dimension, prompts in parse_yaml(_text("opinions.yaml"), "opinions.yaml").value.items():
        for prompt_id, pairs in prompts.items():
            for pair, (shown_first, shown_last, why, *flags) in pairs.items():
                one, other = pair.split()
                both_bad = "both_bad" in flags
                for first, second, step in (
                    (one, other, _STEPS[shown_first][0]),
                    (other, one, _STEPS[shown_last][1]),
                ):
                    reasoning = why.format(**{first: "Response A", second: "Response B"})
                    yield SampleVerdict(dimension, prompt_id, first, second, step, both_bad, reasoning)


def recorded_reply(
    shown: QuestionTexts, rubric: Rubric, step: VerdictStep, both_bad: bool, reasoning: str
) -> dict[str, object]:
    """One line of a file of recorded replies: the reply for these texts in this order."""
    verdict = {"reasoning": reasoning, "verdict": step.value, "both_bad": both_bad}
    text = json.dumps(verdict, ensure_ascii=False)
    return {"nonce": question_nonce(shown, rubric), "reply": {"text": text, "stop": "end"}}


def _replies(shipped: Mapping[str, str]) -> Iterator[dict[str, object]]:
    prompts = {row["prompt_id"]: row for row in _rows(shipped["prompts.jsonl"])}
    answers = {(row["model"], row["prompt_id"]): row["response"] for row in _rows(shipped["answers.jsonl"])}
    rubrics: dict[str, Rubric] = {}
    for one in sample_verdicts():
        rubric = rubrics.setdefault(one.dimension, shipped_rubric(one.dimension))
        prompt = prompts[one.prompt_id]
        shown = QuestionTexts(
            prompt=prompt["text"],
            first=answers[one.first, one.prompt_id],
            second=answers[one.second, one.prompt_id],
            gold=prompt.get("gold"),
            expected_behavior=prompt.get("expected_behavior"),
        )
        yield recorded_reply(shown, rubric, one.step, one.both_bad, one.reasoning)


def _rows(text: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in text.splitlines()]


def _text(name: str) -> str:
    return files("tiltyard.settings").joinpath("sample", name).read_text(encoding="utf-8")
