"""What is undocumented fails; what is documented runs."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from jsonschema import Draft202012Validator

import tiltyard
from support.command import run
from tiltyard.arena.accounts import SCOPES
from tiltyard.core.judging.canaries import CheckCounts
from tiltyard.core.judging.diagnostics import judge_diagnostics
from tiltyard.core.judging.diagnostics.judge_diagnostics import JudgeDiagnostics
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import PARSER_VERSION, QuestionState, VerdictForm, VerdictStep
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.files import open_battles, write_battles
from tiltyard.files.format_detection import FORMATS
from tiltyard.judges.requests import JudgeRequest
from tiltyard.runs.battle_rating import RateSettings, rate_files
from tiltyard.runs.rating_documents import ratings_document
from tiltyard.settings import live_models, tournament_sections
from tiltyard.settings.config_section import validate_section
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.settings.prices import open_prices
from tiltyard.settings.ready_tournaments import QuickJudge, quick_document, sample_files
from tiltyard.settings.tournament_config import (
    SHIPPED,
    load_config,
    load_placement,
)
from tiltyard.settings.yaml_file import parse_yaml, read_yaml, write_yaml
from tiltyard.simulation.demo.demo_roster import demo_battles
from tiltyard.tournaments.cost_estimate import PlannedQuestion

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "tiltyard"


def page(name: str) -> str:
    path = DOCS / "reference" / name
    assert path.is_file(), f"docs/reference/{name} is missing"
    return path.read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """One section of a reference page."""
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", page(name), re.MULTILINE | re.DOTALL)
    assert found, f"{name} has no section {heading}"
    return found[1]


def coded(text: str) -> set[str]:
    """Everything that stands in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def keys(document):
    """The names of all fields, those of entries included; not names that come from the data."""
    for key, value in document.items():
        yield key
        if key in ("groups", "style_effects"):
            inside = list(value.values())
        elif key in ("parameters", "values"):
            inside = []  # documented beside the methods, and beside the findings that have them
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
        for name in keys(ratings_document(rate_files([source], settings, checks=True), settings, frozenset()))
    }
    assert {
        "tie_parameter",
        "style_effects",
        "rd",
        "order_noise",
        "bootstrap_low",
        "prompts_to_flip",
    } <= fields
    documented = {part.split(".")[-1] for part in coded(page("artifacts.md"))}
    assert fields - documented == set()


def test_bars_of_findings_about_a_judge_are_documented():
    bars = (
        judge_diagnostics.NEGLIGIBLE_SHARE,
        judge_diagnostics.FLIP_SHARE,
        judge_diagnostics.SELF_AGREEMENT_SHARE,
        judge_diagnostics.CANARY_PASS_SHARE,
        judge_diagnostics.LOST_REPLY_SHARE,
    )
    assert bars == (0.02, 0.1, 0.9, 0.8, 0.02), "findings.md states these bars"


def test_every_share_of_a_judge_is_explained():
    text = (DOCS / "how-to" / "read-the-judge.md").read_text(encoding="utf-8")
    shares = set(JudgeDiagnostics.__dataclass_fields__) - {"judge", "dimension", "states", "labels"}
    assert shares - coded(text) == set()


def test_the_checks_of_the_configuration_are_those_of_judging():
    assert tournament_sections.ChecksSection().model_dump() == {
        name: getattr(CheckCounts(), name) for name in CheckCounts.__dataclass_fields__
    }


