"""Apps as they are sent: a prelude before everything of theirs, and no element that would connect."""

import re
import time
from importlib.resources import files

import pytest

from tiltyard.web.texts.app_sandbox import APP_HEADERS, sandboxed_app

PRELUDE = files("tiltyard.web.texts").joinpath("app_prelude.js").read_bytes()


def parts(data):
    """What stands before the prelude, and after it."""
    before, script, after = sandboxed_app(data).partition(b"<script>" + PRELUDE + b"</script>")
    assert script
    return before, after


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        (b"<!doctype html><p>x", b"<!doctype html>", b"<!doctype html><p>x"),
        (
            b"\xef\xbb\xbf <!-- a --><!DOCTYPE HTML><p>x",
            b"<!doctype html>",
            b" <!-- a --><!DOCTYPE HTML><p>x",
        ),
        (b"<html><p>x", b"", b"<html><p>x"),
        (b"<html><!doctype html>", b"", b"<html><!doctype html>"),
        (b"<!--> <script>first()</script> --><!doctype html>", b"<!doctype html>", None),
    ],
)
def test_nothing_of_an_app_comes_before_the_prelude(given, before, after):
    found = parts(given)
    assert found == (before, given if after is None else after)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (b'<iframe src="x">y</iframe>', b'<x-iframe src="x">y</x-iframe>'),
        (b"<IFRAME\n>", b"<x-IFRAME\n>"),
        (b"<iframe/srcdoc=x>", b"<x-iframe/srcdoc=x>"),
        (b'<link rel="preconnect" href="//x">', b'<meta rel="preconnect" href="//x">'),
        (b"<frameset><frame src=x></frameset>", b"<x-frameset><meta src=x></x-frameset>"),
        (b"<embed src=x><object data=x></object>", b"<meta src=x><x-object data=x></x-object>"),
        (b"<iframes><linked><frame-box><my-iframe>", b"<iframes><linked><frame-box><my-iframe>"),
        (b"a < iframe and <\x00iframe>", b"a < iframe and <\x00iframe>"),
        ("<p>日本語</p><Link a>".encode(), "<p>日本語</p><meta a>".encode()),
    ],
)
def test_elements_that_would_connect_are_others(given, sent):
    assert parts(b"<!doctype html>" + given)[1] == b"<!doctype html>" + sent


def test_the_prelude_and_the_server_know_the_same_elements():
    names = re.findall(rb'(\w+): "(x-\w+|meta)"', PRELUDE)
    assert len(names) == 9
    for name, other in names:
        assert parts(b"<html><" + name + b">")[1] == b"<html><" + other + b">"


def test_the_prelude_can_stand_in_a_page():
    assert b"</script" not in PRELUDE.lower()
    assert b"<!--" not in PRELUDE


def test_headers_close_what_they_can():
    policy = APP_HEADERS["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; ")
    assert "allow-same-origin" not in policy
    assert "allow-popups" not in policy
    for directive in ("webrtc 'block'", "require-trusted-types-for 'script'", "trusted-types default"):
        assert directive in policy
    assert APP_HEADERS["Connection-Allowlist"] == "()"
    assert APP_HEADERS["X-DNS-Prefetch-Control"] == "off"


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("piece", [b"<", b"</", b"<iframe", b"<iframe ", b"< iframe>", b"x"])
def test_a_large_app_is_sent_in_time(piece):
    data = b"<html>" + piece * (4_000_000 // len(piece))
    start = time.process_time()
    sandboxed_app(data)
    assert time.process_time() - start < 5
