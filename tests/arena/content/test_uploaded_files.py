"""Uploads of every format, and archives with images beside the answers, hostile ones too."""

import io
import json
import os
import warnings
import zipfile
from pathlib import Path

import pytest

from support.media_files import png
from tiltyard.arena.content.answer_rows import BadRow, CheckedAnswer
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.stored_conversations import read_conversation, unshown_files
from tiltyard.arena.content.upload_review import read_uploaded_file
from tiltyard.files import upload_process, upload_reader
from tiltyard.files.answer_formats.answer_columns import ColumnChoice
from tiltyard.files.upload_reader import UploadReader

MOST = 1 << 24
FIXTURES = Path(__file__).parents[2] / "files" / "fixtures" / "answers"


@pytest.fixture
def in_this_process(monkeypatch):
    """Without a process for each file: most tests are about what is in it."""
    monkeypatch.setattr("tiltyard.arena.content.upload_review.rows_from_process", UploadReader.rows)


def row(**changed):
    return {"prompt_id": "p", "prompt": "?", "model": "m", "response": "r"} | changed


def lines(*rows):
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


def zipped(files, compression=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def read(data, name="answers.jsonl", most=MOST):
    return read_uploaded_file(name, data, most=most)


def problems(found):
    return [one.problem for one in found.rows if isinstance(one, BadRow)]


def test_our_own_file_fails_row_by_row():
    found = read(lines(row(), {"prompt_id": "q"}, row(prompt_id="r")))
    assert found.format == "tiltyard"
    assert [type(one) for one in found.rows] == [CheckedAnswer, BadRow, CheckedAnswer]


def test_conversations_come_with_their_turns():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Why?"},
    ]
    (one,) = read(lines({"prompt_id": "p", "model": "m", "messages": messages, "response": "So."})).rows
    assert one.text == "Why?"
    assert all(said in one.shown_text(1000) for said in ("Hello!", "So."))


@pytest.mark.parametrize(
    "path", sorted(one for one in FIXTURES.glob("*") if one.is_file()), ids=lambda path: path.name
)
def test_every_format_of_tournaments_is_read_or_says_why_not(path):
    found = read(path.read_bytes(), path.name)
    assert found.rows or found.left_out or bool(found.columns and found.columns.asks)
    for one in problems(found):
        assert "/tmp" not in one
        assert one


def test_a_table_with_a_column_for_each_model():
    found = read(b"prompt,oak-1,elm-2\nWhy?,because,so\n", "table.csv")
    assert (found.format, problems(found), bool(found.columns and found.columns.asks)) == ("table", [], True)
    assert {(one.model, one.text, one.data) for one in found.rows} == {
        ("oak-1", "Why?", b"because"),
        ("elm-2", "Why?", b"so"),
    }


def test_an_archive_brings_its_images():
    picture = png()
    files = {
        "data/answers.jsonl": lines(row(kind="image", response="images/a.png"), row(prompt_id="q")),
        "data/images/a.png": picture,
        "__MACOSX/data/._answers.jsonl": b"x",
        "data/.DS_Store": b"x",
    }
    found = read(zipped(files), "set.zip")
    assert (found.format, problems(found)) == ("zip", [])
    assert (found.rows[0].media_type, found.rows[0].kind) == ("image/png", "image")


def test_an_archive_brings_the_images_of_messages():
    user = {"role": "user", "content": [{"type": "text", "text": "What is it?"}]}
    names = ("a.png", "none.png", "../../a.png", "https://images.example/a.png", "notes.txt")
    user["content"] += [{"type": "image", "url": name} for name in names]
    asked = {"prompt_id": "p", "messages": [user], "response": "A tree."}
    files = {
        "answers.jsonl": lines(asked | {"model": "m"}, asked | {"model": "n"}),
        "a.png": png(),
        "notes.txt": b"x",
    }
    found = read(zipped(files), "set.zip")
    assert problems(found) == []
    for one in found.rows:
        stored = read_conversation(ResponseContent(one.media_type, one.data))
        assert len(stored.images) == 1
        assert unshown_files(stored.context.messages[0]) == (("linked", 1), ("unreadable", 1), ("missing", 2))
        assert "images.example" not in one.data.decode()
    (alone,) = read(lines(asked | {"model": "m"})).rows
    assert b"sha256:" not in alone.data, "a file alone names no others"


def test_one_file_that_many_rows_name_is_not_read_without_end():
    rows = [row(prompt_id=str(k), kind="image", response="a.png") for k in range(50)]
    files = {"answers.jsonl": lines(*rows), "a.png": png()}
    found = read(zipped(files), "set.zip", most=20 * len(png()))
    assert "their files; split" in problems(found)[-1]
    assert found.rows[-1].last
    assert len(found.rows) == 21


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.png": b"x"}, "there are: none"),
        ({"a.jsonl": b"{}", "b.jsonl": b"{}"}, "there are: 'a.jsonl', 'b.jsonl'"),
        ({"answers.jsonl": lines(row(kind="image", response="../x.png"))}, "cannot be read"),
        ({"answers.jsonl": lines(row(kind="image", response="/etc/passwd"))}, "outside"),
        ({"answers.jsonl": lines(row(kind="image", response="none.png"))}, "cannot be read"),
        ({"answers.jsonl": lines(row()), "../evil": b"x"}, "no name of a file"),
        ({"answers.jsonl": lines(row()), "/etc/evil": b"x"}, "no name of a file"),
        ({"answers.jsonl": lines(row()), "a\\b": b"x"}, "no name of a file"),
        ({"answers.jsonl": lines(row()), "a": b"x", "a/b": b"x"}, "cannot be unpacked"),
        ({"answers.jsonl": lines(row()), "x" * 300: b"x"}, "cannot be unpacked"),
        ({"answers.jsonl": lines(row()), "big": b"0" * (MOST + 1)}, "expands to more than"),
    ],
)
def test_a_hostile_archive_is_one_error(files, told, in_this_process):
    found = read(zipped(files), "set.zip")
    assert told in " ".join(problems(found))
    assert not any(isinstance(one, CheckedAnswer) for one in found.rows)


