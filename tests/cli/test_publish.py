"""``tiltyard publish``, as it is typed."""

import pytest

from support.command import run

BATTLES = "model_a,model_b,winner,question_id,voter\n" + "".join(
    f"{a},{b},{('model_a', 'model_b', 'tie')[k % 3]},q{k % 25},v{k % 12}\n"
    for k, (a, b) in enumerate([("ash", "birch"), ("birch", "cedar"), ("cedar", "ash")] * 40)
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "battles.csv").write_text(BATTLES)
    assert run("rate", "battles.csv", "--out", "my run", "--n-bootstraps", 2).code == 0
    return tmp_path


def test_it_says_what_was_verified_what_readers_see_and_where_it_is(folder):
    ran = run("publish", "my run", "site", "--title", "Trees")
    assert (ran.code, ran.err) == (
        0,
        "my-run: readers can see these fields of every battle: question_id, voter.\n",
    )
    first, last = ran.out.splitlines()
    assert first == "my-run: Verified: every number recomputed from the battles, equal to the last bit."
    assert last.startswith("Written to site: 1 run, 17 files, ")
    assert last.endswith("Open site/index.html")
    assert "<h1>Trees</h1>" in (folder / "site/index.html").read_text()
    assert run("verify", "site/my-run").code == 0
    again = run("publish", "my run", "my run", "site", "--url", "https://example.org")
    assert again.code == 0
    assert "site: 2 runs" in again.out


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing", "site"), "nothing has no manifest.json: it was not written by"),
        (("my run",), "Missing argument"),
        (("my run", "."), "contains files that `tiltyard publish` did not write"),
        (("my run", "my run/site"), "is inside the run"),
        (("my run", "battles.csv"), "battles.csv is a file; name a folder"),
        (("my run", "site", "--url", "example.org"), "expected an address such as https://example.org/board"),
    ],
)
def test_what_cannot_be_published_is_said(folder, arguments, said):
    ran = run("publish", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert not (folder / "site").exists()


def test_a_changed_run_is_not_published(folder):
    (folder / "my run" / "report.html").write_text("changed")
    ran = run("publish", "my run", "site")
    assert ran.code == 2
    assert "published: report.html: changed" in ran.err
    assert "Traceback" not in ran.err
    assert not (folder / "site").exists()


def test_voters_with_positions_are_warned_of(folder):
    head, *rows = BATTLES.splitlines()
    lines = [f"{head},position", *(f"{row},{number}" for number, row in enumerate(rows))]
    (folder / "exact.csv").write_text("\n".join(lines) + "\n")
    assert run("rate", "exact.csv", "--out", "exact", "--n-bootstraps", 2).code == 0
    assert "files by position." in run("publish", "exact", "site").err


def test_a_release_is_no_run(folder):
    (folder / "release").mkdir()
    (folder / "release" / "manifest.json").write_text('{"kind": "release"}')
    ran = run("publish", "release", "site")
    assert ran.code == 2
    assert "release" in ran.err
