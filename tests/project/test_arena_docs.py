"""What is undocumented of the arena fails: tables, events, settings, variables, routes, problems, figures."""

import re
from pathlib import Path
from typing import get_args

import pytest

from support.page_routes import page_routes
from tiltyard.arena.accounts import SCOPES
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.maintenance.segment_manifest import (
    SEGMENT_FILES,
    PreviousSegment,
    SegmentFile,
    SegmentManifest,
    SupersededGeneration,
    SupersedeReason,
)
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.policy.state.policy import Lane
from tiltyard.foundation.telemetry import INSTRUMENTS
from tiltyard.postgres.connections import open_pool
from tiltyard.postgres.schema_migrations import migrations
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import SERVING_VARIABLES, ServingSettings
from tiltyard.web.edge import problem_details
from tiltyard.web.server.app import make_app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tiltyard"


def page(name):
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def coded(text):
    return set(re.findall(r"`([^`\n]+)`", text))


def tables():
    """Columns of every table that the migrations make, without those that a later one drops."""
    text = "\n".join(step.text for step in migrations())
    dropped = set(re.findall(r"^ALTER TABLE (\w+) DROP COLUMN (\w+);", text, re.MULTILINE))
    for name, body in re.findall(r"^CREATE TABLE (\w+) \(\n(.*?)\n\)", text, re.MULTILINE | re.DOTALL):
        columns = re.findall(r"^    ([a-z_0-9]+) ", body, re.MULTILINE)
        yield name, [column for column in columns if (name, column) not in dropped]


@pytest.mark.parametrize(
    ("table", "columns"), [*tables()], ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_table_is_documented(table, columns):
    found = re.search(rf"^### `{table}`$(.*?)(?=^##|\Z)", page("arena-log.md"), re.MULTILINE | re.DOTALL)
    assert found, f"arena-log.md has no section `{table}`"
    assert columns
    assert set(columns) - coded(found[1]) == set()


def test_every_table_of_the_page_exists():
    text = "\n".join(step.text for step in migrations())
    text += (SOURCE / "postgres" / "sql" / "schema_migrations.sql").read_text(encoding="utf-8")
    for name in re.findall(r"^### `(\w+)`$", page("arena-log.md"), re.MULTILINE):
        assert re.search(rf"CREATE (TABLE|VIEW)( IF NOT EXISTS)? {name}\b", text), name


def test_every_kind_of_event_is_documented_with_its_number():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page("arena-log.md"), re.MULTILINE)
    assert {(int(number), name) for number, name in rows} == {
        (one.value, one.name.lower()) for one in LogKind
    }


def test_every_lane_and_outcome_is_documented_with_its_number():
    text = page("arena-log.md")
    for lane in Lane:
        assert f"`{lane.name.lower()}` {lane.value}" in text
    comment = re.search(r"Of a vote: the kind of its battle \((.*?)\)", migrations()[0].text)[1]
    for name, number in re.findall(r"(\w+) (\d)", comment):
        assert f"`{name}` {number}" in text


@pytest.mark.parametrize("name", SEGMENT_FILES)
def test_every_column_of_an_archived_segment_is_documented(name):
    found = re.search(
        rf"^### [^\n]*`{name}`[^\n]*\n(.*?)(?=^##|\Z)", page("archived-segments.md"), re.MULTILINE | re.DOTALL
    )
    assert found, f"archived-segments.md has no section `{name}`"
    assert SEGMENT_FILES[name].keys() - coded(found[1]) == set()


def test_every_field_and_reason_of_a_manifest_is_documented():
    models = (SegmentManifest, SegmentFile, PreviousSegment, SupersededGeneration)
    fields = {field for model in models for field in model.model_fields}
    assert (fields | set(get_args(SupersedeReason))) - coded(page("archived-segments.md")) == set()


def stated(value):
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_every_setting_of_an_arena_is_documented_with_its_default():
    text = page("arena-settings.md").partition("## Of the service")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE))
    defaults = {name: stated(getattr(ArenaSettings(), name)) for name in ArenaSettings.__dataclass_fields__}
    assert rows == defaults


def test_every_setting_of_the_service_is_documented_with_its_variable_and_default():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `([^`]+)` \|", page("arena-settings.md"), re.MULTILINE)
    settings = ServingSettings()
    expected = {
        (name, variable, stated(getattr(settings, name))) for name, (variable, _) in SERVING_VARIABLES.items()
    }
    assert {tuple(row) for row in rows} == expected
    assert SERVING_VARIABLES.keys() == ServingSettings.__dataclass_fields__.keys()


def test_every_variable_of_the_arena_is_documented():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    read = set(re.findall(r'"((?:TILTYARD|AWS)_[A-Z_]+|DATABASE_URL)"', text))
    documented = coded(page("arena-settings.md")) | coded(page("cli.md"))
    assert {name for name in read if name not in documented} == set()


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    """Every route of the application: method and path."""
    url = "postgresql://nobody@localhost/nowhere"
    pool = open_pool(url)
    registry = ArenaRegistry(
        ServingSettings(), url, pool, BlobStore(pool, FolderStorage(tmp_path_factory.mktemp("responses")))
    )
    document = make_app(registry, SecretKeys(["x" * 40])).openapi()
    return {f"{method.upper()} {path}" for path, one in document["paths"].items() for method in one}


def test_every_route_is_documented(routes):
    assert routes - coded(page("arena-api.md")) == set()


def test_every_route_of_the_page_exists(routes):
    named = {one for one in coded(page("arena-api.md")) if re.match(r"(GET|POST|PUT|PATCH|DELETE) /", one)}
    assert named - routes == set()


def test_every_scope_is_documented():
    assert set(SCOPES) <= coded(page("arena-api.md").partition("## Voters")[0])


def test_every_problem_is_documented_with_its_status():
    rows = set(re.findall(r"^\| (\d{3}) \| `([\w-]+)` \|", page("arena-api.md"), re.MULTILINE))
    known = {(str(status), name) for status, (name, _) in problem_details._TITLES.items()}
    known |= {(str(status), name) for _, status, name, _ in problem_details._ERRORS if name is not None}
    assert rows == known


def test_every_figure_is_documented():
    rows = re.findall(r"^\| `(tiltyard_\w+)` \| (\w+) \|", page("metrics.md"), re.MULTILINE)
    known = {(one.name + "_total" if one.kind == "counter" else one.name, one.kind) for one in INSTRUMENTS}
    assert sorted(rows) == sorted(known)
    for one in INSTRUMENTS:
        assert {f"`{label}`" for label in one.labels} <= set(re.findall(r"`\w+`", page("metrics.md"))), (
            one.name
        )


def test_every_page_is_documented_and_every_documented_one_exists():
    there = {f"{method} {path}" for method, path in page_routes()}
    named = {one for one in coded(page("pages.md")) if re.match(r"(GET|POST) /", one)}
    assert named == there
