"""What is undocumented fails; what is documented runs."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from command import run
from tiltyard import errors
from tiltyard.artifacts.documents import ratings_document
from tiltyard.artifacts.manifest import InputFile, Manifest, Platform
from tiltyard.artifacts.rating import RateSettings, rate_files
from tiltyard.cli import app
from tiltyard.formats import open_battles, write_battles
from tiltyard.formats.detect import FORMATS
from tiltyard.lab.demo import demo_battles
from tiltyard.ratings import BradleyTerry, Elo, Glicko2

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "tiltyard"


def page(name: str) -> str:
    path = DOCS / "reference" / name
    assert path.is_file(), f"docs/reference/{name} is missing"
    return path.read_text(encoding="utf-8")


def coded(text: str) -> set[str]:
    """Everything that stands in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def commands():
    """Every command and its options."""
    waiting = [((), get_command(app))]
    while waiting:
        path, command = waiting.pop()
        inner = getattr(command, "commands", {})
        waiting += [((*path, name), one) for name, one in inner.items()]
        if not inner:
            options = [name for one in command.params for name in one.opts if name.startswith("--")]
            yield " ".join(("tiltyard", *path)), sorted(set(options) - {"--help"})


@pytest.mark.parametrize(
    ("command", "options"), [*commands()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_is_documented(command, options):
    section = re.search(rf"^## `{command}`$(.*?)(?=^## |\Z)", page("cli.md"), re.MULTILINE | re.DOTALL)
    assert section, f"cli.md has no section `{command}`"
    assert set(options) - coded(section[1]) == set()


def keys(document):
    """The names of all fields, those of entries included; not names that come from the data."""
    for key, value in document.items():
        yield key
        if key in ("groups", "style_effects"):
            inside = list(value.values())
        elif key == "parameters":
            inside = []
        else:
            inside = value if isinstance(value, list) else [value]
        for one in inside:
            if isinstance(one, dict):
                yield from keys(one)


def test_every_field_of_the_ratings_is_documented(tmp_path):
    write_battles(tmp_path / "battles.jsonl", demo_battles(200))
    source = open_battles(tmp_path / "battles.jsonl")
    asked = [
        RateSettings(n_bootstraps=2),
        RateSettings(BradleyTerry(ties="davidson"), by="category"),
        RateSettings(BradleyTerry(style=True), style=("length",)),
        RateSettings(Elo(n_permutations=2, interval="none")),
        RateSettings(Glicko2(kernel="plain")),
    ]
    fields = {
        name
        for settings in asked
        for name in keys(ratings_document(rate_files([source], settings), settings, frozenset()))
    }
    assert {"tie_parameter", "style_effects", "rd", "order_noise", "bootstrap_low", "votes_to_flip"} <= fields
    documented = {part.split(".")[-1] for part in coded(page("artifacts.md"))}
    assert fields - documented == set()


def test_every_field_of_the_manifest_is_documented():
    fields = {
        *Manifest.model_fields,
        *(f"platform.{name}" for name in Platform.model_fields),
        *(f"inputs[].{name}" for name in InputFile.model_fields),
    }
    assert fields - coded(page("artifacts.md")) == set()


def finding_names():
    """First arguments of `Finding`; where that is a variable, the names beside it in its function."""
    for path in sorted(SOURCE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                calls = [
                    one
                    for one in ast.walk(function)
                    if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "Finding"
                ]
                constants = [one.args[0].value for one in calls if isinstance(one.args[0], ast.Constant)]
                yield from constants
                if len(constants) < len(calls):
                    texts = (one.value for one in ast.walk(function) if isinstance(one, ast.Constant))
                    yield from (text for text in texts if re.fullmatch(r"[a-z]+(-[a-z]+)+", str(text)))


def test_every_finding_is_documented():
    names = set(finding_names())
    assert {"only-wins", "few-prompts", "unrated"} <= names
    assert names - coded(page("findings.md")) == set()


def test_every_format_is_documented():
    assert {one.name for one in FORMATS} - coded(page("formats.md")) == set()


def test_every_error_is_documented():
    assert set(errors.__all__) - coded(page("errors.md")) == set()


def test_every_parameter_of_every_method_is_documented():
    names = {name for method in (BradleyTerry, Elo, Glicko2) for name in method.__dataclass_fields__}
    assert names - coded(page("methods.md")) == set()


def pages():
    found = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [
        path
        for path in found
        if re.search(r"^```(console|python)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def examples(text: str):
    """Commands with their output, and pieces of Python, in the order of the page."""
    for kind, block in re.findall(r"^```(console|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if kind == "python":
            yield kind, block, ""
        else:
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                yield kind, command, output


def shell(command: str) -> str:
    """What a command prints; ours run in this process, which has its libraries loaded."""
    if command.startswith("tiltyard ") and not re.search(r"[|<>&;$*]", command):
        ran = run(*shlex.split(command)[1:])
        return ran.out + ran.err
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": path, "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def matches(shown: str, printed: str) -> bool:
    """Whether output is as shown, where a line of ``…`` stands for any lines."""
    pattern = "".join("(?:.*\n)*" if line == "…" else f"{re.escape(line)}\n" for line in lines(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines(printed))) is not None


def test_there_are_pages_to_run():
    names = {path.relative_to(ROOT).as_posix() for path in pages()}
    assert {"README.md", "docs/tutorial/first-ratings.md"} <= names


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for kind, example, shown in examples(path.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(example, path.name, "exec"), {"__name__": "example"})
        elif not example.startswith("pip "):
            printed = shell(example)
            assert matches(shown, printed), f"$ {example}\n{printed}"
