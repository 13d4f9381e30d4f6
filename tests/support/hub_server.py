"""A local server that speaks the part of the Hugging Face Hub's API that reads datasets, as its client requests it."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, unquote, urlsplit

MAIN = "1" * 40
CONVERTED = "2" * 40
_PAGE_SIZE = 3


@dataclass
class HubDataset:
    """Files by revision; ``branches`` name commits. Those in ``lfs`` are served by a redirect to storage."""

    commits: dict[str, dict[str, bytes]]
    branches: dict[str, str] = field(default_factory=lambda: {"main": MAIN})
    lfs: frozenset[str] = frozenset()
    gated: bool = False
    private: bool = False


@dataclass
class HubState:
    """What the server has, what it was asked, and how it misbehaves."""

    datasets: dict[str, HubDataset] = field(default_factory=dict)
    token: str = "hf_secret_token"
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    #: Answer every request with this status.
    fail: int | None = None
    #: Serve at most this many bytes of a file in one response, then close the connection.
    cut: int | None = None
    #: Wait so long, in seconds, in the middle of a file.
    pause: float = 0.0
    #: Answer with a web page.
    page: bool = False
    resumed: Event = field(default_factory=Event)
    #: Its endpoint, and that of its storage, which is another host.
    address: str = ""
    storage: str = ""


class _HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubState

    def do_HEAD(self):
        self._answer()

    def do_GET(self):
        self._answer()

    def log_message(self, *_):
        pass

    def _answer(self):
        parts = urlsplit(self.path)
        self.hub.requests.append((self.command, self.path))
        self.hub.tokens.add(self.headers.get("Authorization", ""))
        if self.hub.page:
            return self._send(200, b"<!doctype html><title>Sign in</title>", {"Content-Type": "text/html"})
        if self.hub.fail is not None:
            return self._send(self.hub.fail, b"{}", {"Retry-After": "1"})
        path = unquote(parts.path)
        for pattern, answer in (
            (r"/api/datasets/([^/]+/[^/]+)(?:/revision/(.+))?", self._info),
            (r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)", self._tree),
            (r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._resolve),
            (r"/storage/([^/]+/[^/]+)/([^/]+)/(.+)", self._storage),
        ):
            found = re.fullmatch(pattern, path)
            if found and not (answer == self._info and "/tree/" in path):
                return answer(*found.groups())
        return self._refuse(404, "RepoNotFound")

    def _dataset(self, repo):
        found = self.hub.datasets.get(repo)
        if found is None or (found.private and not self._signed_in()):
            # The real hub says 401 to those who are not signed in: it does not tell what exists.
            self._refuse(404 if self._signed_in() else 401, "RepoNotFound")
            return None
        return found

    def _signed_in(self):
        return self.headers.get("Authorization") == f"Bearer {self.hub.token}"

    def _commit(self, dataset, revision):
        commit = dataset.branches.get(revision or "main", revision)
        if commit not in dataset.commits:
            self._refuse(404, "RevisionNotFound")
            return None
        return commit

    def _info(self, repo, revision):
        dataset = self._dataset(repo)
        commit = dataset and self._commit(dataset, revision)
        if commit:
            siblings = [{"rfilename": name} for name in dataset.commits[commit]]
            self._json(
                {"id": repo, "sha": commit, "private": dataset.private, "siblings": siblings, "tags": []}
            )

    def _tree(self, repo, revision):
        dataset = self._dataset(repo)
        commit = dataset and self._commit(dataset, revision)
        if not commit:
            return
        names = sorted(dataset.commits[commit])
        start = int(parse_qs(urlsplit(self.path).query).get("cursor", ["0"])[0])
        rows = [
            {"type": "file", "path": name, "oid": "0" * 40, "size": len(dataset.commits[commit][name])}
            for name in names[start : start + _PAGE_SIZE]
        ]
        following = f"{self.hub.address}/api/datasets/{repo}/tree/{revision}?recursive=True&cursor={start + _PAGE_SIZE}"
        more = {"Link": f'<{following}>; rel="next"'} if start + _PAGE_SIZE < len(names) else {}
        self._json(rows, more)

    def _resolve(self, repo, revision, name):
        dataset = self._dataset(repo)
        commit = dataset and self._commit(dataset, revision)
        if not commit:
            return None
        if dataset.gated and not self._signed_in():
            return self._refuse(401, "GatedRepo", {"X-Repo-Commit": commit})
        data = dataset.commits[commit].get(name)
        if data is None:
            return self._refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
        if name not in dataset.lfs:
            return self._bytes(data, headers)
        headers |= {
            "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
            "X-Linked-Size": str(len(data)),
            "Location": f"{self.hub.storage}/storage/{repo}/{commit}/{name}",
        }
        return self._send(302, b"", headers)

    def _storage(self, repo, commit, name):
        self._bytes(self.hub.datasets[repo].commits[commit][name], {"ETag": '"storage"'})

    def _bytes(self, data, headers):
        start = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted:
            start = int(wanted[1])
            headers = headers | {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        self._send(206 if wanted else 200, data[start:], headers | {"Accept-Ranges": "bytes"})

    def _json(self, document, headers=None):
        self._send(
            200, json.dumps(document).encode(), {"Content-Type": "application/json", **(headers or {})}
        )

    def _refuse(self, status, code, headers=None):
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})})

    def _send(self, status, data, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        is_file = "/resolve/" in self.path or "/storage/" in self.path
        cut = self.hub.cut if is_file else None
        if is_file and self.hub.pause:
            self.wfile.write(data[:100])
            self.hub.resumed.wait(self.hub.pause)
            self.close_connection = True
            return
        self.wfile.write(data[:cut])
        if cut is not None and cut < len(data):
            self.close_connection = True


@contextmanager
def serve_hub(hub: HubState) -> Iterator[HubState]:
    """Serve on a free port of loopback; ``address`` is its endpoint."""
    handler = type("Handler", (_HubHandler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_port}"
    hub.storage = f"http://localhost:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.resumed.set()
        server.shutdown()
        thread.join()
        server.server_close()
