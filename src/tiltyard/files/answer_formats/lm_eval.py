"""Samples of lm-evaluation-harness: ``samples_<task>_<time>.jsonl``, written with ``--log_samples``.

A file has one record for each document and filter. It names neither the task nor the model: the
task is in the file's name, the model in ``results_<time>.json`` beside it or in the folder's name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tiltyard.core.judging.conversation import Message, split_conversation
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import (
    MORE_RESPONSES_NOTE,
    NO_RESPONSE_NOTE,
    SCORES_ONLY,
    UNREADABLE_SCORE_NOTE,
    UNSCORED_NOTE,
    Answer,
    clean_text,
    finite_number,
    json_text,
    read_messages,
)
from tiltyard.files.answer_formats.answer_tables import all_records
from tiltyard.files.input_file import Records
from tiltyard.files.json_records import load_json

_NAME = re.compile(
    r"samples_(?P<task>.+?)(?:_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?))?\.jsonl(?:\.gz|\.zst)?"
)
#: Fields that are not metrics.
_FIXED = frozenset(
    {
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    }
)
_RESULTS_BYTES = 1 << 28


def is_lm_eval(columns: Collection[str]) -> bool:
    return {"doc_id", "resps", "filtered_resps"} <= set(columns)


def lm_eval_answers(records: Records, tally: Counter[str]) -> Iterator[Answer]:
    """Read a file of samples: one answer for each document, with the scores of all filters."""
    path = Path(records.name)
    named = _NAME.fullmatch(path.name)
    # The model in the results beside the samples, or else the folder's name.
    time = named["time"] if named else None
    name = _results(path, time).get("model_name")
    model = clean_text(name) if isinstance(name, str) else path.absolute().parent.name or path.name
    scores: dict[object, dict[str, float]] = {}
    seen: set[tuple[object, str]] = set()
    for where, record in all_records(records):
        place = _doc_id(record, where), str(record.get("filter", "none"))
        if place in seen:
            raise UnreadableFile(
                f"{where}: document {place[0]} occurs twice with the filter {place[1]!r}; "
                "give the runs separate files"
            )
        seen.add(place)
        scores.setdefault(place[0], {}).update(_scores(record, place[1], tally))
    for where, record in all_records(records):
        found = scores.pop(_doc_id(record, where), None)
        if found is None:
            continue
        answer = _answer(record, where, tally, found)
        if answer is None:
            tally[NO_RESPONSE_NOTE] += 1
            continue
        task = named["task"] if named else None
        first = task or str(record.get("doc_hash") or "")[:16]
        yield Answer(
            prompt_id=clean_text("/".join(filter(None, (first, str(record["doc_id"]))))),
            model=model,
            category=task,
            source="lm-eval",
            scores=MappingProxyType(found),
            **answer,
        )


def lower_is_better_metrics(path: Path) -> frozenset[str]:
    """The metrics of a file or folder of samples of which the results beside it say that lower values are better."""
    files = sorted(path.rglob("samples_*")) if path.is_dir() else [path]
    found: set[str] = set()
    for named, file in ((_NAME.fullmatch(file.name), file) for file in files):
        directions = _results(file, named["time"] if named else None).get("higher_is_better")
        of_task = directions.get(named["task"]) if named and isinstance(directions, Mapping) else None
        if isinstance(of_task, Mapping):
            found |= {clean_text(str(metric)) for metric, higher in of_task.items() if higher is False}
    return frozenset(found)


def _doc_id(record: Mapping[str, object], where: str) -> str | int:
    found = record.get("doc_id")
    if isinstance(found, str | int):
        return found
    raise UnreadableFile(f"{where}: doc_id is missing; expected a sample of lm-evaluation-harness")


def _scores(
    record: Mapping[str, object], filter_name: str, tally: Counter[str]
) -> Iterator[tuple[str, float]]:
    """The metrics of a record. Like the harness, names have the filter, except for the filter ``none``."""
    listed = record.get("metrics")
    names = listed if isinstance(listed, list) else [name for name in record if name not in _FIXED]
    for name in names:
        value = record.get(name) if isinstance(name, str) else None
        parts = value.items() if isinstance(value, Mapping) else [(None, value)]
        for part, each in parts:
            number = finite_number(each)
            metric = name if part is None else f"{name}/{part}"
            if number is not None:
                yield clean_text(metric if filter_name == "none" else f"{metric},{filter_name}"), number
            elif each is None or isinstance(each, float):
                tally[UNSCORED_NOTE] += 1
            elif isinstance(listed, list):
                tally[UNREADABLE_SCORE_NOTE] += 1


def _answer(
    record: Mapping[str, object], where: str, tally: Counter[str], scores: Mapping[str, float]
) -> dict[str, Any] | None:
    """The prompt and the response of a record; ``None`` if it has neither a response nor a score."""
    # The arguments of each request: objects with numbered names, or lists in older files.
    arguments = record.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = [arguments[name] for name in sorted(arguments, key=_numbered)]
    found = []
    for one in arguments if isinstance(arguments, list) else ():
        if isinstance(one, Mapping):
            found.append([one[name] for name in sorted(one, key=_numbered)])
        elif isinstance(one, list):
            found.append(one)
    requests, responses = found, _responses(record.get("resps"))
    asked = _asked(requests[0][0] if requests and requests[0] else None, where)
    split = split_conversation(asked, len(asked))
    choices = [json_text(request[1]) if len(request) > 1 else "" for request in requests]
    likely = _most_likely(responses) if len(requests) > 1 else None
    text = responses[0][0] if responses and responses[0] else None
    if likely is not None:
        response = choices[likely].strip() if likely < len(choices) else ""
    else:
        response = text if isinstance(text, str) and not _is_likelihood(text, record) else ""
        if response and len(responses[0]) > 1:
            tally[MORE_RESPONSES_NOTE] += 1
    if not response and not scores:
        return None
    prompts = [one for one in split.asked if one.role == "user"]
    plain = len(split.asked) == 1 and bool(prompts)
    return {
        "prompt": prompts[-1].text if prompts else "",
        "response": clean_text(response),
        "kind": "text" if response else SCORES_ONLY,
        "gold": _gold(record.get("target"), choices if likely is not None else []),
        "system": split.system,
        "messages": () if plain else split.asked,
    }


def _numbered(name: object) -> tuple[int, str]:
    """Sorts ``arg_10`` after ``arg_9``."""
    return len(str(name)), str(name)


def _responses(resps: object) -> list[list[object]]:
    found = resps if isinstance(resps, list) else []
    return [one if isinstance(one, list) else [one] for one in found]


def _asked(prompt: object, where: str) -> tuple[Message, ...]:
    """The prompt: text, or the messages of a chat as JSON in a list of one text."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        try:
            chat = json.loads(prompt[0])
        except (ValueError, RecursionError):
            chat = None
        if isinstance(chat, list):
            return read_messages(chat, where)
        prompt = prompt[0]
    elif isinstance(prompt, list) and prompt and all(isinstance(one, Mapping) for one in prompt):
        return read_messages(prompt, where)
    return read_messages(
        [{"role": "user", "content": json_text(prompt)}] if prompt is not None else [], where
    )


