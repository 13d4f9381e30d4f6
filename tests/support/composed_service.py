"""What compose.yaml describes, without Docker: containers in chroots and namespaces, PostgreSQL, and Debian's Caddy."""

from __future__ import annotations

import ipaddress
import os
import secrets
import signal
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import yaml

from support.built_images import ImageStore
from support.deployed import ACCOUNT, DEPLOY, HOME, caddyfile
from support.network_namespaces import Namespaces, namespaces, only_child
from support.postgres_servers import postgres
from support.replicas import marks

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
WEBS = ("web-1", "web-2")
#: Each has an address by its number in the networks that compose.yaml joins it to; the proxy has the one given there.
_NUMBERS = {"database": 10, "web-1": 11, "web-2": 12, "rater-1": 13, "migrate": 14}
_NETWORKS = {
    "front": ipaddress.ip_network(COMPOSE["networks"]["front"]["ipam"]["config"][0]["subnet"]),
    "data": ipaddress.ip_network("172.30.85.0/24"),
}
_PROXY = SERVICES["proxy"]["networks"]["front"]["ipv4_address"]
_METRICS_PORT = 9420


@dataclass
class ComposedService:
    """Containers by name; a number follows that of their service in compose.yaml."""

    image: str
    images: ImageStore
    spaces: Namespaces
    folder: Path
    #: As seen from the namespace ``database``.
    database: str = ""
    url: str = f"https://{_PROXY}"
    #: Where files of containers are.
    roots: dict[str, Path] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def make_container(self, name: str) -> None:
        """With its namespace, not yet running."""
        self.add_namespace(name)
        hosts = {"database": _address("database", "data")}
        self.roots[name] = self.images.make_container(name, self.image, hosts)

    def add_namespace(self, name: str) -> None:
        networks = _service(name)["networks"]
        places = {one: f"{_address(name, one)}/{_NETWORKS[one].prefixlen}" for one in networks}
        self.spaces.add(name, **places)

    def command(self, name: str, *command: str) -> list[str]:
        """What runs ``command`` in a container, with the variables, the volume and the secret of its service."""
        service = _service(name)
        variables = {**service.get("environment", {}), "TILTYARD_METRICS_PORT": str(_METRICS_PORT)}
        if "TILTYARD_BASE_URL" in variables:
            variables["TILTYARD_BASE_URL"] = self.url
        (secret,) = service["secrets"]
        volumes = {HOME: self.folder / "home", f"{secret['target']}": self.folder / "arena.env"}
        inner = self.images.command(name, *command, volumes=volumes, variables=variables)
        return self.spaces.command(name, *inner)

    def start_container(self, name: str) -> None:
        self.start(name, self.command(name, "tiltyard", *_service(name)["command"]))

    def start(self, name: str, command: list[str]) -> None:
        """Leave it running; what it prints is kept."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_healthy(self, name: str) -> None:
        """By the check of compose.yaml, or else of the image, as an engine runs it."""
        stated = _service(name).get("healthcheck", {}).get("test")
        check = stated or self.images.configuration(self.image)["Healthcheck"]["Test"]
        assert check[0] == "CMD"
        command = self.command(name, *check[1:])

        def healthy() -> bool:
            assert self.running[name].poll() is None, self.log(name)
            return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0

        wait_until(healthy, 600)

    def stop_container(self, name: str) -> int:
        """As an engine does, by asking its first process to end; what that returns."""
        runner = self.running[name]
        process = runner.pid
        # buildah, its runtime, what changes the root, and the container's own.
        for _ in range(3):
            process = only_child(process)
        os.kill(process, signal.SIGTERM)
        return runner.wait(60)

    def log(self, name: str) -> str:
        """The end of what it printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def votes_taken(self, name: str) -> int:
        """Votes that this container wrote to the log since it started."""
        with self.spaces.inside(name), httpx2.Client(trust_env=False) as client:
            told = client.get(f"http://127.0.0.1:{_METRICS_PORT}/metrics").raise_for_status().text
        lines = [one for one in told.splitlines() if one.startswith('tiltyard_events_total{kind="vote"')]
        return sum(int(float(one.rsplit(" ", 1)[1])) for one in lines)

    def marks(self, arena: str) -> Counter[int | None]:
        """How many votes the log has with each mark."""
        with self.spaces.inside("database"):
            return Counter(marks(self.database, arena))

    def trusted(self) -> ssl.SSLContext:
        """For clients: the authority of the proxy's certificate."""
        root = self.folder / "caddy/caddy/pki/authorities/local/root.crt"
        wait_until(root.exists, 60)
        return ssl.create_default_context(cafile=root)


