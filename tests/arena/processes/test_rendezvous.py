"""Which process decides for an arena: the same answer everywhere, and few changes."""

import pytest

from tiltyard.arena.processes.rendezvous import ProcessRing, ServingProcess

ARENAS = range(1, 2001)


def process(number, address="127.0.0.1:1", machine="one"):
    return ServingProcess(number, address, machine)


def owners(ring):
    return {arena: ring.owner_of(arena).process for arena in ARENAS}


def test_alone_it_owns_every_arena():
    ring = ProcessRing(process(1))
    assert all(ring.owns(arena) for arena in ARENAS)


def test_all_processes_agree_and_share_evenly():
    members = [process(number) for number in (11, 22, 33, 44)]
    rings = [ProcessRing(one) for one in members]
    assert [ring.update(members) for ring in rings] == [True] * 4
    found = owners(rings[0])
    assert all(owners(ring) == found for ring in rings)
    shares = [list(found.values()).count(one.process) for one in members]
    assert sum(shares) == len(ARENAS)
    assert all(400 < share < 600 for share in shares)


def test_only_the_arenas_of_one_that_leaves_change_their_owner():
    ring = ProcessRing(process(1))
    ring.update([process(2), process(3)])
    before = owners(ring)
    assert ring.update([process(2)])
    after = owners(ring)
    assert all(after[arena] == owner for arena, owner in before.items() if owner != 3)
    assert not ring.update([process(2)])


def test_a_process_that_does_not_answer_is_passed_over_for_a_while():
    now = [0.0]
    ring = ProcessRing(process(1), clock=lambda: now[0])
    ring.update([process(2)])
    arena = next(arena for arena in ARENAS if not ring.owns(arena))
    ring.suspect(process(2))
    assert ring.owns(arena)
    now[0] = 4.9
    ring.update([process(2)])
    assert ring.owns(arena)
    now[0] = 5.0
    assert not ring.update([process(2)])
    assert not ring.owns(arena)


def test_it_never_suspects_itself():
    ring = ProcessRing(process(1))
    ring.suspect(process(1))
    assert ring.owns(7)


@pytest.mark.parametrize(
    ("address", "machine", "reachable"),
    [
        ("127.0.0.1:80", "one", True),
        ("127.0.0.1:80", "two", False),
        ("[::1]:80", "two", False),
        ("localhost:80", "two", False),
        ("", "two", False),
        ("10.0.0.7:80", "two", True),
    ],
)
def test_a_loopback_address_is_for_its_own_machine(address, machine, reachable):
    ring = ProcessRing(process(1))
    ring.update([process(2, address, machine)])
    assert (len(ring.members) == 2) is reachable


def test_the_memory_of_owners_is_bounded(monkeypatch):
    monkeypatch.setattr("tiltyard.arena.processes.rendezvous._REMEMBERED_ARENA_LIMIT", 10)
    ring = ProcessRing(process(1))
    ring.update([process(2)])
    owners(ring)
    assert len(ring._owners) <= 10
