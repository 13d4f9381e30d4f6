"""What the columns of a table of answers hold: proposed from their names and values, or stated by whoever imports it.

Only headers that the documentation names are taken at their word. Everything else is a proposal, to be confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tiltyard.errors import BadOption
from tiltyard.files.answer import ANSWER_FIELDS, json_text
from tiltyard.files.answer_formats.answer_tables import FIELD_HEADERS, USE_OF_WORD, AnswerTable
from tiltyard.foundation.option_names import option_name, quoted, quoted_list

#: What a column can be taken for. Several may be prompts, which are joined, and several ``responses``: of a model each.
COLUMN_USES = ("prompt", "messages", "model", "response", "responses", "prompt_id", *FIELD_HEADERS, "ignore")
_REPEATED_USES = frozenset({"prompt", "responses", "ignore"})
#: Rows that a proposal is made from.
SAMPLED_ROWS = 2_000
#: A table with more columns, or a longer header, has no header row that people wrote.
_MAX_COLUMNS = 100
_MAX_HEADER_CHARACTERS = 200
#: Values that could be names of models: how many different ones at most, and how long.
_NAME_LIMIT = 50
_MAX_NAME_CHARACTERS = 100
_EXAMPLE_CHARACTERS, _EXAMPLE_COUNT = 80, 3
ColumnReason = Literal["documented", "name", "repeats", "prompts", "texts", "column", "unknown", "stated"]


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What somebody said of the columns: the use of each by its header; and the only model, where no column names it."""

    uses: Mapping[str, str] = field(default_factory=dict)
    only_model: str | None = None

    @classmethod
    def parsed(cls, words: Iterable[str], only_model: str | None = None) -> ColumnChoice | None:
        """Read ``prompt=question``, ``model=llm``; ``None`` if nothing is said."""
        uses: dict[str, str] = {}
        for word in words:
            use, equals, header = word.partition("=")
            if not equals or use not in COLUMN_USES or uses.setdefault(header, use) != use:
                raise BadOption(
                    f"{option_name('columns')}: {quoted(word)} is not of the form use=header, each header once, where the use "
                    f"is one of {', '.join(COLUMN_USES)}"
                )
        only_model = (only_model or "").strip() or None
        return cls(uses, only_model) if uses or only_model else None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, what it is taken for, and why. ``distinct``: of its values in the rows that were looked at."""

    name: str
    use: str
    why: ColumnReason
    distinct: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table. Without columns, only the model is unknown."""

    columns: tuple[TableColumn, ...] = ()
    rows: int = 0
    #: Whether the headers, or somebody, say what they hold.
    clear: bool = False
    only_model: str | None = None
    #: What keeps the table from being read.
    problem: str | None = None

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> TableColumns:
        """Read what another process wrote."""
        columns = (TableColumn(**one | {"examples": tuple(one["examples"])}) for one in value["columns"])
        return cls(**value | {"columns": tuple(columns)})

    @property
    def asks(self) -> bool:
        """Whether somebody has to say what the columns hold before anything is imported."""
        return not self.clear or self.problem is not None

    @property
    def uses(self) -> dict[str, str]:
        return {one.name: one.use for one in self.columns}

    def headers(self, use: str) -> tuple[str, ...]:
        return tuple(one.name for one in self.columns if one.use == use)

    def table(self) -> AnswerTable:
        """The table with these columns, if there is no problem."""
        first = {use: next(iter(self.headers(use)), None) for use in COLUMN_USES}
        return AnswerTable(
            prompts=self.headers("prompt") or self.headers("messages"),
            chat=not self.headers("prompt"),
            response=first["response"],
            model=first["model"],
            id=first["prompt_id"],
            fields={use: header for use in FIELD_HEADERS if (header := first[use]) is not None},
            models=self.headers("responses"),
            scores={},
            only_model=self.only_model,
        )


def table_columns(
    names: Sequence[str], rows: Sequence[Mapping[str, object]], choice: ColumnChoice | None
) -> TableColumns:
    """What these columns hold: as somebody chose, or as it seems by their names and first rows."""
    if len(names) > _MAX_COLUMNS or any(len(name) > _MAX_HEADER_CHARACTERS for name in names):
        raise BadOption(
            f"the first row has more than {_MAX_COLUMNS} columns, or a name of more than {_MAX_HEADER_CHARACTERS} "
            "characters; give the table a header row"
        )
    found = _Proposal(names, rows).made()
    if choice is None:
        return replace(found, problem=_problem(found))
    unknown = sorted(choice.uses.keys() - set(names))
    stated = (replace(one, use=choice.uses.get(one.name, "ignore"), why="stated") for one in found.columns)
    found = TableColumns(tuple(stated), found.rows, True, choice.only_model)
    missing = (
        f"there is no column {quoted(unknown[0])}; the file has {quoted_list(names)}" if unknown else None
    )
    return replace(found, problem=missing or _problem(found))


def _problem(found: TableColumns) -> str | None:
    for use in COLUMN_USES:
        if use not in _REPEATED_USES and len(found.headers(use)) > 1:
            return f"two columns are the {use}: {quoted_list(found.headers(use))}; choose one"
    wide, chat = found.headers("responses"), found.headers("messages")
    if not found.headers("prompt") and not chat:
        return "no column is the prompt; choose one"
    if not (found.headers("response") or wide or chat):
        return "no column is the response; choose one, or several that are one model's responses each"
    named = len(found.headers("model")) + (found.only_model is not None)
    if wide and (found.headers("response") or named):
        return "each column of responses is a model; choose no other model or response beside them"
    if not wide and named != 1:
        both = "a column and a name both say the model; leave one out"
        return both if named else "no column is the model; choose one, or name the only model of the file"
    return None


