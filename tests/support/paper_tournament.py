"""A tournament in the shape of a published evaluation: 143 prompts of three sources (52 in the gate), four entrants, cached
responses.

Everything is made from one seed. Paths in the configuration are relative to the root of the repository, which is
the working folder of its author; the configuration itself lies deeper. Curated prompts have no gold answer.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.sizes import sized

SOURCES = {"medmcqa_open": sized(10, 24), "medqa": sized(24, 69), "curated": sized(18, 50)}
ENTRANTS = ("olmo_base", "olmo_jury", "olmo_prefs", "olmo_robust")
DIMENSIONS = ("factuality", "calibration", "clinical_utility")
#: Where the files are, from the root.
HOME = "final_evals/elo"
CONFIG = f"{HOME}/configs/tournament1.yaml"
RESPONSES, JUDGMENTS = f"{HOME}/caches/responses", f"{HOME}/caches/judgments"
#: Fields of the configuration that are not ours.
FOREIGN_FIELDS = (
    "tournament_id",
    "description",
    "generation",
    "entrants.*.loader",
    "entrants.*.rob_checkpoint",
    "entrants.*.bypass_jury",
    "entrants.*.temperature",
    "entrants.*.needs_uncertainty",
    "prompts.expected_size",
)
_SUBJECTS = ("cardiology", "dermatology", "neurology", "obstetrics", "pharmacology", "renal medicine")
_SIGNS = ("a dry cough", "swollen ankles", "a new rash", "night sweats", "double vision", "weight loss")
_ACTS = ("an electrocardiogram", "a urine culture", "oral rehydration", "stopping the tablet", "a biopsy")
_REASONS = ("it is quick and safe", "it rules out the worst cause", "guidelines put it first")
_SURE = ("I am certain that", "It is likely that", "Without an examination I can only guess that")
#: What each rubric asks, and whether it shows the gold answer.
_ASKED = {
    "factuality": ("Which response states fewer things that are medically wrong?", True),
    "calibration": ("Which response expresses as much confidence as its content deserves?", True),
    "clinical_utility": ("Which response would help a clinician more with the next step?", False),
}


@dataclass(frozen=True)
class PaperTournament:
    """The files of a tournament, and what stands in them."""

    root: Path
    #: The configuration.
    config: Path
    prompts: list[dict[str, Any]]
    #: Responses by (entrant, prompt_id).
    responses: dict[tuple[str, str], str]
    #: The texts of the rubrics' files, by dimension.
    rubrics: dict[str, str]
    document: dict[str, Any] = field(repr=False)

    @property
    def judgments(self) -> Path:
        """The folder of judgment caches."""
        return self.root / JUDGMENTS

    def pay(self, judge_model: str, dimension: str) -> list[dict[str, Any]]:
        """The judgment cache of a dimension: every pair of responses in both orders, by a fickle judge."""
        drawn = random.Random(f"{judge_model} {dimension}")
        lines = []
        for prompt in self.prompts:
            if dimension == "factuality" and prompt["source"] == "curated":
                continue
            answered = [name for name in ENTRANTS if (name, prompt["prompt_id"]) in self.responses]
            for a, b in itertools.combinations(answered, 2):
                texts = self.responses[a, prompt["prompt_id"]], self.responses[b, prompt["prompt_id"]]
                better = drawn.choice(("A", "B", "TIE"))
                for swapped in (False, True):
                    verdict = {"A": "B", "B": "A"}.get(better, better) if swapped else better
                    verdict = drawn.choice(("A", verdict, verdict, verdict))
                    asked = (judge_model, prompt["prompt_id"], a, b, swapped)
                    lines.append(_judgment(self.rubrics[dimension], dimension, asked, texts, verdict))
        self.write_judgments(dimension, lines)
        return lines

    def write_judgments(self, dimension: str, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write the judgment cache of a dimension."""
        _write_lines(self.judgments / f"judgments_{dimension}.jsonl", lines)

    def write_config(self, **sections: Mapping[str, Any] | Any) -> Path:
        """Write the configuration with these fields added to its sections; anything else replaces a field."""
        for name, value in sections.items():
            old = self.document.get(name)
            self.document[name] = {**old, **value} if isinstance(old, dict) else value
        self.config.write_text(yaml.safe_dump(self.document, sort_keys=False), encoding="utf-8")
        return self.config


def make_paper_tournament(
    root: Path, *, seed: int = 1, missing: Iterable[tuple[str, str]] = ()
) -> PaperTournament:
    """Write the folder. ``missing`` holds (entrant, prompt_id) without a response."""
    drawn = random.Random(seed)
    prompts = [_prompt(drawn, source, number) for source, size in SOURCES.items() for number in range(size)]
    absent = set(missing)
    responses = {
        (entrant, prompt["prompt_id"]): _response(drawn, prompt)
        for entrant in ENTRANTS
        for prompt in prompts
        if (entrant, prompt["prompt_id"]) not in absent
    }
    rubrics = {dimension: _rubric(dimension) for dimension in DIMENSIONS}
    for folder in ("configs", "prompts", "rubrics", "caches/responses", "caches/judgments"):
        (root / HOME / folder).mkdir(parents=True, exist_ok=True)
    _write_lines(root / HOME / "prompts/bank.jsonl", prompts)
    for entrant in ENTRANTS:
        rows = [_cached(drawn, *place, text) for place, text in responses.items() if place[0] == entrant]
        _write_lines(root / RESPONSES / f"responses_{entrant}.jsonl", rows)
    for dimension, text in rubrics.items():
        (root / HOME / f"rubrics/{dimension}.txt").write_text(text, encoding="utf-8")
    made = PaperTournament(root, root / CONFIG, prompts, responses, rubrics, _document())
    made.write_config()
    return made


