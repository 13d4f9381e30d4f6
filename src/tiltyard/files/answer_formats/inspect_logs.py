"""Logs of Inspect: ``.eval`` (a zip archive with one member for each sample) and ``.json``.

The shapes are those of `inspect_ai.log`: https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tiltyard.core.judging.conversation import Message, split_conversation
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import (
    FAILED_NOTE,
    INVALID_NOTE,
    LOG_STATUS_NOTE,
    NO_RESPONSE_NOTE,
    NOT_IN_FILE_NOTE,
    SCORES_ONLY,
    UNREADABLE_SCORE_NOTE,
    UNSCORED_NOTE,
    Answer,
    AnswerUsage,
    clean_text,
    count_of,
    finite_number,
    mapping_of,
    read_messages,
)
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.json_records import JsonScanner, load_json
from tiltyard.files.zip_members import ZipMembers, open_zip

#: The members with the header of a log: of one that has ended, and of one still being written.
INSPECT_HEADERS = ("header.json", "_journal/start.json")

_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)
_CHUNKED_SAMPLE = re.compile(r"samples/.+_epoch_\d+/sample\.json", re.DOTALL)
_CHUNK = re.compile(r"[0-9]{1,12}\.json")
_REFERENCE = "attachment://"
#: Inspect's values of scores, by its `value_to_float`.
_SCORES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_CUT_REASONS = frozenset({"max_tokens", "model_length", "length"})
_LETTER_COUNT = 26
_BAD_STATUSES = ("started", "cancelled", "error")
#: The most messages that the references of one sample may name.
_MESSAGE_LIMIT = 100_000


@dataclass(frozen=True)
class _Run:
    """What a log says about all its samples."""

    task: str
    model: str
    params_hash: str
    #: The ids of the data set's samples, as text; empty if the log does not list them.
    ids: tuple[str, ...]
    epochs: int

    @classmethod
    def from_header(cls, header: object, where: str) -> _Run:
        spec = header.get("eval") if isinstance(header, Mapping) else None
        return cls.from_spec(spec, where)

    @classmethod
    def from_spec(cls, spec: object, where: str) -> _Run:
        if not isinstance(spec, Mapping) or not isinstance(spec.get("task"), str):
            raise UnreadableFile(f"{where}: eval.task is missing; expected the header of an Inspect log")
        model = spec.get("model")
        if not isinstance(model, str):
            raise UnreadableFile(f"{where}: eval.model is missing; expected the header of an Inspect log")
        dataset, config = mapping_of(spec.get("dataset")), mapping_of(spec.get("config"))
        ids, epochs = dataset.get("sample_ids"), config.get("epochs")
        made = {
            name: spec.get(name) for name in ("model_generate_config", "solver", "solver_args", "task_args")
        }
        return cls(
            task=clean_text(spec["task"]),
            model=clean_text(model),
            params_hash=hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16],
            ids=tuple(str(one) for one in ids) if isinstance(ids, list) else (),
            epochs=epochs if isinstance(epochs, int) and 0 < epochs <= _MESSAGE_LIMIT else 1,
        )

    def prompt_id(self, sample: object) -> str:
        return clean_text(f"{self.task}/{sample}")


def inspect_archive_answers(file: InputFile, tally: Counter[str]) -> Iterator[Answer]:
    """Read an ``.eval`` log, finished or not."""
    with open_zip(file) as archive:
        header = next((name for name in INSPECT_HEADERS if name in archive), None)
        if header is None:
            raise UnreadableFile(f"{file.name}: no header.json; expected an Inspect log")
        document = _member(archive, header)
        run = _Run.from_header(document, archive.where(header))
        _note_status(mapping_of(document).get("status"), tally)
        yield from _answers(run, _archive_samples(archive), tally)


def inspect_document_answers(file: InputFile, tally: Counter[str]) -> Iterator[Answer]:
    """Read a ``.json`` log."""
    with translate_read_errors(file.name), file.open_text() as stream:
        scanner, run = JsonScanner(file.name, stream), None
        for name in scanner.members():
            if name == "samples" and scanner.peek() == "[":
                if run is None:
                    raise UnreadableFile(
                        f"{file.name}: eval does not come before samples, as Inspect writes it"
                    )
                yield from _answers(run, _document_samples(scanner), tally)
                continue
            _, value = scanner.value(file.name)
            if name == "status":
                _note_status(value, tally)
            if name == "eval":
                run = _Run.from_spec(value, file.name)


def _note_status(status: object, tally: Counter[str]) -> None:
    if status in _BAD_STATUSES:
        tally[f"{LOG_STATUS_NOTE} {status}"] += 1


def _document_samples(scanner: JsonScanner) -> Iterator[tuple[str, Any]]:
    for where in scanner.elements():
        yield where, scanner.value(where)[1]


def _archive_samples(archive: ZipMembers) -> Iterator[tuple[str, Any]]:
    chunks: dict[str, list[str]] = {}
    for name in archive.names:
        if name.startswith("samples/") and _CHUNK.fullmatch(name.rpartition("/")[2]):
            chunks.setdefault(name.rpartition("/")[0], []).append(name)
    for name in archive.names:
        if _CHUNKED_SAMPLE.fullmatch(name):
            yield archive.where(name), _whole_sample(archive, name, chunks)
        elif _SAMPLE.fullmatch(name):
            yield archive.where(name), _member(archive, name)


def _whole_sample(archive: ZipMembers, name: str, chunks: Mapping[str, list[str]]) -> Any:
    """A sample of several members: its messages and attachments are lists, each in pieces."""
    sample, folder = _member(archive, name), name.removesuffix("/sample.json")
    if not isinstance(sample, dict):
        return sample
    where = archive.where(name)

    def sequence(kind: str) -> list[Any]:
        pieces = sorted(chunks.get(f"{folder}/{kind}", ()), key=_chunk_start)
        return [one for piece in pieces for one in _list(_member(archive, piece), archive.where(piece))]

    messages, attachments = sequence("messages"), sequence("attachments")
    sample["messages"] = [messages[k] for k in _referred(sample.get("message_refs"), len(messages), where)]
    sample["attachments"] = {str(k): one for k, one in enumerate(attachments)}
    return sample


def _chunk_start(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))


def _referred(refs: object, count: int, where: str) -> Iterator[int]:
    """The numbers in ranges ``[start, end)``."""
    left = _MESSAGE_LIMIT
    for pair in _list(refs or [], where):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(end, int) for end in pair):
            raise UnreadableFile(f"{where}: message_refs is not a list of ranges")
        start, end = pair
        left -= end - start
        if not 0 <= start <= end <= count or left < 0:
            raise UnreadableFile(f"{where}: message_refs names messages that are not in the log")
        yield from range(start, end)


def _answers(run: _Run, samples: Iterator[tuple[str, Any]], tally: Counter[str]) -> Iterator[Answer]:
    seen: set[tuple[str, int]] = set()
    for where, value in samples:
        if not isinstance(value, Mapping):
            raise UnreadableFile(f"{where}: a sample is {type(value).__name__}; expected an object")
        sample = _Sample(run, value, where)
        place = str(sample.id), sample.repeat
        if place in seen:
            raise UnreadableFile(f"{where}: sample {sample.id!r} occurs twice in the same epoch")
        seen.add(place)
        answer = sample.answer(tally)
        if answer is not None:
            yield answer
    expected = (
        {(name, epoch) for name in run.ids for epoch in range(run.epochs)} if seen or run.ids else set()
    )
    if expected - seen:
        tally[NOT_IN_FILE_NOTE] += len(expected - seen)


class _Sample:
    """One sample of a log, that is one epoch of one prompt."""

    def __init__(self, run: _Run, value: Mapping[str, Any], where: str) -> None:
        self._run = run
        self._value = value
        self._where = where
        # Replaces a text that refers to an attachment by that attachment.
        known = mapping_of(value.get("attachments"))

        def resolve(text: str) -> str:
            found = known.get(text.removeprefix(_REFERENCE)) if text.startswith(_REFERENCE) else None
            return clean_text(found if isinstance(found, str) else text)

        self._resolve = resolve
        self.id = value.get("id")
        epoch = value.get("epoch", 1)
        if not isinstance(self.id, str | int) or not isinstance(epoch, int):
            raise UnreadableFile(f"{where}: id or epoch is missing; expected a sample of an Inspect log")
        #: Inspect counts epochs from 1.
        self.repeat = max(epoch - 1, 0)

    def answer(self, tally: Counter[str]) -> Answer | None:
        value = self._value
        if value.get("error"):
            tally[FAILED_NOTE] += 1
            return None
        if value.get("invalidation"):
            tally[INVALID_NOTE] += 1
            return None
        asked, spoken = self._asked(), self._messages(value.get("messages"))
        split = split_conversation(spoken, _asked_count(spoken, asked, value.get("messages")))
        output = mapping_of(value.get("output"))
        response = self._response(output) or split.response or ""
        scores = _scores(value, tally)
        if not response and not scores:
            tally[NO_RESPONSE_NOTE] += 1
            return None
        prompt = next((one.text for one in reversed(asked) if one.role == "user"), "")
        conversation = tuple(one for one in asked if one.role != "system")
        # Whether the conversation is one text of the user, which the prompt says as well.
        target = value.get("target")
        texts = [one for one in (target if isinstance(target, list) else [target]) if isinstance(one, str)]
        reason = mapping_of(_first(output.get("choices"))).get("stop_reason")
        return Answer(
            prompt_id=self._run.prompt_id(self.id),
            prompt=_with_choices(prompt, value.get("choices")),
            model=self._run.model,
            response=response,
            kind="text" if response else SCORES_ONLY,
            category=self._run.task,
            gold=clean_text("\n".join(texts)) or None,
            source="inspect",
            truncated=(reason if isinstance(reason, str) else None) in _CUT_REASONS,
            system=split.system,
            messages=()
            if (len(conversation) == 1 and conversation[0].role == "user" and conversation[0].only_text)
            else conversation,
            trace=_steps(split.trace, response),
            usage=self._usage(output),
            params_hash=self._run.params_hash,
            scores=MappingProxyType(scores),
            repeat=self.repeat,
        )

    def _asked(self) -> tuple[Message, ...]:
        given = self._value.get("input")
        if isinstance(given, str):
            return self._messages([{"role": "user", "content": given}])
        return self._messages(given)

    def _messages(self, given: object) -> tuple[Message, ...]:
        return read_messages(given or [], self._where, self._resolve)

    def _response(self, output: Mapping[str, Any]) -> str:
        completion = output.get("completion")
        if isinstance(completion, str) and completion:
            return self._resolve(completion)
        message = mapping_of(_first(output.get("choices"))).get("message")
        return self._messages([message])[0].text if isinstance(message, Mapping) else ""

    def _usage(self, output: Mapping[str, Any]) -> AnswerUsage | None:
        """The tokens of all calls of the sample's own model, and the time it worked."""
        used = mapping_of(mapping_of(self._value.get("model_usage")).get(self._run.model)) or mapping_of(
            output.get("usage")
        )
        counts = [count_of(used.get(f"input_tokens{end}")) for end in ("", "_cache_read", "_cache_write")]
        usage = AnswerUsage(
            input_tokens=None if counts[0] is None else sum(one or 0 for one in counts),
            output_tokens=count_of(used.get("output_tokens")),
            cost_usd=finite_number(used.get("total_cost")),
            latency_seconds=finite_number(self._value.get("working_time")),
        )
        return None if usage == AnswerUsage() else usage


