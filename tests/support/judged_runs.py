"""Judged runs with invented verdicts, for folders that are written, damaged and forged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiltyard.core.battles import Battle
from tiltyard.core.judging.canaries import CheckCounts, check_questions
from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of, reparse
from tiltyard.core.judging.match_design import match_questions
from tiltyard.core.judging.matches import Match, PairRules, Prompt, all_pairs, sample_pairs
from tiltyard.core.judging.question import Question, Rubric
from tiltyard.core.judging.verdict import QuestionState, Reply, VerdictForm, VerdictStep
from tiltyard.files import open_battles, write_battles
from tiltyard.files.answer import Answer
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, file_hash, hash_line
from tiltyard.runs.run_verification import Verification
from tiltyard.runs.tournament_files import write_judged_run
from tiltyard.runs.tournament_manifest import JudgedRun

STEPS = [step.value for step in VerdictStep]
STRENGTH = {"ash": 0.7, "birch": 0.55, "cedar": 0.4, "<b>dill": 0.25}
JUDGE = "judge-one"


def number(*parts: object) -> int:
    """A number that follows from its parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


def prompts_of(n: int) -> list[Prompt]:
    return [
        Prompt(
            f"p{k:05d}", f"Question {k}?", source=("exam", "chat")[k % 2], category=("a", "b", None)[k % 3]
        )
        for k in range(n)
    ]


def answers_of(prompts: Sequence[Prompt], models: Sequence[str]) -> list[Answer]:
    return [
        Answer(
            prompt_id=prompt.prompt_id,
            prompt=prompt.text,
            model=model,
            response="- item\n" * (number(model, prompt.prompt_id) % 4)
            + " ".join(f"word{k}" for k in range(1 + number(model) % 9)),
        )
        for prompt in prompts
        for model in sorted(models)
    ]


def step_of(question: Question) -> str:
    """Better models win more often; the same question always gets the same answer."""
    gap = STRENGTH.get(question.first, 0.5) - STRENGTH.get(question.second, 0.5)
    draw = number(question.id) % 1000 / 1000
    return STEPS[min(max(round(2 - 4 * gap + 3 * (draw - 0.55)), 0), 4)]


def judged_of(question: Question) -> JudgedQuestion:
    """What becomes of a question: nearly always a verdict."""
    fate = number("fate", question.id) % 60
    said = {
        "reasoning": f"As I see it: {question.prompt_id}.",
        "verdict": step_of(question),
        "both_bad": fate == 7,
    }
    text: str | None = json.dumps(said)
    reply: Reply | None = Reply(text, None, "end")
    state = QuestionState.OK
    if fate == 0:
        reply = Reply("I would rather not.", None, "refusal")
    elif fate == 1:
        reply = Reply('{"reasoning": "Cut', None, "length")
    elif fate == 2:
        reply = Reply("A wins, I think. \ud800", None, "end")
    elif fate == 3:
        reply, state = None, QuestionState.PROVIDER_ERROR
    key = hashlib.sha256(question.id.encode()).hexdigest()
    one = JudgedQuestion(
        question,
        match_id_of(question),
        state,
        None,
        None,
        reply,
        VerdictForm.SCHEMA,
        key,
        int(reply is not None),
    )
    return reparse(one)


def questions_of(
    dimension: str,
    matches: Sequence[Match],
    judges: Sequence[str],
    checks: int,
    texts: Mapping[tuple[str, str], str],
) -> Iterator[Question]:
    here = [match for match in matches if match.dimension == dimension]
    for match in here:
        yield from match_questions(match, judges)
    yield from check_questions(here, texts, judges, CheckCounts(checks, checks, checks, checks))


