"""The sample tournament: a configuration, prompts, answers, and a judge with recorded replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tiltyard.core.judging.question import QuestionTexts, question_nonce
from tiltyard.core.judging.rubric import Rubric
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.errors import BadOption
from tiltyard.settings.rubric_files import shipped_rubric
from tiltyard.settings.yaml_file import parse_yaml

#: How the first model compares with the second, as seen from slot A and from slot B.
_STEPS = {
    ">>": (VerdictStep.FIRST_MUCH, VerdictStep.SECOND_MUCH),
    ">": (VerdictStep.FIRST, VerdictStep.SECOND),
    "=": (VerdictStep.EVEN, VerdictStep.EVEN),
    "<": (VerdictStep.SECOND, VerdictStep.FIRST),
    "<<": (VerdictStep.SECOND_MUCH, VerdictStep.FIRST_MUCH),
}


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
