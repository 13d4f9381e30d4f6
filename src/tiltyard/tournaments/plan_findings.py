"""What a plan should make you think of before anything is paid: rubrics against gold answers, reply form and prompt cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tiltyard.core.judging.matches import Prompt
from tiltyard.core.judging.question import Rubric
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.judges.judge_setup import JudgeSetup
from tiltyard.settings.tournament_config import RunMode
from tiltyard.tournaments.tournament_plan import TournamentPlan

#: As much of a rubric's words as a finding shows.
_SHOWN_CHARACTERS = 60
#: Words for a gold answer. A "gold standard" alone may be a treatment.
_GOLD = re.compile(
    r"\b(?:gold(?:en|[ -]standard)?|reference|ground[ -]truth)[ _-](?:answer|response|solution|label)s?\b"
    r"|\bground[ -]truth\b",
    re.IGNORECASE,
)
#: How rubrics ask for a reply: a verdict line, MT-bench's brackets, JSON, a last line, one of two letters, a score.
_OWN_REPLY = re.compile(
    r"""(?i:\bverdict)["*`]{0,3}\ ?[:=][*_]{0,2}\ ?["'*`<\[({]{0,3}(?!A>>?B|A=B|B>>?A)(?:(?:[AB12]|(?i:tie|draw|win\w{0,4}))\b|[<\[{])
    |\[\[(?:[ABC]|(?i:tie|rating)|\d)
    |"(?i:winner|verdict|preferred|preference|choice|score)"\ ?:
    |(?:(?i:\b(?:reply|respond|answer|output))|\bReturn)\b[^.\n]{0,40}(?i:\bJSON\b)
    |(?i:\b(?:end|finish|conclude)\b[^.\n]{0,30}\bwith\ (?:one|a\ single|exactly|your|the|this)\b[^.\n]{0,30}
        \b(?:line|verdict|letter|tag)\b)
    |(?i:\b(?:reply|respond|answer|output|print|return|write)\b[^.\n]{0,40}\b(?:with|only|just|exactly|one\ of|either)\b)
        [^.\n]{0,30}\bA\b["'”`\]]{0,3}\ ?(?:,|or|/)\ ?["'“`\[]{0,3}B\b
    |(?i:\b(?:score|rate|grade)\b[^.\n]{0,40}\b(?:from|scale\ of)\ [01]\b)""",
    re.VERBOSE,
)


def plan_findings(plan: TournamentPlan, mode: RunMode) -> Iterator[Finding]:
    """The findings of a plan for a mode."""
    rubrics = [section.rubric for section in plan.sections]
    yield from _gold_answers(rubrics, plan.prompts)
    for rubric in rubrics:
        yield from rubric_findings(rubric)
    yield from _prompt_caches(plan.seats, mode)


def rubric_findings(rubric: Rubric) -> Iterator[Finding]:
    """What a rubric asks of its judge that the question does not give, or gives otherwise."""
    said: dict[str, str] = {"dimension": rubric.dimension}
    gold = _GOLD.search(rubric.text)
    if gold is not None and not rubric.gold:
        yield Finding("gold-not-shown", {**said, "case": "words", "words": gold[0]})
    elif rubric.needs_gold and not rubric.gold:
        yield Finding("gold-not-shown", {**said, "case": "needs"})
    own = _OWN_REPLY.search(rubric.text)
    if own is not None:
        words = rubric.text[own.start() :].splitlines()[0][:_SHOWN_CHARACTERS].strip()
        yield Finding("own-reply-form", {**said, "words": words})


def _gold_answers(rubrics: Sequence[Rubric], prompts: Sequence[Prompt]) -> Iterator[Finding]:
    """How many prompts have a gold answer, if some have none and a rubric shows or needs it."""
    counts = {"gold": sum(prompt.gold is not None for prompt in prompts), "prompts": len(prompts)}
    for case, dimensions in (
        ("left-out", [one.dimension for one in rubrics if one.needs_gold]),
        ("judged", [one.dimension for one in rubrics if one.gold and not one.needs_gold]),
    ):
        if dimensions and counts["gold"] < counts["prompts"]:
            yield Finding("gold-missing", {"case": case, **counts, **first_of("dimensions", dimensions)})


def _prompt_caches(seats: Sequence[JudgeSetup], mode: RunMode) -> Iterator[Finding]:
    """Prompt caching and pre-warming go together, where a provider has both; a pilot need not wait for a warm cache."""
    both = [seat for seat in seats if seat.provider.capabilities.prewarm]
    for case, judges in (
        ("cache", [seat.name for seat in both if mode.prewarm and not seat.ttl]),
        ("prewarm", [seat.name for seat in both if seat.ttl and not mode.prewarm and mode.name != "pilot"]),
    ):
        if judges:
            yield Finding("prompt-cache-incomplete", {"case": case, **first_of("judges", judges)})
