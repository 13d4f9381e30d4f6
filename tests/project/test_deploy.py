"""What stands under deploy/ agrees with itself and with the command, as far as that shows without a container engine."""

import fnmatch
import ipaddress
import json
import re
import shlex
import shutil
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from typer.main import get_command

from support.deployed import ACCOUNT, DEPLOY, HOME, PODS, PORT, ROOT, SOURCE, of_kind, page
from tiltyard import __version__
from tiltyard.arena.secret_keys import open_keys
from tiltyard.cli import app
from tiltyard.errors import BadOption
from tiltyard.settings.environment import read_environment
from tiltyard.settings.serving_settings import ServingSettings, read_serving, serving_variable


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def steps():
    """Instructions of the Dockerfile, in order: name and the rest, lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def ours(services):
    return {name: one for name, one in services.items() if one["image"].startswith("tiltyard:")}


def commands(compose):
    yield from ((name, one["command"]) for name, one in ours(compose["services"]).items())
    yield from ((name, pod["spec"]["containers"][0]["args"]) for name, pod in PODS.items())


@cache
def command_line():
    return get_command(app)


def variables_we_read():
    """Names of variables that stand in the source as texts of their own, and those of the serving settings."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    settings = {serving_variable(name) for name in ServingSettings.__dataclass_fields__}
    return settings | set(re.findall(r'"((?:TILTYARD|AWS)_[A-Z_]+|DATABASE_URL)"', text))


def kubernetes_variables():
    for kind, field in (("ConfigMap", "data"), ("Secret", "stringData")):
        for one in of_kind(kind).values():
            yield from one[field].items()


def test_every_command_is_one_that_the_command_line_takes(compose):
    used = [*commands(compose), ("image", ["serve"])]
    assert {args[0] for _, args in used} == {"serve", "arena"}
    for name, args in used:
        command, rest = command_line(), list(args)
        while hasattr(command, "commands"):
            command = command.commands[rest.pop(0)]
        try:
            command.make_context(name, rest)
        except Exception as error:
            pytest.fail(f"{name}: tiltyard {shlex.join(args)}: {error}")


def test_every_command_of_the_page_is_one_that_the_command_line_takes():
    text = page()
    found = re.findall(
        r"^(?:docker compose (?:run --rm|exec) \w+(?: tiltyard)?|kubectl .*? -- tiltyard) (\w.*)$",
        text,
        re.MULTILINE,
    )
    assert found
    for line in found:
        command, context = command_line(), None
        args = shlex.split(line.partition(" > ")[0].partition(" < ")[0])
        while hasattr(command, "commands"):
            command = command.commands[args.pop(0)]
        context = command.make_context(command.name, args)
        assert context.params is not None, line


def test_every_variable_is_one_that_is_read(compose):
    named = dict(kubernetes_variables())
    for service in ours(compose["services"]).values():
        named |= service.get("environment", {})
    assert named.keys() - variables_we_read() == set()
    in_page = set(re.findall(r"\b((?:TILTYARD|AWS)_[A-Z_]+|DATABASE_URL)\b", page()))
    assert in_page - variables_we_read() == set()


def test_the_settings_that_are_asked_for_are_accepted(compose):
    """Options and variables together: a public address with its base_url, roles, proxies."""
    kubernetes = dict(kubernetes_variables())
    services = {
        name: {key: value.replace("${", "https://x.org ${").split()[0] for key, value in one.items()}
        for name, one in ((name, s.get("environment", {})) for name, s in compose["services"].items())
    }
    for name, (command, *args) in commands(compose):
        if command == "serve":
            given = command_line().commands[command].make_context(command, list(args)).params
            options = {
                key: value for key, value in given.items() if key in ServingSettings.__dataclass_fields__
            }
            settings = read_serving(services.get(name, kubernetes), **options)
            assert settings.role == args[args.index("--role") + 1]
            assert settings.role == "rater" or (settings.secure and settings.trusted_proxies), name