def test_an_archive_that_lies_about_its_sizes_or_is_broken_is_refused(in_this_process):
    data = zipped({"answers.jsonl": lines(row())}, zipfile.ZIP_STORED)
    for broken in (data[:40], data.replace(b'"r"', b'"x"'), b"PK\x03\x04" + b"\0" * 100):
        found = read(broken, "set.zip")
        assert problems(found)
        assert not any(isinstance(one, CheckedAnswer) for one in found.rows)


def test_too_many_files_are_refused(monkeypatch, in_this_process):
    monkeypatch.setattr(upload_reader, "_ARCHIVED_FILE_LIMIT", 2)
    found = read(zipped({"answers.jsonl": lines(row()), "a": b"", "b": b""}), "set.zip")
    assert "more than 2 files" in problems(found)[0]


def test_a_foreign_file_with_more_than_there_is_room_for_is_read_no_further():
    data = b"prompt,oak-1,elm-2\n" + b"Why?,because,so\n" * 3
    choice = ColumnChoice.parsed(["prompt=prompt", "responses=oak-1", "responses=elm-2"])
    found = read_uploaded_file("table.csv", data, most=10, choice=choice)
    assert "more than 10 bytes" in problems(found)[-1]


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "\0", "..", ".", "ä" * 500, "a/b\\c.zip"])
def test_the_name_of_a_file_is_harmless(name):
    assert [type(one) for one in read(lines(row()), name).rows] == [CheckedAnswer]


#: Programs in the place of the reader, which files may have taken over.
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
FLOOD = "from tiltyard.files.upload_process import _limit; _limit(); bytearray(3 << 30)"
SPIN = "import time; time.sleep(60)"
WRITES = "import sys, pathlib; pathlib.Path(sys.argv[2], 'rows.jsonl').write_text({!r})"
ELSEWHERE = json.dumps({"format": "zip", "beside": "../../.."})
OTHER_KEY = json.dumps({"bad": {"where": "x"}})
NO_ANSWER = json.dumps({"where": "x", "answer": {"prompt_id": "p"}})
LINKED = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[2])
(folder / "files").mkdir()
(folder / "files" / "a.png").symlink_to("/etc/passwd")
os.mkfifo(folder / "files" / "b.png")
rows = [{"format": "zip", "beside": "."}]
row = {"prompt_id": "p", "prompt": "?", "model": "m", "kind": "image"}
rows += [{"where": name, "answer": dict(row, response=name)} for name in ("a.png", "b.png", "/etc/passwd")]
import json
(folder / "rows.jsonl").write_text("".join(json.dumps(one) + chr(10) for one in rows))
"""


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (CRASH, "reading it takes more than 2 GiB of memory or 60 seconds, or it is damaged; split it"),
        (FLOOD, "reading it takes more than 2 GiB of memory or 60 seconds, or it is damaged; split it"),
        ("", "its reader failed; split it"),
        (WRITES.format("[" * 1000), "its reader failed; split it"),
        (WRITES.format(ELSEWHERE), "its reader failed; split it"),
        (WRITES.format(OTHER_KEY), "its reader failed; split it"),
        (WRITES.format(NO_ANSWER), "its reader failed; split it"),
        (LINKED, "outside"),
    ],
    ids=["crash", "flood", "nothing", "nested", "elsewhere", "other key", "no answer", "links"],
)
def test_a_reader_that_dies_or_was_taken_over_harms_nobody(program, told, tmp_path, monkeypatch):
    (tmp_path / "taken_over.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(upload_process, "_MODULE", "taken_over")
    found = read(zipped({"answers.jsonl": lines(row())}), "set.zip")
    assert told in problems(found)[0]
    assert not any(isinstance(one, CheckedAnswer) for one in found.rows)


def test_a_reader_that_does_not_end_is_ended(tmp_path, monkeypatch):
    (tmp_path / "taken_over.py").write_text(SPIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(upload_process, "_MODULE", "taken_over")
    monkeypatch.setattr(upload_process, "PROCESS_SECONDS", 0.2)
    assert "longer than 0" in problems(read(zipped({"a.jsonl": lines(row())})))[0]


def test_the_process_of_a_reader_gets_no_secrets(tmp_path, monkeypatch):
    program = "import os, sys, pathlib, json; pathlib.Path(sys.argv[2], 'rows.jsonl').write_text('{\"left_out\": ' + json.dumps([[n, 1] for n in os.environ]) + '}')"
    (tmp_path / "taken_over.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    monkeypatch.setattr(upload_process, "_MODULE", "taken_over")
    passed = {name for name, _ in read(zipped({"a.jsonl": lines(row())})).left_out}
    assert "PATH" in passed
    assert not {name for name in passed if "KEY" in name or "URL" in name or "TILTYARD" in name}


def test_two_files_with_one_name_are_refused(in_this_process):
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("answers.jsonl", lines(row()))
    assert "'answers.jsonl'" in problems(read(stream.getvalue(), "set.zip"))[0]
