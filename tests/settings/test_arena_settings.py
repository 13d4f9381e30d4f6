"""Settings of an arena: whole, checked, and the same after a round trip."""

import pytest

from tiltyard.errors import BadOption
from tiltyard.settings.arena_settings import ArenaSettings


def test_settings_survive_a_round_trip():
    settings = ArenaSettings(
        visibility="closed", undo_seconds=0, timezone="Europe/Berlin", settled_family=190
    )
    assert ArenaSettings.from_dict(settings.to_dict()) == settings
    assert ArenaSettings.from_dict({}) == ArenaSettings()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("visibility", "secret"),
        ("visibility", None),
        ("undo_seconds", -1),
        ("undo_seconds", float("nan")),
        ("undo_seconds", True),
        ("undo_seconds", "10"),
        ("expiry_seconds", 0),
        ("expiry_seconds", 1e9),
        ("snapshot_seconds", 0.0),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../../etc/passwd"),
        ("timezone", ""),
        ("timezone", 5),
        ("timezone", "a\0b"),
        ("order", "elo"),
        ("entry", "oidc"),
        ("entry_groups", None),
        ("entry_groups", ["a"]),
        ("entry_groups", " , ,"),
        ("entry_groups", "a\nb"),
        ("entry_groups", "x" * 3000),
        ("shown_check", "maybe"),
        ("releases", "some"),
        ("ageing_hours", -1),
        ("ageing_hours", 721),
        ("ageing_hours", "24"),
        ("settled_family", 0),
        ("settled_family", True),
        ("settled_family", 1.5),
        ("settled_family", 2**63),
    ],
)
def test_nonsense_is_refused_by_name(field, value):
    with pytest.raises(BadOption) as caught:
        ArenaSettings.from_dict({field: value})
    assert caught.value.option == field


def test_unknown_settings_are_named():
    with pytest.raises(BadOption, match=r"'colour'.*expected visibility"):
        ArenaSettings.from_dict({"colour": "red"})


def test_settings_that_a_newer_version_keeps_do_not_stop_an_older_one():
    kept = ArenaSettings(undo_seconds=3.0).to_dict() | {"colour": "red"}
    assert ArenaSettings.kept(kept) == ArenaSettings(undo_seconds=3.0)


def test_groups_that_may_come_in():
    everybody, some = ArenaSettings(entry="sign-in"), ArenaSettings(entry="sign-in", entry_groups="a, /b c ,")
    assert everybody.admits_groups(frozenset())
    assert not some.admits_groups(frozenset())
    assert not some.admits_groups({"A", "b c", "/b", "a, /b c"})
    assert some.admits_groups({"/b c", "x"})
    assert some.admits_groups({"a"})


def test_votes_are_checked_where_strangers_on_the_internet_can_vote():
    def checks(public, **settings):
        made = ArenaSettings(**settings, public_address=public)
        return made.checks_shown, made.waiting_hours

    assert checks(True) == (True, 24.0)
    assert checks(False) == (False, 0.0)
    assert checks(True, entry="invitation") == checks(True, entry="passcode") == (True, 24.0)
    for private in (
        {"entry": "sign-in"},
        {"visibility": "closed"},
        {"stage": "draft"},
    ):
        assert checks(True, **private) == (False, 0.0)
        assert checks(True, shown_check="always", ageing_hours=2, **private) == (True, 0.0)
    assert checks(False, shown_check="always", ageing_hours=2) == (True, 2)
    assert checks(True, shown_check="never", ageing_hours=0) == (False, 0)
