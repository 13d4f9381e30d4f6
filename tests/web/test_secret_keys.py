"""Secret keys: made once, kept private, rotated without signing anybody out."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.secret_keys import KEY_FILE, SecretKeys, open_keys
from tiltyard.errors import BadOption, UnreadableFile

OLD, NEW = "o" * 32, "n" * 32


@given(st.binary(), st.text(), st.text())
def test_a_signature_holds_for_its_message_and_purpose_alone(message, purpose, other):
    keys = SecretKeys([OLD])
    signature = keys.sign(purpose, message)
    assert keys.verify(purpose, message, signature)
    assert keys.verify(purpose, message, signature[:16])
    assert not keys.verify(purpose, message + b"!", signature)
    assert keys.verify(other, message, signature) == (other == purpose)


@given(st.binary(max_size=15))
def test_a_signature_that_is_too_short_holds_for_nothing(short):
    assert not SecretKeys([OLD]).verify("p", b"m", short)
    assert not SecretKeys([OLD]).verify("p", b"m", SecretKeys([OLD]).sign("p", b"m")[: len(short)])


def test_while_rotating_the_new_key_signs_and_both_verify():
    before, during, after = SecretKeys([OLD]), SecretKeys([NEW, OLD]), SecretKeys([NEW])
    old, new = before.sign("p", b"m"), during.sign("p", b"m")
    assert during.verify("p", b"m", old)
    assert during.verify("p", b"m", new)
    assert after.verify("p", b"m", new)
    assert not after.verify("p", b"m", old)
    assert not before.verify("p", b"m", new)


def test_a_home_gets_a_key_of_its_own_which_stays(tmp_path):
    home = tmp_path / "new" / "home"
    first = open_keys(home)
    path = home / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [each.name for each in home.iterdir()] == [KEY_FILE]
    assert open_keys(home).verify("p", b"m", first.sign("p", b"m"))
    assert len(path.read_text().strip()) >= 32


def test_a_key_that_others_can_read_is_refused(tmp_path):
    open_keys(tmp_path)
    path = tmp_path / KEY_FILE
    for mode in (0o640, 0o604, 0o660, 0o601):
        path.chmod(mode)
        with pytest.raises(BadOption, match="chmod 600"):
            open_keys(tmp_path)


def test_the_file_holds_one_key_a_line_and_may_say_which(tmp_path):
    path = tmp_path / KEY_FILE
    path.touch(mode=0o600)
    path.write_text(f"# since May\n{NEW}\n\n{OLD}\n")
    keys = open_keys(tmp_path)
    assert keys.verify("p", b"m", SecretKeys([OLD]).sign("p", b"m"))
    assert SecretKeys([NEW]).verify("p", b"m", keys.sign("p", b"m"))


def test_the_variable_goes_before_the_file_and_leaves_none(tmp_path):
    keys = open_keys(tmp_path, f" {NEW} , {OLD} ")
    assert SecretKeys([NEW]).verify("p", b"m", keys.sign("p", b"m"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stated", ["short", f"{OLD},short", f"{OLD},{NEW},{OLD}x", " , "])
def test_keys_that_are_too_short_or_too_many_are_refused_without_being_shown(stated, tmp_path):
    if not stated.strip(" ,"):
        with pytest.raises(BadOption, match="has 0 keys"):
            open_keys(tmp_path, stated)
        return
    with pytest.raises(BadOption, match="TILTYARD_SECRET_KEY") as caught:
        open_keys(tmp_path, stated)
    assert OLD not in str(caught.value)
    assert "short," not in str(caught.value)


def test_a_home_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UnreadableFile, match="TILTYARD_SECRET_KEY"):
        open_keys(tmp_path / "home")
    (tmp_path / KEY_FILE).touch(mode=0o600)
    (tmp_path / KEY_FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableFile, match="UTF-8"):
        open_keys(tmp_path)


def test_many_that_start_at_once_agree_on_one_key(tmp_path):
    read, write = os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            os.write(write, open_keys(tmp_path).sign("p", b"m").hex().encode() + b"\n")
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as lines:
        assert len(set(lines)) == 1


def test_pseudonyms_differ_by_release_and_session_and_need_the_key():
    keys = SecretKeys([OLD])
    named = {keys.pseudonym(release, session) for release in ("a", "b", "a1") for session in (1, 11, 2)}
    assert len(named) == 9
    assert keys.pseudonym("a", 1) == keys.pseudonym("a", 1)
    assert keys.pseudonym("a", 1) != SecretKeys([NEW]).pseudonym("a", 1)


def test_no_repr_shows_a_key():
    assert OLD not in repr(SecretKeys([OLD])) + repr(vars(SecretKeys)) + str(SecretKeys([OLD]))