def yaml_examples():
    for path in sorted(DOCS.rglob("*.md")):
        blocks = re.findall(
            r"^```yaml\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        yield from ((f"{path.stem}-{number}", block) for number, block in enumerate(blocks))


@pytest.mark.parametrize(("name", "block"), [*yaml_examples()], ids=lambda value: value.partition("\n")[0])
def test_configurations_in_the_docs_are_valid(name, block, tmp_path):
    """A piece of a configuration is tried over the least that one needs."""
    path = tmp_path / f"{name}.yaml"
    found = parse_yaml(block, name).value
    if isinstance(found.get("models"), list):
        path.write_text(block, encoding="utf-8")
        assert live_models.LiveModels.load(path).entrants()
    elif "models" in found:
        path.write_text(block, encoding="utf-8")
        assert open_prices(path.name, tmp_path).own
    elif "moderation" in found:
        path.write_text(write_yaml(found["moderation"]), encoding="utf-8")
        assert validate_section(live_models.ModerationSection, read_yaml(path), {})
    elif isinstance(found.get("rules"), list):
        path.write_text(block, encoding="utf-8")
        assert live_models.load_moderation_rules(path).rules
    elif "generate" in found:
        path.write_text(block, encoding="utf-8")
        assert load_placement(path).generate
    else:
        least = {
            "entrants": [{"entrant_id": "a"}, {"entrant_id": "b"}],
            "prompts": {"bank_path": "prompts.jsonl"},
            "answers": "answers.jsonl",
            "rubrics": {"factuality": {}},
        }
        path.write_text(write_yaml({**least, **found}), encoding="utf-8")
        assert not [*tournament_schema().iter_errors({**least, **found})]
        config = load_config(path)
        assert config.entrants
        open_prices(config.prices, tmp_path)


@cache
def tournament_schema():
    path = DOCS / "reference/tournament.schema.json"
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def test_the_schema_for_editors_takes_what_the_configuration_takes():
    sample = parse_yaml(sample_files()["tournament.yaml"], "sample").value
    quick = quick_document(["a", "b"], [QuickJudge("m", options={"form": "text"})], [], mode="ab")
    short = {"judges": "m", "prompts": {"ids": "p1"}, "limit_pairs": 3}
    for right in (
        sample,
        quick,
        sample | {"modes": None, "elo": None, "answers": ["a.jsonl", "b.jsonl"]},
        sample | {"modes": {"mine": short, "pilot": None}, "prices": "prices.yaml"},
        sample | {"judge": {"use_batch_api": True, "pilot_model": "m"}},
    ):
        assert not [*tournament_schema().iter_errors(right)]
    for wrong in (
        sample | {"budget": 5},
        sample | {"checks": {"truncatd": 2}},
        sample | {"judge": {"provider": "antropic"}},
        sample | {"judge": {"max_tokens": 0}},
        sample | {"modes": {"pilot": {"prompts": {"n": 3, "size": 2}}}},
        sample | {"modes": {"pilot": {"judges": [{"model": "m", "from": "text"}]}}},
        sample | {"entrants": [{"entrant_id": "a"}]},
        sample | {"entrants": [{"entrant": "a"}, {"entrant_id": "b"}]},
        {name: value for name, value in sample.items() if name != "rubrics"},
    ):
        assert [*tournament_schema().iter_errors(wrong)]


def test_every_state_form_purpose_and_step_is_documented():
    names = {one.value for kind in (QuestionState, VerdictForm, QuestionPurpose, VerdictStep) for one in kind}
    assert names - coded(page("judging.md")) == set()
    assert f"now {PARSER_VERSION};" in page("judging.md")


def test_every_field_of_a_planned_question_is_documented():
    request = JudgeRequest("", "", "", "", {}, 0, None)
    fields = set(PlannedQuestion(Question("", "", "", "", ""), request, "call").to_dict())
    assert fields - coded(section("cli.md", "Output for programs")) == set()


def test_every_shipped_rubric_is_documented():
    assert set(SHIPPED) - coded(page("rubrics.md")) == set()


def test_every_variable_of_the_arena_is_documented():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    read = set(re.findall(r'"((?:TILTYARD|AWS)_[A-Z_]+|DATABASE_URL)"', text))
    documented = coded(page("arena-settings.md")) | coded(page("cli.md"))
    assert {name for name in read if name not in documented} == set()


def test_every_scope_is_documented():
    assert set(SCOPES) <= coded(page("arena-api.md").partition("## Voters")[0])


def test_every_variable_of_the_environment_is_documented():
    assert {"TILTYARD_HOME", "DATABASE_URL"} - coded(section("ledger.md", "Environment")) == set()


def test_every_provider_is_documented():
    rows = (DOCS / "how-to/connect-providers.md").read_text(encoding="utf-8").splitlines()
    for name, known in PROVIDERS.items():
        adapter = import_module(f"tiltyard.judges.providers.{name}").ADAPTER
        facts = (known.base_url, known.key_variable, adapter.key_header, adapter.call_path)
        told = next(row for row in rows if row.startswith(f"| `{name}` |"))
        assert told.endswith("".join(f" `{fact}` |" for fact in facts))


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def walks() -> dict[str, list[str]]:
    """The numbered walks of ARCHITECTURE.md: the functions of each, in order."""
    parts = re.findall(r"^## (Walk \d): [^\n]*\n(.*?)(?=^## )", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    steps = {title: re.findall(r"^\d+\. (.*)$", text, re.MULTILINE) for title, text in parts}
    return {title: re.findall(r"`(tiltyard(?:\.\w+)+)`", "\n".join(lines)) for title, lines in steps.items()}


@pytest.mark.parametrize("name", [name for names in walks().values() for name in names])
def test_every_function_of_the_walks_exists(name):
    path = SOURCE.parent
    parts = name.split(".")
    while (path / parts[0]).is_dir():
        path /= parts.pop(0)
    found = import_module(".".join((*path.relative_to(SOURCE.parent).parts, parts.pop(0))))
    for part in parts:
        found = getattr(found, part)
    assert callable(found)


def test_no_walk_leaves_a_folder_and_comes_back():
    for title, names in walks().items():
        folders = [re.match(r"tiltyard\.(?:(?:core|arena|web)\.)?\w+", name)[0] for name in names]
        visits = [folder for folder, _ in groupby(folders)]
        assert len(visits) == len(set(visits)), (title, visits)


def test_the_architecture_is_short():
    assert len(ARCHITECTURE.split()) < 2500


def test_the_layers_shown_are_those_that_are_checked():
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [one for one in checked["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    expected = {container: one["layers"] for one in contracts for container in one["containers"]}
    blocks = re.findall(r"^```\n(tiltyard[\w.]*)\n(.*?)^```$", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    shown = {
        container: [re.split(r" {2,}", line.strip())[0] for line in text.splitlines()]
        for container, text in blocks
    }
    assert shown == expected


def test_links_of_the_pages_beside_the_docs_lead_somewhere():
    for path in sorted(ROOT.glob("*.md")):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == [], path.name


def test_every_format_is_documented():
    assert {one.name for one in FORMATS} - coded(page("formats.md")) == set()


def equivalents() -> list[str]:
    """What stands in backticks where the page of equivalents says what is here."""
    rows = [line.split(" | ", 1)[1] for line in page("equivalents.md").splitlines() if line.startswith("| ")]
    return sorted(set().union(*map(coded, rows)))


@pytest.mark.parametrize("name", equivalents())
def test_every_equivalent_is_in_another_reference_page(name):
    pages = [path for path in sorted((DOCS / "reference").glob("*.md")) if path.name != "equivalents.md"]
    texts = [path.read_text(encoding="utf-8") for path in pages]
    for named in re.findall(r"--[\w-]+", name) or [name.partition(": ")[0]]:
        assert any(named in text for text in texts)


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


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 900


def test_the_readme_reads_on_a_package_index_too():
    targets = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    places = re.compile(
        r"https://(?:github.com/tiltyard/tiltyard/blob|raw.githubusercontent.com/tiltyard/tiltyard)/main/([^#]+)"
    )
    found = [places.match(target) for target in targets]
    assert len(found) > 40
    assert [target for target, place in zip(targets, found, strict=True) if not place] == []
    assert [place[1] for place in found if place and not (ROOT / place[1]).exists()] == []


def test_the_first_screen_of_the_readme_says_what_to_try():
    lines = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line][1:13]
    commands = re.findall(r"^tiltyard (\w+)", "\n".join(lines), re.MULTILINE)
    assert commands == ["ab", "rate", "demo"]
    assert "?" in lines[0]
    assert all(word in "\n".join(lines) for word in ("It reads", "win rates", "`tiltyard verify`"))


def listed(entries, sections=()):
    """The pages of the site's menu, each with the sections that it stands in."""
    for entry in entries:
        ((title, inside),) = entry.items()
        if isinstance(inside, str):
            yield inside, sections
        else:
            yield from listed(inside, (*sections, title))


def test_every_page_is_two_clicks_away_and_can_be_searched():
    """The menu's sections are open; what stands in a section of one is a click further."""
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    found = dict(listed(told["nav"]))
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.parent.name != "data"}
    # What agents read is no page.
    written = {page for page in written if not page.startswith("skills/")}
    assert written == set(found)
    assert {page for page, sections in found.items() if len(sections) > 2} == set()
    assert "navigation.sections" in told["theme"]["features"]
    assert "search" in told["plugins"]


def test_the_three_ways_in_come_first():
    first = (DOCS / "index.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.findall(r"\((tutorial/[\w-]+)\.md\)", first) == [
        f"tutorial/first-{name}" for name in ("ratings", "tournament", "arena")
    ]


def test_the_version_to_cite_is_this_one():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == tiltyard.__version__


def test_the_recorded_terminal_is_a_picture_without_scripts():
    assert "/main/docs/images/ab.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
    picture = ET.parse(ROOT / "docs/images/ab.svg").getroot()
    assert {element.tag.rpartition("}")[2] for element in picture.iter()} <= {
        *("svg", "title", "desc", "style", "rect", "circle", "text")
    }
    told = next(element.text for element in picture.iter() if element.tag.endswith("desc"))
    assert "$ tiltyard ab baseline.eval candidate.eval --judge" in told
    assert told.endswith("candidate is better than baseline.")


def test_there_are_pages_to_run():
    names = {path.relative_to(ROOT).as_posix() for path in pages()}
    tutorials = {f"docs/tutorial/first-{name}.md" for name in ("ratings", "tournament")}
    assert {"README.md", *tutorials} <= names


@pytest.mark.slow(but=("README.md", "docs/tutorial/first-tournament.md"))
@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    for kind, example, shown in examples(path.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(example, path.name, "exec"), {"__name__": "example"})
        elif not example.startswith("pip "):
            printed = shell(example)
            assert matches(shown, printed), f"$ {example}\n{printed}"
