"""Changes that Cosmic Ray does not make: a call left out, a bound turned round, a condition of SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator

Positions = Iterator[tuple[tuple[int, int], tuple[int, int]]]

_TURNED = {
    "maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "any": "all", "all": "any",
    "floor": "ceil", "ceil": "floor", "argmax": "argmin", "argmin": "argmax", "zeros": "ones", "ones": "zeros",
    "union": "intersection", "startswith": "endswith", "endswith": "startswith",
}  # fmt: skip

#: What a statement may ask, and what it is changed to.
_CONDITIONS = {
    "IS NOT NULL": "IS NULL", "IS NULL": "IS NOT NULL", "<=": "<", ">=": ">", "<>": "=", "<": "<=", ">": ">=",
    "=": "<>", "AND": "OR", "OR": "AND",
}  # fmt: skip
_CONDITION = re.compile("IS NOT NULL|IS NULL|<=|>=|<>|(?<!-)[<>]|(?<![:<>])=|\\bAND\\b|\\bOR\\b")


class DropCall(Operator):
    """A statement that is a call, or waits for one, is left out; and so is ``raise``."""

    def mutation_positions(self, node: Any) -> Positions:
        if node.parent is None or node.parent.type != "simple_stmt" or node is not node.parent.children[0]:
            return
        if node.type == "raise_stmt" or (node.type == "atom_expr" and _is_call(node)):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - the signature of the base class
        return parso.python.tree.Name("pass", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("f(1)\n", "pass\n"), Example("raise E\n", "pass\n"))


class TurnBound(Operator):
    """``max`` becomes ``min``, ``any`` becomes ``all``, and so on."""

    def mutation_positions(self, node: Any) -> Positions:
        if node.type == "name" and node.value in _TURNED and not node.is_definition():
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - the signature of the base class
        return parso.python.tree.Name(_TURNED[node.value], node.start_pos, node.prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("max(1, 2)\n", "min(1, 2)\n"),)


class ScaleNumber(Operator):
    """A number other than 0 becomes a thousand times as large, or a quarter of it."""

    def mutation_positions(self, node: Any) -> Positions:
        if node.type == "number" and _scalable(node.value):
            yield node.start_pos, node.end_pos
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        value = _number(node.value)
        scaled = value * 1000 if index == 0 else (value // 4 if isinstance(value, int) else value / 4)
        return parso.python.tree.Number(f"{scaled}", node.start_pos, node.prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x = 2.0\n", "x = 2000.0\n"),)


PYTHON_OPERATORS = {one.__name__: one for one in (DropCall, TurnBound, ScaleNumber)}


def sql_changes(source: str) -> list[tuple[int, int, str]]:
    """Line, column and the whole changed text of every change to a file of statements."""
    changes, before = [], 0
    for number, line in enumerate(source.splitlines(keepends=True), start=1):
        if not line.lstrip().startswith("--"):
            for found in _CONDITION.finditer(line):
                start, end = before + found.start(), before + found.end()
                text = source[:start] + _CONDITIONS[found[0]] + source[end:]
                changes.append((number, found.start(), text))
        before += len(line)
    return changes


def _is_call(node: Any) -> bool:
    last = node.children[-1]
    return bool(last.type == "trailer" and last.children[0] == "(")


def _scalable(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9_]+(\.[0-9]*)?", text)) and _number(text) not in {0, 1}


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch("[0-9_]+", text) else float(text)
