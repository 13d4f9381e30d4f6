"""Invented battles in the columns of LMArena's data sets, the same for everybody who makes them."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

#: The file of each world: its data set, its seed, and whether one of two sides is favoured in who is shown there.
WORLDS = {
    "140k.jsonl": ("140k", 1, False),
    "140k-sides.jsonl": ("140k", 2, True),
    "100k.jsonl": ("100k", 3, False),
}
_BATTLES, _MODELS = 2500, 8
_CRITERIA = (
    "complexity",
    "creativity",
    "domain_knowledge",
    "problem_solving",
    "real_world",
    "specificity",
    "technical_accuracy",
)


def write_world(folder: Path, name: str) -> Path:
    """Write the battles of a world; the path of its file."""
    kind, seed, one_sided = WORLDS[name]
    rng = random.Random(seed)
    strength = [rng.gauss(0, 0.6) for _ in range(_MODELS)]
    verbose = [rng.gauss(0, 0.5) for _ in range(_MODELS)]
    often = [0.3 + rng.paretovariate(1.5) for _ in range(_MODELS)]
    path = folder / name
    with path.open("w", encoding="utf-8") as file:
        for number in range(_BATTLES):
            a = b = 0
            while a == b:
                a, b = rng.choices(range(_MODELS), often, k=2)
            if one_sided and verbose[a] < verbose[b] and rng.random() < 0.5:
                a, b = b, a
            file.write(json.dumps(_battle(rng, kind, number, (a, b), strength, verbose)) + "\n")
    return path


def _battle(
    rng: random.Random,
    kind: str,
    number: int,
    pair: tuple[int, int],
    strength: list[float],
    verbose: list[float],
) -> dict[str, object]:
    tokens = [1 + int(math.exp(rng.gauss(5.5 + verbose[model], 0.7))) for model in pair]
    leans = strength[pair[0]] - strength[pair[1]] + 0.4 * (tokens[0] - tokens[1]) / sum(tokens)
    drawn = rng.random()
    won = "model_a" if rng.random() < 1 / (1 + math.exp(-leans)) else "model_b"
    counts: dict[str, object] = {
        "sum_user_tokens": int(math.exp(rng.gauss(4.5, 1.5))),
        "turns": 1 + (rng.random() < 0.3),
    }
    for side, model, length in zip("ab", pair, tokens, strict=True):
        counts[f"sum_assistant_{side}_tokens"] = length
        headers = {f"h{level}": rng.randrange(3) if verbose[model] > 0 else 0 for level in range(1, 7)}
        counts[f"header_count_{side}"] = headers
        counts[f"list_count_{side}"] = {"ordered": rng.randrange(4), "unordered": rng.randrange(3)}
        counts[f"bold_count_{side}"] = {"**": rng.randrange(5), "__": 0}
    told = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    battle: dict[str, object] = {
        "model_a": f"model-{pair[0]}",
        "model_b": f"model-{pair[1]}",
        "winner": "both_bad" if drawn < 0.12 else "tie" if drawn < 0.25 else won,
        "conversation_a": told,
        "conversation_b": told,
        "conv_metadata": counts,
        "category_tag": {
            "creative_writing_v0.1": {"creative_writing": rng.random() < 0.3, "score": "yes"},
            "criteria_v0.1": {name: rng.random() < 0.75 for name in _CRITERIA},
            "if_v0.1": {"if": rng.random() < 0.4, "score": rng.randrange(6)},
            "math_v0.1": {"math": rng.random() < 0.3},
        },
        "language": rng.choices(("English", "Chinese", "German"), (6, 3, 1))[0],
        "is_code": rng.random() < 0.35,
    }
    if kind == "100k":
        voter = {
            "judge_hash": f"judge-{rng.randrange(600)}",
            "tstamp": 1.7e9 + number,
            "turn": counts["turns"],
        }
        return {"question_id": f"q{number}", **battle, **voter}
    session = {"evaluation_session_id": f"session-{rng.randrange(900)}", "evaluation_order": 1}
    return {"id": f"q{number}", **battle, **session, "timestamp": "2026-05-01 12:00:00"}
