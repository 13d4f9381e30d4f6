"""The names of options in messages, as parameters in Python and as flags on the command line; and the values of others."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from tiltyard.errors import BadOption

_VALUE_CHARACTERS = 80
_LISTED_COUNT = 30
#: Characters that mean something to a shell, wherever they stand.
_FOR_SHELLS = re.compile(r"[\s'\"$`\\;&|<>()*?!#]")


def quoted(value: object) -> str:
    """The value as Python writes it, cut where it is long."""
    text = repr(value[: _VALUE_CHARACTERS + 1] if isinstance(value, str) else value)
    return text if len(text) <= _VALUE_CHARACTERS + 2 else f"{text[:_VALUE_CHARACTERS]}…"


def quoted_list(values: Sequence[str]) -> str:
    """The first of some values, each quoted, joined by commas; ``(none)`` if there are none."""
    shown = [*map(quoted, values[:_LISTED_COUNT]), *(["…"] if len(values) > _LISTED_COUNT else [])]
    return ", ".join(shown) or "(none)"


class _Spelling:
    """How this process spells options: a process either runs a command or is somebody's Python."""

    command_line = False


@contextmanager
def command_line_spelling() -> Iterator[None]:
    """Spell options as flags within this block."""
    before, _Spelling.command_line = _Spelling.command_line, True
    try:
        yield
    finally:
        _Spelling.command_line = before


def option_name(name: str, value: object = None) -> str:
    """The option as the caller writes it: ``--max-share`` or ``max_share=``, with a value if one is given.

    A list is ``--by category --by language`` or ``by=['category', 'language']``, a mapping is
    ``--columns model_a=left`` or ``columns={'model_a': 'left'}``, and what is on is ``--skip-invalid`` or
    ``skip_invalid=True``.
    """
    if not _Spelling.command_line:
        return f"{name}=" if value is None else f"{name}={value!r}"
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return flag
    if isinstance(value, list):
        return " ".join(f"{flag} {_pasted(each)}" for each in value)
    if isinstance(value, Mapping):
        value = ",".join(f"{key}={meaning}" for key, meaning in value.items())
    return f"{flag} {_pasted(str(value))}"


def _pasted(text: str) -> str:
    """Text as a shell takes it; what needs no quotes has none."""
    return shlex.quote(text) if _FOR_SHELLS.search(text) else text


def refuse_unknown(function: str, options: Mapping[str, object], known: type) -> None:
    """Refuse options that ``known``, a TypedDict, lacks: a mistyped budget must not mean none."""
    names = list(known.__annotations__)
    for name in options:
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(names))}"
            raise BadOption(f"{function} has no option {name!r}; {hint}")


def require_flag(name: str, value: object) -> None:
    """Refuse what is neither true nor false: the text ``"no"`` would count as true."""
    if not isinstance(value, bool):
        raise BadOption(f"{name} is {value!r}; expected True or False")


def with_options(
    function: Callable[..., Any],
    annotations: Mapping[str, Any],
    defaults: Mapping[str, Any] = MappingProxyType({}),
    *,
    after: str | None = None,
    evaluated: bool = True,
) -> Callable[..., Any]:
    """Let a function that takes ``**options`` state which: after one of its own parameters, or at the end.

    Where annotations are not ``evaluated``, they stay as they are written.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    stated = inspect.signature(function, eval_str=evaluated)
    own = [one for one in stated.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    place = len(own) if after is None else [one.name for one in own].index(after) + 1
    added = [
        inspect.Parameter(name, keyword, default=defaults.get(name), annotation=annotation)
        for name, annotation in annotations.items()
    ]
    rest = [one.replace(kind=keyword) for one in own[place:]]
    function.__signature__ = stated.replace(parameters=[*own[:place], *added, *rest])  # type: ignore[attr-defined]
    return function
