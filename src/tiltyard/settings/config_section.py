"""Sections: the typed parts of a configuration, and readable messages for invalid ones."""

from __future__ import annotations

import copy
import difflib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from tiltyard.errors import BadConfig
from tiltyard.settings.yaml_file import Place, YamlFile, read_yaml

_PROBLEM_LIMIT = 3
#: How alike two names are if one is a misspelling of the other.
_MISSPELT_RATIO = 0.75
_EXPECTED = "expected"
_WRONG = "wrong"


class ConfigSection(BaseModel):
    """One mapping of a configuration. Unknown fields and values of the wrong type are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    #: Fields of other tools that are true or false, and the fields that say the same here, or why that is not possible.
    synonyms: ClassVar[Mapping[str, Mapping[bool, Mapping[str, Any] | str]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _translated(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for name in cls.synonyms.keys() & value.keys():
            stated = value[name]
            if not isinstance(stated, bool):
                raise section_error(f"expected true or false, found {_found(stated)}", name)
            same = cls.synonyms[name][stated]
            if isinstance(same, str):
                raise section_error(same, name)
            twice = next((field for field in same if field in value), None)
            if twice is not None:
                raise section_error(f"says the same as {twice}; keep one of them", name)
            value = {**value, **same}
        return {name: part for name, part in value.items() if name not in cls.synonyms}


class ConfigFile(ConfigSection):
    """A configuration that is read from a file. Its paths are relative to the file, or to the working folder."""

    #: Whether fields that no section knows, and that are no misspellings, are left out.
    tolerant: ClassVar[bool] = False
    _file: YamlFile = PrivateAttr(default=YamlFile("configuration.yaml", {}, {(): 1}))
    _ignored: tuple[str, ...] = PrivateAttr(default=())

    @classmethod
    def load(cls, path: Path, given: Mapping[str, Any] | None = None) -> Self:
        """Read a file; ``given`` (``a.b`` → value) takes precedence. Raises `BadConfig` if it is invalid."""
        file = read_yaml(path)
        file, ignored = without_foreign_fields(cls, file) if cls.tolerant else (file, [])
        config = validate_section(cls, file, given or {})
        config._file, config._ignored = file, tuple(ignored)  # noqa: SLF001
        return config

    @property
    def ignored(self) -> tuple[str, ...]:
        """The fields of the file that are not known here, such as ``entrants.*.loader``."""
        return self._ignored

    @property
    def warning(self) -> str:
        """One sentence that names these fields."""
        return f"{self.path}: fields that Tiltyard does not know are ignored: {', '.join(self._ignored)}"

    @property
    def path(self) -> Path:
        """The file that the configuration was read from."""
        return Path(self._file.name)

    @property
    def folder(self) -> Path:
        """The folder that the configuration's paths are relative to."""
        return self.path.parent

    def at(self, path: str) -> Path:
        """Resolve a path of the configuration against its folder, or else the working folder."""
        return resolve_path(self.folder, path)

    def where(self, *place: str | int) -> str:
        """File, line and field, for messages."""
        return self._file.where(place)


S = TypeVar("S", bound=ConfigSection)


