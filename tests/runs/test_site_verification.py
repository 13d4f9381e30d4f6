"""Published sites: every byte that readers see is checked, on disk and over HTTP."""

import json
import random
import shutil
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import pytest

from support.run_folders import failed, mixed, rehash, written
from support.sizes import sized
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption, BrokenArtifact, TiltyardError
from tiltyard.runs import site_folder, site_verification
from tiltyard.runs.battle_rating import RateSettings
from tiltyard.runs.manifest import file_hash
from tiltyard.runs.site_folder import SITE_INDEX, publish_site
from tiltyard.runs.site_verification import verify


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A site of two runs, one of them with the name of the folder that `tiltyard run` writes."""
    place = tmp_path_factory.mktemp("site")
    runs = []
    for name, size in (("run", 60), ("code", 40)):
        (place / name).mkdir()
        settings = RateSettings(BradleyTerry(), arena=f"Garden of {name}")
        runs.append(written(place / name, settings, mixed(size)).rename(place / name / name))
    publish_site(runs, place / "site", url="https://example.org/b")
    assert verify(place / "site").exact
    return place / "site"


@pytest.fixture
def site(original, tmp_path):
    return shutil.copytree(original, tmp_path / "site")


def is_found(site):
    try:
        return not verify(site).passed
    except TiltyardError:
        return True


def index_again(site):
    """The index with hashes that fit the files, as a forger would write it."""
    document = json.loads((site / SITE_INDEX).read_text())
    paths = [path for path in site.rglob("*") if path.is_file() and path.name != SITE_INDEX]
    document["files"] = {path.relative_to(site).as_posix(): file_hash(path) for path in sorted(paths)}
    for entry in document["runs"]:
        entry["archive_sha256"] = document["files"].get(f"{entry['name']}.zip", "")
        entry["manifest_sha256"] = document["files"].get(f"{entry['name']}/manifest.json", "")
    (site / SITE_INDEX).write_text(json.dumps(document, indent=2) + "\n")


def test_one_changed_byte_is_found(original, site, monkeypatch):
    """Where a file's own hash tells, what follows is not computed again: the test would take minutes."""
    listed = json.loads((original / SITE_INDEX).read_text())["files"]
    monkeypatch.setattr(site_verification, "_run_checks", lambda *_: iter(()))
    rng = random.Random(7)
    for _ in range(sized(40, 200)):
        path = site / rng.choice([*sorted(listed), SITE_INDEX])
        data = path.read_bytes()
        place = rng.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ rng.randrange(1, 256)]) + data[place + 1 :])
        assert is_found(site), (path, place)
        path.write_bytes(data)
    assert verify(site).passed


def edited(name, old, new):
    def forge(site):
        text = (site / name).read_text()
        assert old in text
        (site / name).write_text(text.replace(old, new, 1))

    return forge


def first_model(site):
    return json.loads((site / "run/elo_ratings.json").read_text())["ratings"][0]["model"]


def renamed_leader(name):
    def forge(site):
        edited(name, first_model(site), "my-own-model")(site)

    return forge


def written_over(name, data):
    return lambda site: (site / name).write_bytes(data)


def swapped(one, other):
    def forge(site):
        first, second = (site / one).read_bytes(), (site / other).read_bytes()
        (site / one).write_bytes(second)
        (site / other).write_bytes(first)

    return forge


def archive(change):
    """An archive that is read, and holds something else."""

    def forge(site):
        with zipfile.ZipFile(site / "run.zip") as given:
            members = {name: given.read(name) for name in given.namelist()}
        change(members)
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
            for name, data in members.items():
                made.writestr(name, data)
        (site / "run.zip").write_bytes(packed.getvalue())

    return forge


def changed_run(change):
    """A run whose own hashes fit."""

    def forge(site):
        change(site / "run")
        rehash(site / "run")

    return forge


def wins_more(run):
    text = (run / "elo_ratings.json").read_text()
    (run / "elo_ratings.json").write_text(text.replace('"wins": ', '"wins": 1', 1))


def indexed(change):
    def forge(site):
        document = json.loads((site / SITE_INDEX).read_text())
        change(document)
        (site / SITE_INDEX).write_text(json.dumps(document, indent=2) + "\n")

    return forge


def without(name):
    def forge(site):
        path = site / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return forge


