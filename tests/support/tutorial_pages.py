"""Pages that lead through an arena: the blocks of a page, its commands, and the server that it starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2

from support.postgres_servers import postgres
from tiltyard.postgres.schema_migrations import migrate

DOCS = Path(__file__).parents[2] / "docs"
TILTYARD = [sys.executable, "-m", "tiltyard"]


class Tutorial:
    """A page, worked through in a folder with a database of its own."""

    def __init__(self, name: str, folder: Path, url: str, kind: str) -> None:
        self.text = (DOCS / kind / f"{name}.md").read_text(encoding="utf-8")
        self.folder = folder
        self.environment = os.environ | {
            "DATABASE_URL": url,
            "TILTYARD_HOME": str(folder / "home"),
            "TILTYARD_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }

    def blocks(self, language):
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def commands(self):
        """The words of each line that is typed."""
        return [line.split() for block in self.blocks("sh") for line in block.splitlines()]

    def run(self, words):
        assert words[0] == "tiltyard"
        done = subprocess.run(
            [*TILTYARD, *words[1:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    @contextmanager
    def serving(self):
        """The server that the page starts: its address, and what it says."""
        (serve,) = (words for words in self.commands() if words[:2] == ["tiltyard", "serve"])
        written, logged = self.folder / "out", self.folder / "log"
        with written.open("w+") as out, logged.open("w+") as log:
            process = subprocess.Popen(
                [*TILTYARD, *serve[1:]], cwd=self.folder, env=self.environment, stdout=out, stderr=log
            )
            try:
                deadline = time.monotonic() + 120
                while "to stop" not in (said := written.read_text()):
                    assert process.poll() is None, logged.read_text()
                    assert time.monotonic() < deadline, logged.read_text()
                    time.sleep(0.05)
                yield re.search(r"is ready: (\S+)", said)[1], said
            finally:
                process.terminate()
                assert process.wait(60) == 0, logged.read_text()

    def check_greeting(self, address, said):
        """The server says what the page shows."""
        (shown,) = (block for block in self.blocks("text") if "is ready" in block)
        pattern = re.escape(shown.replace("http://127.0.0.1:8420", address)).replace("…", ".+")
        assert re.fullmatch(pattern, said), said


@contextmanager
def tutorial(name: str, folder: Path, kind: str = "tutorial"):
    with postgres() as url:
        migrate(url)
        yield Tutorial(name, folder, url, kind)


def submitted(client: httpx2.Client, path: str, **data: str) -> str:
    """Where a form leads."""
    answer = client.post(path, data=data)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]
