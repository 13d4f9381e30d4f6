"""What came of an attack."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The result of one attack. Ranks are among the models that were there before it."""

    #: Votes that the target won by the attack, and those that count before waiting votes are released.
    target_votes: int
    counted_votes: int
    #: Ranks that the target gained over the board of the same moment without the attack's votes: at the alarm, before waiting
    #: votes are released, and after that. With a watch, the operator has then excluded what the pages offer.
    gain_at_alarm: int | None
    gain_before: int
    gain_after: int
    #: The attack's votes for the target when a change of the crowd was first told, ``None`` if it never was; and whether the
    #: target was named then. Where it wins more, another model loses more and may be named first.
    alarm_after: int | None
    names_target: bool
    #: Whether the rigged board was officially stable before the exclusion.
    official: bool
    #: Honest votes that waited, that came too early to count, and that the exclusion took along.
    honest_held: int
    honest_lost: int
    honest_excluded: int
    #: Sessions: all honest ones; those that a test of single voters flags; those that an alarm names.
    honest_sessions: int
    honest_flagged: int
    accounts_flagged: int
    honest_offered: int
    accounts_offered: int
    #: Models whose final rank is outside their range on the board without the attack.
    out_of_range: int
    #: The least time that the attack takes.
    seconds: float
