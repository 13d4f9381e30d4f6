"""The built wheel, installed into empty environments: without extras, and with one of those that open a way in."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ROOT_FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")

#: The same library with the same settings, and nothing behind it.
BARE = """
import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def one(file: str, n: int = 3) -> None:
    "One."


@app.command()
def two(file: str) -> None:
    "Two."


app()
"""

pytestmark = pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")


def uv(*arguments: object) -> None:
    subprocess.run(["uv", "--quiet", *map(str, arguments)], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is made from it alone: there Node is not installed."""
    folder = tmp_path_factory.mktemp("built")
    uv("build", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built):
    """What the sdist holds, below its one folder."""
    (found,) = built.glob("*.tar.gz")
    with tarfile.open(found) as opened:
        return {name.partition("/")[2] for name in opened.getnames()}


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of programs of an environment that holds the wheel and what it requires."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    uv("venv", place)
    uv("pip", "install", "--python", place, wheel)
    return place / "bin"


@pytest.fixture(scope="module")
def tiltyard(programs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        command = [programs / "tiltyard", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    run.folder = folder
    run("demo", "battles")
    return run


def test_the_wheel_holds_the_package_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"tiltyard"}
    assert {"tiltyard/py.typed", "tiltyard/report/page.css", "tiltyard/report/page.js"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_is_the_same_from_another_folder_at_another_time(built, wheel, tmp_path):
    (found,) = built.glob("*.tar.gz")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xf", found, "-C", unpacked], check=True)
    (tree,) = unpacked.iterdir()
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    uv("build", "--wheel", "--out-dir", tmp_path / "again", tree)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_the_readme_works_from_the_wheel(tiltyard):
    made = tiltyard("demo", "battles")
    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr.startswith("Wrote 3,000 battles to battles.jsonl.")
    rated = tiltyard("rate", "battles.jsonl")
    assert (rated.returncode, rated.stderr) == (0, "")
    assert rated.stdout.split() == shown_in_readme().split()


def shown_in_readme() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("$ tiltyard rate battles.jsonl\n")[2].partition("```")[0]


def test_a_folder_is_written_and_verified_without_charts(tiltyard):
    written = tiltyard("rate", "battles.jsonl", "--out", "run")
    assert (written.returncode, written.stderr) == (0, "")
    verified = tiltyard("verify", "run")
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "Verified: every number recomputed" in verified.stdout
    assert "pip install 'tiltyard[plots]'" in (tiltyard.folder / "run" / "report.html").read_text()
    libraries = json.loads((tiltyard.folder / "run" / "manifest.json").read_text())["platform"]["libraries"]
    assert not {"altair", "numba", "vl-convert-python"} & set(libraries)


#: Imports all modules of some packages as if only some distributions were installed, and prints which lack something.
IMPORT_ALL = """
import importlib, importlib.metadata, pkgutil, sys

installed, packages = set(sys.argv[1].split(",")), sys.argv[2:]

class Others:
    owners = importlib.metadata.packages_distributions()

    def find_spec(self, name, path=None, target=None):
        owners = {one.lower().replace("_", "-") for one in self.owners.get(name.partition(".")[0], ())}
        if owners and not owners & installed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Others())
for package in packages:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            print(found.name, error.name)
"""
#: The packages of each way in, and those of which modules may lack something: they are imported where judges are called,
#: and the error names the extra.
WAYS_IN = {
    "arena": (
        ("tiltyard.arena", "tiltyard.web", "tiltyard.judges", "tiltyard.cli"),
        "tiltyard.judges.providers.",
    ),
    "judges": (("tiltyard.judges", "tiltyard.tournaments", "tiltyard.cli"), "none"),
}


def brought_by(requirements, extra):
    """Names of the distributions that these requirements bring with an extra, those that they need included."""
    found, left = set(), [(line, frozenset({"", extra})) for line in requirements]
    while left:
        line, extras = left.pop()
        needed = Requirement(line)
        name = canonicalize_name(needed.name)
        own = frozenset({"", *needed.extras})
        known = needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in extras)
        if known and (name, own) not in found:
            found.add((name, own))
            left += [(each, own) for each in distribution(name).requires or ()]
    return {name for name, _ in found} | {"tiltyard"}


@pytest.mark.parametrize("extra", WAYS_IN)
def test_the_extra_of_each_way_in_brings_what_its_modules_import(wheel, extra, tmp_path):
    """An environment with all extras does not show what is missing with one: here the others cannot be imported."""
    packages, incomplete = WAYS_IN[extra]
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (one for one in opened.namelist() if one.endswith(".dist-info/METADATA"))
        stated = message_from_bytes(opened.read(name)).get_all("Requires-Dist")
    brought = brought_by(stated, extra)
    assert {"numpy", "psycopg"} <= brought
    assert not {"pytest", "polars", "numba"} & brought
    said = subprocess.check_output(
        [sys.executable, "-c", IMPORT_ALL, ",".join(brought), *packages], cwd=tmp_path, text=True
    )
    assert [line for line in said.splitlines() if not line.startswith(incomplete)] == []


def test_an_error_is_one_message(tiltyard):
    failed = tiltyard("rate", "nowhere.jsonl")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "tiltyard: nowhere.jsonl: no such file; check the path\n"


def test_help_loads_little_more_than_the_library_behind_it(programs, tmp_path):
    (tmp_path / "bare.py").write_text(BARE)
    told = [
        subprocess.check_output([programs / "python", "-X", "importtime", *command], stderr=subprocess.STDOUT)
        for command in (["-m", "tiltyard", "--help"], [tmp_path / "bare.py", "--help"])
    ]
    loaded, needed = (
        {line.rpartition("|")[2].strip() for line in text.decode().splitlines() if "import time:" in line}
        for text in told
    )
    more = {name for name in loaded - needed if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in more if not name.startswith(("tiltyard", "typer"))} <= {"__future__"}
    assert len([name for name in more if name.startswith("tiltyard")]) <= 40


def test_what_tournaments_read_is_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("settings/rubrics", "settings/sample", "judges/sql"):
        there = {path.name for path in (ROOT / "src" / "tiltyard" / folder).iterdir() if path.is_file()}
        assert {f"tiltyard/{folder}/{name}" for name in there} <= names
    assert "tiltyard/settings/prices.yaml" in names


def test_what_pages_need_is_in_the_wheel(wheel):
    opened = zipfile.ZipFile(wheel)
    names = set(opened.namelist())
    for folder in ("templates", "styles", "locale"):
        inside = (path for path in (ROOT / "src" / "tiltyard" / "web" / folder).rglob("*") if path.is_file())
        assert {
            f"tiltyard/{path.relative_to(ROOT / 'src' / 'tiltyard').as_posix()}" for path in inside
        } <= names
    chunks = json.loads(opened.read("tiltyard/web/bundle/manifest.json")).values()
    assert {f"tiltyard/web/bundle/{chunk['file']}" for chunk in chunks} <= names


def test_the_sdist_has_the_bundle_and_its_sources_and_nothing_of_others(sdist, wheel):
    bundle = {name for name in zipfile.ZipFile(wheel).namelist() if "/web/bundle/" in name}
    assert {f"src/{name}" for name in bundle} == {name for name in sdist if "/web/bundle/" in name}
    assert {"hatch_build.py", "frontend/package-lock.json", "frontend/src/main.ts"} <= sdist
    assert not [name for name in sdist if "node_modules" in name]


def test_an_editable_install_builds_nothing_and_needs_no_node(tmp_path):
    tree = tmp_path / "tree"
    for name in ("src/tiltyard/__init__.py", "src/tiltyard/_version.py", *ROOT_FILES):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (tree / "frontend").mkdir()
    (tree / "frontend" / "package.json").write_text("no Node reads this")
    uv("venv", tmp_path / "venv")
    uv("pip", "install", "--python", tmp_path / "venv", "--no-deps", "--editable", tree)
    assert not list(tree.rglob("bundle"))
    where = "import importlib.util as u; print(u.find_spec('tiltyard').origin)"
    found = subprocess.check_output([tmp_path / "venv" / "bin" / "python", "-c", where], text=True)
    assert found.strip() == str(tree / "src" / "tiltyard" / "__init__.py")
