"""The code of the previous release serves under load on tables that the current code has migrated."""

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

import httpx2
import pytest

from support.live_arenas import made_arena
from support.sizes import sized
from tiltyard.postgres.connections import connect

ROOT = Path(__file__).parents[2]
MIGRATIONS = "src/tiltyard/postgres/migrations"
#: Code without all migrations up to this one cannot serve on the tables that they rebuild.
LAST_REBUILDING = "0010"
VOTERS = 8
#: A revision to take instead of the one that is found.
REVISION_VARIABLE = "TILTYARD_TEST_PREVIOUS_REVISION"


def git(folder, *arguments):
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def migrations_at(folder, revision):
    """Names and contents of the migrations of a commit."""
    rows = git(folder, "ls-tree", "--full-tree", revision, f"{MIGRATIONS}/").splitlines()
    return {row.rsplit("/", 1)[1]: row.split()[2] for row in rows if row.endswith(".sql")}


def previous_revision(folder):
    """The newest commit whose migrations differ from HEAD's and that can serve on HEAD's tables; else HEAD."""
    now = migrations_at(folder, "HEAD")
    needed = {name: content for name, content in now.items() if name[:4] <= LAST_REBUILDING}
    for commit in git(folder, "log", "--first-parent", "--format=%H", "--", MIGRATIONS).split():
        before = migrations_at(folder, f"{commit}^") if is_commit(folder, f"{commit}^") else {}
        if before.items() < now.items() and needed.items() <= before.items():
            return git(folder, "rev-parse", f"{commit}^").strip()
    return git(folder, "rev-parse", "HEAD").strip()


def is_commit(folder, revision):
    asked = ["git", "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"]
    return subprocess.run(asked, cwd=folder, check=False, capture_output=True).returncode == 0


@pytest.fixture
def history(tmp_path):
    """A repository to which migrations are committed one by one; returns the commit."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / MIGRATIONS).mkdir(parents=True)

    def commit(*names):
        for name in names:
            (tmp_path / MIGRATIONS / f"{name}.sql").write_text(f"-- {name}")
        git(tmp_path, "add", "-A")
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        git(tmp_path, *who, "commit", "--quiet", "--allow-empty", "--message", "x")
        return git(tmp_path, "rev-parse", "HEAD").strip()

    return tmp_path, commit


def test_before_the_next_migration_it_is_the_current_code(history):
    folder, commit = history
    commit("0001_first")
    commit("0007_buckets", "0008_identity")
    commit("0009_shown")
    head = commit()
    assert previous_revision(folder) == head


def test_from_the_next_migration_on_it_is_the_code_before_it(history):
    folder, commit = history
    commit("0001_first")
    commit("0007_buckets", "0009_shown")
    before = commit()
    commit("0011_next")
    commit()
    assert previous_revision(folder) == before
    between = commit()
    commit("0012_later")
    assert previous_revision(folder) == between


def wheel_of(revision, folder):
    """Build the wheel of a commit, and list what was locked there."""
    source, dist = folder / "source", folder / "dist"
    source.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)
    subprocess.run(["uv", "--quiet", "build", "--wheel", "--out-dir", dist], cwd=source, check=True)
    (wheel,) = dist.glob("*.whl")
    wanted = ["--frozen", "--extra", "arena", "--no-default-groups", "--no-emit-project", "--no-hashes"]
    locked = folder / "locked.txt"
    subprocess.run(["uv", "--quiet", "export", *wanted, "--output-file", locked], cwd=source, check=True)
    return wheel, locked


@pytest.fixture(scope="module")
def previous(tmp_path_factory):
    """The command of the previous release, in an environment of its own."""
    folder = tmp_path_factory.mktemp("previous")
    wheel, locked = wheel_of(os.environ.get(REVISION_VARIABLE) or previous_revision(ROOT), folder)
    where = folder / "environment"
    subprocess.run(["uv", "--quiet", "venv", "--python", sys.executable, where], check=True)
    python = where / "bin" / "python"
    install = ["uv", "--quiet", "pip", "install", "--python", python]
    subprocess.run([*install, "--requirements", locked], check=True)
    subprocess.run([*install, "--no-deps", wheel], check=True)
    return where / "bin" / "tiltyard"


@contextmanager
def serving(command, *options, log, database):
    """A running `tiltyard serve` of either version."""
    variables = {**os.environ, "DATABASE_URL": database, "TILTYARD_SECRET_KEY": "k" * 40}
    variables["TILTYARD_HOME"] = str(log.parent / f"{log.name}-home")
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, "serve", *options], env=variables, cwd=log.parent, stdout=written, stderr=written
        )
    try:
        yield process
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(60)


def wait_until_ready(url, process, log):
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)


def vote_in(url, cycles):
    """Votes of one visitor: the statuses of all answers."""
    statuses = []
    with httpx2.Client(base_url=url, timeout=30) as client:
        for _ in range(cycles):
            asked = client.post("/api/v1/arenas/arena/matchups")
            statuses.append(asked.status_code)
            voted = client.post(f"/api/v1/matchups/{asked.json()['matchup']}/vote", json={"winner": "tie"})
            statuses.append(voted.status_code)
    return statuses


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("uv") is None or not (ROOT / ".git").exists(), reason="needs uv and the history"
)
def test_the_previous_release_serves_on_the_new_tables(previous, database, tmp_path):
    made_arena(database, 6, 40)
    with create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url, cycles = f"http://127.0.0.1:{port}", sized(40, 400)
    old = serving(
        [previous], "--role", "web", "--port", str(port), log=tmp_path / "old.log", database=database
    )
    new = serving(
        [sys.executable, "-m", "tiltyard"], "--role", "rater", log=tmp_path / "new.log", database=database
    )
    with old as process, new, ThreadPoolExecutor(VOTERS) as voters:
        wait_until_ready(url, process, tmp_path / "old.log")
        told = list(voters.map(lambda _: vote_in(url, cycles), range(VOTERS)))
        statuses = [status for one in told for status in one]
        assert set(statuses) == {200, 201}, (tmp_path / "old.log").read_text()
        with urllib.request.urlopen(f"{url}/arenas/arena", timeout=30) as page:
            assert page.status == 200
    with connect(database) as connection:
        (counted,) = connection.execute("SELECT count(*) FROM events WHERE kind = 1").fetchone()
    assert counted == VOTERS * cycles
