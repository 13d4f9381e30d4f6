"""Sites of run folders: complete or not at all, the same bytes for the same runs, and verifiable by strangers."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from support.judged_runs import made_run
from support.judged_runs import written as judged_written
from support.run_folders import mixed, rehash
from tiltyard.core.ratings import BradleyTerry, Glicko2
from tiltyard.errors import BadOption, BrokenArtifact
from tiltyard.files import open_battles, write_battles
from tiltyard.runs import site_folder
from tiltyard.runs.battle_rating import RateSettings
from tiltyard.runs.manifest import MANIFEST, file_hash
from tiltyard.runs.run_folder import write_run
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.site_folder import SITE_INDEX, publish_site
from tiltyard.runs.site_verification import verify
from tiltyard.simulation.demo.demo_roster import demo_battles

SETTINGS = {
    "plain": RateSettings(arena="Garden", n_bootstraps=3),
    "by": RateSettings(by="category"),
    "glicko": RateSettings(Glicko2(kernel="plain")),
    "bare": RateSettings(BradleyTerry(interval="none")),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("runs")
    write_battles(place / "battles.jsonl", mixed())
    for name, settings in SETTINGS.items():
        write_run(place / name, [open_battles(place / "battles.jsonl")], settings)
    judged = judged_written(tmp_path_factory.mktemp("judged"), made_run(prompts=6))
    shutil.copytree(judged, place / "tournament")
    return {path.name: path for path in place.iterdir() if path.is_dir()}


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_stranger_verifies_the_copy_and_the_archive(folders, tmp_path):
    made = publish_site([folders["plain"]], tmp_path / "site")
    assert content(tmp_path / "site" / "plain") == content(folders["plain"])
    with zipfile.ZipFile(tmp_path / "site" / "plain.zip") as archive:
        archive.extractall(tmp_path / "downloaded")
    assert content(tmp_path / "downloaded") == {
        f"plain/{name}": data for name, data in content(folders["plain"]).items()
    }
    assert verify_run(tmp_path / "downloaded" / "plain").exact
    (one,) = made.runs
    assert one.run.manifest_sha256 == file_hash(folders["plain"] / MANIFEST)
    assert one.verified.startswith("Verified: ")
    assert {"voter", "time", "turn", "mood"} <= set(one.fields.battle_fields)
    assert made.files == len(content(tmp_path / "site"))
    page = (tmp_path / "site" / "index.html").read_text()
    assert "<h1>Garden</h1>" in page
    assert one.run.manifest_sha256 in page


def test_many_kinds_of_runs_stand_side_by_side(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("tiltyard.report.site_boards.charts_available", lambda: True)
    made = publish_site(list(folders.values()), tmp_path / "site", title="All", url="https://example.org/a/")
    by_name = {one.run.name: one for one in made.runs}
    assert set(by_name) == set(folders)
    for name in folders:
        assert verify_run(tmp_path / "site" / name, recompute=False).passed
        for picture in (f"badges/{name}.svg", f"cards/{name}.svg", f"cards/{name}.png"):
            assert (tmp_path / "site" / picture).stat().st_size
    assert len(by_name["by"].run.boards) > 1
    assert by_name["tournament"].fields.texts
    assert by_name["tournament"].run.prompts == 6
    assert by_name["glicko"].run.boards[0].level is None
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.count('<section class="run"') == len(folders)
    first = made.runs[0].run.name
    assert f'content="https://example.org/a/cards/{first}.png"' in page
    assert "curl -LO https://example.org/a/plain.zip" in page
    assert "<h1>All</h1>" in page


def test_the_same_runs_make_the_same_bytes(folders, tmp_path):
    runs = [folders["plain"], folders["bare"]]
    for name in ("one", "other"):
        publish_site(runs, tmp_path / name, url="https://example.org")
    assert content(tmp_path / "one") == content(tmp_path / "other")
    assert (
        len(content(tmp_path / "one"))
        == len(json.loads((tmp_path / "one" / SITE_INDEX).read_text())["files"]) + 1
    )


def test_names_become_addresses_and_equal_ones_are_numbered(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(site_folder, "MAX_RECOMPUTED_BATTLES", 0)
    names = ["Ünï code & <b>", "uni.code.b", "badges", "…", "x" * 200, "plain"]
    places = []
    for k, name in enumerate(names):
        places.append(tmp_path / str(k) / name)
        shutil.copytree(folders["bare"], places[-1])
    made = publish_site([*places, folders["plain"]], tmp_path / "site")
    assert [one.run.name for one in made.runs] == [
        *("uni-code-b", "uni-code-b-2", "badges-2", "run", "x" * 60, "plain", "plain-2")
    ]


def test_the_folder_around_a_run_stands_for_it(folders, tmp_path):
    shutil.copytree(folders["tournament"], tmp_path / "ab-123" / "run")
    (tmp_path / "ab-123" / "tournament.yaml").touch()
    made = publish_site([tmp_path / "ab-123"], tmp_path / "site")
    assert made.runs[0].run.name == "ab-123"
    assert not (tmp_path / "site" / "ab-123" / "tournament.yaml").exists()


class TestRefused:
    def changed(self, folders, tmp_path, change):
        run = tmp_path / "run"
        shutil.copytree(folders["bare"], run)
        change(run)
        with pytest.raises(BrokenArtifact) as refused:
            publish_site([folders["plain"], run], tmp_path / "site")
        assert [path.name for path in tmp_path.iterdir()] == ["run"]
        return str(refused.value)

    def test_a_changed_run(self, folders, tmp_path):
        def change(run):
            path = run / "elo_ratings.json"
            path.write_text(path.read_text().replace('"wins": ', '"wins": 1'))

        said = self.changed(folders, tmp_path, change)
        assert "elo_ratings.json: changed" in said

    def test_a_run_whose_hashes_fit_but_whose_numbers_do_not(self, folders, tmp_path):
        def change(run):
            path, manifest = run / "elo_ratings.json", run / MANIFEST
            before = file_hash(path)
            path.write_text(path.read_text().replace('"wins": ', '"wins": 1', 1))
            manifest.write_text(manifest.read_text().replace(before, file_hash(path)))
            (run / "manifest.sha256").write_text(f"{file_hash(manifest)}  {MANIFEST}\n")

        assert "ratings[0].wins" in self.changed(folders, tmp_path, change)

    def test_a_run_with_another_file(self, folders, tmp_path):
        said = self.changed(folders, tmp_path, lambda run: (run / "notes.txt").touch())
        assert "notes.txt: " in said

    def test_a_folder_that_is_no_run(self, folders, tmp_path):
        said = self.changed(folders, tmp_path, lambda run: (run / MANIFEST).unlink())
        assert "manifest.json" in said

    def test_a_folder_with_other_files(self, folders, tmp_path):
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "letter.txt").write_text("dear")
        with pytest.raises(BadOption, match=r"letter\.txt"):
            publish_site([folders["bare"]], tmp_path / "site")
        assert content(tmp_path / "site") == {"letter.txt": b"dear"}

    def test_a_site_to_which_somebody_added_a_file(self, folders, tmp_path):
        publish_site([folders["bare"]], tmp_path / "site")
        publish_site([folders["by"]], tmp_path / "site")
        assert (tmp_path / "site" / "by").is_dir()
        assert not (tmp_path / "site" / "bare").exists()
        (tmp_path / "site" / "CNAME").write_text("example.org")
        with pytest.raises(BadOption, match="CNAME"):
            publish_site([folders["bare"]], tmp_path / "site")
        assert (tmp_path / "site" / "by").is_dir()

    @pytest.mark.parametrize("text", ["", "{}", '{"schema": "other", "files": []}', "\x00"])
    def test_a_folder_with_another_index(self, folders, tmp_path, text):
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / SITE_INDEX).write_text(text)
        with pytest.raises(BadOption, match=r"site\.json"):
            publish_site([folders["bare"]], tmp_path / "site")

    def test_a_place_inside_a_run_or_on_a_file(self, folders, tmp_path):
        with pytest.raises(BadOption, match="inside"):
            publish_site([folders["bare"]], folders["bare"] / "site")
        (tmp_path / "file").touch()
        with pytest.raises(BadOption, match="a file"):
            publish_site([folders["bare"]], tmp_path / "file")
        with pytest.raises(BadOption, match="cannot write"):
            publish_site([folders["bare"]], tmp_path / "file" / "site")

    @pytest.mark.parametrize(
        "url",
        ["example.org", "ftp://example.org", "https://", "https://a/?x", "https://a/'; rm", "https://a b"],
    )
    def test_an_address_that_is_none(self, folders, tmp_path, url):
        with pytest.raises(BadOption, match="https"):
            publish_site([folders["bare"]], tmp_path / "site", url=url)

    def test_a_failure_midway_leaves_the_earlier_site(self, folders, tmp_path, monkeypatch):
        publish_site([folders["bare"]], tmp_path / "site")
        before = content(tmp_path)
        monkeypatch.setattr(site_folder, "render_site_page", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            publish_site([folders["by"]], tmp_path / "site")
        assert content(tmp_path) == before


def test_a_large_run_is_published_by_its_hashes(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(site_folder, "MAX_RECOMPUTED_BATTLES", 10)
    made = publish_site([folders["bare"]], tmp_path / "site")
    assert made.runs[0].verified.startswith("Only hashes")
    assert not made.runs[0].run.recomputed
    index = json.loads((tmp_path / "site" / SITE_INDEX).read_text())
    assert index["runs"][0]["recomputed"] is False


def test_only_fields_that_have_a_value_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(site_folder, "MAX_RECOMPUTED_BATTLES", 0)
    # Of a log of several chunks every known column is copied, used or not.
    monkeypatch.setattr("tiltyard.files.battle_tables._CHUNK_BATTLES", 50)
    write_battles(tmp_path / "battles.jsonl", demo_battles(200))
    write_run(tmp_path / "run", [open_battles(tmp_path / "battles.jsonl")], SETTINGS["bare"])
    assert {"pref", "judge_model"} <= set(open_battles(tmp_path / "run/battles.parquet").stored)
    (one,) = publish_site([tmp_path / "run"], tmp_path / "site").runs
    assert one.fields.battle_fields == (
        *("question_id", "category", "language", "voter", "time", "position", "length_a", "length_b"),
    )


class TestHistory:
    @pytest.fixture
    def nights(self, tmp_path) -> list[Path]:
        """One arena on three nights, written in any order, and another one."""
        places = []
        for arena, size, night in (("Garden", 80, 2), ("Garden", 60, 1), ("Moor", 60, 1), ("Garden", 90, 3)):
            place = tmp_path / f"{arena}-{night}"
            place.mkdir()
            write_battles(place / "battles.jsonl", mixed(size))
            write_run(place / "run", [open_battles(place / "battles.jsonl")], RateSettings(arena=arena))
            manifest = place / "run" / MANIFEST
            document = json.loads(manifest.read_text())
            manifest.write_text(json.dumps(document | {"created_at": f"2026-11-0{night}T03:00:00+00:00"}))
            rehash(place / "run")
            places.append(place / "run")
        return places

    def test_runs_of_one_arena_are_its_history(self, nights, tmp_path):
        publish_site(nights, tmp_path / "site")
        page = (tmp_path / "site" / "index.html").read_text()
        assert page.count('"run" id=') == 2
        history = page.split("<h3>History</h3>")[1].split("</table>")[0]
        dates = re.findall(r'<a href="([^"]*)/report.html">(2026-11-0\d)', history)
        assert dates == [("run-4", "2026-11-03"), ("run", "2026-11-02"), ("run-2", "2026-11-01")]
        assert re.findall(r">(\d+)</td>", history) == ["90", "80", "60"]
        assert verify(tmp_path / "site").exact

    def test_one_is_added_each_night(self, nights, tmp_path):
        site = tmp_path / "site"
        publish_site([nights[1]], site, title="Nights", url="https://example.org")
        for _ in range(2):
            publish_site([nights[0]], site, add=True)
        index = json.loads((site / SITE_INDEX).read_text())
        assert [run["name"] for run in index["runs"]] == ["run", "run-2"]
        assert (index["title"], index["url"]) == ("Nights", "https://example.org")
        assert content(site / "run") == content(nights[1])
        assert verify(site).exact
        (site / "run" / "report.html").write_text("changed")
        with pytest.raises(BrokenArtifact, match=r"report\.html"):
            publish_site([nights[3]], site, add=True)
        assert (site / "run-2").is_dir()
