"""Signing in at a provider of other makers: oidc-provider-mock, as a process of its own."""

import re
import subprocess
import sys
from urllib.parse import urlsplit

import httpx2
import pytest

from support.live_arenas import made_arena
from support.served import served
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import SignInSettings

_SERVER = """
import sys
from oidc_provider_mock import run_server_in_thread
with run_server_in_thread() as server:
    print(f"http://localhost:{server.server_port}", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def issuer():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", _SERVER], **pipes, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(60)


def test_somebody_signs_in_at_another_maker_s_provider(database, tmp_path, issuer):
    made_arena(database, settings=ArenaSettings(entry="sign-in", entry_groups="judges"))
    httpx2.put(f"{issuer}/users/ada", json={"name": "Ada", "groups": ["judges"]}).raise_for_status()
    settings = SignInSettings(issuer=issuer, client_id="tiltyard", client_secret="some-secret")
    with served(database, folder=tmp_path, sign_in=settings) as site:
        client = site.client()
        there = client.get("/sign-in/0?next=/arenas/arena/vote").headers["location"]
        form = httpx2.get(there)
        assert re.search(r'name="sub"', form.text)
        answer = httpx2.post(there, data={"sub": "ada"})
        back = urlsplit(answer.headers["location"])
        signed = client.get(f"{back.path}?{back.query}")
        assert (signed.status_code, signed.headers.get("location")) == (303, "/arenas/arena/vote"), (
            signed.text
        )
        assert client.get("/arenas/arena/vote").status_code == 200
        again = client.get(f"{back.path}?{back.query}")
        assert again.status_code == 400
    with connect(database) as connection:
        assert connection.execute("SELECT name, groups FROM people").fetchall() == [("Ada", ["judges"])]
