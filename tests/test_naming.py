"""Names follow the house rules: one class per name, constants that say their unit, short parameter lists."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATHS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("src/tiltyard", "lab")
    for path in (ROOT / folder).rglob("*.py")
)

#: How the name of a number may end: its unit, what is counted, or what kind of number it is.
UNITS = frozenset(
    {
        "SECONDS",
        "MICROSECONDS",
        "MILLISECONDS",
        "MINUTES",
        "HOURS",
        "DAYS",
        "LIFETIME",
        "DURATION",
        "BYTES",
        "BITS",
        "KILOBITS",
        "CHARACTERS",
        "WORDS",
        "LINES",
        "PROBLEMS",
        "POINTS",
        "LOGITS",
        "PIXELS",
        "HERTZ",
        "USD",
        "PICODOLLARS",
        "TOKENS",
        "DOF",
        "DIGITS",
        "DECIMALS",
        "ROWS",
        "COLUMNS",
        "CELLS",
        "VOTES",
        "BATTLES",
        "CALLS",
        "REQUESTS",
        "REPLICATES",
        "ITERATIONS",
        "STEPS",
        "EVENTS",
        "MATCHUPS",
        "MODELS",
        "PROMPTS",
        "VOTERS",
        "SEEDS",
        "WORLDS",
        "CONNECTIONS",
        "NODES",
        "COUNT",
        "LIMIT",
        "LIMITS",
        "RATIO",
        "RATIOS",
        "SHARE",
        "SHARES",
        "PROBABILITY",
        "PERCENT",
        "TOLERANCE",
        "WEIGHT",
        "DENSITY",
        "ERRORS",
        "LEVEL",
        "VERSION",
        "VERSIONS",
        "PORT",
        "SEED",
        "KEY",
        "MASK",
        "FLAG",
        "FLAGS",
        "CODE",
        "CODES",
        "STATUSES",
        "KINDS",
        "MARKER",
        "MARKERS",
        "TAG",
        "INDEX",
        "OFFSET",
        "OFFSETS",
        "POSITION",
        "POSITIONS",
        "PHASE",
    }
)
#: Numbers whose name is the field's own, or that are codes and not quantities.
NOT_QUANTITIES = {
    "src/tiltyard/core/policy/state/events.py": {"NO_FREE_PROMPT", "NO_SESSION"},
    "src/tiltyard/core/policy/state/vote_marks.py": {"NO_MARK"},
    "src/tiltyard/core/policy/state/exposure_window.py": {"_NO_SERIAL"},
    "src/tiltyard/core/ratings/portable_functions.py": {
        "LN_10",
        "_ERF_MIDDLE",
        "_ERFC_NEAR",
        "_ERFC_FAR",
        "_ROOT_OF_PI_INVERSE",
    },
    "src/tiltyard/core/judging/diagnostics/judge_diagnostics.py": {"NO_FAMILY"},
    "src/tiltyard/judges/live_calls.py": {"PREWARM"},
    "src/tiltyard/runs/battle_rating.py": {"K_SWEEP"},
    "src/tiltyard/runs/tournament_documents.py": {"ZIP_EPOCH"},
    "src/tiltyard/arena/log/event_log.py": {"HUMAN", "JUDGE"},
    "src/tiltyard/arena/accounts.py": {"_FIRST_RANDOM_SESSION"},
}
MAX_PARAMETERS = 7
#: Functions with more parameters, each with the reason.
LONG_SIGNATURES = {
    "src/tiltyard/client/sync_client.py:vote": "public API",
    "src/tiltyard/client/sync_client.py:exclude": "public API",
    "src/tiltyard/client/async_client.py:vote": "public API",
    "src/tiltyard/client/sync_client.py:board": "public API",
    "src/tiltyard/client/reader_calls.py:board": "the same parameters as Client.board",
    "src/tiltyard/client/voter_calls.py:vote": "the same parameters as Client.vote",
    "src/tiltyard/client/admin_calls.py:exclude": "the same parameters as Client.exclude",
    "src/tiltyard/core/policy/validity/report/report_builder.py:validity_report": "public API",
    "src/tiltyard/errors.py:__init__": "ProviderFault, public API: each says something else of the fault",
    "src/tiltyard/web/pages/board_query.py:_read_query": "the parameters are the query string",
    "src/tiltyard/web/routes/boards.py:board": "the parameters are the query string",
    "src/tiltyard/web/routes/boards.py:snapshot": "the parameters are the path and the query string",
    "src/tiltyard/web/pages/chart_pages.py:chart": "the parameters are the path and the query string",
}


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def classes() -> Iterator[tuple[str, str]]:
    """Every public class of the package and of the validation suite, with its file."""
    for path in PATHS:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def test_a_public_class_name_is_defined_once():
    files = defaultdict(set)
    for name, path in classes():
        files[name].add(path)
    repeated = {name: sorted(paths) for name, paths in files.items() if len(paths) > 1}
    assert not repeated, "give each of these classes a name of its own"


def _numbers(tree: ast.Module) -> Iterator[str]:
    """Names of module-level constants that are numbers, or tuples of numbers."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _named_numbers(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from _named_numbers(node.target, node.value)


def _named_numbers(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, number in zip(target.elts, value.elts, strict=True):
            yield from _named_numbers(one, number)
    elif isinstance(target, ast.Name) and target.id.isupper() and _is_number(value):
        yield target.id


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(_is_number(one) for one in value.elts)
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "timedelta"


def _says_its_unit(name: str) -> bool:
    words = name.strip("_").split("_")
    return words[-1] in UNITS or "PER" in words[1:]


@pytest.mark.parametrize("path", PATHS)
def test_constants_end_in_their_unit(path):
    allowed = NOT_QUANTITIES.get(path, set())
    unclear = [name for name in _numbers(parsed(path)) if not _says_its_unit(name) and name not in allowed]
    assert not unclear, "end these names in a unit, such as _SECONDS, _BYTES or _VOTES"


def test_every_exception_still_exists():
    for path, names in NOT_QUANTITIES.items():
        assert names <= set(_numbers(parsed(path))), path
    signatures = {f"{path}:{name}" for path in PATHS for name, _ in _signatures(path)}
    assert set(LONG_SIGNATURES) <= signatures


def _signatures(path: str) -> Iterator[tuple[str, int]]:
    """Functions with more parameters than are easily told apart. Commands and compiled loops are exempt."""
    if "/cli/" in path or "/kernels/" in path or path == "lab/__main__.py":
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([each for each in arguments if each.arg not in {"self", "cls"}])
            if count > MAX_PARAMETERS:
                yield node.name, count


@pytest.mark.parametrize("path", PATHS)
def test_functions_take_at_most_seven_parameters(path):
    long = {name: count for name, count in _signatures(path) if f"{path}:{name}" not in LONG_SIGNATURES}
    assert not long, "group the parameters that travel together into one value"
