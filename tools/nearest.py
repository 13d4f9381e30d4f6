"""Finds the tests nearest to a change, by paths and imports.

A change is a set of files. The nearest tests are the changed test files themselves, then the test file
named after a changed module, then the tests in the folder of the same name, then the tests that import the
module, directly or through others.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

#: Where the package and its tests are, from the root of the repository.
SOURCE = "src"
PACKAGE = f"{SOURCE}/tiltyard"
TESTS = "tests"
#: The validation suite, which is imported by its full name too.
SUITE = "lab"
#: Test files for changes to what is not imported, by the start of the path.
BY_FOLDER: Mapping[str, tuple[str, ...]] = {
    "docs/": ("tests/project/test_docs.py",),
    "README.md": ("tests/project/test_docs.py",),
    "frontend/": ("tests/project/test_bundle.py",),
    "deploy/": ("tests/project/test_deploy.py", "tests/project/test_kubernetes.py"),
    "bench/": ("tests/project/test_arena_bench.py",),
    "hatch_build.py": ("tests/project/test_bundle.py", "tests/project/test_wheel.py"),
}

CHANGED, NAMESAKE, NEIGHBOUR, IMPORTER = range(4)


@dataclass(frozen=True, order=True)
class Near:
    """A test file and its distance to the change: smaller is nearer."""

    rank: int
    #: Number of imports between the test and the change; 0 if irrelevant.
    imports: int
    path: str


def nearest(changed: Collection[str], sources: Mapping[str, str]) -> list[Near]:
    """Test files, nearest first; ``sources`` maps every Python file to its text."""
    tests = [path for path in sources if is_test(path)]
    found: dict[str, Near] = {}
    for path in changed:
        for near in _by_name(path, tests):
            found[near.path] = min(near, found.get(near.path, near))
    for path, imports in importers(changed, sources).items():
        if is_test(path):
            found.setdefault(path, Near(IMPORTER, imports, path))
    return sorted(found.values())


def _by_name(path: str, tests: Sequence[str]) -> Iterator[Near]:
    """Tests that are near to a file by name."""
    folder = test_folder(path, tests)
    named = {test for start, each in BY_FOLDER.items() if path.startswith(start) for test in each}
    for test in tests:
        if test == path:
            yield Near(CHANGED, 0, test)
        elif _is_namesake(path, test) or test in named:
            yield Near(NAMESAKE, 0, test)
        elif folder is not None and test.startswith(folder + "/"):
            yield Near(NEIGHBOUR, 0, test)


def is_test(path: str) -> bool:
    """Whether pytest collects this file."""
    return path.startswith(TESTS + "/") and PurePosixPath(path).match("test_*.py")


def test_folder(path: str, tests: Iterable[str]) -> str | None:
    """The test folder with the name of this file's folder in the package, or of one above it."""
    if not path.startswith(PACKAGE + "/"):
        return None
    folders = {str(PurePosixPath(test).parent) for test in tests}
    inside = PurePosixPath(path).parent.relative_to(PACKAGE)
    for folder in (inside, *inside.parents):
        if folder != PurePosixPath() and f"{TESTS}/{folder}" in folders:
            return f"{TESTS}/{folder}"
    return None


def _is_namesake(path: str, test: str) -> bool:
    return path.endswith(".py") and PurePosixPath(test).name == f"test_{PurePosixPath(path).name}"


def importers(changed: Iterable[str], sources: Mapping[str, str]) -> dict[str, int]:
    """Files that import a changed one, directly (1) or through others (more)."""
    files = {module_name(path): path for path in sources}
    imported_by: dict[str, set[str]] = defaultdict(set)
    for path, text in sources.items():
        for name in imported(text):
            if name in files:
                imported_by[files[name]].add(path)
    steps = dict.fromkeys((path for path in changed if path in sources), 0)
    waiting = deque(steps)
    while waiting:
        path = waiting.popleft()
        for importer in imported_by[path]:
            if importer not in steps:
                steps[importer] = steps[path] + 1
                waiting.append(importer)
    return {path: count for path, count in steps.items() if count}


def module_name(path: str) -> str:
    """The import name of a file: the full module name in the package, the file name in tests."""
    inside = PurePosixPath(path).with_suffix("")
    if path.startswith(SOURCE + "/"):
        name = ".".join(inside.relative_to(SOURCE).parts)
    elif path.startswith(SUITE + "/"):
        name = ".".join(inside.parts)
    else:
        name = ".".join(inside.parts[1:]) if inside.parts[1:2] == ("servers",) else inside.name
    return name.removesuffix(".__init__")


def imported(text: str) -> set[str]:
    """Names of the modules that a source imports anywhere, ``from a import b`` both as ``a`` and as ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_count(text: str) -> int:
    """The number of test functions in a source."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(text))
    return sum(isinstance(node, functions) and node.name.startswith("test") for node in nodes)