class _Proposal:
    """A proposal in the making: the use of each column, with its reason."""

    def __init__(self, names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
        self.names = names
        self.rows = len(rows)
        self.texts = {name: [_text(row.get(name)) for row in rows] for name in names}
        self.values = {name: dict.fromkeys(filter(None, texts)) for name, texts in self.texts.items()}
        self.uses: dict[str, tuple[str, ColumnReason]] = {}

    def made(self) -> TableColumns:
        clear = self._take_documented()
        if not clear:
            self._take_named()
            self._take_by_values()
        columns = (
            TableColumn(
                name,
                *self.uses.get(name, ("ignore", "unknown")),
                len(self.values[name]),
                tuple(text[:_EXAMPLE_CHARACTERS] for text in list(self.values[name])[:_EXAMPLE_COUNT]),
            )
            for name in self.names
        )
        return TableColumns(tuple(columns), self.rows, clear)

    def _take_documented(self) -> bool:
        """Take the headers that are documented, if they say everything and no other could be meant."""
        table = AnswerTable.of(self.names, wide=False)
        if table is None or table.model is None or not self._may_be_names(table.model):
            return False
        uses = {header: use for use, header in table.fields.items()} | {table.model: "model"}
        uses |= dict.fromkeys(table.prompts, "messages" if table.chat else "prompt")
        uses |= {table.response: "response"} if table.response else {}
        uses |= {table.id: "prompt_id"} if table.id else {}
        rivals = [
            name
            for name in self.names
            if name not in uses and _use_of(name) in ("prompt", "model", "response")
        ]
        told = table.id in (None, "prompt_id") or self._names_prompts(str(table.id), table.prompts[0])
        if told and not rivals:
            self.uses = {name: (use, "documented") for name, use in uses.items()}
        return told and not rivals

    def _take_named(self) -> None:
        named = {name: use for name in self.names if (use := _use_of(name))}
        # Ids come last: they are known by the prompts that they name.
        for name, use in sorted(named.items(), key=lambda item: item[1] == "prompt_id"):
            prompt = self._column_of("prompt")
            fits = {
                "model": self._may_be_names(name),
                # Without a model, a column called "system" may well be it.
                "system": "model" in named.values(),
                "prompt_id": prompt is not None and self._names_prompts(name, prompt),
            }
            if fits.get(use, True) and not self._column_of(use):
                self.uses[name] = (use, "name")

    def _take_by_values(self) -> None:
        chat = self._column_of("messages")
        if not chat and not self._column_of("prompt"):
            repeated = [name for name in self._free() if len(self.values[name]) < self.rows]
            for name in sorted(repeated or self._free(), key=self._length)[-1:]:
                self.uses[name] = ("prompt", "prompts")
        prompt = self._column_of("prompt")
        if prompt and not self._column_of("model"):
            repeating = [name for name in self._free() if self._repeats_like_names(name, prompt)]
            for name in sorted(repeating, key=lambda name: len(self.values[name]))[:1]:
                self.uses[name] = ("model", "repeats")
        free = self._free()
        if chat or self._column_of("response") or not free:
            return
        wide = [name for name in free if len(self.values[name]) > 1 or self.rows == 1]
        once = prompt is not None and len(self.values[prompt]) == self.rows
        if once and len(wide) > 1 and not self._column_of("model"):
            self.uses |= dict.fromkeys(wide, ("responses", "column"))
        else:
            self.uses[max(free, key=self._length)] = ("response", "texts")

    def _column_of(self, use: str) -> str | None:
        return next((name for name, (taken, _) in self.uses.items() if taken == use), None)

    def _free(self) -> list[str]:
        """Columns of texts that have no use yet, and no name that says what else they are."""
        taken = ANSWER_FIELDS | self.uses.keys()
        return [
            name
            for name in self.names
            if name not in taken
            and _use_of(name) != "prompt_id"
            and not all(map(_is_number, self.values[name]))
        ]

    def _length(self, name: str) -> int:
        return sum(map(len, self.texts[name]))

    def _may_be_names(self, name: str) -> bool:
        values = self.values[name]
        return bool(values) and all(len(one) <= _MAX_NAME_CHARACTERS and "\n" not in one for one in values)

    def _repeats_like_names(self, name: str, prompt: str) -> bool:
        """Whether few short values come with each prompt once, as models do."""
        pairs = set(zip(self.texts[prompt], self.texts[name], strict=True))
        few = 1 < len(self.values[name]) <= min(_NAME_LIMIT, self.rows - 1)
        return few and len(self.values[prompt]) < self.rows == len(pairs) and self._may_be_names(name)

    def _names_prompts(self, name: str, prompt: str) -> bool:
        """Whether a column has one value for each prompt, rather than one for each row."""
        pairs = set(zip(self.texts[prompt], self.texts[name], strict=True))
        return len(pairs) == len(self.values[prompt]) == len(self.values[name])


def _use_of(header: str) -> str | None:
    """The use that the words of a header name."""
    letters = "".join(one if one.isalnum() else " " for one in header.casefold())
    return USE_OF_WORD.get("_".join(letters.split()))


def _text(value: object) -> str:
    return "" if value is None else json_text(value).strip()


def _is_number(text: str) -> bool:
    return text.strip("+-%").replace(".", "", 1).replace(",", "", 1).isdigit()
