"""Check the rules about names and layout that ruff does not know; print what breaks them.

python tools/names.py
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/tiltyard"
TESTS = ROOT / "tests"
PATHS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("src/tiltyard", "lab")
    for path in (ROOT / folder).rglob("*.py")
)

#: Folders of tests that go through several packages, that test the project itself, or that hold what tests need.
ACROSS = {"faults", "fuzz", "isolation", "lab", "pages", "project", "support", "typing"}
#: Names of modules and packages that end like a verb's gerund but are the field's own words for a thing.
NOUNS_IN_ING = {
    "battle_rating",
    "blinding",
    "judging",
    "matchmaking",
    "rating",
    "scoring",
    "standing",
    "state_encoding",
    "voting",
}

#: What a mechanism is made of, and where it is allowed.
ONE_OF_EACH = {
    r"\bOrderedDict\b": {"foundation/caches.py"},
    r"del self\.\w+\[next\(iter\(": {"arena/voting/arena_state.py", "core/policy/state/session_memory.py"},
    r"\bos\.(fsync|link|replace)\b": {"foundation/local_files.py"},
    r"^\s*import (fcntl|msvcrt)\b": {"foundation/local_files.py"},
    r"-- name: \(": {"postgres/statements.py"},
}


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
    "src/tiltyard/core/policy/state/events.py": {"NO_FREE_PROMPT", "NO_MARK", "NO_SESSION"},
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
    "src/tiltyard/runs/manifest.py": {"ZIP_EPOCH"},
    "src/tiltyard/arena/log/event_log.py": {"HUMAN", "JUDGE"},
    "src/tiltyard/arena/accounts.py": {"_FIRST_RANDOM_SESSION"},
}
MAX_PARAMETERS = 7
#: Functions with more parameters, each with the reason.
LONG_SIGNATURES = {
    "src/tiltyard/client/operator_calls.py:exclude": "public API",
    "src/tiltyard/client/voter_calls.py:vote": "public API",
    "src/tiltyard/core/policy/validity/report/report_builder.py:validity_report": "public API",
    "src/tiltyard/errors.py:__init__": "ProviderFault, public API: each says something else of the fault",
    "src/tiltyard/web/pages/board_query.py:_read_query": "the parameters are the query string",
    "src/tiltyard/web/routes/boards.py:board": "the parameters are the query string",
    "src/tiltyard/web/pages/charts.py:chart": "the parameters are the path and the query string",
}


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def named(path: str) -> tuple[ast.AST, ...]:
    """The classes, functions and imports of a file."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, kinds))


def repeated_classes() -> Iterator[str]:
    """A public class name is defined once."""
    files = defaultdict(set)
    for path in PATHS:
        for node in named(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(path)
    for name, paths in files.items():
        if len(paths) > 1:
            yield f"{', '.join(sorted(paths))}: give each class {name} a name of its own"


def unclear_constants() -> Iterator[str]:
    """A constant that is a number ends in its unit."""
    for path in PATHS:
        names = set(_numbers(parsed(path)))
        allowed = NOT_QUANTITIES.get(path, set())
        for name in sorted(names - allowed):
            if not _says_its_unit(name):
                yield f"{path}: end {name} in a unit, such as _SECONDS, _BYTES or _VOTES"
        for name in sorted(allowed - names):
            yield f"{path}: {name} is gone; take it out of NOT_QUANTITIES"


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


def long_signatures() -> Iterator[str]:
    """A function takes at most seven parameters. Commands and compiled loops are exempt."""
    seen = set()
    for path in PATHS:
        if "/cli/" in path or "/kernels/" in path or path == "lab/__main__.py":
            continue
        for node in named(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([each for each in arguments if each.arg not in {"self", "cls"}])
            if count > MAX_PARAMETERS:
                seen.add(f"{path}:{node.name}")
    for each in sorted(seen - set(LONG_SIGNATURES)):
        yield f"{each}: group the parameters that travel together into one value"
    for each in sorted(set(LONG_SIGNATURES) - seen):
        yield f"{each} is short now; take it out of LONG_SIGNATURES"


def _folders(root: Path) -> set[str]:
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("*.py")} - {"."}


def misplaced_files() -> Iterator[str]:
    """Tests stand in folders like those of the package, which are packages that say what they are for."""
    known = _folders(PACKAGE)
    for folder in sorted(_folders(TESTS) - known):
        if folder.split("/")[0] not in ACROSS:
            yield f"tests/{folder}: name a folder of tests like the folder of the package that it tests"
    for folder in sorted(known):
        init = PACKAGE / folder / "__init__.py"
        if not init.exists() or not init.read_text(encoding="utf-8").startswith('"""'):
            yield f"{folder}/__init__.py: say in a docstring what the package is for"
    for statements in (PACKAGE / "arena").rglob("*.sql"):
        if not statements.with_suffix(".py").exists():
            yield f"{statements.relative_to(ROOT)}: put it beside a module of its name"


def gerunds() -> Iterator[str]:
    """A module is named by the thing in it, not by what it does."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.stem.split("_")[-1].endswith("ing") and path.stem not in NOUNS_IN_ING:
            yield f"{path.relative_to(ROOT)}: name it by a noun"


def second_mechanisms() -> Iterator[str]:
    """Each mechanism is written once."""
    for pattern, allowed in ONE_OF_EACH.items():
        users = {
            path.removeprefix("src/tiltyard/")
            for path in PATHS
            if path.startswith("src/") and re.search(pattern, text_of(path), re.MULTILINE)
        }
        for user in sorted(users ^ allowed):
            yield f"{user}: use foundation.caches, foundation.local_files or load_statements, not {pattern}"


def import_cycles() -> Iterator[str]:
    """Modules do not import each other in a circle, for types neither."""
    paths = [path for path in PATHS if path.startswith("src/")]
    names = {
        path: path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in paths
    }
    modules = set(names.values())
    graph: dict[str, set[str]] = {}
    for path, name in names.items():
        imported: set[str] = set()
        for node in named(path):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                members = (f"{node.module}.{alias.name}" for alias in node.names)
                imported |= {member if member in modules else node.module for member in members}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        graph[name] = (imported & modules) - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"these import each other: {' → '.join(error.args[1])}"


RULES = (
    repeated_classes,
    unclear_constants,
    long_signatures,
    misplaced_files,
    gerunds,
    second_mechanisms,
    import_cycles,
)


def main() -> int:
    """Print every broken rule; return whether there is one."""
    problems = [problem for rule in RULES for problem in rule()]
    print("\n".join(problems) or f"{len(PATHS)} files follow the rules about names and layout.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