@contextmanager
def composed_service(images: ImageStore, image: str, folder: Path) -> Iterator[ComposedService]:
    """The database and tables, two web containers and a rater that are healthy, and the proxy."""
    with ExitStack() as stack:
        running = stack.enter_context(_ended())
        spaces = stack.enter_context(namespaces(*_NETWORKS))
        made = ComposedService(image, images, spaces, folder, running=running)
        made.add_namespace("database")
        with spaces.inside("database"):
            options = f"-h 127.0.0.1,{_address('database', 'data')} -c max_connections=100"
            server = stack.enter_context(postgres(options=options))
            made.database, secret = _open_to_network(server)
        _write_secrets(folder, secret)
        for name in (*WEBS, "rater-1"):
            made.make_container(name)
        migrated = subprocess.run(
            made.command("rater-1", "tiltyard", *SERVICES["migrate"]["command"]),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert migrated.returncode == 0, (migrated.stdout, migrated.stderr)
        for name in (*WEBS, "rater-1"):
            made.start_container(name)
        for name in (*WEBS, "rater-1"):
            made.wait_until_healthy(name)
        _start_proxy(made)
        spaces.add("voters", front=f"{_NETWORKS['front'][50]}/{_NETWORKS['front'].prefixlen}")
        yield made


@contextmanager
def _ended() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """What is started, by name; its end is waited for."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        yield running
    finally:
        for one in running.values():
            one.wait(60)


def _start_proxy(made: ComposedService) -> None:
    """With the configuration of compose.yaml, where the name of the service has all of its addresses."""
    made.add_namespace("proxy")
    hosts, file = made.folder / "hosts", made.folder / "Caddyfile"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{_address(name, 'front')} web\n" for name in WEBS))
    file.write_text(caddyfile(made.url, "web"))
    script = (
        'mount --bind "$1" /etc/hosts && XDG_DATA_HOME="$2" exec caddy run --adapter caddyfile --config "$3"'
    )
    command = ("sh", "-c", script, "sh", hosts, made.folder / "caddy", file)
    made.start("proxy", made.spaces.command("proxy", *command))


def _open_to_network(server: str) -> tuple[str, str]:
    """A database of compose.yaml's name on this server, which others may reach with a password; both addresses."""
    password = secrets.token_hex(24)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE tiltyard")
        connection.execute(f"ALTER ROLE tiltyard PASSWORD '{password}'")
        (rules,) = connection.execute("SHOW hba_file").fetchone() or ("",)
        with Path(rules).open("a") as file:
            file.write(f"host all all {_NETWORKS['data']} scram-sha-256\n")
        connection.execute("SELECT pg_reload_conf()")
    parts = urlsplit(server)
    outside = f"postgresql://tiltyard:{password}@database:{parts.port}/tiltyard"
    return parts._replace(path="/tiltyard").geturl(), outside


def _write_secrets(folder: Path, database: str) -> None:
    """The file of README.md, and the volume of compose.yaml."""
    (folder / "home").mkdir()
    os.chown(folder / "home", ACCOUNT, ACCOUNT)
    lines = (f"DATABASE_URL={database}", f"TILTYARD_SECRET_KEY={secrets.token_hex(32)}", "")
    (folder / "arena.env").write_text("\n".join(lines))


def _service(name: str) -> dict[str, Any]:
    return dict(SERVICES[name.partition("-")[0]])


def _address(name: str, network: str) -> str:
    return _PROXY if name == "proxy" else str(_NETWORKS[network][_NUMBERS[name]])


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(2)
