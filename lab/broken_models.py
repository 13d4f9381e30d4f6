"""Does a judge that cannot tell say that a broken model is as good? By `tiltyard ab` itself, with functions as judges."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tiltyard.core.judging.canaries import SPOILT_KINDS
from tiltyard.report.ab_report import ABReport
from tiltyard.tournaments.ab_comparison import ABOptions, ab

#: What a judge says: of a spoilt answer of some kind, or of the broken model's (``None``), and which one is better.
Opinion = Callable[[str | None, str, np.random.Generator], str]


def _blind(*kinds: str | None) -> Opinion:
    return lambda kind, better, _rng: "tie" if kind in kinds else better


FINDS_SPOILT = "finds all spoilt answers, and ties all else"
#: Judges by name; where there are several of one kind, worlds take turns.
BROKEN_JUDGES: dict[str, tuple[Opinion, ...]] = {
    "always a tie": (lambda *_: "tie",),
    "always the first": (lambda *_: "A",),
    "random": (lambda _kind, _better, rng: "AB"[rng.integers(2)],),
    "sharp, with 3 % ties": (lambda _kind, better, rng: better if rng.random() < 0.97 else "tie",),
    "blind to one kind of spoilt answers, and ties all else": tuple(
        _blind(None, kind.value) for kind in SPOILT_KINDS
    ),
    FINDS_SPOILT: (_blind(None),),
}
#: So wide a margin lets a judge that sees nothing say at the first look that they are the same.
MARGIN_POINTS = 150.0
_PROMPTS = 40
#: Worlds that share a ledger.
_LEDGER_WORLDS = 50


def spoilt_kind(copy: str, whole: str) -> str:
    """How a text was spoilt, given the whole one."""
    if not copy:
        return "empty"
    if whole.startswith(copy):
        return "truncated"
    return "garbage" if sorted(copy.split()) == sorted(whole.split()) else "swapped"


def compare_broken(
    name: str, number: int, folder: Path, version: str | None = None, fixed: int | None = None
) -> tuple[ABReport, int]:
    """What `ab` says by this judge of a second model that is broken, and how often the judge was asked."""
    rng = np.random.default_rng([29, len(name), number])
    opinion = BROKEN_JUDGES[name][number % len(BROKEN_JUDGES[name])]
    texts = {
        side: [
            " ".join(f"{side}{word}" for word in rng.integers(0, 10**6, 14)) for _ in range(fixed or _PROMPTS)
        ]
        for side in ("good", "broken")
    }
    asked = 0

    async def judge(prompt: str, first: str, second: str) -> str:
        nonlocal asked
        asked += 1
        good, broken = (side[int(prompt.split()[1])] for side in texts.values())
        if {first, second} == {good, broken}:
            return opinion(None, "A" if first == good else "B", rng)
        better, copy, whole = ("A", second, first) if first in {good, broken} else ("B", first, second)
        # A swapped copy is whole too, of another prompt.
        return opinion(spoilt_kind(copy, whole), better, rng)

    sides = (
        [
            {"prompt_id": f"q{k}", "prompt": f"Question {k} ?", "model": side, "response": response}
            for k, response in enumerate(responses)
        ]
        for side, responses in texts.items()
    )
    options: ABOptions = {"goal": "not-worse", "judge_version": version or str(number), "output_dir": folder}
    if fixed is not None:
        options["fixed"] = fixed
    found = ab(*sides, judge=judge, margin=MARGIN_POINTS, **options)
    return found, asked


def decisions(name: str, numbers: range) -> Counter[str]:
    """What is said in these worlds, which share a ledger."""
    with _home() as folder:
        return Counter(compare_broken(name, number, folder)[0].decision for number in numbers)


def planted_share(prompts: int) -> tuple[float, float]:
    """The share of spoilt answers among the calls for so many prompts: without a proof, and beside a kept one."""
    with _home() as folder:
        first, second = (
            (found.details["spoilt_answers"], asked)
            for found, asked in (
                compare_broken(FINDS_SPOILT, number, folder, version="1", fixed=prompts)
                for number in range(2)
            )
        )
    return first[0] / first[1], second[0] / second[1]


def broken_rows(worlds: int, processes: int) -> Iterator[str]:
    """For each judge: how often a broken model was called the same or not worse, and what was said."""
    starts = range(0, worlds, _LEDGER_WORLDS)
    chunks = [range(start, min(start + _LEDGER_WORLDS, worlds)) for start in starts]
    with ProcessPoolExecutor(processes) as pool:
        for name in BROKEN_JUDGES:
            said = sum(pool.map(decisions, [name] * len(chunks), chunks), Counter[str]())
            listed = ", ".join(f"{decision} {count}" for decision, count in said.most_common())
            yield f"| {name} | {said['same'] + said['not worse']} of {worlds} | {listed} |"


def planted_rows() -> Iterator[str]:
    """The share of spoilt answers among a judge's calls, by prompts."""
    for prompts in (30, 80, 200):
        first, later = planted_share(prompts)
        yield f"| {prompts} | {first:.1%} | {later:.1%} |"


@contextmanager
def _home() -> Iterator[Path]:
    """A folder for runs and a ledger of their own."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {"TILTYARD_HOME": folder}):
        yield Path(folder)
