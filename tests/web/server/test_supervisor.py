"""What the supervisor does about processes that hang or do not start, what it tells probes and systemd."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tiltyard.errors import TiltyardError
from tiltyard.postgres.embedded_server import OpenedDatabase
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.server import supervisor
from tiltyard.web.server.supervisor import Supervisor, notify_systemd, serve_monitoring

RATER = ServingSettings(role="rater", metrics_port=0)
NO_DATABASE = OpenedDatabase("postgresql://nowhere")


@pytest.fixture(autouse=True)
def kept_signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def beat(_config, beat_at):
    """In place of `run_child`: a child that works."""
    while True:
        beat_at.value = time.monotonic()
        time.sleep(0.05)


def fail(_config, _beat_at):
    """In place of `run_child`: a child that does not start."""
    sys.exit("because of a reason")


def children():
    return {child.pid for child in multiprocessing.active_children()}


def test_a_process_that_hangs_is_replaced_and_the_server_is_not_ready_meanwhile(monkeypatch):
    monkeypatch.setattr(supervisor, "run_child", beat)
    monkeypatch.setitem(supervisor._SILENT_SECONDS, "rater", 5.0)
    supervised, before = Supervisor(NO_DATABASE, RATER, None), children()
    assert supervised.unready()
    seen = []

    def freeze_one():
        (first,) = children() - before
        os.kill(first, signal.SIGSTOP)
        while children() - before == {first}:
            time.sleep(0.01)
        seen.append(bool(supervised.unready()))
        while supervised.unready():
            time.sleep(0.01)
        (second,) = children() - before
        seen.append(second != first)
        os.kill(os.getpid(), signal.SIGTERM)

    supervised.run(threading.Thread(target=freeze_one).start)
    assert seen == [True, True]
    assert children() == before


def test_a_process_that_does_not_start_ends_the_server(monkeypatch, capfd):
    monkeypatch.setattr(supervisor, "run_child", fail)
    with pytest.raises(TiltyardError, match="rater"):
        Supervisor(NO_DATABASE, RATER, None).run(pytest.fail)
    assert "a reason" in capfd.readouterr().err


def test_a_supervisor_that_hangs_is_a_problem(monkeypatch):
    supervised = Supervisor(NO_DATABASE, RATER, None)
    assert supervised.problems() == []
    now = time.monotonic() + supervisor._HUNG_SECONDS + 1
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert len(supervised.problems()) == 1
    assert supervised.unready() == supervised.problems()


STOPPED = """
import signal, threading
from tiltyard.web.server.supervisor import stop_by_signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
stop = threading.Event()
stop_by_signal(stop.set)
print("ready", flush=True)
while not stop.is_set():
    stop.wait(0.5)
"""


def test_a_process_that_is_told_to_stop_many_times_stops_cleanly():
    """Some signals come while the interpreter is leaving."""
    told = [
        subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    try:
        for process in told:
            assert process.stdout.readline() == "ready\n"
        until = time.monotonic() + 20
        while any(process.poll() is None for process in told) and time.monotonic() < until:
            for process in told:
                process.terminate()
        assert [process.wait(20) for process in told] == [0] * len(told)
    finally:
        for process in told:
            process.kill()
            process.wait()
            process.stdout.close()


def answer_of(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def test_probes_of_the_port_tell_what_is_wrong():
    problems, unready = [], ["a process is not ready"]
    with serve_monitoring("127.0.0.1", 0, None, lambda: problems, lambda: unready) as port:
        status, body = answer_of(port, "/healthz")
        assert (status, json.loads(body)) == (200, {"status": "ok"})
        status, body = answer_of(port, "/readyz?x=1")
        assert (status, json.loads(body)) == (503, {"status": "failing", "problems": unready})
        unready.clear()
        assert answer_of(port, "/readyz")[0] == 200
        problems.append("it hangs")
        assert answer_of(port, "/healthz")[0] == 503
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
    assert Path(address).exists()
