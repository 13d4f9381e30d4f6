"""Atomic file writes: complete or not at all, whatever happens in between."""

import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from tiltyard.errors import BadOption
from tiltyard.foundation import local_files
from tiltyard.foundation.local_files import (
    atomic_write,
    create_private_file,
    remove_drafts,
    replace_file,
    replace_folder,
)

KILLED = """
import os, signal, sys
from pathlib import Path
from tiltyard.foundation import local_files
path = Path(sys.argv[1])
if sys.argv[2] == "replace":
    Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    with local_files.replace_file(path, durable=True) as file:
        file.write(b"new")
else:
    os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    local_files.create_private_file(path, b"new")
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def flushed(monkeypatch):
    """Whether each thing that was flushed to disk was a folder, in order."""
    seen = []
    really = os.fsync

    def fsync(descriptor):
        seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        really(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_a_file_is_replaced_when_it_is_complete(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with replace_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_an_error_leaves_the_old_file_and_no_draft(error, tmp_path):
    def failing():
        yield b"new"
        raise error

    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(error), replace_file(path, durable=True) as file:
        file.writelines(failing())
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_a_disk_that_cannot_be_flushed_leaves_the_old_file(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    path = tmp_path / "x"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"), replace_file(path, durable=True) as file:
        file.write(b"new")
    with pytest.raises(OSError, match="No space"):
        create_private_file(tmp_path / "y", b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_only_durable_files_are_flushed_the_content_before_the_name(tmp_path, flushed):
    with replace_file(tmp_path / "x") as file:
        file.write(b"new")
    assert flushed == []
    with replace_file(tmp_path / "x", durable=True) as file:
        file.write(b"new")
    assert flushed == ["file", "folder"]
    create_private_file(tmp_path / "y", b"new")
    assert flushed == ["file", "folder"] * 2


def test_a_private_file_is_private_from_the_start(tmp_path):
    old = os.umask(0o022)
    try:
        with replace_file(tmp_path / "x", private=True) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        with replace_file(tmp_path / "y"):
            pass
    finally:
        os.umask(old)
    assert (mode(tmp_path / "x"), mode(tmp_path / "y")) == (0o600, 0o644)


def test_writers_of_the_same_file_do_not_mix(tmp_path):
    path = tmp_path / "x"
    start = threading.Barrier(4)

    def write(letter):
        start.wait()
        for _ in range(20):
            with replace_file(path) as file:
                file.write(letter * 1000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = path.read_bytes()
    assert len(data) == 1000
    assert len(set(data)) == 1
    assert names(tmp_path) == ["x"]


def test_of_several_that_create_a_file_one_does(tmp_path):
    path, start, made = tmp_path / "key", threading.Barrier(8), []

    def create(number):
        data = str(number).encode()
        start.wait()
        if create_private_file(path, data):
            made.append(data)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [path.read_bytes()]
    assert not create_private_file(path, b"late")
    assert (names(tmp_path), mode(path)) == (["key"], 0o600)


@pytest.mark.parametrize("way", ["replace", "create"])
def test_a_process_killed_before_the_rename_leaves_a_draft_only(way, tmp_path):
    path = tmp_path / "[x].json"
    if way == "replace":
        path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, path, way], check=False)
    assert done.returncode == -signal.SIGKILL
    [draft] = set(tmp_path.iterdir()) - {path}
    assert draft.read_bytes() == b"new"
    assert path.read_bytes() == b"old" if way == "replace" else not path.exists()
    remove_drafts(tmp_path, "x")
    assert draft.exists()
    remove_drafts(tmp_path, path.name)
    assert not draft.exists()


def test_all_drafts_of_a_folder_are_removed_and_nothing_else(tmp_path):
    for name in (".a.0123456789ab.part", ".b.csv.0123456789ab.part", "c.part", ".hidden"):
        (tmp_path / name).touch()
    remove_drafts(tmp_path)
    assert names(tmp_path) == [".hidden", "c.part"]


@pytest.mark.parametrize("place", ["nowhere/x", "file/x"])
def test_an_output_that_cannot_be_written_is_a_bad_option(place, tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / place
    with pytest.raises(BadOption, match=f"cannot write {path}: "), atomic_write(path):
        pass
    with pytest.raises(OSError, match=str(path.parent)):
        create_private_file(path, b"new")


def test_a_folder_is_replaced_when_it_is_complete(tmp_path):
    place = tmp_path / "deep" / "x"
    for content in (b"old", b"new"):
        with replace_folder(place) as draft:
            (draft / content.decode()).write_bytes(content)
            assert names(place.parent) != []
        assert names(place) == [content.decode()]
    assert names(place.parent) == ["x"]


def test_an_error_leaves_the_earlier_folder(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "kept").touch()
    with suppress(KeyboardInterrupt), replace_folder(tmp_path / "x") as draft:
        (draft / "y").touch()
        raise KeyboardInterrupt
    assert (names(tmp_path), names(tmp_path / "x")) == (["x"], ["kept"])


def test_a_move_that_fails_brings_the_old_folder_back(tmp_path):
    places = tmp_path / "no draft", tmp_path / "x", tmp_path / "old"
    with pytest.raises(FileNotFoundError):
        local_files._put_folder(*places)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "kept").touch()
    with pytest.raises(FileNotFoundError):
        local_files._put_folder(*places)
    assert (tmp_path / "x" / "kept").exists()