FORGERIES = {
    "a name on the page": renamed_leader("index.html"),
    "a name on a card": renamed_leader("cards/run.svg"),
    "a title": edited("index.html", "Garden of run", "Garden of my own"),
    "a hash on the page": edited("index.html", "SHA-256 of the manifest: <code>", "SHA-256: <code>0"),
    "a command on the page": edited(
        "index.html", "curl -LO https://example.org", "curl -LO https://elsewhere.org"
    ),
    "a script on the page": edited("index.html", "</body>", "<script src=x.js></script></body>"),
    "words on a badge": edited("badges/run.svg", "settled", "SETTLED"),
    "a badge of another run": swapped("badges/run.svg", "badges/code.svg"),
    "a card of another run": swapped("cards/run.svg", "cards/code.svg"),
    "runs exchanged": swapped("run.zip", "code.zip"),
    "an archive of junk": written_over("run.zip", b"junk"),
    "an empty archive": written_over("run.zip", b""),
    "an archive with another file": archive(lambda members: members.update({"run/install.sh": b"rm -rf /"})),
    "an archive without a file": archive(lambda members: members.pop("run/battles.parquet")),
    "an archive with other numbers": archive(lambda members: members.update({"run/elo_ratings.json": b"{}"})),
    "an archive packed again": archive(dict),
    "a picture": written_over("cards/run.png", b"\x89PNG"),
    "another file": written_over("x.js", b"alert(1)"),
    "another page": written_over("run/index.html", b"<h1>First</h1>"),
    "no page": without("index.html"),
    "no badge": without("badges/code.svg"),
    "no archive": without("code.zip"),
    "a run left out": without("code"),
    "numbers of a run": changed_run(wins_more),
    "a report": changed_run(edited("report.html", "Garden", "Gardens")),
    "battles left out": changed_run(lambda run: (run / "battles.jsonl").write_text("")),
}
INDEX_FORGERIES = {
    "a title": lambda document: document.update(title="Mine"),
    "an address": lambda document: document.update(url="https://elsewhere.org"),
    "a run's title": lambda document: document["runs"][0].update(title="Mine"),
    "never recomputed": lambda document: document["runs"][0].update(recomputed=False),
    "one run": lambda document: document["runs"].pop(),
    "no runs": lambda document: document.update(runs=[]),
    "a run twice": lambda document: document["runs"].append(document["runs"][0]),
    "another order": lambda document: document["runs"].reverse(),
    "a run elsewhere": lambda document: document["runs"][0].update(name="../site/run"),
    "a file elsewhere": lambda document: document["files"].update({"../x": "0" * 64}),
    "another field": lambda document: document.update(verified=True),
}


@pytest.mark.slow(but_every=6)
@pytest.mark.parametrize("fitting", [False, True])
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(name, fitting, site):
    FORGERIES[name](site)
    if fitting:
        index_again(site)
    assert is_found(site)


@pytest.mark.slow(but_every=4)
@pytest.mark.parametrize("name", INDEX_FORGERIES)
def test_a_forged_index_is_found(name, site):
    indexed(INDEX_FORGERIES[name])(site)
    assert is_found(site)


def test_what_failed_is_named(site):
    renamed_leader("index.html")(site)
    assert failed(verify(site)) == ["index.html"]
    index_again(site)
    assert failed(verify(site)) == ["index.html", SITE_INDEX]
    changed_run(wins_more)(site)
    index_again(site)
    assert "run/elo_ratings.json" in failed(verify(site))


def test_a_site_without_its_index_is_not_taken_for_the_run_in_it(site):
    (site / SITE_INDEX).unlink()
    with pytest.raises(BrokenArtifact, match=r"manifest\.json"):
        verify(site)
    (site / SITE_INDEX).write_text("{}")
    with pytest.raises(BrokenArtifact, match=r"site\.json"):
        verify(site)


def test_what_other_versions_drew_is_said_to_be_unchecked(site):
    indexed(lambda document: document["drawn_with"].update(altair="1.0"))(site)
    found = verify(site)
    assert found.passed
    assert not found.exact
    assert "altair 1.0" in found.summary.partition("NOT checked")[2]


def test_numbers_of_large_runs_are_said_to_be_unchecked(site, tmp_path, monkeypatch):
    monkeypatch.setattr(site_folder, "MAX_RECOMPUTED_BATTLES", 10)
    publish_site([site / "run"], tmp_path / "large")
    found = verify(tmp_path / "large")
    assert "numbers of run" in found.summary.partition("NOT checked")[2]


@pytest.fixture
def served(site):
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_site_is_verified_over_http(site, served):
    found = verify(served)
    assert found.exact
    assert [check.name for check in found.checks] == ["/", "files", "run", "code", "index.html"]
    assert verify(f"{served}/run/").exact
    (site / "index.htm").write_text("")
    renamed_leader(
        "badges/run.svg" if first_model(site) in (site / "badges/run.svg").read_text() else "index.html"
    )(site)
    index_again(site)
    assert not verify(served).passed


def test_what_an_address_shows_is_what_is_verified(site, served, monkeypatch):
    fetch = site_verification.fetch_web_file
    other = f"{served}/site.json"
    monkeypatch.setattr(
        site_verification, "fetch_web_file", lambda text: fetch(other if text.endswith("/") else text)
    )
    assert failed(verify(served)) == ["/"]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a\\b", "a/../../b", ""])
def test_a_site_that_reaches_outside_is_refused(name, site, served):
    indexed(lambda document: document["files"].update({name: "0" * 64}))(site)
    with pytest.raises(BrokenArtifact, match="outside"):
        verify(served)


def test_addresses_without_a_site_are_refused(served):
    with pytest.raises(TiltyardError, match=r"nowhere/site\.json"):
        verify(f"{served}/nowhere")
    for address in (f"{served}/?a=b", "hf://datasets/a/b"):
        with pytest.raises(BadOption, match="https://"):
            verify(address)
