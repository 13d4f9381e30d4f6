"""The result of comparing two models, as sentences, JSON and a comment for a pull request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiltyard.core.ratings.findings import Finding
from tiltyard.report.escapes import markdown_text


@dataclass(frozen=True, slots=True)
class CostRatio:
    """What B's answers cost by A's: ``dollars``, ``output tokens`` or ``seconds``, as means over the samples of both."""

    name: str
    samples: int
    mean_a: float
    mean_b: float
    #: The 95 % interval of B's mean as a share of A's; 0 and infinity where nothing can be said.
    low: float
    high: float

    @property
    def change(self) -> str | None:
        """How much less or more, with the interval; ``None`` where that is not sure."""
        if not (self.high < 1.0 or 1.0 < self.low < math.inf):
            return None
        ends = sorted(abs(1.0 - end) for end in (self.low, self.high))
        size, first, last = (
            f"{100.0 * value:.0f}" for value in (abs(1.0 - self.mean_b / self.mean_a), *ends)
        )
        return f"{size} % {'less' if self.high < 1.0 else 'more'} ({first}–{last} %)"

    def __str__(self) -> str:
        sign = "$" if self.name == "dollars" else ""
        a, b = (f"{sign}{value:.3g}" for value in (self.mean_a, self.mean_b))
        change = self.change or "no difference is sure"
        return f"{self.name.capitalize()} of an answer: {b} against {a}, {change} ({_counted(self.samples, 'samples')})."

    def to_dict(self) -> dict[str, Any]:
        ratio = self.mean_b / self.mean_a
        return {
            "name": self.name,
            "samples": self.samples,
            "mean_a": self.mean_a,
            "mean_b": self.mean_b,
            "ratio": ratio,
            "low": self.low,
            "high": _finite(self.high),
        }


@dataclass(frozen=True)
class ABReport:
    """What is said about B against A. Values are already in the unit of the comparison."""

    name_a: str
    name_b: str
    #: ``better``, ``not worse``, ``same``, ``worse`` or ``undecided``, said of B; ``cannot tell`` of the judge.
    decision: str
    #: ``scores`` or ``judge``.
    basis: str
    #: ``points``, or the name of the score.
    unit: str
    difference: float
    low: float
    high: float
    level: float
    #: Samples or prompts that were compared.
    compared: int
    margin: float | None
    #: How many more of them would decide, and what they would cost, where that is known.
    more: int | None = None
    more_usd: str | None = None
    #: What else belongs to the result, by name.
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Whether judging ended early, because of the budget or of calls that failed.
    stopped: bool = False
    problems: tuple[str, ...] = ()
    lower_is_better: bool = False
    #: Why it is undecided, if not for want of prompts.
    reason: str | None = None
    #: What to know of the judges.
    findings: tuple[Finding, ...] = ()
    #: What was left out of the files, and what else a reader should know.
    notes: tuple[str, ...] = ()
    #: What answers cost, where both logs say it.
    costs: tuple[CostRatio, ...] = ()

    @property
    def verdict(self) -> str:
        """The decision as one sentence, with what B costs if it may be chosen."""
        size = self._size(self.margin or 0.0)
        if self.decision in {"better", "worse"}:
            return f"{self.name_b} is {self.decision} than {self.name_a}{self._cost()}."
        if self.decision == "same":
            return f"{self.name_b} and {self.name_a} are the same within ±{size}{self._cost()}."
        if self.decision == "not worse":
            return f"{self.name_b} is not worse than {self.name_a} by more than {size}{self._cost()}.{self._better()}"
        if self.decision == "cannot tell":
            return f"The judge cannot tell: {self.reason}."
        if self.reason is not None:
            return f"Undecided: {self.reason}."
        return f"Undecided. {self._more()}"

    @property
    def numbers(self) -> str:
        """The difference, its interval and what it rests on."""
        if not self.compared:
            return f"No {self._things} were compared."
        direction = " (lower is better)" if self.lower_is_better else ""
        return (
            f"{self.name_b} − {self.name_a}: {difference_text(self.difference, self.unit)} "
            f"({self.level:.0%} interval {interval_text(self.low, self.high, self.unit)}), "
            f"{_counted(self.compared, self._things)} like these{direction}.{self._unpaired()}"
        )

    @property
    def _things(self) -> str:
        return "samples" if self.basis == "scores" else "prompts"

    def _unpaired(self) -> str:
        """The samples that only one of the files has."""
        sides = [("A", self.details.get("only_in_a")), ("B", self.details.get("only_in_b"))]
        counts = [(side, count) for side, count in sides if count]
        if not counts:
            return ""
        first, *rest = counts
        parts = [f"{_counted(first[1], self._things)} only in {first[0]}"]
        parts += [f"{count:,} only in {side}" for side, count in rest]
        verb = "was" if sum(count for _, count in counts) == 1 else "were"
        return f" {', '.join(parts)} {verb} left out."

    def _cost(self) -> str:
        change = next((one.change for one in self.costs if one.name == "dollars"), None)
        return "" if change is None or self.decision == "worse" else f", and {self.name_b} costs {change}"

    def _better(self) -> str:
        """How many more would tell more than that it is not worse."""
        if self.more is None:
            return ""
        return f" Whether it is better or the same, about {_counted(self.more, self._things, 'more ')} would tell."

    def _more(self) -> str:
        if self.more is None:
            margin = "--margin can say which differences count as the same"
            wider = margin if self.margin is None else "a wider --margin would decide"
            return f"More {self._things} are needed, or {wider}."
        cost = f", about {self.more_usd}," if self.more_usd else ""
        more = _counted(self.more, self._things, "more ")
        return f"About {more}{cost} would tell, if the difference stays as it is."

    def _size(self, value: float) -> str:
        return f"{value:.0f} points" if self.unit == "points" else f"{value:g} {self.unit}"

    def to_dict(self) -> dict[str, Any]:
        """The result for programs; what is unknown or without bound is null."""
        return {
            "a": self.name_a,
            "b": self.name_b,
            "decision": self.decision,
            "basis": self.basis,
            "unit": self.unit,
            "difference": _finite(self.difference),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "level": self.level,
            "compared": self.compared,
            "margin": self.margin,
            "more": self.more,
            "more_usd": self.more_usd,
            "lower_is_better": self.lower_is_better,
            "notes": list(self.notes),
            "costs": [one.to_dict() for one in self.costs],
            **self.details,
            **(
                {"findings": [dict(finding.to_dict()) for finding in self.findings]}
                if self.basis == "judge"
                else {}
            ),
        }

    def to_markdown(self) -> str:
        """A comment for a pull request."""
        mark = {"worse": "❌", "undecided": "❔", "cannot tell": "❔"}.get(self.decision, "✅")
        found = [
            (
                "difference, lower is better" if self.lower_is_better else "difference",
                difference_text(self.difference, self.unit),
            ),
            (f"{self.level:.0%} interval", interval_text(self.low, self.high, self.unit)),
        ]
        rows = [
            *(found if self.compared else ()),
            ("compared", f"{self.compared:,}"),
            *(
                (name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
                for name, value in self.details.items()
                if value is not None
            ),
        ]
        table = "\n".join(f"| {markdown_text(name)} | {markdown_text(value)} |" for name, value in rows)
        listed = (*map(str, self.costs), *self.notes, *(str(finding) for finding in self.findings))
        items = "".join(f"\n- {markdown_text(line)}" for line in listed)
        return f"{mark} **{markdown_text(self.verdict)}**\n\n| | |\n|---|---|\n{table}\n" + (
            f"{items}\n" if items else ""
        )


def difference_text(value: float, unit: str) -> str:
    """A difference with its sign; one that no finite rating expresses was won on every prompt."""
    if math.isinf(value):
        return f"{'won' if value > 0 else 'lost'} every prompt"
    return f"{_signed(value, unit)} {unit}"


def interval_text(low: float, high: float, unit: str) -> str:
    """The ends of an interval, as far as it has any."""
    if math.isinf(low) and math.isinf(high):
        return "without bounds"
    if math.isinf(high):
        return f"above {_signed(low, unit)}"
    if math.isinf(low):
        return f"below {_signed(high, unit)}"
    return f"{_signed(low, unit)} to {_signed(high, unit)}"


def _signed(value: float, unit: str) -> str:
    text = f"{abs(value):.{0 if abs(value) >= 1 else 1}f}" if unit == "points" else f"{abs(value):.3g}"
    return f"{'−' if value < 0 else '+'}{text}"


def _counted(count: int, things: str, word: str = "") -> str:
    return f"{count:,} {word}{things.removesuffix('s') if count == 1 else things}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
