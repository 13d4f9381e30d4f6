"""The result of comparing models with a baseline, as sentences, JSON and a comment for a pull request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from tiltyard.core.ratings.findings import Finding
from tiltyard.report.board_formats import comparison_fragment, frontier_fragment
from tiltyard.report.escapes import markdown_text

#: What a guard is called that was shown to be worse.
GUARD_FAILED = "guard failed"
#: What several candidates come to is what is worst of one, in this order.
_WORST_FIRST = ("worse", GUARD_FAILED, "cannot tell", "undecided", "not worse", "same", "better")
#: What one candidate's comparisons come to; ``open`` is undecided about a margin.
_DECISIVE_FIRST = ("worse", GUARD_FAILED, "cannot tell", "open", "better", "undecided", "not worse", "same")
#: What is said of a comparison as it is.
_PLAIN_FIELDS = ("decision", "basis", "unit", "level", "compared", "margin", "more", "more_usd", "guard")
_HEADS = ("candidate", "by", "difference", "interval", "compared", "decision")
#: What stands before a decision that is not a good one.
_MARKS = {"worse": "❌", GUARD_FAILED: "❌", "undecided": "❔", "cannot tell": "❔"}


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
        return asdict(self) | {"ratio": self.mean_b / self.mean_a, "high": _finite(self.high)}


@dataclass(frozen=True)
class ABReport:
    """What is said about B against A. Values are already in the unit of the comparison.

    With several scores, guards or candidates, ``comparisons`` has all of them, and the report itself is the one that
    the decision rests on.
    """

    name_a: str
    name_b: str
    #: ``better``, ``not worse``, ``same``, ``worse`` or ``undecided``, said of B; ``cannot tell`` of the judge; or
    #: ``guard failed``, if a guard is worse.
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
    #: What it rests on that they are the same, or one is not worse, by a judge.
    evidence: str | None = None
    #: Why it is undecided, if not for want of prompts.
    reason: str | None = None
    #: What to know of the judges.
    findings: tuple[Finding, ...] = ()
    #: What was left out of the files, and what else a reader should know.
    notes: tuple[str, ...] = ()
    #: What answers cost, where both logs say it.
    costs: tuple[CostRatio, ...] = ()
    #: Whether it is of a score that must not be worse, whatever the others say.
    guard: bool = False
    #: Every comparison, if there are several; their intervals hold all at once.
    comparisons: tuple[ABReport, ...] = ()

    @classmethod
    def combined(cls, comparisons: Sequence[ABReport]) -> ABReport:
        """One report of all comparisons."""
        if len(comparisons) == 1:
            return comparisons[0]
        decisive = min(_decisive(comparisons), key=lambda one: _WORST_FIRST.index(one.decision))
        return replace(
            decisive,
            comparisons=tuple(comparisons),
            stopped=any(one.stopped for one in comparisons),
            findings=tuple(dict.fromkeys(found for one in comparisons for found in one.findings)),
            problems=tuple(dict.fromkeys(problem for one in comparisons for problem in one.problems)),
        )

    @property
    def candidates(self) -> list[ABReport]:
        """For each candidate the comparison that decides on it."""
        return _decisive(self.comparisons) if self.comparisons else [self]

    @property
    def verdict(self) -> str:
        """The decision as one sentence; of several comparisons one for each candidate."""
        return "\n".join(self.verdicts)

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each candidate, which says by what it was decided if there are several comparisons."""
        return [
            f"{one.name_b}, {_by(one)}: {one.sentence}" if self.comparisons else one.sentence
            for one in self.candidates
        ]

    @property
    def sentence(self) -> str:
        """The decision on this comparison alone, with what B costs if it may be chosen."""
        size = self._size(self.margin or 0.0)
        if self.decision == GUARD_FAILED:
            return f"The guard failed: {self.name_b} is worse than {self.name_a}."
        if self.decision in {"better", "worse"}:
            return f"{self.name_b} is {self.decision} than {self.name_a}{self._cost()}."
        if self.decision == "same":
            return (
                f"{self.name_b} and {self.name_a} are the same within ±{size}{self._as_far()}{self._cost()}."
            )
        if self.decision == "not worse":
            return f"{self.name_b} is not worse than {self.name_a} by more than {size}{self._as_far()}{self._cost()}.{self._better()}"
        if self.decision == "cannot tell":
            return f"The judge cannot tell: {self.reason}."
        undecided = "The guard is not shown to hold" if self.guard else "Undecided"
        return f"{undecided}: {self.reason}." if self.reason is not None else f"{undecided}. {self._more()}"

    @property
    def numbers(self) -> str:
        """The difference, its interval and what it rests on; of several comparisons how they hold."""
        if self.comparisons:
            together = 1.0 - len(self.comparisons) * (1.0 - self.level)
            return (
                f"{len(self.comparisons)} comparisons with {self.name_a}: intervals of {_percent(self.level)} each, "
                f"so that all hold at once with {_percent(together)}."
            )
        if not self.compared:
            return f"No {self._things} were compared."
        direction = " (lower is better)" if self.lower_is_better else ""
        return (
            f"{self.name_b} − {self.name_a}: {difference_text(self.difference, self.unit)} "
            f"({_percent(self.level)} interval {interval_text(self.low, self.high, self.unit)}), "
            f"{_counted(self.compared, self._things)} like these{direction}.{f' {self.unpaired}.' if self.unpaired else ''}"
        )

    @property
    def cost_lines(self) -> list[str]:
        """What answers cost, by candidate."""
        costs = [(one.name_b, str(cost)) for one in self.candidates for cost in one.costs]
        return [f"{name}: {cost}" if self.comparisons else cost for name, cost in costs]

    @property
    def table(self) -> list[tuple[str, ...]]:
        """All comparisons as texts in columns, the first row their heads; empty if there is one."""
        return [_HEADS, *map(_row, self.comparisons)] if self.comparisons else []

    @property
    def _things(self) -> str:
        return "samples" if self.basis == "scores" else "prompts"

    @property
    def unpaired(self) -> str:
        """The samples that only one of the files has, if there are any."""
        sides = [("A", self.details.get("only_in_a")), ("B", self.details.get("only_in_b"))]
        counts = [(side, count) for side, count in sides if count]
        if not counts:
            return ""
        first, *rest = counts
        parts = [f"{_counted(first[1], self._things)} only in {first[0]}"]
        parts += [f"{count:,} only in {side}" for side, count in rest]
        verb = "was" if sum(count for _, count in counts) == 1 else "were"
        return f"{', '.join(parts)} {verb} left out"

    def _as_far(self) -> str:
        return "" if self.evidence is None else f", as far as this judge can tell: {self.evidence}"

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
            wide = "a wider margin would decide" if self.guard else "a wider --margin would decide"
            wider = margin if self.margin is None else wide
            return f"More {self._things} are needed, or {wider}."
        cost = f", about {self.more_usd}," if self.more_usd else ""
        more = _counted(self.more, self._things, "more ")
        return f"About {more}{cost} would tell, if the difference stays as it is."

    def _size(self, value: float) -> str:
        return f"{value:.0f} points" if self.unit == "points" else f"{value:g} {self.unit}"

    def to_dict(self) -> dict[str, Any]:
        """The result for programs; what is unknown or without bound is null."""
        judged = {"findings": [dict(finding.to_dict()) for finding in self.findings]}
        several = {
            "candidates": [{"b": one.name_b, "decision": one.decision} for one in self.candidates],
            "comparisons": [one.to_dict() for one in self.comparisons],
        }
        return {
            "a": self.name_a,
            "b": self.name_b,
            **{name: getattr(self, name) for name in _PLAIN_FIELDS},
            **{name: _finite(getattr(self, name)) for name in ("difference", "low", "high")},
            "lower_is_better": self.lower_is_better,
            "notes": list(self.notes),
            "costs": [one.to_dict() for one in self.costs],
            **self.details,
            **(judged if self.basis == "judge" else {}),
            **(several if self.comparisons else {}),
        }

    def to_markdown(self) -> str:
        """A comment for a pull request."""
        verdicts = "\n\n".join(
            f"{_MARKS.get(one.decision, '✅')} **{markdown_text(verdict)}**"
            for one, verdict in zip(self.candidates, self.verdicts, strict=True)
        )
        head, *rows = (
            f"| {' | '.join(map(markdown_text, row))} |" for row in self.table or [("", ""), *self._details()]
        )
        rule = f"|{'---|' * (len(self.table[0]) if self.table else 2)}"
        numbers = (self.numbers,) if self.comparisons else ()
        listed = (*numbers, *self.cost_lines, *self.notes, *(str(finding) for finding in self.findings))
        items = "".join(f"\n- {markdown_text(line)}" for line in listed)
        return "\n".join((f"{verdicts}\n", head, rule, *rows, "")) + (f"{items}\n" if items else "")

    def _repr_html_(self) -> str:
        """The verdict, the comparisons and what to know of them, for a notebook."""
        listed = (self.numbers, *self.cost_lines, *self.notes, *map(str, self.findings))
        return (
            comparison_fragment(self.verdicts, self.table or [_HEADS, _row(self)], listed) + self._frontier()
        )

    def _frontier(self) -> str:
        """A picture of what candidates cost and how they differ by the first score, of those that have both intervals."""
        shown = [one for one in self.comparisons if not one.guard] or [self]
        points = {
            one.name_b: (
                (cost.low, cost.mean_b / cost.mean_a, cost.high),
                (one.low, one.difference, one.high),
            )
            for one in shown
            for cost in one.costs
            if (cost.name, one.unit) == ("dollars", shown[0].unit)
            if cost.low > 0.0 and math.isfinite(cost.high + one.low + one.high)
        }
        caption = (
            f"Across: dollars of an answer by those of {self.name_a}, logarithmic, with 95% intervals. Up: {_by(shown[0])}, "
            f"with intervals of {_percent(self.level)}. {self.name_a} is where the dashed lines cross."
        )
        return frontier_fragment(points, caption) if len(points) > 1 else ""

    def _details(self) -> Iterator[tuple[str, str]]:
        """What is known of one comparison, by name."""
        if self.compared:
            direction = ", lower is better" if self.lower_is_better else ""
            yield f"difference{direction}", difference_text(self.difference, self.unit)
            yield f"{_percent(self.level)} interval", interval_text(self.low, self.high, self.unit)
        yield "compared", f"{self.compared:,}"
        for name, value in self.details.items():
            if value is not None and not name.endswith("_usd"):
                yield name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value)