def test_placeholders_do_not_pass_for_secrets(tmp_path):
    with pytest.raises(BadOption, match="fewer than 32 characters"):
        open_keys(tmp_path, dict(kubernetes_variables())["TILTYARD_SECRET_KEY"])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_secrets_that_the_page_makes_are_read_and_closed_to_others(tmp_path):
    block = next(
        one for one in re.findall(r"^```sh\n(.*?)^```$", page(), re.MULTILINE | re.DOTALL) if "openssl" in one
    )
    lines = "\n".join(line for line in block.splitlines() if not line.startswith("docker "))
    subprocess.run(["sh", "-eu", "-c", lines], cwd=tmp_path, check=True, capture_output=True)
    secrets = tmp_path / "secrets"
    assert secrets.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o004 for path in secrets.iterdir())
    inside = tmp_path / "etc"
    inside.mkdir()
    shutil.copy(secrets / "arena.env", inside / ".env")
    read = read_environment(working_folder=inside, variables={"TILTYARD_HOME": HOME})
    password = (secrets / "database_password").read_text().strip()
    assert urlsplit(read.database_url).password == password
    assert urlsplit(read.database_url).hostname == "database"
    assert open_keys(tmp_path, read.variables["TILTYARD_SECRET_KEY"]).sign("a", b"b")
    assert list(tmp_path.glob("secret.key")) == []


def test_no_secret_stands_in_a_file(compose, steps):
    for kind, rest in steps:
        assert kind not in {"ENV", "ARG"} or not re.search(r"PASSWORD|SECRET|TOKEN|KEY", rest)
    for service in compose["services"].values():
        for name in service.get("environment", {}):
            assert name.endswith("_FILE") or not re.search(r"PASSWORD|SECRET|TOKEN|KEY|DATABASE_URL", name)
    for name, value in kubernetes_variables():
        if re.search(r"PASSWORD|SECRET|TOKEN|KEY", name):
            assert value == "CHANGE-ME"
        if name == "DATABASE_URL":
            assert urlsplit(value).password == "CHANGE-ME"
    assert not re.search(
        r"://[^:/\s]+:(?!CHANGE-ME)[^@/\s$]+@", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    )


class TestImage:
    def test_nothing_runs_as_root(self, steps):
        last = [rest for kind, rest in steps if kind == "USER"][-1]
        assert last == f"{ACCOUNT}:{ACCOUNT}"
        kinds = [kind for kind, _ in steps]
        assert "RUN" not in kinds[kinds.index("USER") :]

    def test_bases_are_tagged_and_the_same(self, steps):
        bases = [rest.split()[0] for kind, rest in steps if kind == "FROM"]
        assert len(bases) == 2
        (base,) = set(bases)
        assert re.fullmatch(r"python:3\.\d+-slim-\w+", base), base

    def test_the_python_is_one_that_the_package_supports(self, steps):
        minor = re.search(r"python:(3\.\d+)", steps[0][1])[1]
        assert f"Python :: {minor}" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    def test_the_builder_is_pinned(self, steps):
        assert any(re.search(r"uv==\d+\.\d+\.\d+", rest) for kind, rest in steps if kind == "RUN")

    def test_port_home_and_probe_are_those_of_the_service(self, steps):
        found = dict(steps)
        environment = " ".join(rest for kind, rest in steps if kind == "ENV")
        assert found["EXPOSE"] == PORT
        assert found["VOLUME"] == HOME
        assert f"TILTYARD_HOME={HOME}" in environment
        assert f"127.0.0.1:{PORT}/healthz" in found["HEALTHCHECK"]
        assert found["ENTRYPOINT"] == '["tiltyard"]'

    def test_what_is_copied_exists_and_reaches_the_builder(self, steps):
        ignored = ignored_by(DEPLOY / "Dockerfile.dockerignore")
        sources = copied(steps)
        assert sources
        for name in sources:
            assert (ROOT / name).exists(), name
            assert not ignored(name), f"{name} is kept from the builder"
        for secret in ("deploy/secrets/arena.env", ".env", ".git", ".venv", "tests/project/test_deploy.py"):
            assert ignored(secret), secret

    @pytest.mark.slow
    @pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")
    def test_the_wheel_can_be_built_from_what_is_copied(self, steps, tmp_path):
        there = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules")
        for name in copied(steps):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tmp_path / name, ignore=there)
            else:
                shutil.copy(source, tmp_path / source.name)
        uv("build", "--wheel", "--out-dir", tmp_path / "dist", cwd=tmp_path)
        (wheel,) = (tmp_path / "dist").glob("*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        needed = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql")]
        assert {f"tiltyard/{path.relative_to(SOURCE).as_posix()}" for path in needed} <= names

    @pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")
    def test_the_lock_has_what_the_image_installs(self, steps):
        (sync,) = (rest for kind, rest in steps if kind == "RUN" and "uv sync" in rest)
        extras = re.findall(r"--extra (\w+)", sync)
        assert {"arena", "s3"} <= set(extras)
        asked = [part for name in extras for part in ("--extra", name)]
        listed = uv(
            "export", "--frozen", "--no-default-groups", "--no-emit-project", "--no-hashes", *asked, cwd=ROOT
        )
        packages = {
            line.split("==")[0] for line in listed.splitlines() if "==" in line and not line.startswith(" ")
        }
        assert {
            "fastapi",
            "uvicorn",
            "psycopg",
            "argon2-cffi",
            "prometheus-client",
            "obstore",
            "dbos",
        } <= packages
        assert not {"pytest", "ruff", "mypy", "mkdocs-material"} & packages


