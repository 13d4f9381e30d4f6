"""What an arena does against rigging, each part to be switched on alone."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.settings.serving_settings import SESSION_LIMITS, ServingSettings

#: Tries of a proof of work that a program makes in a second, and that a proof takes on average; then a hard one.
_TRIES_PER_SECOND = 1_000_000
_PROOF_STEPS, _HARD_PROOF_STEPS = 50_000, 500_000
#: What a request takes if nothing slows it down.
_REQUEST_SECONDS = 0.02
_MINUTE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Defence:
    """Which parts are on."""

    name: str
    blind: bool = True
    shown: bool = False
    gate: bool = False
    ageing: bool = False
    watch: bool = False


DEFENCES = (
    Defence("none", blind=False),
    Defence("blind votes"),
    Defence("shown check", shown=True),
    Defence("gate and limits", gate=True),
    Defence("ageing", ageing=True),
    Defence("crowd watch", watch=True),
    Defence("all", shown=True, gate=True, ageing=True, watch=True),
)


def attack_seconds(defence: Defence, accounts: int, votes: int, skips: int, look_seconds: float) -> float:
    """How long an attack takes at least, if its accounts share the work and run at once from one network."""
    vote = 4 * _REQUEST_SECONDS + (look_seconds if defence.shown else 0.0)
    skip, entry = 2 * _REQUEST_SECONDS, 0.0
    if defence.gate:
        vote = max(vote, _MINUTE_SECONDS / SESSION_LIMITS["votes"])
        skip = max(skip, _MINUTE_SECONDS / SESSION_LIMITS["skips"])
        easy = min(accounts, ServingSettings().easy_sessions_per_minute)
        entry = (easy * _PROOF_STEPS + (accounts - easy) * _HARD_PROOF_STEPS) / _TRIES_PER_SECOND
    return entry + (votes * vote + skips * skip) / accounts