def _asked_count(spoken: Sequence[Message], asked: Sequence[Message], raw: object) -> int:
    """How many messages were there before the model answered.

    Inspect marks messages of the input; otherwise there are as many of the user as in the input.
    Later ones of the user are steps of an agent.
    """
    marked = [k for k, one in enumerate(_list(raw or [], "")) if mapping_of(one).get("source") == "input"]
    if marked:
        return marked[-1] + 1
    users = [k for k, one in enumerate(spoken) if one.role == "user"]
    wanted = sum(one.role == "user" for one in asked)
    return users[min(wanted, len(users)) - 1] + 1 if users and wanted else 0


def _with_choices(prompt: str, choices: object) -> str:
    """The prompt and the choices that the model was given; the input of a sample has only the question."""
    texts = [one for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
    listed = [f"{chr(ord('A') + k) if k < _LETTER_COUNT else k + 1}) {text}" for k, text in enumerate(texts)]
    return "\n".join([f"{prompt}\n", *map(clean_text, listed)]) if listed else prompt


def _steps(trace: tuple[Message, ...], response: str) -> tuple[Message, ...]:
    """The steps without a last message that is the response itself."""
    if trace and trace[-1].role == "assistant" and trace[-1].only_text and trace[-1].text == response:
        return trace[:-1]
    return trace


def _scores(sample: Mapping[str, Any], tally: Counter[str]) -> dict[str, float]:
    given = sample.get("scores")
    if given is None and sample.get("score") is not None:
        given = {"score": sample["score"]}
    found: dict[str, float] = {}
    for name, score in mapping_of(given).items():
        value = mapping_of(score).get("value")
        parts = value.items() if isinstance(value, Mapping) else [(None, value)]
        for part, each in parts:
            number = _score(each)
            if number is not None:
                found[clean_text(str(name) if part is None else f"{name}/{part}")] = number
            elif each is None or isinstance(each, float):
                tally[UNSCORED_NOTE] += 1
            else:
                tally[UNREADABLE_SCORE_NOTE] += 1
    return found


def _score(value: object) -> float | None:
    """Inspect's `value_to_float`; ``None`` where that gives a warning and 0."""
    if not isinstance(value, str):
        return finite_number(value)
    known = _SCORES.get(value, _SCORES.get(value.lower()) if len(value) > 1 else None)
    if known is not None:
        return known
    try:
        return finite_number(float(value))
    except ValueError:
        return None


def _member(archive: ZipMembers, name: str) -> Any:
    return load_json(archive.where(name), archive.read(name))


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise UnreadableFile(f"{where}: {type(value).__name__} where a list is expected")
    return value


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None
