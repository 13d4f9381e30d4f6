"""Datasets of the Hugging Face Hub, read by its own client from a local server that speaks its API."""

import hashlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tiltyard
from support.command import run
from support.hub_server import CONVERTED, MAIN, HubDataset, HubState, serve_hub
from support.loopback import only_loopback
from tiltyard.errors import BadOption, MissingExtra, UnreadableFile
from tiltyard.files import open_battles

constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra hf")

SHARDS = ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet")
CSV = b"model_a,model_b,winner\nx,y,model_a\nx,y,model_b\nx,y,tie\n"
ANSWERS = b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "yes"}\n'


def parquet(rows):
    battles = {
        "model_a": ["x"] * rows,
        "model_b": ["y"] * rows,
        "winner": ["model_a", "model_b"] * (rows // 2),
    }
    written = io.BytesIO()
    pq.write_table(pa.table(battles), written)
    return written.getvalue()


TRAIN = dict(zip(SHARDS, (parquet(10), parquet(20)), strict=True))


def datasets():
    read_me = {"README.md": b"# Battles", ".gitattributes": b""}
    return {
        "o/whole": HubDataset({MAIN: read_me | TRAIN}, lfs=frozenset({SHARDS[1]})),
        "o/splits": HubDataset({MAIN: TRAIN | {"data/test-00000-of-00001.parquet": parquet(2)}}),
        "o/converted": HubDataset(
            {MAIN: {"train.csv": CSV}, CONVERTED: {"default/train/0000.parquet": parquet(6)}},
            {"main": MAIN, "refs/convert/parquet": CONVERTED},
        ),
        "o/lines": HubDataset({MAIN: {"train.csv": CSV, "answers.jsonl": ANSWERS}}),
        "o/gated": HubDataset({MAIN: TRAIN}, gated=True),
        "o/private": HubDataset({MAIN: TRAIN}, private=True),
        "o/page": HubDataset({MAIN: {"train.csv": b"<!DOCTYPE html><title>Moved</title>"}}),
    }


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The server, with an empty cache; the client reads its settings when it is imported."""
    with only_loopback(), serve_hub(HubState(datasets())) as state:
        monkeypatch.setattr(constants, "ENDPOINT", state.address)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            state.address + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        yield state


def error_of(address):
    with pytest.raises((UnreadableFile, BadOption)) as caught:
        open_battles(address)
    return str(caught.value)


def test_a_whole_dataset_is_rated_and_says_its_commit(hub):
    ran = run("rate", "hf://datasets/o/whole")
    assert ran.code == 0
    assert "30 battles" in ran.out
    size = sum(map(len, TRAIN.values()))
    assert ran.err == f"hf://datasets/o/whole@{MAIN}: 2 files, {size:,} bytes: {', '.join(SHARDS)}\n"
    # The list has two pages, and one file is in storage.
    assert [path.partition("?")[0].removeprefix("/").partition("/")[0] for _, path in hub.requests] == [
        *("api", "api", "api"),
        *("datasets", "datasets", "datasets", "storage"),
    ]


def test_files_in_the_cache_are_not_fetched_again(hub):
    open_battles("hf://datasets/o/whole")
    hub.requests.clear()
    assert sum(1 for _ in open_battles("hf://datasets/o/whole").battles()) == 30
    assert all(path.startswith("/api/datasets/o/whole") for _, path in hub.requests)


def test_the_manifest_says_how_to_fetch_the_same_bytes(hub, tmp_path):
    assert run("rate", "hf://datasets/o/whole", "--out", tmp_path / "run").code == 0
    inputs = json.loads((tmp_path / "run" / "manifest.json").read_text())["inputs"]
    assert inputs == [
        {
            "path": f"hf://datasets/o/whole@{MAIN}/{name}",
            "format": "tiltyard-parquet",
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        for name, data in TRAIN.items()
    ]
    again = tiltyard.rate([one["path"] for one in inputs])
    assert again.n_battles == 30
    assert again.fetched == tuple(one["path"] for one in inputs)
    assert run("verify", tmp_path / "run").code == 0


@pytest.mark.parametrize(
    ("address", "battles"),
    [
        (f"hf://datasets/o/whole/{SHARDS[0]}", 10),
        (f"hf://datasets/o/whole@main/{SHARDS[1]}", 20),
        (f"hf://datasets/o/whole@{MAIN}/data", 30),
        ("hf://datasets/o/splits/data/test-*.parquet", 2),
        ("hf://datasets/o/splits/data/*.parquet", 32),
        ("hf://datasets/o/converted", 6),
        ("hf://datasets/o/converted@refs/convert/parquet", 6),
        ("hf://datasets/o/converted/train.csv", 3),
        ("HF://datasets/o/lines/train.csv", 3),
    ],
)
def test_files_can_be_named(hub, address, battles):
    assert tiltyard.rate(address).n_battles == battles


def test_a_commit_and_a_file_in_the_cache_need_no_hub(hub):
    address = f"hf://datasets/o/whole@{MAIN}/{SHARDS[0]}"
    open_battles(address)
    hub.requests.clear()
    assert tiltyard.rate(address).n_battles == 10
    assert hub.requests == []


def test_answers_are_read_from_datasets(hub):
    (answer,) = tiltyard.read_answers("hf://datasets/o/lines/answers.jsonl")
    assert (answer.model, answer.response) == ("m", "yes")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("hf://datasets/o/splits", "name one: 'hf://datasets/o/splits/data/test-*.parquet' or "),
        (
            "hf://datasets/o/lines",
            "no Parquet files; the dataset has answers.jsonl, train.csv; name a file: ",
        ),
        ("hf://datasets/o/lines@main", "no Parquet files"),
        ("hf://datasets/o/lines/nothing.csv", "no such file or folder; the dataset has answers.jsonl"),
        ("hf://datasets/o/whole@nothing", "no such revision; check what follows @"),
        (f"hf://datasets/o/whole@{'3' * 40}/{SHARDS[0]}", "no such revision"),
        ("hf://datasets/o/nothing", "no such dataset, or a private one; check the name (models and spaces"),
        ("hf://datasets/o/private", "or set HF_TOKEN to a token that may read it"),
        ("hf://datasets/o/gated", "/datasets/o/gated, then set HF_TOKEN"),
        ("hf://datasets/o/a--b..c", "no valid name of a dataset"),
        ("hf://o/whole", "only datasets are read"),
        ("hf://datasets/o/page/train.csv", "is a web page, not a file of data"),
    ],
)
def test_what_cannot_be_fetched_says_what_to_do(hub, address, said):
    problem = error_of(address)
    assert said in problem
    assert problem.startswith("hf://")
    assert "\n" not in problem


@pytest.mark.parametrize("repo", ["o/gated", "o/private"])
def test_a_token_opens_the_door_and_is_never_shown(hub, monkeypatch, repo, tmp_path):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    ran = run("rate", f"hf://datasets/{repo}", "--out", tmp_path / "run")
    assert ran.code == 0
    assert f"Bearer {hub.token}" in hub.tokens
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert hub.token not in ran.out + ran.err
    assert hub.token.encode() not in written


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "set HF_TOKEN"),
        (403, "refused access (403); set HF_TOKEN"),
        (404, "(404); check the name"),
        (429, "rate limit is reached (429); wait some minutes"),
        (500, "failed (500); try again later"),
    ],
)
def test_statuses_of_the_hub(hub, status, said):
    hub.fail = status
    assert said in error_of("hf://datasets/o/whole")


def test_a_web_page_instead_of_a_hub(hub):
    hub.page = True
    assert "check HF_ENDPOINT" in error_of("hf://datasets/o/whole")


def test_no_hub(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9 could" in error_of("hf://datasets/o/whole")


def test_a_download_that_is_cut_off_leaves_nothing_to_be_read(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    hub.cut = 0
    assert "command again" in error_of(f"hf://datasets/o/whole/{SHARDS[1]}")
    assert not list((tmp_path / "cache").rglob("*.parquet"))
    hub.cut = None
    assert tiltyard.rate(f"hf://datasets/o/whole/{SHARDS[1]}").n_battles == 20


def test_a_path_object_is_never_an_address(hub, tmp_path):
    from pathlib import Path

    for open_it in (open_battles, tiltyard.rate, tiltyard.open_answers):
        with pytest.raises(BadOption, match="Python give"):
            open_it(Path("hf://datasets/o/whole"))
    assert hub.requests == []


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"install 'tiltyard\[hf\]'"):
        open_battles("hf://datasets/o/whole")


def test_offline(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert error_of("hf://datasets/o/whole").endswith(
        "HF_HUB_OFFLINE is set; unset it, or name what the cache has: hf://datasets/o/whole@COMMIT/FILE"
    )
    assert hub.requests == []


def hub_environment(address, home, **others):
    """As a user sets it; whatever is not on loopback ends at a closed port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    closed = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9")
    return {
        **kept,
        **closed,
        "NO_PROXY": "127.0.0.1,localhost",
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        **others,
    }


@pytest.mark.slow
def test_the_environment_names_hub_and_cache(hub, tmp_path):
    rate = [sys.executable, "-m", "tiltyard", "rate"]
    shard = f"hf://datasets/o/whole@{MAIN}/{SHARDS[0]}"
    environment = hub_environment(hub.address, tmp_path / "home")
    ran = subprocess.run(
        [*rate, "hf://datasets/o/whole"], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (0, 1), ran.stderr
    assert all("o/whole" in path for _, path in hub.requests)
    hub.requests.clear()
    offline = environment | {"HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([*rate, shard], env=offline, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert hub.requests == []


@pytest.mark.slow
def test_ctrl_c_leaves_no_half_file_in_use(hub, tmp_path):
    hub.pause = 30.0
    address = f"hf://datasets/o/whole/{SHARDS[1]}"
    command = [sys.executable, "-m", "tiltyard", "rate", address]
    environment = hub_environment(hub.address, tmp_path / "home")
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while not any("/storage/" in path for _, path in hub.requests):
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    hub.pause = 0.0
    assert (process.returncode, said) == (130, "tiltyard: stopped\n")
    assert not list((tmp_path / "home").rglob("*.parquet"))
