"""Results of promptfoo: the JSON or JSON Lines file of ``promptfoo eval --output``.

A result belongs to a test and a prompt. Tests are named by their description and variables, not by
their number, so that files of an edited configuration are paired; equal tests are repeats.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tiltyard.core.judging.conversation import split_conversation
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import (
    FAILED_NOTE,
    NO_RESPONSE_NOTE,
    SCORES_ONLY,
    UNSCORED_NOTE,
    Answer,
    AnswerUsage,
    clean_text,
    count_of,
    finite_number,
    json_text,
    mapping_of,
    read_messages,
)
from tiltyard.files.answer_formats.answer_tables import all_records
from tiltyard.files.input_file import InputFile, Record, Records, translate_read_errors
from tiltyard.files.json_records import JsonScanner

#: The reason of a failure that is an error and no failed assertion.
_ERROR_CODE = 2
_NO_ASSERTIONS = "No assertions"

_Rows = Callable[[], Iterator[Record]]


def is_promptfoo(columns: Collection[str]) -> bool:
    return {"testCase", "prompt", "provider", "success"} <= set(columns)


def promptfoo_answers(records: Records, tally: Counter[str]) -> Iterator[Answer]:
    """Read results that are JSON Lines."""
    return _answers(lambda: all_records(records), tally)


def promptfoo_document_answers(file: InputFile, tally: Counter[str]) -> Iterator[Answer]:
    """Read results that are one JSON document."""
    return _answers(lambda: _document_rows(file), tally)


def _document_rows(file: InputFile) -> Iterator[Record]:
    with translate_read_errors(file.name), file.open_text() as stream:
        scanner, found = JsonScanner(file.name, stream), False
        for name in scanner.members():
            if name == "results" and scanner.peek() == "{":
                for inner in scanner.members():
                    if inner == "results" and scanner.peek() == "[":
                        found = True
                        for where in scanner.elements():
                            value = scanner.value(where)[1]
                            if not isinstance(value, dict):
                                raise UnreadableFile(
                                    f"{where}: a result is {type(value).__name__}; expected an object"
                                )
                            yield where, value
                    else:
                        scanner.value(file.name)
            else:
                scanner.value(file.name)
        if not found:
            raise UnreadableFile(f"{file.name}: no results.results; expected the output of promptfoo eval")


@dataclass
class _Names:
    """The names of tests and models in one file, which need a look at all results."""

    #: The prompt id and the repeat of each test, by its number.
    tests: dict[int, tuple[str, int]]
    #: The prompts that each provider was given.
    prompts: dict[str, set[int]]

    @classmethod
    def of(cls, rows: Iterator[Record]) -> _Names:
        keys: dict[int, tuple[str, str]] = {}
        prompts: dict[str, set[int]] = defaultdict(set)
        for where, row in rows:
            keys.setdefault(_number(row, "testIdx", where), _test_key(row))
            prompts[_provider(row, where)].add(_number(row, "promptIdx", where))
        variants: dict[str, list[str]] = defaultdict(list)
        repeats: Counter[tuple[str, str]] = Counter()
        tests = {}
        for number, (key, checks) in sorted(keys.items()):
            if checks not in variants[key]:
                variants[key].append(checks)
            variant = variants[key].index(checks)
            tests[number] = key if not variant else f"{key}-{variant + 1}", repeats[key, checks]
            repeats[key, checks] += 1
        return cls(tests, prompts)

    def model(self, provider: str, prompt: int) -> str:
        """The provider; if it was given several prompts, with the number of the prompt."""
        given = sorted(self.prompts[provider])
        return provider if len(given) == 1 else f"{provider}, prompt {given.index(prompt) + 1}"


def _answers(rows: _Rows, tally: Counter[str]) -> Iterator[Answer]:
    names = _Names.of(rows())
    seen: set[tuple[int, str, int]] = set()
    for where, row in rows():
        test, prompt = _number(row, "testIdx", where), _number(row, "promptIdx", where)
        provider = _provider(row, where)
        if (test, provider, prompt) in seen:
            raise UnreadableFile(f"{where}: test {test} occurs twice for {provider} and prompt {prompt}")
        seen.add((test, provider, prompt))
        response = mapping_of(row.get("response"))
        output = response.get("output")
        if output is None or response.get("error"):
            tally[FAILED_NOTE] += 1
            continue
        scores = dict(_scores(row, tally))
        if output == "" and not scores:
            tally[NO_RESPONSE_NOTE] += 1
            continue
        name, repeat = names.tests[test]
        asked = mapping_of(row.get("prompt")).get("raw")
        tokens = mapping_of(response.get("tokenUsage"))
        latency = None if response.get("cached") is True else finite_number(row.get("latencyMs"))
        cost = finite_number(response.get("cost"))
        usage = AnswerUsage(
            input_tokens=count_of(tokens.get("prompt")),
            output_tokens=count_of(tokens.get("completion")),
            # Beside a response without a price, promptfoo writes a cost of 0.
            cost_usd=cost if cost is not None else finite_number(row.get("cost")) or None,
            latency_seconds=None if latency is None else latency / 1000,
        )
        yield Answer(
            prompt_id=name,
            model=names.model(provider, prompt),
            response=clean_text(json_text(output)),
            kind=SCORES_ONLY if output == "" else "text",
            source="promptfoo",
            usage=None if usage == AnswerUsage() else usage,
            scores=MappingProxyType(scores),
            repeat=repeat,
            **_asked("" if asked is None else json_text(asked), where),
        )


def _asked(raw: str, where: str) -> dict[str, Any]:
    """The prompt: text, or the messages of a chat as JSON."""
    if raw.lstrip().startswith("["):
        try:
            chat = json.loads(raw)
        except (ValueError, RecursionError):
            chat = None
        if isinstance(chat, list) and chat and all(isinstance(one, dict) and "role" in one for one in chat):
            split = split_conversation(read_messages(chat, where), len(chat))
            prompts = [one for one in split.asked if one.role == "user"]
            plain = len(split.asked) == 1 and bool(prompts) and prompts[0].only_text
            return {
                "prompt": prompts[-1].text if prompts else clean_text(raw),
                "system": split.system,
                "messages": () if plain else split.asked,
            }
    return {"prompt": clean_text(raw)}


def _test_key(row: Mapping[str, object]) -> tuple[str, str]:
    """The name of a test, by its description and variables; and its assertions."""
    case = mapping_of(row.get("testCase"))
    declared, used = mapping_of(case.get("vars")), mapping_of(row.get("vars"))
    variables = {name: used.get(name, value) for name, value in declared.items()} or {
        name: value for name, value in used.items() if not str(name).startswith("_") and name != "sessionId"
    }
    if not variables and not case.get("description"):
        variables = {"prompt": mapping_of(row.get("prompt")).get("raw")}
    named = json.dumps([case.get("description"), variables], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()[:32], json.dumps(case.get("assert"), sort_keys=True)


def _scores(row: Mapping[str, Any], tally: Counter[str]) -> Iterator[tuple[str, float]]:
    """The score, whether the test was passed, and named scores; nothing where nothing was checked."""
    graded = mapping_of(row.get("gradingResult"))
    if graded.get("reason") == _NO_ASSERTIONS and not row.get("namedScores"):
        return
    if row.get("failureReason") == _ERROR_CODE:
        tally[UNSCORED_NOTE] += 1
        return
    given = {"score": row.get("score"), "success": row.get("success")}
    for name, value in {**mapping_of(row.get("namedScores")), **given}.items():
        number = finite_number(value)
        if number is None:
            tally[UNSCORED_NOTE] += 1
        else:
            yield clean_text(str(name)), number


def _provider(row: Mapping[str, object], where: str) -> str:
    given = row.get("provider")
    found = (
        mapping_of(given).get("label") or mapping_of(given).get("id") if isinstance(given, Mapping) else given
    )
    if isinstance(found, str) and found:
        return clean_text(found)
    raise UnreadableFile(f"{where}: provider is missing; expected a result of promptfoo")


def _number(row: Mapping[str, object], name: str, where: str) -> int:
    value = row.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UnreadableFile(
        f"{where}: {name} is {str(value)[:40]!r}; expected a number, as in results of promptfoo since 2024"
    )
