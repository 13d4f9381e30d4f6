"""Tables of answers under common names: alpaca_eval's outputs, AutoArena's files, data sets of Hugging Face; and scores in columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tiltyard.core.judging.conversation import split_conversation
from tiltyard.errors import UnreadableFile
from tiltyard.files.answer import (
    KINDS,
    NO_RESPONSE_NOTE,
    UNREADABLE_SCORE_NOTE,
    UNSCORED_NOTE,
    Answer,
    clean_text,
    finite_number,
    json_text,
    read_messages,
)
from tiltyard.files.input_file import Records
from tiltyard.files.judgments import prompt_id


def _read_words() -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The documented headers of each use, and the use that any known header names."""
    documented: dict[str, tuple[str, ...]] = {}
    meant: dict[str, str] = {}
    text = (resources.files(__package__) / "column_words.txt").read_text("utf-8")
    for line in filter(lambda line: not line.startswith("#"), text.splitlines()):
        use, _, words = line.partition(": ")
        documented[use] = tuple(words.partition("|")[0].split())
        meant |= dict.fromkeys(words.replace("|", " ").split(), use)
    return documented, meant


_DOCUMENTED, USE_OF_WORD = _read_words()
PROMPT_NAMES, _CONVERSATIONS, _RESPONSES, MODEL_NAMES, ID_NAMES = list(_DOCUMENTED.values())[:5]
#: The other fields of an answer, and their names.
FIELD_HEADERS = dict(list(_DOCUMENTED.items())[5:])
#: Columns that are not models where each model has a column.
NOT_MODEL_NAMES = frozenset(
    {
        *PROMPT_NAMES,
        *_CONVERSATIONS,
        *ID_NAMES,
        "id",
        "index",
        "row",
        "number",
        "source",
        "notes",
        "comment",
        "tags",
        "",
    }
).union(*FIELD_HEADERS.values())
#: Columns of battles, which are no answers.
_BATTLES = ({"model_a", "model_b"}, {"generator_1", "generator_2"}, {"response_a", "response_b"})
#: The name of the file with alpaca_eval's outputs; its folder is named for the model.
_ALPACA_FILE = "model_outputs"
#: Columns that are scores without being called so.
_USUAL_METRICS = frozenset(
    {"accuracy", "acc", "acc_norm", "exact_match", "em", "f1", "bleu", "chrf", "rouge1", "rouge2", "rougel"}
    | {"wer", "cer", "perplexity", "pass@1", "passed", "is_correct"}
)
#: Metrics that lie between 0 and 1 by what they are.
SHARE_METRICS = frozenset(
    {"accuracy", "acc", "acc_norm", "exact_match", "em", "f1", "mc1", "mc2", "pass@1", "passed", "is_correct"}
    | {"success", "includes", "match"}
)
#: Metrics of which less is better by what they are.
ERROR_METRICS = frozenset({"wer", "cer", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"})
#: Letters are those of Inspect, as it writes them; words are in any case.
_LETTERS = {"C": 1.0, "I": 0.0}
_WORDS = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "correct"), 1.0),
    **dict.fromkeys(("false", "no", "fail", "failed", "incorrect"), 0.0),
}
_MISSING = frozenset({"", "-", "n/a", "na", "nan", "none", "null"})
_EXAMPLE_CHARACTERS = 40