def _decisive(comparisons: Iterable[ABReport]) -> list[ABReport]:
    """For each candidate the comparison that decides on it.

    What is worse decides first, then a guard, or a score with a margin, that is not shown to be not worse by more. Of
    scores without a margin one that is better is enough.
    """

    def rank(one: ABReport) -> tuple[int, float]:
        kind = "open" if one.decision == "undecided" and one.margin is not None else one.decision
        held = one.guard and kind not in {GUARD_FAILED, "open"}
        return len(_DECISIVE_FIRST) if held else _DECISIVE_FIRST.index(kind), -(one.more or math.inf)

    return [min(found, key=rank) for _, found in groupby(comparisons, lambda one: one.name_b)]


def _by(one: ABReport) -> str:
    """What a comparison is made by."""
    if one.basis == "judge":
        return f"judge, {one.unit}"
    direction = ", lower is better" if one.lower_is_better else ""
    return f"guard {one.unit}, margin {one.margin:g}{direction}" if one.guard else f"{one.unit}{direction}"


def _row(one: ABReport) -> tuple[str, ...]:
    difference = difference_text(one.difference, one.unit).removesuffix(f" {one.unit}")
    shown = (difference, interval_text(one.low, one.high, one.unit)) if one.compared else ("–", "–")
    held = one.guard and one.decision not in {GUARD_FAILED, "undecided"}
    return one.name_b, _by(one), *shown, f"{one.compared:,}", "holds" if held else one.decision


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


def _percent(level: float) -> str:
    return f"{100.0 * level:.3g}%"


def _counted(count: int, things: str, word: str = "") -> str:
    return f"{count:,} {word}{things.removesuffix('s') if count == 1 else things}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
