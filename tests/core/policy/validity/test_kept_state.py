"""What a checkpoint holds of a fixed log: whoever changes it must raise the state's version.

After a change that is meant, raise ``STATE_VERSION`` and run ``python tests/core/policy/validity/test_kept_state.py``,
which writes the file of the new version.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tiltyard.arena.rating.checkpoints import STATE_VERSION
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.arena_fold import ArenaFold, decode_state

KEPT = Path(__file__).parent / f"{STATE_VERSION}.json"
MODELS, PROMPTS, MATCHUPS = 6, 5, 400
POLICY = Policy(window=40, evaluated_every=50, session_pairs=3, sessions_kept=8, form_votes=4)


def drawn(state=20_26):
    """Whole numbers below a bound, the same on every machine and with every version of everything."""
    while True:
        below = yield
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        yield (state >> 33) % below


def told():
    """A log with every kind of event."""
    numbers = drawn()

    def number(below):
        next(numbers)
        return numbers.send(below)

    rows = [{"event": Event.ENABLE, "a": k} for k in range(MODELS)]
    rows += [{"event": Event.RESPOND, "a": k, "prompt": p} for k in range(MODELS) for p in range(PROMPTS)]
    for serial in range(MATCHUPS):
        a, prompt, lane = number(MODELS), number(PROMPTS), number(4)
        matchup = {"a": a, "b": (a + 1 + number(MODELS - 1)) % MODELS, "prompt": prompt, "serial": serial}
        rows.append(
            matchup | {"event": Event.SERVED, "lane": lane, "nominal": lane, "session": number(12) - 1}
        )
        ending = (Event.SKIP, Event.EXPIRE)[number(2)] if number(10) == 0 else Event.VOTE
        rows.append(matchup | {"event": ending, "kind": number(len(Kind)) if ending == Event.VOTE else 0})
        if serial % 97 == 96:
            rows.append({"event": (Event.RETIRE, Event.ENABLE)[serial % 2], "a": serial % MODELS})
        if serial == MATCHUPS // 2:
            rows.append({"event": Event.WITHDRAW, "a": 1, "prompt": 2})
    return [row | {"event": int(row["event"]), "time": 1_700_000_000 + 60 * k} for k, row in enumerate(rows)]


def kept():
    """Shape and two sums of every array, the plain values, and the digest, which every machine must find."""
    following = ArenaFold(POLICY)
    following.widen([f"m{k}" for k in range(MODELS)], [f"p{k}" for k in range(PROMPTS)])
    following.fold(Events.of(told()))
    arrays, values = decode_state(following.save())
    sums = {name: list(_sums(array)) for name, array in sorted(arrays.items())}
    return {"arrays": sums, "values": json.loads(json.dumps(values)), "digest": following.digest()}


def _sums(array):
    flat = array.astype(np.float64).ravel()
    yield list(array.shape)
    yield float(np.nansum(flat))
    yield float(np.nansum(flat * np.cos(np.arange(len(flat)))))


def near(value):
    """The same, but for the last digits of numbers: the sums of this test are not portable, the digest is."""
    if isinstance(value, dict):
        return {key: near(one) for key, one in value.items()}
    if isinstance(value, list):
        return [near(one) for one in value]
    return pytest.approx(value, rel=1e-7, abs=1e-7) if isinstance(value, float) else value


def test_the_state_of_this_version_is_what_it_was():
    assert KEPT.exists(), f"no file for {STATE_VERSION}: python {Path(__file__).name} writes it"
    assert kept() == near(json.loads(KEPT.read_bytes())), "raise STATE_VERSION if this is meant"


if __name__ == "__main__":
    KEPT.write_text(json.dumps(kept(), sort_keys=True) + "\n")
