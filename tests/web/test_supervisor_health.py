"""Heartbeats, probes of the monitoring port, and what systemd is told."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tiltyard.web import supervisor_health
from tiltyard.web.heartbeats import Heartbeat, read_heartbeat
from tiltyard.web.monitoring_port import serve_monitoring
from tiltyard.web.supervisor_health import SupervisorHealth
from tiltyard.web.systemd_notify import notify_systemd, watchdog_seconds


def test_a_heartbeat_of_another_process_is_read(tmp_path):
    code = "import sys; from tiltyard.web.heartbeats import Heartbeat; Heartbeat(sys.argv[1]).beat()"
    child = subprocess.Popen([sys.executable, "-c", code, tmp_path])
    assert child.wait(60) == 0
    assert 0 <= read_heartbeat(tmp_path, child.pid) < 60
    assert read_heartbeat(tmp_path, child.pid + 1) is None


def test_a_heartbeat_is_written_at_most_once_a_second(tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    heart = Heartbeat(str(tmp_path))
    now = 1000.5
    heart.beat()
    assert read_heartbeat(tmp_path, os.getpid()) == 0.5
    now = 1002.0
    heart.beat()
    assert read_heartbeat(tmp_path, os.getpid()) == 0.0


def test_without_a_folder_nothing_is_written():
    Heartbeat(None).beat()
    Heartbeat("").beat()


def test_half_written_and_missing_heartbeats_are_no_time(tmp_path):
    (tmp_path / "7.heartbeat").write_text("")
    assert read_heartbeat(tmp_path, 7) is None


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr("time.monotonic", lambda: Clock.now)
    return Clock


def beats(folder, pid, now):
    (folder / f"{pid}.heartbeat").write_text(str(now))


def test_a_hung_child_is_a_problem_and_one_that_is_replaced_is_not(tmp_path, clock):
    health = SupervisorHealth()
    health.watch(tmp_path, 2)
    health.child_started("web", 11)
    health.child_started("rater", 12)
    assert health.problems() == []
    assert not health.ready
    for _ in range(2):
        health.child_ready()
    for pid in (11, 12):
        beats(tmp_path, pid, clock.now)
    assert health.ready
    clock.now += 40
    health.beat()
    assert health.problems() == ["the web process has not responded for 40 s"]
    assert not health.ready
    health.child_ended(11, was_ready=True)
    assert health.problems() == []
    assert not health.ready
    health.child_started("web", 13)
    health.child_ready()
    beats(tmp_path, 13, clock.now)
    assert health.ready
    clock.now += 301
    beats(tmp_path, 13, clock.now)
    health.beat()
    assert health.problems() == ["the rater process has not responded for 341 s"]


def test_a_child_that_never_beats_is_a_problem_after_its_start(tmp_path, clock):
    health = SupervisorHealth()
    health.watch(tmp_path, 1)
    health.child_started("rater", 12)
    clock.now += supervisor_health._START_SECONDS + 1
    health.beat()
    assert health.problems() == ["the rater process has not responded for 121 s"]


def test_a_supervisor_that_hangs_says_so_to_other_threads(clock):
    health = SupervisorHealth()
    clock.now += 16
    assert health.problems() == ["the supervisor has not responded for 16 s"]


def answer_of(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def test_probes_of_the_port_tell_what_is_wrong(tmp_path):
    health = SupervisorHealth()
    with serve_monitoring("127.0.0.1", 0, None, health) as port:
        status, body = answer_of(port, "/healthz")
        assert (status, json.loads(body)) == (200, {"status": "ok"})
        status, body = answer_of(port, "/readyz")
        assert (status, json.loads(body)) == (503, {"status": "failing", "problems": ["not ready yet"]})
        health.child_ready()
        assert answer_of(port, "/readyz?x=1")[0] == 200
        health._beat_at = float("-inf")
        status, body = answer_of(port, "/healthz")
        assert status == 503
        assert json.loads(body)["problems"]
        assert answer_of(port, "/else")[0] == 404


def test_systemd_is_told_only_if_it_asks(tmp_path, monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_systemd("READY=1")
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(address))
        listening.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        notify_systemd("READY=1")
        assert listening.recv(100) == b"READY=1"
    notify_systemd("WATCHDOG=1")


@pytest.mark.parametrize(("stated", "seconds"), [("", None), ("0", None), ("x", None), ("3000000", 3.0)])
def test_the_watchdog_is_read(monkeypatch, stated, seconds):
    monkeypatch.setenv("WATCHDOG_USEC", stated)
    assert watchdog_seconds() == seconds
