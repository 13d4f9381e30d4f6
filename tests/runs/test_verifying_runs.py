"""Verifying a run folder: damage, forgery, and honest differences."""

import random
import shutil
from contextlib import suppress

import pytest

from support.run_folders import copied, edit_json, failed, is_refused, mixed, rehash, written
from support.sizes import sized
from support.special_files import SPECIAL, put_special, within_seconds
from tiltyard.core.battles import Battle, Outcome
from tiltyard.errors import BrokenArtifact
from tiltyard.files import open_battles, read_battles, write_battles
from tiltyard.files.parquet_tables import read_columns, write_columns
from tiltyard.runs import run_verification
from tiltyard.runs.battle_rating import RateSettings, rate_files
from tiltyard.runs.manifest import Platform, file_hash, hash_line, read_manifest, run_identity
from tiltyard.runs.run_folder import evaluated_models, render_report
from tiltyard.runs.run_verification import RunCheck, Verification, verify_run

SETTINGS = RateSettings(n_bootstraps=3, arena="Garden")
NAMES = [
    *("battles.jsonl", "battles.parquet", "bootstrap_ratings.parquet", "elo_ratings.json", "manifest.json"),
    *("manifest.sha256", "pairs.csv", "report.html", "board.csv", "board.md", "board.tex"),
    "figures/intervals.svg",
]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    run = written(tmp_path_factory.mktemp("original"), SETTINGS, mixed(90))
    assert verify_run(run).exact
    return run


@pytest.fixture
def run(original, tmp_path):
    return copied(original, tmp_path)


@pytest.mark.slow(but_every=17)
@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_regular_file_is_refused_at_once(run, name, kind):
    """A pipe in a folder from a stranger must not hold `verify` up, nor a device fill the memory."""
    put_special(kind, run / name)
    with within_seconds(20):
        if name == "manifest.json":
            with pytest.raises(BrokenArtifact, match=r"manifest\.json: (not a|Is a)"):
                verify_run(run)
            return
        result = verify_run(run)
    assert not result.passed
    if name != "manifest.sha256":
        details = {check.name: check.detail for check in reversed(result.checks)}
        assert "regular file" in details[name]


def test_a_link_to_a_regular_file_is_read(run):
    (run / "battles.parquet").rename(run.parent / "elsewhere")
    (run / "battles.parquet").symlink_to(run.parent / "elsewhere")
    assert verify_run(run).exact


def test_battles_on_lines_are_those_in_columns(run):
    lines = run / "battles.jsonl"
    assert list(read_battles(lines)) == list(read_battles(run / "battles.parquet"))
    rows = lines.read_bytes().splitlines(keepends=True)
    for forged in (rows[:-1], [*rows, rows[-1]], [rows[1], rows[0], *rows[2:]], [b"[]\n", *rows[1:]], []):
        lines.write_bytes(b"".join(forged))
        rehash(run)
        (check,) = [check for check in verify_run(run).checks if not check.passed]
        assert check.name == "battles.jsonl"
        assert check.detail.startswith("line ")


def test_a_folder_without_battles_on_lines_is_verified_too(run):
    """Tiltyard 0.1 wrote none, and many battles have none unless asked for."""
    (run / "battles.jsonl").unlink()
    assert set(failed(verify_run(run))) == {"battles.jsonl"}
    rehash(run)
    assert verify_run(run).exact


def test_the_identity_is_that_of_the_battles_and_settings(run):
    manifest = read_manifest(run)
    assert manifest.identity in (run / "report.html").read_text()
    assert manifest.identity == run_identity(SETTINGS, file_hash(run / "battles.parquet"))
    assert manifest.identity != run_identity(SETTINGS, "0" * 64)
    assert manifest.identity != run_identity(RateSettings(arena="Garden"), manifest.files["battles.parquet"])
    edit_json(run / "manifest.json", lambda document: document.update(identity="0" * 64))
    (run / "manifest.sha256").write_bytes(hash_line(run))
    assert failed(verify_run(run)) == ["identity"]


def test_numbers_of_the_board_may_differ_in_the_last_bit(run):
    board = run / "board.csv"
    rows = [line.split(",") for line in board.read_text().splitlines()]
    rows[1][2] = repr(float(rows[1][2]) + 1e-9)
    board.write_text("".join(f"{','.join(row)}\n" for row in rows))
    rehash(run)
    found = {check.name: check for check in verify_run(run).checks}["board.csv"]
    assert (found.passed, found.exact) == (True, False)
    rows[1][2] = repr(float(rows[1][2]) + 1.0)
    board.write_text("".join(f"{','.join(row)}\n" for row in rows))
    rehash(run)
    assert failed(verify_run(run)) == ["board.csv"]


