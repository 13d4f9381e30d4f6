"""How long a process believes what it knows of voters, operators and tokens: what was revoked elsewhere ends then."""

from operator import attrgetter
from types import SimpleNamespace

import pytest

from support.served import bare_access


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1_000_000.0)
    monkeypatch.setattr("tiltyard.foundation.caches.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.mark.parametrize(
    ("whose", "seconds"), [("sessions._known", 60.0), ("actors._by_token", 5.0), ("_judges", 5.0)]
)
def test_what_is_known_of_somebody_is_believed_so_long_and_no_longer(clock, whose, seconds):
    access = bare_access()
    remembered = attrgetter(whose)(access)
    remembered.put("somebody", "known")
    clock.now += seconds - 0.125
    assert remembered.get("somebody") == "known"
    clock.now += 0.125
    assert remembered.get("somebody") is None


def test_what_is_forgotten_is_forgotten_of_everybody(clock):
    access = bare_access()
    everybody = (access._revoked._known, access.actors._by_token, access._judges)
    for remembered in everybody:
        remembered.put("somebody", "known")
    access.forget()
    assert [remembered.get("somebody") for remembered in everybody] == [None, None, None]