@dataclass(frozen=True)
class AnswerTable:
    #: The columns of the prompt, whose texts are joined.
    prompts: tuple[str, ...]
    #: Whether they have conversations.
    chat: bool
    response: str | None
    model: str | None
    id: str | None
    fields: Mapping[str, str]
    #: The columns of models, if each has one.
    models: tuple[str, ...]
    scores: Mapping[str, str]
    #: The model, if no column names it.
    only_model: str | None = None

    @classmethod
    def of(cls, columns: Collection[str], *, wide: bool) -> AnswerTable | None:
        """The table that has these columns; ``None`` if none has. ``wide``: models may have columns."""
        names = {name.lower(): name for name in reversed(list(columns))}
        if any(battle <= names.keys() for battle in _BATTLES):
            return None
        prompt, talk = _among(names, PROMPT_NAMES), _among(names, _CONVERSATIONS)
        response, model = _among(names, _RESPONSES), _among(names, MODEL_NAMES)
        scored = score_columns(columns, usual=response is not None)
        others = [name for name in columns if name.lower() not in NOT_MODEL_NAMES and name not in scored]
        models = tuple(others) if wide and response is None and model is None and prompt is not None else ()
        if talk is not None and response is None and not models:
            prompt, chat = talk, True
        else:
            chat = False
        if prompt is None or not (response or chat or models):
            return None
        # A plain id numbers the rows, and in tables with a column of models not the prompts.
        known = ID_NAMES if model is not None else (*ID_NAMES, "id")
        fields = {name: _among(names, spellings) for name, spellings in FIELD_HEADERS.items()}
        more = [name for name in columns if prompt == "instruction" and name == "input"]
        return cls(
            prompts=(prompt, *more),
            chat=chat,
            response=response,
            model=model,
            id=_among(names, known),
            fields={name: column for name, column in fields.items() if column is not None},
            models=models,
            # Beside the columns of models, a score is nobody's.
            scores={} if models else scored,
        )

    def answers(self, records: Records, tally: Counter[str]) -> Iterator[Answer]:
        """The answers of the table. Answers of one model to the same prompt are repeats."""
        # The name of the model whose answers are in a file: the file's name, without its ending.
        path = Path(records.name)
        stem = path.name.split(".")[0] if not path.is_dir() else path.name
        name = path.absolute().parent.name or stem if stem == _ALPACA_FILE else stem or path.name
        repeats = Counter[tuple[str, str]]()
        for where, record in all_records(records):
            yield from self.read(where, record, self.only_model or name, tally, repeats)

    def read(
        self,
        where: str,
        record: Mapping[str, object],
        name: str,
        tally: Counter[str],
        repeats: Counter[tuple[str, str]],
    ) -> Iterator[Answer]:
        """The answers of a record; ``name`` is the model's unless the table says it."""
        for model, responses, given in self._responses(record, where, name):
            known = [text for text in responses if text is not None and text != ""]
            if not known:
                tally[NO_RESPONSE_NOTE] += 1
            for text in known:
                place = model, given["prompt_id"]
                yield Answer(
                    model=model,
                    response=clean_text(json_text(text)),
                    repeat=repeats[place],
                    scores=MappingProxyType(read_scores(record, self.scores, tally)),
                    **given,
                )
                repeats[place] += 1

    def _responses(
        self, record: Mapping[str, object], where: str, name: str
    ) -> Iterator[tuple[str, list[object], dict[str, Any]]]:
        given = self._chat(record, where) if self.chat else self._plain(record, where)
        given |= {
            field: _optional(record.get(column))
            for field, column in self.fields.items()
            if field not in given
        }
        if given.get("kind") not in KINDS:
            given.pop("kind", None)
        stated = None if self.id is None else record.get(self.id)
        given["prompt_id"] = clean_text(json_text(stated)) if stated is not None else _named(given)
        for column in self.models:
            yield clean_text(column), _listed(record.get(column)), given
        if not self.models:
            model = name if self.model is None else record.get(self.model)
            if model is None:
                raise UnreadableFile(f"{where}: {self.model} is missing; expected the name of a model")
            response = given.pop("response") if self.chat else record.get(str(self.response))
            yield clean_text(json_text(model)), _listed(response), given

    def _plain(self, record: Mapping[str, object], where: str) -> dict[str, Any]:
        prompt, *more = [record.get(name) for name in self.prompts]
        if isinstance(prompt, list) or prompt is None:
            raise UnreadableFile(f"{where}: {self.prompts[0]} is missing; expected a prompt")
        texts = [json_text(one) for one in (prompt, *more) if one not in (None, "")]
        return {"prompt": clean_text("\n\n".join(texts))}

    def _chat(self, record: Mapping[str, object], where: str) -> dict[str, Any]:
        value = record.get(self.prompts[0])
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = None
        split = split_conversation(read_messages(value, where))
        prompts = [one for one in split.asked if one.role == "user"]
        plain = len(split.asked) == 1 and bool(prompts) and prompts[0].only_text
        found: dict[str, Any] = {
            "prompt": prompts[-1].text if prompts else "",
            "messages": () if plain else split.asked,
            "trace": split.trace,
            "response": split.response,
        }
        return found if split.system is None else found | {"system": split.system}


def all_records(records: Records) -> Iterator[tuple[str, dict[str, object]]]:
    """The records with all columns. JSON is not checked for lone surrogates, since texts are cleaned."""
    return records.records(() if records.kind in ("json", "jsonl") else None)


def _among(names: Mapping[str, str], wanted: tuple[str, ...]) -> str | None:
    return next((names[name] for name in wanted if name in names), None)


def _named(given: Mapping[str, Any]) -> str:
    """The id of a prompt without one: by its text, or by the whole conversation."""
    if not given.get("messages"):
        return str(prompt_id(given["prompt"]))
    return str(prompt_id(repr([(one.role, one.text) for one in given["messages"]])))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _optional(value: object) -> str | None:
    return None if value is None or value == "" else clean_text(json_text(value))


def score_columns(columns: Collection[str], *, usual: bool) -> dict[str, str]:
    """The metric of each column that is a score: ``score``, ``scores.NAME`` and, if ``usual``, usual metrics."""
    found = {}
    for column in columns:
        if column.lower() == "score":
            found[column] = "score"
        elif column.startswith("scores.") and len(column) > len("scores."):
            found[column] = column.removeprefix("scores.")
        elif usual and column.lower() in _USUAL_METRICS:
            found[column] = column
    return found


def read_scores(
    record: Mapping[str, object], columns: Mapping[str, str], tally: Counter[str]
) -> dict[str, float]:
    """The scores of a record; cells without one are counted, with an example of what is no number."""
    found = {}
    for column, metric in columns.items():
        value = record.get(column)
        number = read_score(value)
        if number is not None:
            found[metric] = number
        elif value is None or isinstance(value, float) or str(value).strip().lower() in _MISSING:
            tally[UNSCORED_NOTE] += 1
        else:
            example = f"{UNREADABLE_SCORE_NOTE}, such as {str(value)[:_EXAMPLE_CHARACTERS]!r}"
            tally[next((one for one in tally if one.startswith(UNREADABLE_SCORE_NOTE)), example)] += 1
    return found


def read_score(value: object) -> float | None:
    """A number, a truth value, a word for right or wrong, a percentage, or a number with a decimal comma.

    ``1,234`` may be two numbers, and is none.
    """
    if not isinstance(value, str):
        return finite_number(value)
    text = value.strip()
    known = _LETTERS.get(text, _WORDS.get(text.lower()))
    if known is not None:
        return known
    whole, comma, part = text.removesuffix("%").strip().partition(",")
    if comma and ("." in whole or not part.isdigit() or (len(part) == 3 and whole.lstrip("+-") != "0")):
        return None
    try:
        number = float(f"{whole}.{part}" if comma else whole)
    except ValueError:
        return None
    return finite_number(number / 100.0 if text.endswith("%") else number)