def test_a_foreign_figure_is_noticed(run):
    (run / "figures" / "more.svg").write_text("<svg/>")
    assert failed(verify_run(run)) == ["figures/more.svg"]
    rehash(run)
    assert failed(verify_run(run)) == ["figures"]


def changed(data: bytes, place: int, by: int) -> bytes:
    return data[:place] + bytes([(data[place] + by) % 256]) + data[place + 1 :]


@pytest.fixture(scope="module")
def results(original):
    source = open_battles(original / "battles.parquet")
    groups = rate_files([source], SETTINGS, checks=True)
    return (
        groups,
        evaluated_models(source, SETTINGS),
        render_report(groups, SETTINGS, file_hash(original / "battles.parquet")),
    )


@pytest.fixture
def computed(results, monkeypatch):
    """What the battles give, computed once for all tests."""
    for name, result in zip(("rate_files", "evaluated_models", "render_report"), results, strict=True):
        monkeypatch.setattr(run_verification, name, lambda *_, result=result, **__: result)


def corruptions(data: bytes):
    rng = random.Random(4)
    for _ in range(sized(3, 50)):
        yield changed(data, rng.randrange(len(data)), rng.randrange(1, 256))


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "manifest.json"])
def test_one_changed_byte_is_noticed(name, run):
    data = (run / name).read_bytes()
    for damaged in corruptions(data):
        (run / name).write_bytes(damaged)
        assert is_refused(run)


def test_one_changed_byte_of_the_manifest_is_noticed(run):
    for damaged in corruptions((run / "manifest.json").read_bytes()):
        (run / "manifest.json").write_bytes(damaged)
        assert is_refused(run)


@pytest.mark.slow(but_every=7)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left", [0, 0.5, -1])
def test_a_truncated_file_is_noticed(name, left, run):
    data = (run / name).read_bytes()
    (run / name).write_bytes(data[: int(len(data) * left) if left >= 0 else left])
    assert is_refused(run)


@pytest.mark.slow(but_every=6)
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_noticed(name, run):
    (run / name).unlink()
    assert is_refused(run)


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if not name.startswith(("manifest", "battles.jsonl"))]
)
def test_a_missing_file_that_nobody_lists_is_noticed(name, run):
    (run / name).unlink()
    rehash(run)
    assert name.partition("/")[0] in failed(verify_run(run))


def test_a_file_that_the_manifest_does_not_list_is_noticed(run):
    edit_json(run / "manifest.json", lambda document: document["files"].pop("report.html"))
    (run / "manifest.sha256").write_bytes(hash_line(run))
    (check,) = [check for check in verify_run(run).checks if not check.passed]
    assert check.name == "report.html"
    assert "not list" in check.detail


def test_a_file_that_became_a_folder_is_noticed(run):
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    assert failed(verify_run(run)) == ["report.html", "report.html"]


@pytest.mark.parametrize(
    ("name", "listed"), [("notes.txt", False), ("elo_ratings (1).json", True), ("\x1b[31m.txt", True)]
)
def test_an_added_file_is_noticed(name, listed, run):
    (run / name).write_text("more")
    if listed:
        rehash(run)
    assert failed(verify_run(run)) == [name]


@pytest.mark.parametrize("name", ["../battles.jsonl", "/etc/hostname", "a\0b"])
def test_a_manifest_that_reaches_outside_is_refused(name, run):
    edit_json(run / "manifest.json", lambda manifest: manifest["files"].update({name: "0" * 64}))
    (run / "manifest.sha256").write_bytes(hash_line(run))
    assert failed(verify_run(run)) == [name]


def test_damaged_battles_are_not_computed_with(run, monkeypatch):
    monkeypatch.setattr(run_verification, "rate_files", lambda *_, **__: pytest.fail("was called"))
    (run / "battles.parquet").write_bytes(b"PAR1")
    assert failed(verify_run(run)) == ["battles.parquet"]


def ratings(change):
    return lambda run: edit_json(run / "elo_ratings.json", change)


def manifest(**fields):
    return lambda run: edit_json(run / "manifest.json", lambda document: document.update(fields))


def parameter(**fields):
    def change(document):
        document["parameters"].update(fields)

    return lambda run: edit_json(run / "manifest.json", change)


def entry(place, **fields):
    return ratings(lambda document: document["ratings"][place].update(fields))


def swapped(document):
    document["ratings"][:2] = document["ratings"][1::-1]


def nudged(field):
    def change(document):
        document["ratings"][2][field] += 0.01

    return ratings(change)


def text(name, old, new):
    def change(run):
        before = (run / name).read_text()
        assert old in before
        (run / name).write_text(before.replace(old, new, 1))

    return change


def csv_cell(run):
    lines = (run / "pairs.csv").read_text().split("\n")
    cells = lines[1].split(",")
    cells[3] = str(int(cells[3]) + 1)
    (run / "pairs.csv").write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]))


