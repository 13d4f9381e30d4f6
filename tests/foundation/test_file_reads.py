"""Files that somebody else may have put there: what is no regular file is refused, and nobody waits for it."""

import os

import pytest

from support.special_files import SPECIAL, put_special, within_seconds
from tiltyard.arena.maintenance.backup import read_backup
from tiltyard.arena.secret_keys import open_keys
from tiltyard.errors import BadConfig, BrokenArtifact, UnreadableFile
from tiltyard.files import open_battles
from tiltyard.foundation import local_files
from tiltyard.foundation.local_files import OversizedFile, open_regular, read_regular, read_regular_text
from tiltyard.judges.providers.local_replies import _recorded
from tiltyard.settings.yaml_file import read_yaml
from tiltyard.tournaments.cost_estimate import _groups


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_refused_at_once(kind, tmp_path):
    put_special(kind, tmp_path / "file")
    with within_seconds(10), pytest.raises(OSError, match=r"directory|regular file"):
        open_regular(tmp_path / "file")


def test_a_file_that_is_replaced_by_a_pipe_in_between_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"data")
    opening = os.open

    def replaced(path, *more):
        put_special("pipe", path)
        return opening(path, *more)

    monkeypatch.setattr(local_files.os, "open", replaced)
    with within_seconds(10), pytest.raises(OSError, match="regular file"):
        read_regular(tmp_path / "file")


def test_files_and_links_to_files_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "link") == b"\xef\xbb\xbfone\r\ntwo\n"
    assert read_regular_text(tmp_path / "link") == "one\ntwo\n"
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(
    ("read", "error"),
    [
        (read_backup, UnreadableFile),
        (lambda path: _recorded(str(path)), UnreadableFile),
        (_groups, BrokenArtifact),
        (lambda path: open_keys(path.parent), UnreadableFile),
    ],
    ids=["backup", "recorded replies", "ratings of a pilot", "secret key"],
)
def test_what_commands_read_is_a_regular_file(kind, read, error, tmp_path):
    put_special(kind, tmp_path / "secret.key")
    with within_seconds(10), pytest.raises(error, match=r"directory|regular file"):
        read(tmp_path / "secret.key")


@pytest.mark.parametrize("kind", ["socket", "device"])
@pytest.mark.parametrize(("read", "error"), [(read_yaml, BadConfig), (open_battles, UnreadableFile)])
def test_what_is_typed_may_be_a_pipe_but_no_device(kind, read, error, tmp_path):
    put_special(kind, tmp_path / "file")
    with within_seconds(10), pytest.raises(error, match="nor a pipe"):
        read(tmp_path / "file")


def test_a_file_of_holes_is_refused_and_one_with_data_is_read(tmp_path):
    path = tmp_path / "file"
    for size in (1 << 31, 1 << 40):
        path.write_bytes(b"data")
        os.truncate(path, size)
        with pytest.raises(OversizedFile, match="consists of holes"):
            open_regular(path)
    path.write_bytes(b"data")
    os.truncate(path, 1 << 20)
    with open_regular(path) as file:
        assert file.read(4) == b"data", "small files may have holes"


def test_a_file_that_is_read_as_a_whole_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(local_files, "_WHOLE_FILE_BYTES", 4)
    (tmp_path / "file").write_bytes(b"data")
    assert read_regular(tmp_path / "file") == b"data"
    (tmp_path / "file").write_bytes(b"data+")
    with pytest.raises(OversizedFile, match="1 GiB"):
        read_regular(tmp_path / "file")


def test_where_a_system_does_not_tell_holes_they_are_read(tmp_path, monkeypatch):
    monkeypatch.delattr(local_files.os, "SEEK_DATA")
    (tmp_path / "file").write_bytes(b"data")
    os.truncate(tmp_path / "file", 1 << 31)
    with open_regular(tmp_path / "file") as file:
        assert file.read(5) == b"data\0"
