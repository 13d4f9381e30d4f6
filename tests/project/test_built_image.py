"""The image of deploy/, built and run without Docker: two web containers and a rater, behind Caddy without affinity.

Wants root, Debian's packages mmdebstrap, buildah, iproute2 and caddy, a mirror of Debian, and an index of Python
packages (`just image`). Chroots show nothing of layers, cgroups, seccomp or a root that cannot be written.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from support.built_images import ImageStore, image_store, read_only_command
from support.composed_service import WEBS, ComposedService, composed_service, wait_until
from support.deployed import ACCOUNT, HOME, PORT
from support.replicas import ARENAS, add_arenas, vote_by_api, vote_by_page
from tiltyard import __version__

_MISSING = [one for one in ("buildah", "mmdebstrap", "caddy", "ip") if shutil.which(one) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

IMAGE = f"localhost/tiltyard:{__version__}"
#: With a base as lean as Debian's slim one.
IMAGE_BYTES = 600e6
VOTERS, VOTES_EACH = 50, 4


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageStore]:
    """With the image, built from the Dockerfile as it stands."""
    with image_store(tmp_path_factory.mktemp("images") / "store") as store:
        store.make_base()
        store.build(IMAGE)
        yield store


@pytest.fixture(scope="module")
def service(images: ImageStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposedService]:
    folder = tmp_path_factory.mktemp("service")
    with composed_service(images, IMAGE, folder) as made:
        with made.spaces.inside("database"):
            add_arenas(made.database, folder / "home")
        yield made


class PatientTransport(httpx2.AsyncHTTPTransport):
    """Asks again where nothing was done.

    A busy machine may have no connection free within ten seconds (503). Caddy up to 2.11.1 does not try another
    container with a request that has a body (502, caddyserver/caddy#7546).
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(60):
            answer = await super().handle_async_request(request)
            if answer.status_code not in {502, 503}:
                return answer
            await answer.aclose()
            await asyncio.sleep(1)
        return answer


def vote(service: ComposedService, voters: int) -> Counter[str]:
    """Let as many voters vote in all arenas by API and by page, all at once; how many votes each arena acknowledged."""
    options = {"base_url": service.url, "timeout": 120, "follow_redirects": True}
    trusted = service.trusted()
    acknowledged: Counter[str] = Counter()

    async def voter(number: int) -> None:
        way = (vote_by_api, vote_by_page)[number % 2]
        arena = ARENAS[number // 2 % 2]
        transport = PatientTransport(verify=trusted, trust_env=False)
        async with httpx2.AsyncClient(**options, transport=transport) as client:
            for _ in range(VOTES_EACH):
                await way(client, arena)
                acknowledged[arena] += 1

    async def crowd() -> None:
        await asyncio.gather(*(voter(number) for number in range(voters)))

    with service.spaces.inside("voters"):
        asyncio.run(crowd())
    return acknowledged


def test_the_image_is_configured_as_the_dockerfile_says(images: ImageStore) -> None:
    told = images.configuration(IMAGE)
    assert (told["User"], told["Entrypoint"], told["Cmd"]) == (
        f"{ACCOUNT}:{ACCOUNT}",
        ["tiltyard"],
        ["serve"],
    )
    assert f"/{PORT}/healthz" in "".join(told["Healthcheck"]["Test"]).replace(":", "/")
    assert HOME in told["Volumes"]


def test_the_image_is_small(images: ImageStore) -> None:
    root = images.make_container("measured", IMAGE, {})
    size = sum(one.lstat().st_size for one in root.rglob("*") if one.is_file() or one.is_symlink())
    print(f"{size / 1e6:.0f} MB")
    assert size < IMAGE_BYTES


def test_it_serves_from_a_root_that_cannot_be_written(images: ImageStore, tmp_path: Path) -> None:
    """With an arena's own PostgreSQL, in the volume."""
    told = images.configuration(IMAGE)
    root = images.make_container("read-only", IMAGE, {})
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, ACCOUNT, ACCOUNT)
    writes = 'test -w / || test -w /etc/tiltyard || grep -E "^(CapBnd|CapEff):.*[1-9a-f]" /proc/self/status'
    refused = read_only_command(root, home, HOME, ACCOUNT, "/bin/sh", "-c", writes)
    environment = dict(one.split("=", 1) for one in told["Env"]) | {
        "PATH": f"/opt/tiltyard/bin:{os.environ['PATH']}"
    }
    assert subprocess.run(refused, env=environment, check=False, timeout=60).returncode == 1
    serve = read_only_command(root, home, HOME, ACCOUNT, "tiltyard", "serve", "--port", "0")
    began = time.monotonic()
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(serve, env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: "ready: http" in (tmp_path / "log").read_text(), 600)
        address = re.search(r"ready: (http://[^/\s]+)", (tmp_path / "log").read_text())
        assert address is not None
        print(f"ready after {time.monotonic() - began:.1f} s")
        assert httpx2.get(f"{address[1]}/healthz", trust_env=False).status_code == 200
    finally:
        running.kill()
        running.wait(60)


def test_every_vote_counts_whichever_container_takes_it(service: ComposedService) -> None:
    before = {arena: service.marks(arena) for arena in ARENAS}
    taken = {name: service.votes_taken(name) for name in WEBS}
    acknowledged = vote(service, VOTERS)
    assert acknowledged.total() == VOTERS * VOTES_EACH
    for arena in ARENAS:
        assert service.marks(arena) - before[arena] == {None: acknowledged[arena]}
    shares = {name: service.votes_taken(name) - taken[name] for name in WEBS}
    assert sum(shares.values()) == acknowledged.total()
    assert min(shares.values()) > 0
    with (
        service.spaces.inside("voters"),
        httpx2.Client(base_url=service.url, verify=service.trusted(), trust_env=False) as reader,
    ):
        for arena in ARENAS:
            counted = service.marks(arena).total()
            board = f"/api/v1/arenas/{arena}/board"
            wait_until(
                lambda board=board, counted=counted: reader.get(board).json().get("votes") == counted, 120
            )


def test_one_web_container_is_enough_while_the_other_is_replaced(service: ComposedService) -> None:
    before = {arena: service.marks(arena) for arena in ARENAS}
    assert service.stop_container(WEBS[0]) == 0
    acknowledged = vote(service, VOTERS // 5)
    service.start_container(WEBS[0])
    service.wait_until_healthy(WEBS[0])
    acknowledged += vote(service, VOTERS // 5)
    assert service.votes_taken(WEBS[0]) > 0
    for arena in ARENAS:
        assert service.marks(arena) - before[arena] == {None: acknowledged[arena]}


def test_nothing_but_the_volume_is_written(service: ComposedService) -> None:
    """As in a root that cannot be written: the account has no file there but the place of the volume."""
    for name in (*WEBS, "rater-1"):
        root = service.roots[name]
        find = ("find", root, "-xdev", "-uid", str(ACCOUNT))
        found = subprocess.run(find, capture_output=True, text=True, timeout=120, check=True).stdout
        assert found.split() == [f"{root}{HOME}"]