def csv_row(run):
    lines = (run / "pairs.csv").read_text().split("\n")
    (run / "pairs.csv").write_text("\n".join(lines[:3] + lines[4:]))


def replicate(change):
    def forge(run):
        columns = read_columns(run / "bootstrap_ratings.parquet")
        write_columns(run / "bootstrap_ratings.parquet", change(columns))

    return forge


def moved(columns):
    columns["rating"][5] += 0.5
    return columns


def battle(change):
    def forge(run):
        some = list(read_battles(run / "battles.parquet"))
        write_battles(run / "battles.parquet", change(some))

    return forge


def turned(some):
    first = next(k for k, one in enumerate(some) if one.winner is Outcome.MODEL_A)
    row = some[first].to_dict() | {"winner": "model_b"}
    return [*some[:first], Battle.from_dict(row), *some[first + 1 :]]


def hidden_twin(run):
    """The true list stands last, where Python reads it; a forged one stands first."""
    path = run / "elo_ratings.json"
    path.write_text(path.read_text().replace('"ratings": [', '"ratings": [],\n  "ratings": [', 1))


def extra_replicates(run):
    """A file that this method does not make, listed all the same."""
    manifest(n_bootstraps=0)(run)
    ratings(lambda document: document.update(n_bootstraps=0))(run)


FORGERIES = {
    "a rating": nudged("rating"),
    "an interval's end": nudged("ci_low"),
    "a bootstrap interval's end": nudged("bootstrap_high"),
    "a rank": entry(1, rank=1),
    "a rank range": entry(0, rank_low=1, rank_high=1),
    "a tier": entry(0, tier=2),
    "the order": ratings(swapped),
    "a name": entry(0, model="us"),
    "a record": entry(0, wins=99),
    "a number of battles": entry(0, n_battles=999),
    "who was evaluated": text("elo_ratings.json", '"source": "evaluated"', '"source": "human"'),
    "a missing model": ratings(lambda document: document["ratings"].pop()),
    "a dropped finding": ratings(lambda document: document["findings"].pop()),
    "what the interval speaks of": ratings(lambda document: document["interval"].update(scope="everything")),
    "a number turned to text": entry(0, rating="1600"),
    "how firm the first place is": ratings(lambda document: document["votes_to_flip"].update(votes=50)),
    "the fit": ratings(lambda document: document.update(dispersion=1.0)),
    "a parameter in the document": ratings(lambda document: document["parameters"].update(lean=0.9)),
    "a new field": ratings(lambda document: document.update(certified=True)),
    "a twin of a field": hidden_twin,
    "a pair's count": csv_cell,
    "a pair": csv_row,
    "a pair's score": text("pairs.csv", "0.5", "0.6"),
    "line ends": text("pairs.csv", "\n", "\r\n"),
    "a replicate": replicate(moved),
    "a missing replicate": replicate(lambda columns: {name: cells[1:] for name, cells in columns.items()}),
    "a replicate column": replicate(lambda columns: columns | {"note": ["x"] * len(columns["model"])}),
    "replicates that nobody asked for": extra_replicates,
    "an outcome": battle(turned),
    "a battle left out": battle(lambda some: some[:-1]),
    "a battle twice": battle(lambda some: [*some, some[0]]),
    "a prompt": battle(lambda some: [Battle.from_dict(one.to_dict() | {"question_id": "q"}) for one in some]),
    "who decided": battle(lambda some: [Battle.from_dict(one.to_dict() | {"source": "human"}) for one in some]),
    "the seed": parameter(seed=1),
    "the level": parameter(level=0.9),
    "the ties": parameter(ties="drop"),
    "the method": manifest(method="glicko-2", parameters={}, n_bootstraps=0),
    "the number of replicates": manifest(n_bootstraps=2),
    "the grouping": manifest(by="category"),
    "the style": manifest(style=["length"]),
    "the arena": manifest(arena="Another"),
    "the model under test": manifest(model="ember-8b"),
    "the evaluated list": manifest(evaluated=[]),
    "a number in the report": text("report.html", '<td class="n">1</td>', '<td class="n">0</td>'),
    "a sentence in the report": text("report.html", "<h1>Garden</h1>", "<h1>Garden</h1><p>Certified.</p>"),
    "a script in the report": text("report.html", "</main>", "<script src=//x.test></script></main>"),
}  # fmt: skip


@pytest.mark.slow(but_every=9)
@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_with_fitting_hashes_is_caught(forge, run):
    forge(run)
    rehash(run)
    result = verify_run(run)
    assert not result.passed
    assert "hash" not in " ".join(check.detail for check in result.checks if not check.passed)
    assert result.summary.startswith("NOT verified: ")