def attempts_of(
    judged: Sequence[JudgedQuestion] | Iterator[JudgedQuestion], price: str | None
) -> Iterator[dict[str, Any]]:
    """One row for each question that was not in the cache, and a lost one now and then."""
    for k, one in enumerate(judged):
        if number("cached", one.question.id) % 5 == 0:
            continue
        row = {
            "attempt_id": f"{one.question.dimension}-a{k:07d}",
            "question_id": one.question.id,
            "request_key": one.key,
            "ask": 0,
            "judge_model": one.question.judge,
            "dimension": one.question.dimension,
            "mode": "live",
            "batch_id": None,
            "state": one.state.value,
            "input_tokens": 500 + k % 7,
            "output_tokens": 60,
            "cache_write_tokens": 0,
            "cache_read_tokens": 0,
            "usd": price,
            "reserved_usd": "0.01",
            "error": None,
            "worker": "worker-0",
            "started_at": "2026-11-05T10:00:00+00:00",
            "finished_at": "2026-11-05T10:00:01+00:00",
        }
        if k % 40 == 1:
            lost = {
                "state": "lost",
                "attempt_id": f"{one.question.dimension}-l{k:07d}",
                "input_tokens": None,
                "output_tokens": None,
            }
            yield row | lost | {"cache_write_tokens": None, "cache_read_tokens": None, "finished_at": None}
        yield row


def made_run(
    *,
    prompts: int | Sequence[Prompt] = 12,
    answers: Sequence[Answer] | None = None,
    models: Sequence[str] = tuple(STRENGTH),
    dimensions: Sequence[str] = ("factuality", "calibration"),
    judges: Sequence[str] = (JUDGE,),
    missing: Sequence[tuple[str, str]] = (),
    checks: int = 2,
    price: str | None = "0.00123",
    fate: Callable[[Question], JudgedQuestion] = judged_of,
    **changes: Any,
) -> JudgedRun:
    """A whole run; ``missing`` lists responses (model, prompt_id) that nobody gave."""
    bank = prompts_of(prompts) if isinstance(prompts, int) else prompts
    answers = [
        one for one in answers or answers_of(bank, models) if (one.model, one.prompt_id) not in missing
    ]
    has = {(one.model, one.prompt_id) for one in answers}
    matches = all_pairs(
        bank, models, dimensions, has, PairRules(changes.get("limit_pairs"), changes.get("evaluated"))
    )
    matches = sample_pairs(matches, changes.get("sample_pairs"), 0)

    texts = {(one.model, one.prompt_id): one.response for one in answers}

    def judged(dimension: str) -> Iterator[JudgedQuestion]:
        return map(fate, questions_of(dimension, matches.matches, judges, checks, texts))

    def attempts() -> Iterator[Mapping[str, Any]]:
        return (row for name in dimensions for row in attempts_of(judged(name), price))

    settings = {name: changes.pop(name, default) for name, default in SETTINGS.items()}
    config = config_of(models, dimensions, judges, checks, settings)
    config["anchors"] = [Path(source.path).name for source in changes.get("anchors", ())]
    run = JudgedRun(
        run_id="run-1",
        mode="pilot",
        config_path="tournament.yaml",
        config=config,
        bank_size=len(bank) + 3,
        prompts=bank,
        answers=answers,
        rubrics={
            name: Rubric(name, "v1", f"Which response is better in {name}?", gold=name == "factuality")
            for name in dimensions
        },
        matches=matches,
        judged=judged,
        attempts=attempts,
        estimate={
            "calls": 99,
            "cached": 1,
            "questions": 100,
            "usd": {"live": {"low": "0.1", "expected": "0.25", "worst": None}},
            "lines": [{"judge": judges[0]}],
        },
        started_at="2026-11-05T10:00:00+00:00",
        finished_at="2026-11-05T11:00:00+00:00",
    )
    return replace(run, **changes)


#: What a configuration says of a run, unless a test says otherwise.
SETTINGS: dict[str, Any] = {
    "judge_models": None,
    "overall": None,
    "limit_pairs": None,
    "sample_pairs": None,
    "n_perms": 4,
    "shuffle_seed": 0,
    "initial_rating": None,
    "default_k": 16.0,
    "k_sweep": (8.0, 16.0),
    "inconsistent": "half",
    "n_bootstraps": 4,
    "cluster": None,
}


