"""Proofs that judges can tell, kept beside their replies, so that later runs plant fewer spoilt answers."""

from __future__ import annotations

import hashlib
import json

from tiltyard.core.judging.canaries import JudgeProof, judge_proofs
from tiltyard.core.judging.question import QuestionTexts, build_chat_prompt
from tiltyard.judges.judging_run import QuestionResults
from tiltyard.judges.ledger import Ledger
from tiltyard.tournaments.tournament_plan import TournamentPlan


def has_kept_proofs(plan: TournamentPlan, ledger: Ledger) -> bool:
    """Whether every judge has proved in every dimension that it can tell."""
    return all(_served_before(ledger, key) for key in _keys(plan).values())


def check_proofs(
    plan: TournamentPlan, ledger: Ledger, results: QuestionResults, *, few: bool | None
) -> tuple[JudgeProof, ...]:
    """Count what the judges found. Proofs that hold are kept, each with the models that were served.

    ``few``: no more were planted than beside an earlier proof, which counts if the same models were served; ``None``:
    none were.
    """
    judged = [] if few is None else list(results.of(plan.spoilt()))
    found = []
    for place, key in _keys(plan).items():
        mine = [one for one in judged if (one.question.judge, one.question.dimension) == place]
        replies = [one.reply for one in mine if one.reply is not None]
        served = sorted({str(reply.model) for reply in replies})
        kept = few is True and set(served) <= set(_served_before(ledger, key))
        for proof in judge_proofs(mine, kept=kept):
            found.append(proof)
            # Calls that failed say nothing of the judge.
            if not (kept and proof.holds) and len(replies) == len(mine):
                ledger.add_note(key, {"served": served if proof.holds else []})
    return tuple(found)


def _served_before(ledger: Ledger, key: str) -> list[str]:
    """The models that were served when the judge last proved it; none if it did not."""
    notes = ledger.replies([key]).get(key)
    return list(notes[-1]["served"]) if notes else []


def _keys(plan: TournamentPlan) -> dict[tuple[str, str], str]:
    """For each judge and dimension, a hash of the judge, the rubric and the words around it."""
    keys = {}
    for seat in plan.seats:
        for rubric in (section.rubric for section in plan.sections):
            blank = build_chat_prompt(QuestionTexts("", "", ""), rubric, seat.form, seat.settings.max_tokens)
            asked = json.dumps([seat.identity[1:], blank.system, blank.user], sort_keys=True)
            keys[seat.name, rubric.dimension] = hashlib.sha256(f"proof {asked}".encode()).hexdigest()
    return keys
