"""Battles from a table of scores: on each item, the model that scored higher wins."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from os import PathLike
from statistics import fmean
from typing import Any

import pyarrow as pa

from tiltyard.core.ratings.pairs import require_number
from tiltyard.errors import BadOption, CannotRate, UnreadableFile
from tiltyard.files.answer_formats.answer_tables import (
    ID_NAMES,
    MODEL_NAMES,
    NOT_MODEL_NAMES,
    PROMPT_NAMES,
    read_score,
    score_columns,
)
from tiltyard.files.format_detection import open_records
from tiltyard.files.memory_records import records_in_memory
from tiltyard.foundation.option_names import option_name, quoted, quoted_list, require_flag

#: What computing leaves of equal scores, such as 0.1 + 0.2 beside 0.3.
_ROUNDING_SHARE = 1e-9
_ITEMS = (*ID_NAMES, "item", "item_id", "sample", "sample_id", "doc_id", "id", *PROMPT_NAMES)
_SCORES = ("score", "value", "correct")


def battles_from_scores(
    data: Any,
    *,
    margin: float = 0.0,
    item: str | None = None,
    model: str | None = None,
    score: str | None = None,
    lower_is_better: bool = False,
) -> pa.Table:
    """Battles of every two models on each item that both have a score for, as a table that `rate` takes.

    ``data`` is a frame, rows, a mapping of columns or a path. It has a row for each score (columns such as ``prompt_id``, ``model`` and ``score``) or, without a column of
    models, a column for each model; ``item``, ``model`` and ``score`` name columns called otherwise. Scores that differ
    by at most ``margin`` are a tie, and repeats of a model on an item are averaged first. Empty cells are left out.
    """
    require_flag("lower_is_better", lower_is_better)
    require_number("margin", margin, lambda value: 0.0 <= value < float("inf"), "0 or more")
    records = open_records(data) if isinstance(data, str | PathLike) else records_in_memory(data)
    known = list(records.columns)
    long = bool(model or score) or any(name.lower() in MODEL_NAMES for name in known)
    metrics = [*score_columns(known, usual=True)]
    # Without a column of items, as in a pivoted frame, each row is one.
    if item is not None or long or any(name.lower() in _ITEMS for name in known):
        item = _column(known, "item", item, _ITEMS)
    if long:
        model = _column(known, "model", model, MODEL_NAMES)
        score = _column(known, "score", score, _SCORES if len(metrics) != 1 else metrics)
    models = [name for name in known if name != item and name.lower() not in NOT_MODEL_NAMES]
    found: dict[str, dict[str, list[float]]] = {}
    for number, (where, record) in enumerate(records.records()):
        place = number if item is None else record.get(item)
        for name in [record.get(str(model))] if long else models:
            if name is None or place is None:
                raise UnreadableFile(f"{where}: {item if place is None else model} is missing")
            value = record.get(score or str(name))
            read = read_score(float(value) if isinstance(value, bool) else value)
            if read is not None:
                scores = found.setdefault(str(place), {})
                scores.setdefault(str(name), []).append(-read if lower_is_better else read)
            elif value is not None and value == value and str(value).strip():
                raise UnreadableFile(f"{where}: {name} has {quoted(value)}; expected a score, or nothing")
    rows = [
        (a, b, _winner(fmean(scores[a]), fmean(scores[b]), margin), place)
        for place, scores in found.items()
        for a, b in combinations(scores, 2)
    ]
    if not rows:
        raise CannotRate("no two models have scores on the same item, so there are no battles")
    columns = zip(("model_a", "model_b", "winner", "question_id"), zip(*rows, strict=True), strict=True)
    return pa.table({name: list(values) for name, values in columns})


def _winner(a: float, b: float, margin: float) -> str:
    if abs(a - b) <= margin + _ROUNDING_SHARE * max(abs(a), abs(b)):
        return "tie"
    return "model_a" if a > b else "model_b"


def _column(known: list[str], option: str, stated: str | None, usual: Iterable[str]) -> str:
    """The column that is stated or, in any case of letters, the first that is usual."""
    names = {name.lower(): name for name in reversed(known)}
    found = [names[name.lower()] for name in usual if name.lower() in names] if stated is None else [stated]
    if not {*found[:1]} & {*known}:
        raise BadOption(f"{option_name(option, stated)}: which of the columns is it? {quoted_list(known)}")
    return found[0]
