"""Which of the programs on a machine make a backup."""

import pytest

from tiltyard.postgres import binaries
from tiltyard.postgres.binaries import bundled_folder, find_pg_dump_folder


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes programs that only tell their version, in the places where packages keep them."""
    monkeypatch.setattr(binaries, "_INSTALLED", (str(tmp_path / "{major}" / "bin"),))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    def install(folder, version):
        there = tmp_path / folder
        there.mkdir(parents=True)
        for name in ("pg_dump", "pg_config"):
            (there / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version} (Some 1.2-3)'\n")
            (there / name).chmod(0o755)
        return there

    return install


def test_without_any_other_ours_is_used(install):
    assert find_pg_dump_folder(150_020) == bundled_folder()
    assert find_pg_dump_folder(180_004) == bundled_folder()
    assert find_pg_dump_folder(160_001) == bundled_folder(16)


def test_that_of_the_servers_own_version_goes_first(install):
    packaged, own = install("15/bin", "15.18"), install("path", "15.20")
    assert find_pg_dump_folder(150_020) == own
    assert find_pg_dump_folder(150_018) == packaged
    assert find_pg_dump_folder(150_019) == own, "else the newest of the major version"
    assert find_pg_dump_folder(170_003) == bundled_folder()


def test_a_newer_minor_version_than_ours_is_used_for_a_newer_server(install):
    assert find_pg_dump_folder(180_006) == bundled_folder()
    own = install("path", "18.6")
    assert find_pg_dump_folder(180_006) == own


@pytest.mark.parametrize("version", ["17beta1", "17.2"])
def test_other_versions_and_broken_programs_are_passed_over(install, version):
    install("path", version)
    broken = install("15/bin", "15.20") / "pg_dump"
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert find_pg_dump_folder(150_020) == bundled_folder()
    broken.write_text("#!/bin/sh\necho nothing\n")
    assert find_pg_dump_folder(150_020) == bundled_folder()


def test_a_wrapper_that_chooses_for_itself_is_not_used(install, tmp_path):
    """Debian's pg_dump in /usr/bin is a link to a script that may run another version than it tells."""
    wrapper = install("common", "15.20") / "wrapper"
    (tmp_path / "common" / "pg_dump").rename(wrapper)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pg_dump").symlink_to(wrapper)
    assert find_pg_dump_folder(150_020) == bundled_folder()
