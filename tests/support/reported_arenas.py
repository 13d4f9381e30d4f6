"""Logs of small arenas, and validity reports of them."""

from __future__ import annotations

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.report import ValidityReport, validity_report

SMALL = Policy(
    established_votes=0,
    established_coverage=0.0,
    established_rd=1000.0,
    window=40,
    evaluated_every=20,
    evaluations=2,
    published_top=4,
    contenders=3,
    settling=2,
    adjacent_votes=3,
    adjacent_prompts=2,
    adjacent_attempts=9,
)
START = 1_750_000_000
HOUR = 3600


def happened(
    models: int = 7,
    prompts: int = 6,
    matchups: int = 300,
    *,
    seed: int = 0,
    timed: bool = True,
    newcomer: bool = True,
    both_bad: float = 0.1,
) -> list[dict[str, int]]:
    """Rows of an arena with skips, expiries, open matchups, and (if asked) a newcomer and a retirement.

    Pairs and prompts are drawn evenly; model 0 is the strongest.
    """
    rng = np.random.default_rng(seed)
    playing = list(range(models - newcomer))
    rows = [{"event": Event.ENABLE, "a": k} for k in playing]
    for serial in range(matchups):
        if newcomer and serial == matchups // 3:
            playing.append(models - 1)
            rows.append({"event": Event.ENABLE, "a": models - 1})
        if newcomer and serial == matchups // 2:
            playing.remove(1)
            rows.append({"event": Event.RETIRE, "a": 1})
        a, b = rng.choice(playing, 2, replace=False).tolist()
        row = {"a": a, "b": b, "prompt": int(rng.integers(prompts)), "serial": serial}
        lane, nominal = rng.choice(4, 2, p=[0.3, 0.2, 0.1, 0.4]).tolist()
        rows.append({"event": Event.SERVED, "lane": lane, "nominal": nominal, **row})
        ending = rng.choice(4, p=[0.88, 0.05, 0.05, 0.02])
        if ending == 0:
            rows.append({"event": Event.VOTE, "kind": _kind(a, b, both_bad, rng), **row})
        elif ending < 3:
            rows.append({"event": (Event.SKIP, Event.EXPIRE)[ending - 1], "serial": serial})
    if timed:
        rows = [{**row, "time": START + k * HOUR // 10} for k, row in enumerate(rows)]
    return [{name: int(value) for name, value in row.items()} for row in rows]


def _kind(a: int, b: int, both_bad: float, rng: np.random.Generator) -> Kind:
    u = rng.random()
    if u < both_bad:
        return Kind.BOTH_BAD
    if u < both_bad + 0.15:
        return Kind.TIE
    return Kind.WIN_A if rng.random() < 1.0 / (1.0 + np.exp(0.4 * (a - b))) else Kind.WIN_B


def named(models: int) -> list[str]:
    """Names whose alphabetical order is not that of the codes."""
    return [f"model {'qwertyuiopasdfghjklzxcvbnm'[k]}" for k in range(models)]


def reported(
    rows: list[dict[str, int]] | None = None,
    *,
    models: int = 7,
    prompts: int = 6,
    policy: Policy = SMALL,
    names: list[str] | None = None,
    **options,
) -> ValidityReport:
    """The report of these rows."""
    rows = happened(models, prompts) if rows is None else rows
    known = [f"prompt {k}" for k in range(prompts)]
    return validity_report(Events.of(rows), names or named(models), known, policy, **options)
