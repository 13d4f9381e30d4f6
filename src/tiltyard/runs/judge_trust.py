"""How far a tournament's judge can be trusted: what people's labels say of it, for all matches of the run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tiltyard.core.battles import Outcome
from tiltyard.core.judging.diagnostics.label_agreement import (
    label_agreement,
    mean_lead,
    people_agreement,
    verdict_worth,
)
from tiltyard.core.judging.diagnostics.rater_agreement import AgreementFigure
from tiltyard.report.trust_report import AgreementPart, JudgeTrust, OrderPair
from tiltyard.runs.judge_labels import LabelledRun

#: What a result is worth to the model that stands first by name.
_SCORES = {Outcome.MODEL_A: 1.0, Outcome.MODEL_B: 0.0, Outcome.TIE: 0.5}


def judge_trust(run: LabelledRun) -> JudgeTrust:
    """Everything that the labels say."""
    columns, sheet = run.columns, run.sheet
    battles = sheet.run.battles
    manifest = sheet.run.manifest
    proves = {
        "judges": sorted(manifest.judge_models),
        "rubrics": {name: entry.sha256 for name, entry in manifest.rubrics.items()},
    }
    return JudgeTrust(
        proves,
        manifest.run_id,
        tuple(
            name if name == model else f"{name} ({model})"
            for name, model in zip(manifest.judges, manifest.judge_models, strict=True)
        ),
        sheet.seed,
        len(sheet.sample.places),
        len(run.places),
        run.raters,
        sheet.sample.strata,
        label_agreement(columns),
        tuple(
            AgreementPart(scope, name, label_agreement(columns, here)) for scope, name, here in run.groups()
        ),
        people_agreement(columns),
        verdict_worth(columns),
        run.copies,
        mean_lead(columns, run.longer_side()),
        mean_lead(columns, run.own_side()),
        sum(battle.label == "inconsistent" for battle in battles) / len(battles),
        run.shown_first,
        tuple(_order(run)),
    )


def _order(run: LabelledRun) -> Sequence[OrderPair]:
    """Each pair of models under the people: the judge's difference, moved by what people said of the labelled matches.

    All intervals hold together.
    """
    shares: dict[str, list[float]] = {}
    for battle in run.sheet.run.battles:
        score = _SCORES[battle.winner]
        shares.setdefault(battle.model_a, []).append(score)
        shares.setdefault(battle.model_b, []).append(1.0 - score)
    means = {model: sum(scores) / len(scores) for model, scores in shares.items()}
    labelled = run.battles()
    sides = {
        model: np.array([float(one.model_a == model) - float(one.model_b == model) for one in labelled])
        for model in means
    }
    ranked = sorted(means, key=lambda model: (-means[model], model))
    pairs = list(combinations(ranked, 2))
    found = []
    for better, other in pairs:
        judge = means[better] - means[other]
        moved = mean_lead(run.columns, sides[better], sides[other], 1.0 - 0.05 / len(pairs))
        value, low, high = (
            None if bound is None else max(-1.0, min(1.0, judge + bound))
            for bound in (moved.value, moved.low, moved.high)
        )
        found.append(OrderPair(better, other, judge, AgreementFigure(value, low, high, moved.gap)))
    return found
