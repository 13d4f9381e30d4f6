"""Random logs of tiny arenas, and ways to fold them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state import standing as standing_module
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.arena_fold import save

#: What follows from the counts and must agree however they were folded.
CACHES = (
    "cells.eligible",
    "cells.shared",
    "cells.need",
    "cells.short",
    "cells.n_eligible",
    "cells.n_filled",
    "cells.n_exhausted",
    "cells.best",
    "prompt_meetings.decisive",
    "prompt_meetings.attempts",
    "prompt_meetings.prompts",
    "thin",
    "order",
    "in_band",
)


@dataclass(frozen=True)
class Log:
    """An arena and what happened there; ``ranks`` says before which row which seed draws strengths."""

    policy: Policy
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    answered: np.ndarray
    rows: list[dict[str, int]]
    ranks: dict[int, int]

    def standing(self) -> Standing:
        return Standing(self.policy, self.models, self.prompts, self.answered)

    def strengths(self, seed: int) -> Strengths:
        rng = np.random.default_rng(seed)
        m = len(self.models)
        # Few different values: ties in the order must be broken alike.
        return Strengths(
            rng.choice([1400.0, 1500.0, 1600.0], m), rng.choice([50.0, 80.0], m), rng.random(m), rng.random(m)
        )

    def parts(self) -> list[tuple[int, int]]:
        """Runs of rows between two calls of `rank`."""
        cuts = [0, *sorted(self.ranks), len(self.rows)]
        return list(pairwise(cuts))


def happen(standing: Standing, row: dict[str, int]) -> None:
    """One event, by the door that an arena uses."""
    event = row["event"]
    if event == Event.SERVED:
        standing.serve(
            row["a"],
            row["b"],
            row["prompt"],
            lane=row["lane"],
            nominal=row["nominal"],
            session=row.get("session", NO_SESSION),
            serial=row["serial"],
        )
    elif event == Event.VOTE:
        session, free_prompt = row.get("session", NO_SESSION), row.get("free_prompt", NO_FREE_PROMPT)
        standing.vote(row["a"], row["b"], row["prompt"], row["kind"], session, free_prompt)
    elif event == Event.SKIP:
        standing.skip()
    elif event == Event.EXPIRE:
        standing.expire(row["serial"])
    elif event == Event.ENABLE:
        standing.enable(row["a"])
    elif event == Event.RETIRE:
        standing.retire(row["a"])
    else:
        standing.respond(row["a"], row["prompt"], present=event == Event.RESPOND)


def one_by_one(
    log: Log, standing: Standing | None = None, start: int = 0, stop: int | None = None
) -> Standing:
    standing = standing or log.standing()
    for k in range(start, len(log.rows) if stop is None else stop):
        if k in log.ranks:
            standing.rank(log.strengths(log.ranks[k]))
        happen(standing, log.rows[k])
    return standing


def in_bulk(log: Log, least: int = 0) -> Standing:
    """Every run between two ranks in one call; runs of ``least`` events and more take the bulk's path."""
    standing = log.standing()
    before, standing_module._BULK_EVENTS = standing_module._BULK_EVENTS, least
    try:
        for start, stop in log.parts():
            if start in log.ranks:
                standing.rank(log.strengths(log.ranks[start]))
            standing.fold(Events.of(log.rows[start:stop]))
    finally:
        standing_module._BULK_EVENTS = before
    return standing


def caches(standing: Standing) -> dict[str, np.ndarray]:
    found = {}
    for name in CACHES:
        value = standing
        for part in name.split("."):
            value = getattr(value, part)
        found[name] = value
    due = standing.window.due()
    return {**found, "target": due.target, "tolerance": due.tolerance, "guard": due.guard}


def assert_same(one: Standing, other: Standing) -> None:
    """The same bits, in what is saved and in what follows from it."""
    left, right = save(one), save(other)
    for name in left.arrays:
        np.testing.assert_array_equal(left.arrays[name], right.arrays[name], err_msg=name)
    assert left.values == right.values
    assert left.digest() == right.digest()
    theirs = caches(other)
    for name, mine in caches(one).items():
        assert mine.dtype == theirs[name].dtype, name
        np.testing.assert_array_equal(mine, theirs[name], err_msg=name)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    floor = draw(st.integers(1, 3))
    return Policy(
        window=draw(st.sampled_from([1, 2, 5, 12, 500])),
        fairness=draw(st.sampled_from(["strict", "scoped"])),
        contenders=draw(st.integers(1, 4)),
        prompt_floor=floor,
        top_prompt_floor=draw(st.integers(floor, 4)),
        patience=draw(st.integers(1, 3)),
        pair_floor=draw(st.integers(1, 3)),
        meetings=draw(st.integers(1, 4)),
        session_pairs=draw(st.integers(0, 3)),
        sessions_kept=draw(st.integers(1, 4)),
        settling=draw(st.integers(0, 3)),
        both_bad_over=draw(st.integers(1, 5)),
        form_votes=1,
        free_prompts=draw(st.booleans()),
    )


@st.composite
def logs(draw: st.DrawFn, most: int = 120) -> Log:
    """Any order of events at all: votes on what was never served, expiries of what never was."""
    m, p = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, most))
    weights = np.array(draw(st.sampled_from(MIXES)))
    answered = rng.random((m, p)) < draw(st.sampled_from([1.0, 0.6]))
    policy = draw(policies())
    rows: list[dict[str, int]] = [
        {"event": int(Event.ENABLE), "a": k} for k in range(m) if rng.random() < 0.7
    ]
    # Matchups that were prefetched are shown later than others that were served after them.
    waits = draw(st.sampled_from([0, 4, 30]))
    serials = np.argsort(np.arange(n) + waits * rng.random(n), kind="stable").tolist()
    served = 0
    for event in rng.choice(len(Event), n, p=weights / weights.sum()).tolist():
        rows.append(_row(event, m, p, served, rng))
        if event == Event.SERVED:
            rows[-1]["serial"] = serials[served]
            served += 1
    ranks = {
        int(k): int(rng.integers(100)) for k in rng.integers(0, max(len(rows), 1), draw(st.integers(0, 3)))
    }
    names = tuple(f"m{k}" for k in range(m)), tuple(f"p{k}" for k in range(p))
    return Log(policy, *names, answered, rows, {k: seed for k, seed in ranks.items() if k < len(rows)})


#: How often each kind of event comes: a lively arena, one that only votes, one in upheaval.
MIXES = ((40, 40, 3, 6, 2, 2, 3, 3), (1, 30, 0, 0, 0, 0, 0, 0), (6, 6, 1, 6, 5, 5, 5, 5))


def _row(event: int, m: int, p: int, served: int, rng: np.random.Generator) -> dict[str, int]:
    a = int(rng.integers(m))
    row = {"event": event, "a": a}
    if event in (Event.SERVED, Event.VOTE):
        row |= {"b": int((a + rng.integers(1, m)) % m), "prompt": int(rng.integers(p))}
        row |= {
            "kind": int(rng.choice(len(Kind))),
            "lane": int(rng.integers(4)),
            "nominal": int(rng.integers(4)),
        }
        row["session"] = int(rng.integers(-1, 6))
        if event == Event.VOTE:
            row["free_prompt"] = int(rng.choice((1, 2, 3, 2**32 - 1)))
    elif event == Event.EXPIRE:
        row["serial"] = int(rng.integers(-2, served + 3))
    elif event in (Event.RESPOND, Event.WITHDRAW):
        row["prompt"] = int(rng.integers(p))
    return row