class TestSpace:
    def test_it_is_the_image_with_the_account_and_the_port_of_spaces(self):
        text = (DEPLOY / "space/Dockerfile").read_text(encoding="utf-8")
        found = re.findall(r"^(FROM|USER|EXPOSE) (\S+)$", text, re.MULTILINE)
        assert found[0] == ("FROM", f"ghcr.io/tiltyard/tiltyard:{__version__}")
        assert found[-2:] == [("USER", "1000:1000"), ("EXPOSE", "7860")]
        assert set(re.findall(r"\bTILTYARD_[A-Z_]+", text)) <= variables_we_read()
        told = yaml.safe_load((DEPLOY / "space/README.md").read_text(encoding="utf-8").split("---")[1])
        assert (told["sdk"], told["app_port"]) == ("docker", 7860)
        assert len(told["short_description"]) <= 60


def test_the_development_container_has_what_the_gate_installs():
    told = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    gate = (ROOT / ".ci/run").read_text(encoding="utf-8")
    packages = {
        name
        for line in re.findall(r"apt-get install (.*)", gate)
        for name in line.split()
        if name[0] != "-" and name not in {"python3-venv", "systemd"}
    }
    assert packages <= set(told["onCreateCommand"].split())
    assert {"--all-extras", "--all-groups"} <= set(told["postCreateCommand"].split())


