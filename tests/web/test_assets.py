"""The stylesheet, the icon and the bundle, as browsers get them."""

import gzip
import json
import socket
from hashlib import sha256

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tiltyard.web.assets import load_assets, read_assets, router
from tiltyard.web.edge.problem_details import add_problem_handlers

FOR_EVER = "public, max-age=31536000, immutable"


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def bundled(folder, **chunks):
    manifest = {"src/main.ts": {"file": "main-1.js", "isEntry": True}, **chunks}
    return write(folder, {"bundle/manifest.json": json.dumps(manifest), "bundle/main-1.js": "//main"})


@pytest.fixture
def client(monkeypatch, tmp_path):
    """A server of assets: a sheet that is worth packing and a bundle of one script."""
    write(tmp_path, {"styles/base.css": "a { color: red }\n" * 100})
    assets = read_assets(bundled(tmp_path))
    monkeypatch.setattr("tiltyard.web.assets.load_assets", lambda: assets)
    app = FastAPI(redirect_slashes=False)
    app.include_router(router)
    add_problem_handlers(app)
    with TestClient(app) as made:
        made.assets = assets
        yield made


def sheet(assets):
    return assets.found[assets.names["tiltyard.css"]].data.decode()


def test_sheets_are_joined_in_one_order_whatever_the_folder_says(tmp_path):
    names = ["zebra", "operator", "tokens", "vote", "ant", "model", "base", "text", "parts", "board"]
    assets = read_assets(write(tmp_path, {f"styles/{name}.css": f"{name}\n" for name in names}))
    assert sheet(assets).split() == [
        *("tokens", "base", "parts", "text", "vote", "board", "model"),
        *("ant", "operator", "zebra"),
    ]


def test_a_sheet_is_sent_without_what_only_people_need(tmp_path):
    css = """/* Why. */
@media (min-width: 48rem) and (hover: none) {
  a :hover::before, b { content: "↓ "; margin: calc(-1 * var(--gutter)) 0; }
}
"""
    assert sheet(read_assets(write(tmp_path, {"styles/base.css": css}))) == (
        '@media (min-width:48rem) and (hover:none){a :hover::before,b{content:"↓ ";margin:calc(-1 * var(--gutter)) 0}}'
    )


def test_other_files_are_no_sheets(tmp_path):
    assert sheet(read_assets(write(tmp_path, {"styles/notes.txt": "x", "styles/base.css": "b"}))) == "b"


def test_without_styles_and_without_a_bundle_there_is_still_a_sheet(tmp_path):
    assets = read_assets(tmp_path)
    assert (sheet(assets), assets.script()) == ("", None)
    assert set(assets.found) == set(assets.names.values())


def test_a_name_changes_with_what_is_inside(tmp_path):
    one = read_assets(write(tmp_path / "one", {"styles/base.css": "a{}"}))
    two = read_assets(write(tmp_path / "two", {"styles/base.css": "b{}"}))
    again = read_assets(write(tmp_path / "again", {"styles/base.css": "a{}"}))
    assert one.url("tiltyard.css") == f"/assets/tiltyard-{sha256(b'a{}').hexdigest()[:12]}.css"
    assert one.url("tiltyard.css") == again.url("tiltyard.css") != two.url("tiltyard.css")
    assert one.url("favicon.svg") == two.url("favicon.svg")


def test_only_what_the_manifest_names_is_served(tmp_path):
    chunk = {"file": "x-1.js", "css": ["x-2.css"], "assets": ["x-3.woff2"], "imports": ["src/main.ts"]}
    extra = {"x-1.js": "x", "x-2.css": "x", "x-3.woff2": "x", "x-4.js": "x", "sources.sha256": "x"}
    write(tmp_path, {f"bundle/{name}": text for name, text in extra.items()})
    assets = read_assets(bundled(tmp_path, **{"src/islands/x.ts": chunk}))
    assert assets.script() == "/assets/main-1.js"
    own = set(assets.names.values())
    assert set(assets.found) - own == {"main-1.js", "x-1.js", "x-2.css", "x-3.woff2"}


def test_a_file_may_be_kept_for_ever(client):
    answer = client.get(client.assets.url("tiltyard.css"), headers={"accept-encoding": "identity"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.headers["cache-control"] == FOR_EVER
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in answer.headers
    assert answer.text == sheet(client.assets)


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("deflate,gzip ; q=0.001", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("identity", False),
        ("*;q=0", False),
        ("xgzip", False),
        ("", False),
        (";;,,q=", False),
    ],
)
def test_a_file_is_packed_for_those_who_can_unpack_it(client, accepted, packed):
    url = client.assets.url("tiltyard.css")
    with client.stream("GET", url, headers={"accept-encoding": accepted}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == ("gzip" if packed else None)
    assert int(answer.headers["content-length"]) == len(raw)
    assert (gzip.decompress(raw) if packed else raw).decode() == sheet(client.assets)


def test_what_is_small_is_sent_as_it_is(client):
    answer = client.get(client.assets.script(), headers={"accept-encoding": "gzip"})
    assert (answer.text, answer.headers["content-type"]) == ("//main", "text/javascript; charset=utf-8")
    assert not {"content-encoding", "vary"} & set(answer.headers)


def test_the_head_alone_can_be_asked_for(client):
    answer = client.head(client.assets.url("tiltyard.css"))
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["cache-control"] == FOR_EVER


def test_the_icon_is_there_for_those_who_have_read_no_page(client):
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.headers["cache-control"] == "public, max-age=86400"
    assert answer.content == client.get(client.assets.url("favicon.svg")).content


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tiltyard.css",
        "tiltyard-000000000000.css",
        "manifest.json",
        "sources.sha256",
        "bundle/main-1.js",
        "../assets.py",
        "..%2fassets.py",
        "%2e%2e/app.py",
        "..%5c..%5capp.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "main-1.js%00",
        "main-1.js/",
        "MAIN-1.js",
        "__class__",
        "x" * 5000,
    ],
)
def test_nothing_else_is_served(client, path):
    answer = client.get(f"/assets/{path}")
    assert answer.status_code == 404
    assert answer.headers.get("cache-control") != FOR_EVER


@pytest.mark.parametrize(
    "path",
    ["/assets/../../../../etc/passwd", "/assets/..%2f..%2fassets.py", "/assets//etc/passwd", "/assets/"],
)
def test_a_path_that_no_client_has_tidied_leads_nowhere(shared, path):
    host, _, port = shared.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as plug:
        plug.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: plug.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_the_real_app_serves_them(shared):
    answer = shared.client().get(load_assets().url("tiltyard.css"))
    assert (answer.status_code, answer.headers["cache-control"]) == (200, FOR_EVER)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert "/assets/{name}" not in shared.client().get("/api/v1/openapi.json").json()["paths"]


def test_the_packages_own_are_read_once():
    assert load_assets() is load_assets()
    assert load_assets().url("favicon.svg").startswith("/assets/favicon-")
