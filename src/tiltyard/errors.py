"""The errors that Tiltyard raises on purpose form one tree; catching `TiltyardError` catches them all.

Every message says what is wrong, where, and what to do about it. Errors from drivers and libraries are translated into
these at the edge; none of them reaches a user.

On the command line each of them is one line on standard error, `BadConfig` one for each problem, and exit code 2 (4 for
`JudgeUnusable`). Anything else is a bug: exit code 70, and ``TILTYARD_DEBUG=1`` shows where. A finding is not an error:
the numbers are given, and the finding says how to interpret them.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BadBattle",
    "BadConfig",
    "BadOption",
    "BrokenArtifact",
    "Busy",
    "CannotRate",
    "Closed",
    "CodeNeeded",
    "Conflict",
    "Crowded",
    "Deposed",
    "Expired",
    "IdentityFault",
    "InputError",
    "JudgeUnusable",
    "MissingExtra",
    "NoMatchup",
    "NotAdmitted",
    "NotAllowed",
    "NotFound",
    "OpenBattle",
    "OutOfBudget",
    "Paused",
    "ProofNeeded",
    "ProviderFault",
    "Refused",
    "RoleMissing",
    "SecondFactorMissing",
    "StoreFault",
    "TiltyardError",
    "UnclearColumns",
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


class UnclearColumns(InputError):
    """It is not clear what the columns of a table hold. ``columns``: what each seems to be, by its header."""

    def __init__(self, problem: str, columns: Mapping[str, str]) -> None:
        self.columns = columns
        super().__init__(problem)


class BadBattle(InputError):
    """A battle is invalid. ``where`` names the file and line, if known."""

    def __init__(self, problem: str, *, where: str | None = None) -> None:
        self.problem = problem
        self.where = where
        super().__init__(f"{where}: {problem}" if where else problem)


class BadOption(InputError):
    """A parameter, a setting or a command-line option has an invalid value. ``option``: which, if it is one alone."""

    def __init__(self, problem: str, *, option: str | None = None) -> None:
        self.option = option
        super().__init__(problem)


class BadConfig(InputError):
    """A configuration file is invalid; the message names the file, line and field.

    ``problems``: each on a line of its own.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class CannotRate(TiltyardError):
    """The battles do not support the requested computation."""


class NoMatchup(TiltyardError):
    """No two enabled models have a response to the same prompt."""


class Refused(TiltyardError):
    """An arena rejected the request; the message says why and what to do instead."""


class NotFound(Refused):
    """No such arena, model, prompt, matchup or snapshot; or the caller may not see it."""

    @classmethod
    def arena(cls, name: str) -> NotFound:
        """No arena has this name, which the caller gave; the same of one that the caller may not see."""
        return cls(f"no such arena: {name[:100]!r}; see the list of arenas")


class NotAllowed(Refused):
    """Not signed in (``known=False``), or signed in without the required permission (``known=True``)."""

    def __init__(self, problem: str, *, known: bool = False) -> None:
        self.known = known
        super().__init__(problem)


class NotAdmitted(NotAllowed):
    """The arena is private and the caller has not come in.

    ``entry``: what lets in: ``invitation``, ``passcode``, ``sign-in``, or ``group`` for whoever has signed in, but belongs
    to none of the groups that may come in.
    """

    def __init__(self, problem: str, *, arena: str | None = None, entry: str = "invitation") -> None:
        self.arena = arena
        self.entry = entry
        super().__init__(problem, known=True)


class ProofNeeded(NotAllowed):
    """The arena is open to everybody, but a new voter must send a proof of work first. ``arena``: its name."""

    def __init__(self, problem: str, *, arena: str | None = None) -> None:
        self.arena = arena
        super().__init__(problem, known=True)


class RoleMissing(NotAllowed):
    """The operator's role does not allow this; the message says which role is needed and who can grant it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, known=True)


class SecondFactorMissing(NotAllowed):
    """The operator's role needs a second factor, and the operator has none."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, known=True)


class CodeNeeded(NotAllowed):
    """The password is right, but a code of the second factor is missing or wrong."""


class Closed(Refused):
    """The matchup has already ended, or the time to undo the vote has passed."""


class Expired(Refused):
    """The matchup was not answered in time."""


class Paused(Refused):
    """The arena is paused or archived: it serves no matchups at present."""


class Conflict(Refused):
    """The request conflicts with the current state."""


class OpenBattle(Conflict):
    """The voter has a live battle that is not voted on yet. ``matchup``: its id."""

    def __init__(self, problem: str, *, matchup: str) -> None:
        self.matchup = matchup
        super().__init__(problem)


class OutOfBudget(Refused):
    """A call to a model would exceed a budget of the arena; nothing was sent.

    ``scope``: ``total``, ``day``, ``voter``, or ``price`` where the price of a model is unknown while a budget is set.
    """

    def __init__(self, problem: str, *, scope: str = "total") -> None:
        self.scope = scope
        super().__init__(problem)


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
    """An optional dependency is needed and not installed: one of Tiltyard's extras, or another ``package``."""

    def __init__(self, extra: str, purpose: str, *, package: str | None = None) -> None:
        self.extra = extra
        needs = (
            f"an extra: pip install 'tiltyard[{extra}]'"
            if package is None
            else f"{package}: pip install {package}"
        )
        super().__init__(f"{purpose} needs {needs}")


class ProviderFault(TiltyardError):
    """A model provider rejected the request, failed or could not be reached.

    ``retryable``: a retry may succeed. ``retry_after``: seconds to wait, as requested by the provider.
    ``throttled``: the provider asked for fewer calls (429, 529). ``billed``: the call may have been
    charged, because its response was lost. ``fatal``: other calls to this model would fail for the same
    reason, such as a wrong key, no credit or a retired model. ``said``: the provider's own error message, if any.
    """

    def __init__(
        self,
        problem: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        throttled: bool = False,
        billed: bool = False,
        fatal: bool = False,
        retry_after: float | None = None,
        said: str = "",
    ) -> None:
        self.said = said
        self.fatal = fatal
        self.status = status
        self.retryable = retryable
        self.throttled = throttled
        self.billed = billed
        self.retry_after = retry_after
        super().__init__(problem)


class StreamBroken(ProviderFault):
    """A model's answer broke off after a part of it had arrived: lost, stalled, garbled, or without its end mark."""


class EmptyAnswer(ProviderFault):
    """A model ended its answer without a word, as after a content filter."""


class IdentityFault(TiltyardError):
    """The identity provider failed, or what it said of a person cannot be trusted.

    ``unreachable``: it gave no usable answer, and may do so later.
    """

    def __init__(self, problem: str, *, unreachable: bool = False) -> None:
        self.unreachable = unreachable
        super().__init__(problem)


class JudgeUnusable(TiltyardError):
    """A judge gave too many consecutive replies without a verdict, so that more calls would waste money."""


class BrokenArtifact(TiltyardError):
    """A run folder lacks a file or was changed, or its manifest cannot be read."""