class TestCompose:
    def test_images_have_tags(self, compose):
        for name, service in compose["services"].items():
            assert re.fullmatch(r"[a-z0-9./-]+:[0-9][\w.-]*", service["image"]), name
        assert {one["image"] for one in ours(compose["services"]).values()} == {f"tiltyard:{__version__}"}

    def test_the_build_finds_its_files(self, compose):
        for service in ours(compose["services"]).values():
            context = DEPLOY / service["build"]["context"]
            assert context.resolve() == ROOT
            assert (context / service["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"

    def test_the_parts_that_were_promised_are_there(self, compose):
        services = compose["services"]
        assert set(services) == {"proxy", "database", "migrate", "web", "rater"}
        assert services["web"]["deploy"]["replicas"] == services["rater"]["deploy"]["replicas"] == 2
        assert services["migrate"]["restart"] == "no"
        assert services["database"]["image"].startswith("postgres:18")
        assert "pg_isready" in services["database"]["healthcheck"]["test"]

    def test_only_the_proxy_is_published(self, compose):
        assert [name for name, one in compose["services"].items() if "ports" in one] == ["proxy"]
        assert compose["networks"]["data"] == {"internal": True}
        assert compose["services"]["database"]["networks"] == ["data"]
        assert "data" not in compose["services"]["proxy"]["networks"]

    def test_ours_cannot_write_or_rise(self, compose):
        for service in ours(compose["services"]).values():
            assert service["user"] == f"{ACCOUNT}:{ACCOUNT}"
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]
            assert f"home:{HOME}" in service["volumes"]

    def test_everything_waits_for_the_migration_and_that_for_the_database(self, compose):
        services = compose["services"]
        assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
        for name in ("web", "rater"):
            waits = {"migrate": {"condition": "service_completed_successfully"}}
            assert services[name]["depends_on"] == waits

    def test_probes_are_asked_only_of_who_listens(self, compose):
        for name, service in ours(compose["services"]).items():
            serves = service["command"][0] == "serve"
            assert (service.get("healthcheck") == {"disable": True}) is not serves, name
        rater = compose["services"]["rater"]
        assert rater["healthcheck"]["test"] == ["CMD", "tiltyard", "arena", "probe"]
        assert rater["environment"] == {"TILTYARD_METRICS_PORT": "9420"}

    def test_the_proxy_speaks_to_the_port_and_is_the_one_that_is_trusted(self, compose):
        services = compose["services"]
        proxied = (DEPLOY / compose["configs"]["caddyfile"]["file"]).read_text(encoding="utf-8")
        assert f"{{$WEB_HOST:127.0.0.1}} {PORT}" in proxied
        assert services["proxy"]["environment"]["WEB_HOST"] == "web"
        assert set(re.findall(r"\{\$(\w+)", proxied)) == services["proxy"]["environment"].keys()
        command = services["web"]["command"]
        assert command[command.index("--port") + 1] == PORT
        address = services["proxy"]["networks"]["front"]["ipv4_address"]
        assert services["web"]["environment"]["TILTYARD_TRUSTED_PROXIES"] == address
        (subnet,) = compose["networks"]["front"]["ipam"]["config"]
        assert ipaddress.ip_address(address) in ipaddress.ip_network(subnet["subnet"])
        assert "front" in services["web"]["networks"]

    def test_what_is_referred_to_is_declared(self, compose):
        for service in compose["services"].values():
            assert set(service["networks"]) <= compose["networks"].keys()
            assert {one.split(":")[0] for one in service.get("volumes", [])} <= compose["volumes"].keys()
            for field in ("secrets", "configs"):
                used = {one if isinstance(one, str) else one["source"] for one in service.get(field, [])}
                assert used <= compose[field].keys()

    def test_our_secrets_lie_where_the_command_looks_for_them(self, compose, steps):
        folder = [rest for kind, rest in steps if kind == "WORKDIR"][-1]
        for service in ours(compose["services"]).values():
            assert service["secrets"] == [{"source": "arena_env", "target": f"{folder}/.env"}]

    def test_secret_files_are_made_by_the_page_and_never_committed(self, compose):
        ignored = (DEPLOY / ".gitignore").read_text(encoding="utf-8").split()
        assert "secrets/" in ignored
        for one in compose["secrets"].values():
            assert one["file"].removeprefix("./") in page()

    def test_variables_of_the_file_are_explained(self):
        text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
        assert {name for name in re.findall(r"\$\{(\w+)", text) if f"`{name}`" not in page()} == set()

    @pytest.mark.skipif(
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
        reason="needs docker compose (its client is enough)",
    )
    def test_docker_compose_reads_it(self, tmp_path):
        folder = tmp_path / "deploy"
        shutil.copytree(DEPLOY, folder)
        done = subprocess.run(
            ["docker", "compose", "-f", folder / "compose.yaml", "config", "--quiet"],
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "TILTYARD_BASE_URL": "https://arena.example.org"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_health_paths_are_routes_of_the_service():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (SOURCE / "web").rglob("*.py"))
    for route in ("/healthz", "/readyz", "/metrics"):
        assert f'"{route}"' in text, route


def copied(steps):
    """Sources of COPY that come from the repository."""
    rests = [rest for kind, rest in steps if kind == "COPY" and "--from=" not in rest]
    return [name for rest in rests for name in rest.split()[:-1]]


def ignored_by(path):
    """Docker's rule: the last line that matches decides."""
    lines = [
        line for line in path.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")
    ]

    def ignored(name):
        verdict = False
        for line in lines:
            pattern = line.removeprefix("!")
            parents = [name, *map(str, Path(name).parents)]
            if any(fnmatch.fnmatch(one, pattern) for one in parents if one != "."):
                verdict = not line.startswith("!")
        return verdict

    return ignored


def uv(*arguments, cwd):
    done = subprocess.run(
        ["uv", "--quiet", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
