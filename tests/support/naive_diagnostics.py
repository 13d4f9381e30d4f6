"""The naive twin: every share by looping over what was shown, match by match."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from tiltyard.core.battles.outcome import Label, Outcome
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.reconciliation import reconcile
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.core.ratings.proportions import (
    ShareEstimate,
    estimate_share,
    share_difference,
)

DECISIVE = {
    VerdictStep.FIRST_MUCH: "first",
    VerdictStep.FIRST: "first",
    VerdictStep.SECOND: "second",
    VerdictStep.SECOND_MUCH: "second",
}
WON = {Outcome.MODEL_A: 0, Outcome.MODEL_B: 1}


def share_of(trials: Iterable[tuple[str, bool]]) -> ShareEstimate | None:
    hits, sizes = Counter(), Counter()
    for prompt, hit in trials:
        hits[prompt] += hit
        sizes[prompt] += 1
    names = list(sizes)
    return estimate_share(np.array([hits[name] for name in names]), np.array([sizes[name] for name in names]))


def results(world, judge):
    """Matches of one judge with both orders: (dimension, prompt, models) → result, both verdicts, traits."""
    verdicts = {
        (q.dimension, q.prompt_id, q.first, q.second): (verdict, traits)
        for q, _, verdict, traits in world
        if q.judge == judge and q.purpose is QuestionPurpose.MATCH and verdict is not None
    }
    found = {}
    for (dimension, prompt, first, second), (verdict, traits) in verdicts.items():
        other = verdicts.get((dimension, prompt, second, first))
        if first < second and other is not None:
            found[dimension, prompt, first, second] = (
                reconcile(verdict, other[0]),
                verdict,
                other[0],
                traits,
            )
    return found


def naive(world, judge, dimension, families):
    """All shares of one judge, in one dimension or in all, by name; and its labels."""
    mine = [
        row for row in world if row[0].judge == judge and (dimension is None or row[0].dimension == dimension)
    ]
    matches = results(mine, judge)
    flips, inconsistent, longer, lists, slots = [], [], [], [], []
    for (_, prompt, *_), (result, one, two, traits) in matches.items():
        opposite = result.label is Label.INCONSISTENT
        inconsistent.append((prompt, opposite))
        if one.step in DECISIVE and two.step in DECISIVE:
            flips.append((prompt, opposite))
        if opposite:
            slots.append((prompt, DECISIVE[one.step] == "first"))
        if result.outcome in WON:
            won = WON[result.outcome]
            lengths = traits.first_length, traits.second_length
            items = traits.first_lists, traits.second_lists
            if lengths[0] != lengths[1]:
                longer.append((prompt, lengths[won] > lengths[1 - won]))
            if items[0] != items[1]:
                lists.append((prompt, items[won] > items[1 - won]))
    shares = {
        "flips": flips,
        "inconsistent": inconsistent,
        "first_slot": slots,
        "longer_wins": longer,
        "lists_win": lists,
        "self_agreement": repeats(mine),
        **canaries(mine),
        **family(world, judge, matches, families),
    }
    labels = Counter(result.label for result, *_ in matches.values())
    found = {name: share_of(trials) for name, trials in shares.items()}
    ours, theirs = found.pop("own_family_shared"), found["own_family_by_others"]
    found["own_family_excess"] = None if theirs is None else share_difference(ours, theirs)
    return found, labels


def asked(question: Question) -> tuple[str, ...]:
    return question.dimension, question.prompt_id, question.first, question.second


def repeats(mine):
    before = {asked(q): verdict for q, _, verdict, _ in mine if q.purpose is QuestionPurpose.MATCH}
    found = []
    for q, _, verdict, _ in mine:
        if q.purpose is QuestionPurpose.REPEAT and verdict is not None and before.get(asked(q)) is not None:
            same = DECISIVE.get(verdict.step) == DECISIVE.get(before[asked(q)].step)
            found.append((q.prompt_id, same))
    return found


def canaries(mine):
    found = defaultdict(
        list, {name: [] for name in ("identical", "truncated", "garbage", "swapped", "empty")}
    )
    for q, _, verdict, _ in mine:
        if verdict is not None and q.purpose.value in found:
            chosen = DECISIVE.get(verdict.step)
            whole = None if q.purpose is QuestionPurpose.IDENTICAL else ("second", "first")[q.spoilt]
            found[q.purpose.value].append((q.prompt_id, chosen == whole))
    return found


def family(world, judge, matches, families):
    own = families.get(judge)
    others = {row[0].judge for row in world} - {judge}
    others = [results(world, name) for name in others if own is None or families.get(name) != own]
    mine, theirs, shared = [], [], []
    for key, (result, _, _, traits) in matches.items():
        sides = [own is not None and side == own for side in (traits.first_family, traits.second_family)]
        if result.outcome in WON and sum(sides) == 1:
            mine.append((key[1], sides[WON[result.outcome]]))
            decided = [other[key][0].outcome for other in others if key in other]
            decided = [outcome for outcome in decided if outcome in WON]
            theirs += [(key[1], sides[WON[outcome]]) for outcome in decided]
            shared += mine[-1:] if decided else []
    return {"own_family": mine, "own_family_by_others": theirs, "own_family_shared": shared}