def expand_user(path: str) -> Path:
    """A path whose ``~`` is the home of a user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  which, unlike Path's, leaves an unknown user alone


def resolve_path(folder: Path, path: str) -> Path:
    """A path in ``folder`` or in the working folder: where more of it exists, in ``folder`` if that is equal."""
    stated = expand_user(path)
    if stated.is_absolute():
        return stated
    parts = [stated, *stated.parents]
    return (
        max((folder, Path()), key=lambda base: sum(os.path.lexists(base / part) for part in parts)) / stated
    )


def repeated(names: Iterable[str]) -> str | None:
    """The first name that is there more than once."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def expecting(what: str, *, secret: bool = False) -> WrapValidator:
    """Report ``expected <what>`` for any invalid value; a secret value is not quoted."""

    def check(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(
                _EXPECTED, "expected {what}", {"what": what, "secret": secret}
            ) from None

    return WrapValidator(check)


def section_error(problem: str, *place: str | int) -> PydanticCustomError:
    """An error from a section's own validation; ``place`` is the path to the value inside it."""
    return PydanticCustomError(_WRONG, "{problem}", {"problem": problem, "place": place})


def one_of(*words: str) -> WrapValidator:
    """Report the allowed words for any invalid value."""
    return expecting(" or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part))


def _one_or_many(value: Any) -> Any:
    """Convert a single text to a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def default_if_empty(default: Any) -> BeforeValidator:
    """Use the default for a field that is present but empty."""
    return BeforeValidator(lambda value: default if value is None else value)


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


_AS_IT_IS = PlainSerializer(lambda value: value)
_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"

Text = Annotated[str, Field(min_length=1), expecting("text (put a number in quotes)")]
#: A path, relative to the file that contains it.
PathText = Annotated[
    str, Field(min_length=1, pattern=r"^[^\x00]+$"), expecting("a path (put a number in quotes)")
]
#: A name chosen by a user. It is displayed, so invisible characters are not allowed.
Name = Annotated[
    str,
    Field(
        min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"
    ),
    expecting("a name: text of 1 to 200 characters on one line (put a number in quotes)"),
]
#: A name that becomes part of a file name.
FileName = Annotated[
    str,
    Field(pattern=_FILE_NAME),
    expecting("a name of letters, digits, '_', '-' and '.', beginning with a letter or digit"),
]
#: The name of an environment variable. A user may have entered the key itself by mistake.
Variable = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
    expecting("the name of a variable (never the key itself)", secret=True),
]
YesNo = Annotated[bool, expecting("true or false")]
Count = Annotated[int, Field(gt=0), expecting("a whole number above 0")]
NonNegative = Annotated[int, Field(ge=0), expecting("a whole number, 0 or more")]
Seed = Annotated[int, Field(ge=0, lt=2**63), expecting("a whole number from 0 to 2**63 - 1")]
Positive = Annotated[float, Field(gt=0), expecting("a number above 0")]
#: A number that stays an integer if it was written as one.
Number = Annotated[float, Field(gt=0), expecting("a number above 0"), AfterValidator(_whole), _AS_IT_IS]
Share = Annotated[float, Field(ge=0, le=1), expecting("a number from 0 to 1")]
Many = BeforeValidator(_one_or_many)


def validate_section(model: type[S], file: YamlFile, given: Mapping[str, Any]) -> S:
    """Build a section from a file and from overrides (``a.b`` → value), which take precedence.

    Raises `BadConfig` with a line for each of the first three problems.
    """
    value = file.value
    for field, replacement in given.items():
        if replacement is not None:
            value = _with(value, field.split("."), replacement)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = dict.fromkeys(_problem(model, file, given, one) for one in error.errors(include_url=False))
        shown, more = list(problems)[:_PROBLEM_LIMIT], len(problems) - _PROBLEM_LIMIT
        raise BadConfig(*shown, *([f"… and {more} more"] if more > 0 else ())) from None


def without_foreign_fields(model: type[S], file: YamlFile) -> tuple[YamlFile, list[str]]:
    """The file without the fields that no section knows, and their names; misspelt fields stay, and are errors."""
    value, names = copy.deepcopy(file.value), dict[str, None]()
    while foreign := list(_foreign_fields(model, value)):
        for place in foreign:
            section: Any = value
            for part in place[:-1]:
                section = section[part]
            del section[place[-1]]
            names[".".join("*" if isinstance(part, int) else part for part in place)] = None
    return replace(file, value=value), list(names)


def _foreign_fields(model: type[S], value: dict[str, Any]) -> Iterator[Place]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            place = _place(one)
            if (
                one["type"] == "extra_forbidden"
                and _misspelt(str(place[-1]), _fields_at(model, place[:-1])) is None
            ):
                yield place


def _with(value: Any, field: Sequence[str], replacement: Any) -> Any:
    if not field:
        return replacement
    if value is not None and not isinstance(value, dict):
        return value
    here = value or {}
    return {**here, field[0]: _with(here.get(field[0]), field[1:], replacement)}


def _problem(
    model: type[ConfigSection], file: YamlFile, given: Mapping[str, Any], error: ErrorDetails
) -> str:
    place = _place(error)
    field = ".".join(str(part) for part in place)
    where = f"{field} (given as an option)" if given.get(field) is not None else file.where(place)
    return f"{where}: {_sentence(model, place, error)}"


def _place(error: ErrorDetails) -> Place:
    """The location of the error in the file, without pydantic's internal keys and branches."""
    place: Place = error["loc"]
    if place[-1:] == ("[key]",) and error["type"] != "extra_forbidden":
        place = place[:-1]
    if place[1:2] in (("<file>",), ("<table>",)):
        place = place[:1] + place[2:]
    return place + error["ctx"]["place"] if error["type"] == _WRONG else place


def _sentence(model: type[ConfigSection], place: Place, error: ErrorDetails) -> str:
    kind = error["type"]
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return _unknown(str(place[-1]), _fields_at(model, place[:-1]))
    if kind == _WRONG:
        return str(error["ctx"]["problem"])
    if error.get("ctx", {}).get("secret"):
        return f"expected {_expected(error)}, found something else"
    return f"expected {_expected(error)}, found {_found(error['input'])}"


def _expected(error: ErrorDetails) -> str:
    match error["type"]:
        case "expected":
            return str(error["ctx"]["what"])
        case "too_short":
            return f"at least {error['ctx']['min_length']}"
        case "model_type" | "model_attributes_type" | "dict_type" | "mapping_type":
            return "fields (name: value)"
        case "tuple_type" | "list_type":
            return "a list"
        case _:
            return error["msg"].removeprefix("Input should be ")


def _found(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict() | list() | tuple() if not value:
            return "none"
        case dict():
            return "fields"
        case list() | tuple():
            return f"a list of {len(value)}"
        case _:
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:57]}…"


def _unknown(name: str, known: Sequence[str]) -> str:
    close = _misspelt(name, known)
    if name == "<<":
        return "merge keys are not supported; write the fields out"
    hint = f"known here: {', '.join(known)}" if close is None else f"did you mean {close}?"
    return f"unknown field; {hint}"


def _misspelt(name: str, known: Sequence[str]) -> str | None:
    """The known name of which this is a misspelling, if any; a merge key stands for fields that are known."""
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=_MISSPELT_RATIO)
    return close[0] if close else name if name == "<<" else None


def _fields_at(model: type[ConfigSection], place: Place) -> list[str]:
    section: type[BaseModel] | None = model
    within = 0
    for part in place:
        if within:
            within -= 1
        elif section is not None:
            section, within = _inside(section.model_fields[str(part)].annotation)
    if section is None:
        return []
    return [*section.model_fields, *(section.synonyms if issubclass(section, ConfigSection) else ())]


def _inside(annotation: Any) -> tuple[type[BaseModel] | None, int]:
    """The section inside an annotation, and the number of keys or indexes that lead to it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, 0
    origin = get_origin(annotation)
    step = int(isinstance(origin, type) and issubclass(origin, tuple | Mapping))
    for inner in get_args(annotation):
        section, within = _inside(inner)
        if section is not None:
            return section, within + step
    return None, 0
