"""What an `ArenaFold` keeps, as arrays and plain values.

The bulk is laid out so that it packs well: cells of pairs as steps from one prompt to the next,
evaluations as columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.checkpoint import FREE_MET, MET, StateCheckpoint, restore, save
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.evaluation import Evaluation, EvaluationHistory
from tiltyard.core.policy.validity.method_document import method_from_dict
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.core.policy.validity.state_encoding import decode_state, encode_state
from tiltyard.core.ratings.online_bradley_terry import OnlineState

__all__ = ["decode_fold", "encode_fold"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Arrays = dict[str, Array]

_RATED: tuple[Literal["mu", "phi2", "sigma2", "elo"], ...] = ("mu", "phi2", "sigma2", "elo")
_KNOWN = ("rating", "rd", "coverage")


def encode_fold(standing: Standing, rater: Rater, history: EvaluationHistory, whole: int | None) -> bytes:
    """All of it as bytes."""
    checkpoint = save(standing)
    arrays, values = dict(checkpoint.arrays), dict(checkpoint.values)
    for name in _cell_names(arrays):
        _split(arrays, name)
    arrays |= _rated(rater) | _evaluated(history.evaluations)
    values["evaluations"] = {
        "in_a_row": history.in_a_row,
        "whole": whole,
        "rules": [[asdict(rule) for rule in known.rules] for known in history.evaluations if known.rules],
    }
    values["rater"] = {
        "settings": asdict(rater.settings),
        "votes": rater.votes,
        **_online_values(rater.online),
    }
    return encode_state(arrays, values)


def decode_fold(saved: bytes) -> tuple[Standing, Rater, EvaluationHistory, int | None]:
    """What was packed, ready to go on."""
    arrays, values = decode_state(saved)
    _, settings = method_from_dict({"policy": values["policy"], "rater": values["rater"]["settings"]})
    for name in _cell_names(arrays):
        arrays[f"{name}.prompts"] = _unstepped(arrays[name], arrays[f"{name}.steps"])
        arrays[f"{name}.tally"] = np.stack([arrays[f"{name}.{k}"] for k in range(4)], axis=1)
    evaluated = values["evaluations"]
    rules = [tuple(Rule(**rule) for rule in known) for known in evaluated["rules"]]
    history = EvaluationHistory(_evaluations(arrays, rules), evaluated["in_a_row"])
    rater = _rater(arrays, values["rater"], settings)
    return restore(StateCheckpoint(arrays, values)), rater, history, evaluated["whole"]


def _cell_names(arrays: Arrays) -> list[str]:
    """The names of the cells of pairs that these arrays have."""
    return [name for name in (MET, FREE_MET) if name in arrays]


def _split(arrays: Arrays, name: str) -> None:
    tally = arrays.pop(f"{name}.tally")
    arrays[f"{name}.steps"] = _steps(arrays[name], arrays.pop(f"{name}.prompts"))
    for k in range(4):
        arrays[f"{name}.{k}"] = np.ascontiguousarray(tally[:, k])


def _steps(met: Ints, prompts: Array) -> Ints:
    """From each prompt of a pair to the next; of the first, the prompt itself."""
    wide = prompts.astype(np.int64)
    steps = np.diff(wide, prepend=0)
    first = _firsts(met)
    steps[first] = wide[first]
    return steps


def _unstepped(met: Ints, steps: Ints) -> Array:
    total = np.cumsum(steps)
    first = _firsts(met)
    sizes = met[:, 2][met[:, 2] > 0]
    return (total - np.repeat(total[first] - steps[first], sizes)).astype(np.uint32)


def _firsts(met: Ints) -> Ints:
    """Where the cells of each pair that has some begin."""
    sizes = met[:, 2][met[:, 2] > 0]
    return np.asarray(np.cumsum(sizes) - sizes)


def _evaluated(evaluations: tuple[Evaluation, ...]) -> Arrays:
    """Columns of all evaluations; those that keep only their outline have no models."""
    empty = np.empty(0)
    return {
        "evaluation.votes": np.diff(_column(known.votes for known in evaluations), prepend=0),
        "evaluation.time": np.diff(_column(known.time for known in evaluations), prepend=0),
        "evaluation.holds": _column(known.holds for known in evaluations),
        "evaluation.rules": _column(len(known.rules) for known in evaluations),
        "evaluation.ranked": _column(len(known.order) for known in evaluations),
        "evaluation.models": _column(len(known.rating) for known in evaluations),
        "evaluation.order": np.concatenate([empty.astype(np.int64), *(known.order for known in evaluations)]),
        **{
            f"evaluation.{name}": np.concatenate([empty, *(getattr(known, name) for known in evaluations)])
            for name in _KNOWN
        },
    }


def _evaluations(arrays: Arrays, rules: Iterable[tuple[Rule, ...]]) -> tuple[Evaluation, ...]:
    votes, time = (np.cumsum(arrays[f"evaluation.{name}"]).tolist() for name in ("votes", "time"))
    holds, ruled = (arrays[f"evaluation.{name}"].tolist() for name in ("holds", "rules"))
    order = _cut(arrays["evaluation.order"], arrays["evaluation.ranked"])
    known = {name: _cut(arrays[f"evaluation.{name}"], arrays["evaluation.models"]) for name in _KNOWN}
    told = iter(rules)
    return tuple(
        Evaluation(
            votes=votes[k],
            time=time[k],
            order=order[k],
            **{name: known[name][k] for name in _KNOWN},
            rules=next(told) if ruled[k] else (),
            holds=bool(holds[k]),
        )
        for k in range(len(votes))
    )


def _rated(rater: Rater) -> Arrays:
    plain, online = rater.to_dict(), rater.online
    return {
        **{f"rater.{name}": np.array(plain[name], dtype=np.float64) for name in _RATED},
        "online.mean": online.mean,
        "online.upper": online.settled[np.triu_indices(online.n_models)],
        "online.held": online.held[: online.n_held],
        "online.points": online.points,
    }


def _online_values(online: OnlineState) -> dict[str, object]:
    names = ("n_held", "since_fit", "prior_variance", "base", "unit")
    return {"online": {"votes": online.votes, **{name: getattr(online, name) for name in names}}}


def _rater(arrays: Arrays, values: Mapping[str, Any], settings: RaterSettings) -> Rater:
    models = len(arrays["online.mean"])
    online = replace(
        settings.online.initial(models),
        mean=arrays["online.mean"],
        settled=np.zeros((models, models)),
        points=arrays["online.points"],
        **values["online"],
    )
    upper = np.triu_indices(models)
    online.settled[upper] = online.settled.T[upper] = arrays["online.upper"]
    online.held[: online.n_held] = arrays["online.held"]
    rater = Rater.from_dict(
        settings,
        {
            "mu": arrays["rater.mu"].tolist(),
            "phi2": arrays["rater.phi2"].tolist(),
            "sigma2": arrays["rater.sigma2"].tolist(),
            "elo": arrays["rater.elo"].tolist(),
            "votes": values["votes"],
            "online": settings.online.initial(0).to_dict(),
        },
    )
    rater.online = online
    return rater


def _column(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, dtype=np.int64)


def _cut(array: Array, sizes: Ints) -> list[Array]:
    stops = np.cumsum(sizes).tolist()
    return [array[stop - size : stop].copy() for stop, size in zip(stops, sizes.tolist(), strict=True)]