def _most_likely(responses: list[list[object]]) -> int | None:
    """The choice with the highest log-likelihood; ``None`` if the responses are not likelihoods."""
    values = [_likelihood(one[0]) if one else None for one in responses]
    if not values or any(value is None for value in values):
        return None
    known = [value for value in values if value is not None]
    return known.index(max(known))


def _likelihood(value: object) -> float | None:
    """The first of a log-likelihood and whether it is the greedy continuation; both may be text."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    try:
        return float(value[0])
    except (TypeError, ValueError, OverflowError):
        return None


def _is_likelihood(text: str, record: Mapping[str, object]) -> bool:
    """Whether a response is the log-likelihood of the document, as in tasks of perplexity."""
    metrics = record.get("metrics")
    if not isinstance(metrics, list) or not any("perplexity" in str(name) for name in metrics):
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _gold(target: object, choices: list[str]) -> str | None:
    """The target; of a choice, its text instead of its number."""
    if target is None or target == "":
        return None
    text = json_text(target)
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < len(choices):
        return clean_text(choices[int(text)].strip())
    return clean_text(text)


def _results(path: Path, time: str | None) -> Mapping[str, Any]:
    """The results beside a file of samples; empty if there are none."""
    results = path.with_name(f"results_{time}.json")
    try:
        if time is not None and results.is_file() and results.stat().st_size <= _RESULTS_BYTES:
            found = load_json(str(results), results.read_bytes())
            return found if isinstance(found, Mapping) else {}
    except (OSError, UnreadableFile):
        pass
    return {}
