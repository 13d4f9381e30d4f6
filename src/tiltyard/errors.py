"""The exceptions that Tiltyard raises on purpose.

::

    TiltyardError
    ├── InputError                 the input cannot be used
    │   ├── UnreadableFile         the file cannot be opened, decoded or parsed
    │   ├── UnknownFormat          the file is readable, but its columns match no known format
    │   ├── BadBattle              a row is invalid: file, line, field
    │   ├── BadOption              a parameter or command-line option has an invalid value
    │   └── BadConfig              a configuration file is invalid: file, line, field
    ├── CannotRate                 the battles do not support the requested computation
    ├── NoMatchup                  no two enabled models have a prompt in common
    ├── Refused                    a live arena rejected the request
    │   ├── NotFound               no such arena, model, matchup or snapshot, or the caller may not see it
    │   ├── NotAllowed             not signed in, or the required scope is missing
    │   ├── Closed                 the matchup has ended, or the time to undo the vote has passed
    │   ├── Expired                the matchup was not answered in time
    │   ├── Conflict               the request conflicts with the current state
    │   └── Busy                   a rate limit or a concurrency limit was reached
    ├── StoreFault                 the database or the blob storage cannot be reached or used
    │   ├── Crowded                the queue for an expensive computation is full
    │   └── Deposed                another process has taken over rating this arena
    ├── MissingExtra               an optional dependency is not installed
    ├── ProviderFault              a model provider rejected the request, failed or could not be reached
    ├── JudgeUnusable              a judge gave too many consecutive replies without a verdict
    └── BrokenArtifact             a run folder is incomplete or its manifest is unreadable

Every message says what is wrong, where, and what to do about it. Errors from drivers and
libraries are translated into these at the edge; none of them reaches a user.
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
    """Base class of all Tiltyard exceptions."""


class InputError(TiltyardError):
    """The input (a file, a row or an option) cannot be used."""


class UnreadableFile(InputError):
    """A file cannot be opened, decompressed, decoded or parsed."""


class UnknownFormat(InputError):
    """A file was read, but its columns match no known format."""


class BadBattle(InputError):
    """A battle is invalid. ``where`` names the file and line, if known."""

    def __init__(self, problem: str, *, where: str | None = None) -> None:
        self.problem = problem
        self.where = where
        super().__init__(f"{where}: {problem}" if where else problem)


class BadOption(InputError):
    """A parameter or a command-line option has an invalid value."""


class BadConfig(InputError):
    """A configuration file is invalid; the message names the file, line and field."""


class CannotRate(TiltyardError):
    """The battles do not support the requested computation."""


class NoMatchup(TiltyardError):
    """No two enabled models have a response to the same prompt."""


class Refused(TiltyardError):
    """A live arena rejected the request; the message says why and what to do instead."""


class NotFound(Refused):
    """No such arena, model, prompt, matchup or snapshot; or the caller may not see it."""


class NotAllowed(Refused):
    """Not signed in (``known=False``), or signed in without the required permission (``known=True``)."""

    def __init__(self, problem: str, *, known: bool = False) -> None:
        self.known = known
        super().__init__(problem)


class Closed(Refused):
    """The matchup has already ended, or the time to undo the vote has passed."""


class Expired(Refused):
    """The matchup was not answered in time."""


class Conflict(Refused):
    """The request conflicts with the current state."""


class Busy(Refused):
    """A rate limit or a concurrency limit was reached. ``retry_after``: seconds to wait before retrying."""

    def __init__(self, problem: str, *, retry_after: float = 10.0) -> None:
        self.retry_after = retry_after
        super().__init__(problem)


class StoreFault(TiltyardError):
    """The database or the storage of responses cannot be reached or used."""


class Crowded(StoreFault):
    """The queue for an expensive computation is full. This is temporary: retry later."""


class Deposed(StoreFault):
    """Another process has taken over rating this arena, so this process's write was not applied."""


class MissingExtra(TiltyardError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(f"{purpose} needs an extra: pip install 'tiltyard[{extra}]'")


class ProviderFault(TiltyardError):
    """A model provider rejected the request, failed or could not be reached.

    ``retryable``: a retry may succeed. ``retry_after``: seconds to wait, as requested by the provider.
    ``throttled``: the provider asked for fewer calls (429, 529). ``billed``: the call may have been
    charged, because its response was lost. ``said``: the provider's own error message, if any.
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
    """A judge gave too many consecutive replies without a verdict, so that more calls would waste money."""


class BrokenArtifact(TiltyardError):
    """A run folder lacks a file, or its manifest cannot be read."""
