"""What is undocumented fails; what is documented runs."""

import json
import os
import re
import shlex
import string
import subprocess
import sys
import tomllib
from importlib import import_module
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pydantic_core import PydanticUndefined
from typer.main import get_command

from support.command import run
from tiltyard import errors
from tiltyard.cli import app
from tiltyard.core.judging.canaries import CheckCounts
from tiltyard.core.judging.diagnostics import JudgeDiagnostics, judge_diagnostics
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import PARSER_VERSION, QuestionState, VerdictForm, VerdictStep
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.rules import RULES
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2, OnlineBradleyTerry
from tiltyard.core.ratings.finding_templates import FINDINGS
from tiltyard.files import open_battles, write_battles
from tiltyard.files.format_detection import FORMATS
from tiltyard.judges.requests import JudgeRequest
from tiltyard.runs.battle_rating import RateSettings, rate_files
from tiltyard.runs.manifest import ManifestInput, Platform, RunManifest
from tiltyard.runs.rating_documents import ratings_document
from tiltyard.settings import live_models, tournament_sections
from tiltyard.settings.config_section import validate_section
from tiltyard.settings.identity_words import load_families
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.settings.prices import PriceEntry, ShippedEntry, open_prices
from tiltyard.settings.tournament_config import (
    SHIPPED,
    PlacementConfig,
    TournamentConfig,
    load_config,
    load_placement,
)
from tiltyard.settings.yaml_file import parse_yaml, read_yaml, write_yaml
from tiltyard.simulation.demo.demo_voters import demo_battles
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
    assert set(options) - coded(section("cli.md", f"`{command}`")) == set()


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
        for name in keys(ratings_document(rate_files([source], settings), settings, frozenset()))
    }
    assert {"tie_parameter", "style_effects", "rd", "order_noise", "bootstrap_low", "votes_to_flip"} <= fields
    documented = {part.split(".")[-1] for part in coded(page("artifacts.md"))}
    assert fields - documented == set()


def test_every_field_of_the_manifest_is_documented():
    fields = {
        *RunManifest.model_fields,
        *(f"platform.{name}" for name in Platform.model_fields),
        *(f"inputs[].{name}" for name in ManifestInput.model_fields),
    }
    assert fields - coded(page("artifacts.md")) == set()


