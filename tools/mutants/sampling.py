"""Mutants: every small change that could be made to a file, and a sample of them.

Cosmic Ray makes the changes to Python; `extra_operators` adds those that it lacks, and those of SQL.
"""

from __future__ import annotations

import ast
import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider
from extra_operators import PYTHON_OPERATORS, sql_changes

#: Of Cosmic Ray's operators those whose mutants look like mistakes: ``a << b`` for ``a + b`` is noticed by anything.
_PLAUSIBLE = (
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer",
    "ZeroIterationForLoop", "ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert",
    "ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_Div",
    "ReplaceBinaryOperator_Div_Mul", "ReplaceBinaryOperator_Pow_Mul", "ReplaceBinaryOperator_FloorDiv_Mul",
    "ReplaceBinaryOperator_Mod_FloorDiv", "ReplaceBinaryOperator_BitAnd_BitOr", "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt", "ReplaceComparisonOperator_Lt_Gt", "ReplaceComparisonOperator_Gt_Lt",
    "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq", "ReplaceComparisonOperator_Is_IsNot",
    "ReplaceComparisonOperator_IsNot_Is",
)  # fmt: skip
_OPERATORS = {name: OperatorProvider()[name] for name in _PLAUSIBLE} | PYTHON_OPERATORS


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file: the ``occurrence``-th place where an operator finds something to change."""

    path: str
    operator: str
    occurrence: int
    line: int
    column: int

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}:{self.column} {self.operator} {self.occurrence}"

    def applied(self, source: str) -> str | None:
        """The changed text of the file; ``None`` if nothing changed."""
        if self.path.endswith(".sql"):
            return sql_changes(source)[self.occurrence][2]
        try:
            changed = mutate_code(source, _OPERATORS[self.operator](), self.occurrence)
        except AttributeError:  # The library cannot replace an exception with a dotted name.
            return None
        return None if changed == source else changed


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """Every mutant of a file, except changes of what is not run: annotations, options of dataclasses."""
    source = (root / path).read_text(encoding="utf-8")
    if path.endswith(".sql"):
        return [
            Mutant(path, "sql", k, line, column) for k, (line, column, _) in enumerate(sql_changes(source))
        ]
    idle = _not_run(source)
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name, operator in ((name, made()) for name, made in _OPERATORS.items()):
        positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(positions):
            if not any(first <= (line, column) < last for first, last in idle):
                found.append(Mutant(path, name, occurrence, line, column))
    return found


def sample(root: Path, paths: Sequence[str], size: int, seed: int) -> list[Mutant]:
    """So many mutants: files by their lines of code, places of a file evenly, and of each place one change."""
    by_file = {path: _one_of_each_place(mutants_of(root, path), seed) for path in paths}
    lines = {path: (root / path).read_text(encoding="utf-8").count("\n") for path in paths}
    rest = {path: list(found) for path, found in by_file.items() if found}
    draw = _random(seed, "files")
    chosen: list[Mutant] = []
    while rest and len(chosen) < size:
        path = draw.choices(list(rest), weights=[lines[one] for one in rest])[0]
        mutant = rest[path].pop()
        if _is_valid(mutant, root):
            chosen.append(mutant)
        if not rest[path]:
            del rest[path]
    return chosen


def _is_valid(mutant: Mutant, root: Path) -> bool:
    """Whether it can be run: a star may be no product but a mark of arguments."""
    if not mutant.operator.startswith(("ReplaceBinaryOperator_Mul", "ReplaceBinaryOperator_Pow")):
        return True
    try:
        ast.parse(mutant.applied((root / mutant.path).read_text(encoding="utf-8")) or "")
    except SyntaxError:
        return False
    return True


def _one_of_each_place(mutants: Sequence[Mutant], seed: int) -> list[Mutant]:
    places: dict[tuple[int, int], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        places[mutant.line, mutant.column].append(mutant)
    if not mutants:
        return []
    draw = _random(seed, mutants[0].path)
    chosen = [draw.choice(places[place]) for place in sorted(places)]
    draw.shuffle(chosen)
    return chosen


def _random(seed: int, about: str) -> random.Random:
    """The same numbers for a file whatever other files there are."""
    return random.Random(hashlib.sha256(f"{seed} {about}".encode()).digest())  # noqa: S311 - a sample, no secret


def _not_run(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node in _idle_nodes(ast.parse(source))
    ]


def _idle_nodes(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.ClassDef):
            yield from (one for one in node.decorator_list if isinstance(one, ast.Call))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node.test