UNUSABLE = {
    "no such parameter": parameter(charm=1),
    "a level beyond all": parameter(level=7),
    "text for a number": parameter(lean="much"),
    "a fraction for a count": parameter(n_bootstraps=2.5),
    "a list for a flag": parameter(soft=[]),
    "a seed below zero": parameter(seed=-1, interval="bootstrap"),
    "a prior of nothing": parameter(prior_sd=1e-300),
    "a lean beyond all": parameter(lean=9),
    "no such kernel": parameter(kernel="abacus"),
    "no such method": manifest(method="astrology"),
    "no such group": manifest(by="colour"),
    "no such style": manifest(style=["charm"]),
    "no such schema": manifest(manifest_schema=2),
    "no such field": manifest(approved_by="us"),
    "a number for a list": manifest(style=3),
    "an impossible number of replicates": manifest(n_bootstraps=10**15),
    "a negative number of replicates": manifest(n_bootstraps=-5),
    "no object": lambda run: (run / "manifest.json").write_text("[]"),
    "no JSON": lambda run: (run / "manifest.json").write_text("{"),
    "no text": lambda run: (run / "manifest.json").write_bytes(b"\xff\xfe"),
    "deep": lambda run: (run / "manifest.json").write_text("[" * 10_000),
    "deep ratings": lambda run: (run / "elo_ratings.json").write_text("[" * 100_000),
    "no ratings": lambda run: (run / "elo_ratings.json").write_text("null"),
    "a table that is none": lambda run: (run / "bootstrap_ratings.parquet").write_bytes(b"PAR1PAR1"),
    "battles that are none": lambda run: (run / "battles.parquet").write_bytes(b"PAR1PAR1"),
    "other columns": lambda run: shutil.copy(run / "bootstrap_ratings.parquet", run / "battles.parquet"),
    "winrates that are no text": lambda run: (run / "pairs.csv").write_bytes(b"\xff"),
}  # fmt: skip


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("forge", UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_used_is_refused(forge, run):
    forge(run)
    with suppress(ValueError, TypeError, RecursionError):
        rehash(run)
    assert is_refused(run)


def drifted(by):
    def change(document):
        for row in document["ratings"]:
            row["rating"] += by

    return ratings(change)


def elsewhere(monkeypatch, **libraries):
    here = Platform.here()
    there = here.model_copy(update={"machine": "arm64", "libraries": here.libraries | libraries})
    monkeypatch.setattr(Platform, "here", lambda: there)


@pytest.mark.parametrize("other_versions", [False, True])
def test_the_last_bits_may_differ(other_versions, run, monkeypatch):
    if other_versions:
        elsewhere(monkeypatch, numpy="1.0", tiltyard="0.0.1")
    drifted(1e-9)(run)
    rehash(run)
    result = verify_run(run)
    assert result.passed
    assert not result.exact
    assert "within 1e-06" in result.summary
    (report,) = [
        check for check in result.checks if check.name == "report.html" and "hash" not in check.detail
    ]
    assert report.detail.startswith("not compared" if other_versions else "redrawn, equal")


@pytest.mark.parametrize("other_versions", [False, True])
def test_what_a_reader_could_see_may_not_differ(other_versions, run, monkeypatch):
    if other_versions:
        elsewhere(monkeypatch, numpy="1.0", tiltyard="0.0.1")
    drifted(1e-3)(run)
    rehash(run)
    assert failed(verify_run(run)) == ["elo_ratings.json"]


def test_the_same_bits_on_another_machine_are_equal(run, monkeypatch):
    elsewhere(monkeypatch)
    assert verify_run(run).exact


def test_another_kernel_is_no_forgery(run):
    ratings(lambda document: document.update(kernel="compiled"))(run)
    rehash(run)
    result = verify_run(run)
    assert (result.passed, result.exact) == (True, False)


def test_the_summary_counts_what_failed():
    checks = (RunCheck("a", True, ""), RunCheck("b", False, ""), RunCheck("c", False, ""))
    assert "2 of 3 checks" in Verification(checks).summary


def test_a_difference_is_named_with_its_place(run):
    entry(1, ci_high=2000.0)(run)
    rehash(run)
    (check,) = [check for check in verify_run(run).checks if not check.passed]
    assert "ratings[1].ci_high: 2000.0" in check.detail


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BrokenArtifact, match=r"no manifest\.json"):
            verify_run(folder)
    (tmp_path / "file").touch()
    with pytest.raises(BrokenArtifact, match="Not a directory"):
        verify_run(tmp_path / "file")


def test_a_library_that_is_not_there_has_no_version(monkeypatch):
    monkeypatch.setattr("tiltyard.runs.manifest._LIBRARIES", ("tiltyard", "no-such-library"))
    assert list(Platform.here().libraries) == ["tiltyard"]
