"""Two recorded attacks that once took the demo's last model to first place, on an open arena with default settings.

`pytest -m slow -n 0 -s tests/lab/test_recorded_attacks.py` takes about ten minutes. The attackers know more than the
recorded ones did: which model every response is from. They use the API from one address, and pass the gate.
"""

from dataclasses import asdict

import pytest

from lab.redteam.attack_run import AttackSize
from lab.redteam.attacks import AttackPlan
from lab.redteam.demo_servers import fill_arena
from lab.redteam.served_run import run_served

pytestmark = pytest.mark.slow

HONEST_VOTES = 3000
#: So many votes for the target may count, before what waits is released.
MOST_VOTES = 100
#: 300 votes for the target: by one program of ten sessions that skips all else, and by 100 sessions with cover votes.
ATTACKS = {
    "hasty": (AttackPlan("skip farming", hasty=True), AttackSize(HONEST_VOTES, 0, 0.0909, 10)),
    "at the pace of people": (AttackPlan("skip farming"), AttackSize(HONEST_VOTES, 0, 0.0909, 10)),
    "patient, with cover": (AttackPlan("patient, with cover"), AttackSize(HONEST_VOTES, 0, 0.3, 100)),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def filled(server, template, home):
    from support.postgres_servers import fresh_database

    with fresh_database(server, template) as url:
        fill_arena(url, home, HONEST_VOTES, seed=7)
        yield url


@pytest.mark.parametrize("name", ATTACKS)
def test_a_recorded_attack_moves_nothing_before_it_is_noticed(filled, home, name):
    found = run_served(filled, home, *ATTACKS[name], 1)
    print(f"\n{name}: {asdict(found)}")
    assert found.target_votes > 200
    assert found.gain_before <= 1
    assert found.counted_votes < MOST_VOTES
    # Of the hasty ones nobody looked at the responses, so that none ever counts, and nothing has to be noticed.
    assert found.official == (name == "hasty")
    assert found.gain_after <= 1
    assert found.out_of_range == 0