def config_of(
    models: Sequence[str],
    dimensions: Sequence[str],
    judges: Sequence[str],
    checks: int,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The sections of a resolved configuration that say how a run was made, and a note. The first model and judge are a family."""
    named = zip(judges, settings["judge_models"] or judges, strict=True)
    return {
        "entrants": [
            {"entrant_id": name, "family": "acme" if name == models[0] else None} for name in models
        ],
        "rubrics": {name: {"path": None, "needs": None} for name in dimensions},
        "missing": "pair",
        "modes": {
            "pilot": {
                "judges": [
                    {"name": name, "model": model, "family": "acme" if name == judges[0] else None}
                    for name, model in named
                ],
                "quorum": len(judges) // 2 + 1,
                "limit_pairs": settings["limit_pairs"],
                "sample_pairs": settings["sample_pairs"],
                "seed": 0,
            }
        },
        "checks": dict.fromkeys(("identical", "truncated", "garbage", "repeats"), checks) | {"planted": 0},
        "elo": {
            "n_perms": settings["n_perms"],
            "shuffle_seed": settings["shuffle_seed"],
            "initial_rating": settings["initial_rating"],
            "default_k": settings["default_k"],
            "k_factor_sweep": list(settings["k_sweep"]),
        },
        "ratings": {
            "lean": 0.75,
            "inconsistent": settings["inconsistent"],
            "both_bad": None,
            "cluster": settings["cluster"],
            "write_as": "tiltyard",
            "n_bootstraps": settings["n_bootstraps"],
            "seed": 0,
        },
        "overall": settings["overall"],
        "note": "ü: #1",
    }


def human_battles(folder: Path, models: Sequence[str] = tuple(STRENGTH), prompts: int = 12) -> Path:
    """Votes of people on the same prompts, and on others, with models of their own."""
    path = folder / "human.jsonl"
    rows = []
    for k in range(6 * prompts):
        a, b = models[k % len(models)], (*models, "elder")[(k + 1 + k // 5) % (len(models) + 1)]
        if a != b:
            winner = ("model_a", "model_b", "tie", "model_a")[number("human", k) % 4]
            question = f"p{k % (prompts + 2):05d}"
            row = {"model_a": a, "model_b": b, "winner": winner, "source": "human", "question_id": question}
            rows.append(Battle.from_dict(row | {"voter": f"v{k % 9}", "mood": {"calm": True}}))
    write_battles(path, rows)
    return path


def anchored_run(folder: Path, **changes: Any) -> JudgedRun:
    """A run with human anchors, two judges and missing responses: a bit of everything."""
    overall = {"factuality": 0.5, "calibration": 0.25}
    settings: dict[str, Any] = {
        "judges": ("judge-one", "judge-two"),
        "prompts": 8,
        "missing": [("ash", "p00003"), *((name, "p00005") for name in STRENGTH)],
        "overall": overall,
        "anchors": [open_battles(human_battles(folder, prompts=8))],
        "prompt_cache_asked": True,
        "arena": "Garden",
    }
    return made_run(**(settings | changes))


def written(folder: Path, run: JudgedRun) -> Path:
    out = folder / "run"
    write_judged_run(out, run)
    return out


def document(run: Path, name: str) -> Any:
    return json.loads((run / name).read_text())


def lines(run: Path, name: str) -> list[Any]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def rehash(run: Path) -> None:
    """Make every hash fit what is in the folder now."""
    document = json.loads((run / MANIFEST).read_text())
    found = sorted(path for path in run.rglob("*") if path.is_file())
    names = [path.relative_to(run).as_posix() for path in found]
    listed = [name for name in document["files"] if name in names]
    added = [name for name in names if name not in (*listed, MANIFEST, MANIFEST_HASH)]
    document["files"] = {name: file_hash(run / name) for name in (*listed, *added)}
    (run / MANIFEST).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (run / MANIFEST_HASH).write_bytes(hash_line(run))


def failed(result: Verification) -> list[str]:
    return [f"{check.name}: {check.detail}" for check in result.checks if not check.passed]
