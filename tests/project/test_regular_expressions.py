"""Every regular expression of the package costs time in proportion to the text it reads."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

import tiltyard
from support import pumping
from support.pumping import cost_is_linear, slow_case
from support.sizes import sized
from tiltyard.core.judging import untrusted_text, verdict
from tiltyard.judges.providers import provider
from tiltyard.settings import yaml_file
from tiltyard.web.server import board_files
from tiltyard.web.texts.code_highlighter import LANGUAGES

SOURCE = Path(tiltyard.__file__).parent
_CALLS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
_AT_THE_START = {"match", "fullmatch"}
#: How patterns are used that are not called by the name of a constant; others are taken to be searched for.
MATCHED = {
    "settings.yaml_file._add_plain": {"match"},
}


@dataclass(frozen=True)
class Place:
    """Where the package makes a pattern, and how it is used there."""

    #: The module, and the function or the constant; numbered if it makes several.
    name: str
    module: str
    call: ast.Call
    #: Whether it is searched for, rather than matched at the start of a text.
    anywhere: bool

    def pattern(self) -> re.Pattern | None:
        """The pattern; ``None`` if it is built from what a function is given."""
        flags = self.call.args[1:] if self.call.func.attr == "compile" else []
        made = ast.Call(ast.parse("re.compile", mode="eval").body, [self.call.args[0], *flags], [])
        made.keywords = [each for each in self.call.keywords if each.arg == "flags"]
        code = compile(ast.fix_missing_locations(ast.Expression(made)), self.name, "eval")
        try:
            return eval(code, dict(vars(importlib.import_module(self.module)), re=re))
        except NameError:
            return None


def places() -> Iterator[Place]:
    """Every call of the package that makes a pattern."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import re\n" not in source:
            continue
        tree = ast.parse(source)
        module = ".".join(("tiltyard", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        made = list(_made(tree, ""))
        counted = Counter(owner for owner, _ in made)
        number: Counter[str] = Counter()
        for owner, call in made:
            number[owner] += 1
            name = f"{module}.{owner}".removeprefix("tiltyard.")
            name += f"[{number[owner]}]" if counted[owner] > 1 else ""
            uses = {call.func.attr} - {"compile"} or MATCHED.get(name) or _uses(tree, owner)
            yield Place(name, module, call, not uses or not uses <= _AT_THE_START)


def _uses(tree: ast.AST, constant: str) -> set[str]:
    """Names of the methods that are called on a constant."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {
        node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == constant
    }


def _made(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls that make a pattern, each with the function or the constant that it stands in."""
    for child in ast.iter_child_nodes(node):
        inside = owner
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{owner}.{child.name}".removeprefix(".")
        elif isinstance(child, ast.Assign | ast.AnnAssign) and not owner:
            inside = ast.unparse(child.targets[0] if isinstance(child, ast.Assign) else child.target)
        function = child.func if isinstance(child, ast.Call) else None
        if (
            isinstance(function, ast.Attribute)
            and function.attr in _CALLS
            and isinstance(function.value, ast.Name)
            and function.value.id == "re"
        ):
            yield inside, child
        yield from _made(child, inside)


def _yaml_scalars() -> list[re.Pattern]:
    resolvers = yaml_file._loader().yaml_implicit_resolvers.values()
    return [pattern for _, pattern in chain.from_iterable(resolvers)]


#: Places that build their patterns when they are called, each with what it builds.
BUILT: dict[str, Callable[[], list[re.Pattern]]] = {
    "core.judging.verdict._CLOSED": lambda: list(verdict._CLOSED.values()),
    "core.judging.untrusted_text._disguised": lambda: [untrusted_text._disguised()],
    "judges.providers.provider._NAMED": lambda: list(provider._NAMED.values()),
    "judges.providers.provider._excluding": lambda: [provider._excluding(4096)],
    "settings.yaml_file._add_plain": _yaml_scalars,
    "web.server.board_files._addresses": lambda: [board_files._addresses("arena")],
    "web.texts.code_highlighter._syntax": lambda: list({each.pattern for each in LANGUAGES.values()}),
}
PLACES = list(places())


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_a_pattern_costs_linear_time(place: Place):
    pattern = place.pattern()
    assert pattern is not None or place.name in BUILT, (
        f"{place.name} builds a pattern when it is called: add what it builds to BUILT in {Path(__file__).name}"
    )
    for each in [pattern] if pattern is not None else BUILT[place.name]():
        case = slow_case(each, anywhere=place.anywhere)
        assert case is None, f"{place.name} is slow on {case}: {each.pattern!r}"


def test_no_pattern_escapes_the_search():
    assert len(PLACES) > 60
    assert set(BUILT) <= {place.name for place in PLACES if place.pattern() is None}
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(?:from (?:re|regex)\b|import (?:re as|regex)\b)", source, re.MULTILINE), (
            path
        )
        # Patterns of pydantic are matched by Rust's engine, which never goes back in a text.
        assert "regex_engine" not in source, path


@pytest.mark.slow(but="x*y-True")
@pytest.mark.parametrize(
    ("pattern", "anywhere"),
    [
        (rb"\A(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->)*<html", False),
        (r"(a+)+b", False),
        (r"(?:a|aa)*b", False),
        (r'"(\\\\|\\"|[^"])*"', False),
        (r"\s+$", True),
        (r"a.*?b.*?c", False),
        (r"x*y", True),
        (r"(\d+)-(\d+)*z", False),
        (r"<!--.*?-->", True),
        (r"[ab.]+://", True),
    ],
)
def test_a_slow_pattern_is_found(pattern, anywhere, monkeypatch):
    """However often it is given another chance to look linear; at the small size only once."""
    monkeypatch.setattr(pumping, "_ROUNDS", sized(1, 5))
    assert slow_case(re.compile(pattern, re.DOTALL), anywhere=anywhere) is not None


def test_a_cost_that_grows_faster_than_the_text_is_found(monkeypatch):
    monkeypatch.setattr(pumping, "_ROUNDS", sized(1, 5))
    assert cost_is_linear(lambda text: [each for each in text for _ in range(40)], "a".__mul__)
    assert not cost_is_linear(lambda text: [None for _ in text for _ in text], lambda size: "a" * (size // 4))