def gaps(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def documented_values():
    """By the name of a finding or rule: what its row in findings.md says in code."""
    rows = (line.split("|") for line in page("findings.md").splitlines() if line.startswith("| `"))
    return {row[1].strip(" `"): {one.removesuffix("[]") for one in coded("|".join(row[2:]))} for row in rows}


@pytest.mark.parametrize("templates", [FINDINGS, RULES], ids=["findings", "rules"])
def test_every_finding_and_rule_is_documented_with_its_values(templates):
    documented = documented_values()
    for key, template in templates.items():
        name, _, case = key.partition("/")
        texts = (template.text, template.advice, *template.items.values())
        values = set().union(*map(gaps, texts)) | ({case} if case else set())
        assert values - documented[name.removesuffix(".detail")] == set(), key


def test_no_finding_or_rule_is_documented_that_is_not_there():
    names = {key.partition("/")[0].removesuffix(".detail") for key in (*FINDINGS, *RULES)}
    assert set(documented_values()) == names


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


#: Sections of the configuration by their headings in the reference.
SECTIONS = {
    "The file": TournamentConfig,
    "entrants": tournament_sections.Entrant,
    "generate": tournament_sections.GenerateSection,
    "prompts": tournament_sections.PromptBank,
    "rubrics": tournament_sections.RubricFile,
    "judge": tournament_sections.JudgeDefaults,
    "modes": tournament_sections.ModeSettings,
    "which prompts": tournament_sections.PromptSelection,
    "checks": tournament_sections.ChecksSection,
    "elo": tournament_sections.EloSection,
    "ratings": tournament_sections.RatingsSection,
    "caches": tournament_sections.CachesSection,
    "Live models": live_models.LiveModels,
    "A live model": live_models.LiveModel,
    "The price of a live model": live_models.LivePrice,
    "moderation": live_models.ModerationSection,
    "moderation rules": live_models.ModerationRule,
    "moderation endpoint": live_models.ModerationEndpointSection,
    "guard model": live_models.GuardSection,
}
#: Fields of live models that are refused.
REFUSED = {"A live model": {"batch", "retries", "timeout_seconds"}}


def settings_table(heading: str) -> dict[str, str]:
    """Fields of a section and their defaults, as the reference states them."""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", section("configuration.md", heading), re.MULTILINE)
    return {name: default.strip(" `") for name, default in rows}


def stated(field) -> str | None:
    """A plain default as the reference states it; ``None`` where it is a section or computed."""
    value = field.default
    if value is PydanticUndefined:
        return "needed" if field.default_factory is None else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "–" if value is None else value if isinstance(value, str) else None


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_field_of_the_configuration_is_documented_with_its_default(heading):
    documented = settings_table(heading)
    refused = REFUSED.get(heading, set())
    fields = {name: field for name, field in SECTIONS[heading].model_fields.items() if name not in refused}
    assert set(documented) == set(fields)
    plain = {name: stated(field) for name, field in fields.items()}
    expected = {name: default for name, default in plain.items() if default is not None}
    assert {name: documented[name] for name in expected} == expected


def test_every_section_of_the_configuration_is_compared():
    known = {*SECTIONS.values(), tournament_sections.ModeJudge, PlacementConfig, PriceEntry}
    models = {
        one
        for one in vars(tournament_sections).values()
        if isinstance(one, type) and issubclass(one, tournament_sections.ConfigSection)
    }
    hidden = {
        tournament_sections.ConfigSection,
        tournament_sections._Serving,
        tournament_sections.JudgeSection,
        PriceEntry,
    }
    assert models - known - hidden == set()


def test_judges_of_modes_and_placements_are_documented():
    own = settings_table("a judge of a mode")
    assert set(own) == set(tournament_sections.ModeJudge.model_fields) - set(
        tournament_sections.JudgeSection.model_fields
    )
    assert set(PlacementConfig.model_fields) - coded(section("configuration.md", "A placement")) == set()


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
        assert live_models.load_live_models(path).entrants()
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
        config = load_config(path)
        assert config.entrants
        open_prices(config.prices, tmp_path)


def test_every_state_form_purpose_and_step_is_documented():
    names = {one.value for kind in (QuestionState, VerdictForm, QuestionPurpose, VerdictStep) for one in kind}
    assert names - coded(page("judging.md")) == set()
    assert f"now {PARSER_VERSION};" in page("judging.md")


def test_every_field_of_a_planned_question_is_documented():
    request = JudgeRequest("", "", "", "", {}, 0, None)
    fields = set(PlannedQuestion(Question("", "", "", "", ""), request, "call").to_dict())
    assert fields - coded(section("cli.md", "`tiltyard plan`")) == set()


def test_every_shipped_rubric_is_documented():
    assert set(SHIPPED) - coded(page("rubrics.md")) == set()


def test_every_shipped_price_is_documented():
    book, text = open_prices(), page("prices.md")
    assert book.as_of in text
    assert set(ShippedEntry.model_fields) - {"source"} - coded(text) == set()
    money = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "batch")
    for name, entry in book.shipped.items():
        numbers = " | ".join(dash(getattr(entry, field), "g") for field in money)
        sources = ", ".join(f"[{source}]({book.sources[source][0]})" for source in entry.source)
        assert f"| `{name}` | {numbers} | {entry.as_of} | {sources} |" in text, name
        thinks = {None: "–", True: "yes", False: "no"}[entry.thinks]
        limits = f"{dash(entry.max_output, ',')} | {dash(entry.context, ',')}"
        assert f"| `{name}` | {thinks} | {limits} |" in text, name
        if entry.retired is not None:
            follows = "–" if entry.successor is None else f"`{entry.successor}`"
            assert f"| `{name}` | {entry.retired} | {follows} |" in text, name
        if entry.long_above is not None:
            dearer = f"{entry.long_input:g} | {entry.long_output:g}"
            assert f"| `{name}` | {entry.long_above:,} | {dearer} |" in text, name
        assert all(f"`{address}`" in text for address in entry.base_url), name
        if entry.traits_source:
            lists = " | ".join(
                ", ".join(f"`{one}`" for one in values) if values else "–"
                for values in (entry.forms, entry.refuses, entry.refuses_thinking, entry.efforts)
            )
            switches = " | ".join(
                "–" if one is None else f"`{json.dumps(one)}`"
                for one in (entry.thinking_on, entry.thinking_off)
            )
            stated = ", ".join(f"[{source}]({book.sources[source][0]})" for source in entry.traits_source)
            assert f"| `{name}` | {lists} | {switches} | {stated} |" in text, name


def dash(value, form):
    return "–" if value is None else f"{value:{form}}"


def test_every_family_of_models_is_documented():
    table, text = load_families(), page("model-families.md")
    assert table.as_of in text
    for key, family in table.families.items():
        assert f"| `{key}` | {', '.join(family.names)} | {', '.join(family.words)} |" in text, key


def test_every_table_of_the_ledger_is_documented():
    text = (SOURCE / "judges" / "sql" / "schema.sql").read_text(encoding="utf-8")
    tables = dict(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+) \(\n(.*?)\n\);", text, re.DOTALL))
    assert "judge_replies" in tables
    for name, body in tables.items():
        found = re.search(rf"^### `{name}`$(.*?)(?=^##|\Z)", page("ledger.md"), re.MULTILINE | re.DOTALL)
        assert found, f"ledger.md has no section `{name}`"
        columns = set(re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE))
        assert columns - coded(found[1]) == set()


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


def test_every_constant_of_the_policy_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", page("policy.md"), flags=re.MULTILINE))
    assert rows == {name: repr(getattr(Policy(), name)) for name in Policy.__dataclass_fields__}


def test_every_error_is_documented():
    assert set(errors.__all__) - coded(page("errors.md")) == set()


def test_every_parameter_of_every_method_is_documented():
    methods = (BradleyTerry, Elo, Glicko2, OnlineBradleyTerry)
    names = {name for method in methods for name in method.__dataclass_fields__}
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


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 900


def test_the_recorded_terminal_is_a_picture_without_scripts():
    assert "(docs/images/ab.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
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
