"""Which images of messages are kept, and why other files are not."""

import base64

import pytest

from support.media_files import marked_png, png
from tiltyard.arena.content import stored_conversations as message_images
from tiltyard.arena.content.stored_conversations import (
    ImageCollector,
    count_unshown,
    image_hashes,
    unshown_files,
)
from tiltyard.core.judging.conversation import ContentPart, Message


def data_url(data, media="image/png"):
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def kept(*urls, folder=None, kind="image"):
    collector = ImageCollector(folder)
    (message,) = collector.keep([Message("user", tuple(ContentPart(kind=kind, url=url) for url in urls))])
    return message, collector.images


def test_the_bytes_are_kept_once_and_unchanged():
    message, images = kept(data_url(png()), data_url(png(), "image/jpeg"), data_url(marked_png()))
    assert len(image_hashes(message)) == 3
    assert [base64.b64decode(one) for one in images.values()] == [png(), marked_png()]
    assert count_unshown([message]) == 0


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://images.example/x.png", "linked"),
        ("HTTP://images.example/x.png", "linked"),
        ("//images.example/x.png", "linked"),
        ("attachment://0", "linked"),
        ("file:///etc/passwd", "linked"),
        ("data:image/png;base64,AAAA", "unreadable"),
        ("data:image/png;base64,?", "unreadable"),
        ("data:image/png,%89PNG", "unreadable"),
        (data_url(b"<svg onload='alert(1)'/>", "image/svg+xml"), "unreadable"),
        (data_url(png()[:-20]), "unreadable"),
        ("file-0123", "missing"),
        ("sha256:0123", "missing"),
        ("unshown:linked", "missing"),
        (None, "missing"),
    ],
)
def test_what_is_not_shown_says_why_and_leaves_no_address(url, reason):
    message, images = kept(url)
    assert images == {}
    assert unshown_files(message) == ((reason, 1),)
    assert message.parts[0].url == f"unshown:{reason}"


def test_files_beside_the_answers_are_read_and_none_outside(tmp_path):
    (tmp_path / "outside.png").write_bytes(png())
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "inside.png").write_bytes(png())
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    message, images = kept(
        "inside.png", "../outside.png", "link.png", str(tmp_path / "outside.png"), folder=folder
    )
    assert len(images) == 1
    assert unshown_files(message) == (("missing", 3),)


def test_other_files_and_too_many_images_are_counted(monkeypatch):
    assert unshown_files(kept(data_url(png()), kind="audio")[0]) == (("other", 1),)
    monkeypatch.setattr(message_images, "_IMAGE_LIMIT", 1)
    message, images = kept(data_url(png()), data_url(marked_png()), data_url(png()))
    assert (len(images), unshown_files(message)) == (1, (("many", 1),))
