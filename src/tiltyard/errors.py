"""Everything that Tiltyard raises on purpose.

::

    TiltyardError
    ├── InputError                 what was given cannot be used
    │   ├── UnreadableFile         the file cannot be opened, decoded or parsed
    │   ├── UnknownFormat          the file is readable, but nobody here knows its columns
    │   ├── BadBattle              one row is wrong: file, line, field
    │   ├── BadOption              a parameter or command-line option makes no sense
    │   └── BadConfig              a configuration file is wrong: file, line, field
    ├── CannotRate                 the battles do not support what was asked of them
    ├── NoMatchup                  no two enabled models can meet
    ├── Refused                    a live arena will not do what was asked
    │   ├── NotFound               no such arena, model, matchup or snapshot, or not for the one who asks
    │   ├── NotAllowed             signed in as nobody, or without the scope that this needs
    │   ├── Closed                 the matchup has ended, or the time to take a vote back has passed
    │   ├── Expired                the matchup was not answered in time
    │   ├── Conflict               it contradicts what is there already
    │   └── Busy                   too many ask at once, or too often
    ├── StoreFault                 the database or the bytes' storage cannot be reached or used
    │   ├── Crowded                too many wait for what is made a few at a time
    │   └── Deposed                another process rates this arena by now
    ├── MissingExtra               an optional dependency is not installed
    ├── ProviderFault              a provider of models refused, failed or could not be reached
    ├── JudgeUnusable              a judge gave so many replies without a verdict that asking on is a waste
    └── BrokenArtifact             a run folder is incomplete or its manifest is unreadable

Every message says what was wrong, where, and what to do about it. Errors of drivers and
libraries are translated into these where they are met; none of them reaches a user.
"""

from __future__ import annotations

__all__ = [
    "BadBattle",
    "BadConfig",
    "BadOption",
    "BrokenArtifact",
    "Busy",
    "CannotRate",
    "Closed",
    "Conflict",
    "Crowded",
    "Deposed",
    "Expired",
    "InputError",
    "JudgeUnusable",
    "MissingExtra",
    "NoMatchup",
    "NotAllowed",
    "NotFound",
    "ProviderFault",
    "Refused",
    "StoreFault",
    "TiltyardError",
    "UnknownFormat",
    "UnreadableFile",
]


class TiltyardError(Exception):
    """Root of every error raised on purpose; catching it catches them all."""


class InputError(TiltyardError):
    """What was given (a file, a row, an option) cannot be used as it is."""


class UnreadableFile(InputError):
    """A file cannot be opened, decompressed, decoded or parsed."""


class UnknownFormat(InputError):
    """A file was read, but its columns match no known format."""


class BadBattle(InputError):
    """One battle is wrong. ``where`` names the file and line once they are known."""

    def __init__(self, problem: str, *, where: str | None = None) -> None:
        self.problem = problem
        self.where = where
        super().__init__(f"{where}: {problem}" if where else problem)


class BadOption(InputError):
    """A parameter or a command-line option has a value that makes no sense."""


class BadConfig(InputError):
    """A configuration file is wrong; the message names file, line and field."""


class CannotRate(TiltyardError):
    """The battles do not support what was asked of them."""


class NoMatchup(TiltyardError):
    """No two enabled models have a response to the same prompt."""


class Refused(TiltyardError):
    """A live arena will not do what was asked; the message says why and what can be done instead."""


class NotFound(Refused):
    """No such arena, model, prompt, matchup or snapshot; or none that the one who asks may see."""


class NotAllowed(Refused):
    """Nobody is signed in, or whoever is lacks the right. ``known`` tells the two apart."""

    def __init__(self, problem: str, *, known: bool = False) -> None:
        self.known = known
        super().__init__(problem)


class Closed(Refused):
    """The matchup has ended otherwise, or the time to take a vote back has passed."""


class Expired(Refused):
    """The matchup was not answered in time."""


class Conflict(Refused):
    """What was asked contradicts what is there already."""


class Busy(Refused):
    """Too many ask at once, or too often. ``retry_after``: seconds after which to ask again."""

    def __init__(self, problem: str, *, retry_after: float = 10.0) -> None:
        self.retry_after = retry_after
        super().__init__(problem)


class StoreFault(TiltyardError):
    """The database, or the storage of responses, cannot be reached or used."""


class Crowded(StoreFault):
    """Too many wait already for what is made only a few at a time. Nothing is wrong; asking again helps."""


class Deposed(StoreFault):
    """Another process rates this arena by now: what this one wanted to write was not written."""


class MissingExtra(TiltyardError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(f"{purpose} needs an extra: pip install 'tiltyard[{extra}]'")


class ProviderFault(TiltyardError):
    """A provider of models refused, failed or could not be reached.

    ``retryable``: asking again may help. ``retry_after``: seconds it asked us to wait.
    ``throttled``: it wants fewer calls (429, 529). ``billed``: the call may have been charged,
    because its answer was lost on the way. ``said``: the provider's own words, where it had any.
    """

    def __init__(
        self,
        problem: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        throttled: bool = False,
        billed: bool = False,
        retry_after: float | None = None,
        said: str = "",
    ) -> None:
        self.said = said
        self.status = status
        self.retryable = retryable
        self.throttled = throttled
        self.billed = billed
        self.retry_after = retry_after
        super().__init__(problem)


class JudgeUnusable(TiltyardError):
    """A judge gave so many replies in a row without a verdict that asking it on would waste money."""


class BrokenArtifact(TiltyardError):
    """A run folder lacks a file, or its manifest cannot be read."""