def _prompt(drawn: random.Random, source: str, number: int) -> dict[str, Any]:
    subject, sign, act = drawn.choice(_SUBJECTS), drawn.choice(_SIGNS), drawn.choice(_ACTS)
    age, curated = drawn.randint(1, 95), source == "curated"
    return {
        "prompt_id": f"{source}_{number:03d}",
        "source": source,
        "text": f"A patient of {age} years has {sign}. What is the next step in {subject}?",
        "gold_answer": None if curated else act[0].upper() + act[1:],
        "expected_behavior": "Asks for what is missing before it advises." if curated else None,
        "subject": subject,
        "metadata": {"index": number},
    }


def _response(drawn: random.Random, prompt: Mapping[str, Any]) -> str:
    act = drawn.choice([*_ACTS, *[str(prompt["gold_answer"] or "a referral").lower()] * 3])
    return (
        f"{drawn.choice(_SURE)} {act} is the next step, because {drawn.choice(_REASONS)}. "
        f"Come back within {drawn.randint(2, 21)} days if nothing changes."
    )


def _cached(drawn: random.Random, entrant: str, prompt_id: str, text: str) -> dict[str, Any]:
    sure = entrant == "olmo_jury"
    return {
        "entrant_id": entrant,
        "prompt_id": prompt_id,
        "response_text": text,
        "p_correct": round(drawn.random(), 4) if sure else None,
        "diagnostics": {"tokens": drawn.randint(20, 90)} if sure else {},
        "timestamp": "2026-04-25T09:00:00+00:00",
    }


def _judgment(
    rubric: str, dimension: str, asked: tuple[str, str, str, str, bool], texts: tuple[str, str], verdict: str
) -> dict[str, Any]:
    judge_model, prompt_id, a, b, swapped = asked
    pair = {"prompt_id": prompt_id, "entrant_a": a, "entrant_b": b, "position_swap": swapped}
    shown = {"response_a": texts[0].strip(), "response_b": texts[1].strip(), "rubric_text": rubric.strip()}
    hashed = json.dumps({**pair, **shown, "judge_model": judge_model}, sort_keys=True, ensure_ascii=False)
    tokens = ("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens")
    return {
        "cache_key": hashlib.sha256(hashed.encode()).hexdigest()[:12],
        "rubric_version": rubric.split("\n", maxsplit=1)[0].split(": ")[1],
        "judge_model": judge_model,
        "verdict": verdict,
        "reasoning": f"The first is “shorter”.\nThe second is longer.\n\nVERDICT: {verdict}",
        "timestamp": "2026-04-26T09:00:00+00:00",
        "metadata": {
            "dimension": dimension,
            **pair,
            "source": prompt_id.rpartition("_")[0],
            **dict.fromkeys(tokens, 100),
        },
    }


def _rubric(dimension: str) -> str:
    asked, gold = _ASKED[dimension]
    shown = ["Question:\n{prompt}"]
    if gold:
        shown.append("Gold answer (trust it):\n{gold_answer}")
    if dimension == "clinical_utility":
        shown.append("What a good response does:\n{expected_behavior}")
    shown += ["First:\n{response_a}", "Second:\n{response_b}"]
    body = "\n\n".join(
        [asked, *shown, "Say why, then end with one line: VERDICT: A, VERDICT: B or VERDICT: TIE."]
    )
    return f"# version: v{len(dimension) % 3 + 1}\n{body}\n"


def _document() -> dict[str, Any]:
    return {
        "tournament_id": "tournament1",
        "description": "Four configurations of one model.",
        "entrants": [
            {
                "entrant_id": entrant,
                "loader": "hydra",
                "rob_checkpoint": "checkpoints/robust.pt" if entrant == "olmo_robust" else None,
                "bypass_jury": entrant != "olmo_jury",
                "temperature": 0.0,
                "needs_uncertainty": entrant == "olmo_jury",
            }
            for entrant in ENTRANTS
        ],
        "prompts": {"bank_path": f"{HOME}/prompts/bank.jsonl", "expected_size": sum(SOURCES.values())},
        "generation": {"max_new_tokens": 512, "batch_size": 8},
        "rubrics": {
            dimension: {
                "path": f"{HOME}/rubrics/{dimension}.txt",
                "expects_gold_answer": dimension == "factuality",
            }
            for dimension in DIMENSIONS
        },
        "judge": {
            "pilot_model": "claude-sonnet-4-5",
            "headline_model": "claude-opus-4-5",
            "use_batch_api": True,
            "use_prompt_caching": True,
            "position_swap": True,
        },
        "elo": {
            "n_perms": 500,
            "shuffle_seed": 20260425,
            "initial_rating": 1400,
            "default_k": 16,
            "k_factor_sweep": [1, 4, 8, 16, 32],
        },
        "caches": {"responses_dir": RESPONSES, "judgments_dir": JUDGMENTS},
    }


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
