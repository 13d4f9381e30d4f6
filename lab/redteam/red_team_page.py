"""The red team's tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from lab.redteam.attacks import ATTACKS
from lab.redteam.defences import DEFENCES
from lab.redteam.outcomes import AttackOutcome
from tiltyard._version import __version__

#: From here on, times are in minutes.
_MANY_SECONDS = 120
#: The defences whose ends are compared first.
_COMPARED = ("blind votes", "all")


@dataclass(frozen=True, slots=True, order=True)
class CellName:
    """Which attack of which size, in memory or served."""

    lane: str
    attack: str
    share: float
    accounts: int
    seed: int

    @property
    def file(self) -> str:
        words = self.attack.replace(", ", "-").replace(" ", "-")
        return f"{self.lane}-{words}-{self.share:g}-{self.accounts}-{self.seed}.json"


#: By defence.
Outcomes = Mapping[str, AttackOutcome]


def red_team_page(cells: Mapping[CellName, Outcomes], votes: tuple[int, int], command: str) -> str:
    """All tables."""
    history, meanwhile = votes
    made = f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`."
    people = "20 % are lazy, 10 % prefer a side, 5 % are fast and 5 % are fans of one model"
    lines = [
        "# Red team",
        "",
        f"{made} What is measured, and how: [Hard to rig](../../explanation/hard-to-rig.md#an-open-red-team-benchmark).",
        "",
        f"The demo's nine models; {history:,} honest votes before the attack and {meanwhile:,} among its votes, by people of whom "
        + people
        + ". The target is the last model. Ranks gained are those over the board of the same moment without the attack's votes; "
        + "where several seeds were run, the lower median (of two, the smaller), and the largest in parentheses.",
    ]
    sizes = sorted({(name.share, name.accounts) for name in cells if name.lane == "memory"}, reverse=True)
    lines += _summary(cells, sizes)
    for share, accounts in sizes:
        chosen = {
            name: found
            for name, found in cells.items()
            if name.lane == "memory" and (name.share, name.accounts) == (share, accounts)
        }
        lines += _size_table(chosen, share, accounts)
    lines += _served_table(cells)
    return "\n".join(lines) + "\n"


def _summary(cells: Mapping[CellName, Outcomes], sizes: Sequence[tuple[float, int]]) -> list[str]:
    """Ranks gained in the end, with blind votes alone and with everything."""
    heads = [f"{share:.0%}, {accounts} accounts" for share, accounts in sizes]
    lines = [
        "",
        "## Ranks gained in the end",
        "",
        "With blind votes alone → with all defences and an operator.",
        "",
    ]
    lines += [f"| attack | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for plan in ATTACKS:
        row = [plan.name]
        for size in sizes:
            found = [
                found
                for name, found in cells.items()
                if name.lane == "memory" and name.attack == plan.name and (name.share, name.accounts) == size
            ]
            ends = [_typical(one[name].gain_after for one in found) for name in _COMPARED if found]
            row.append(" → ".join(ends))
        if any(row[1:]):
            lines.append(f"| {' | '.join(row)} |")
    return lines


def _size_table(cells: Mapping[CellName, Outcomes], share: float, accounts: int) -> list[str]:
    """Every attack under every defence, for one size."""
    lines = [
        "",
        f"## {share:.0%} of all votes, {accounts} accounts",
        "",
        *_heads("attack", "defence"),
    ]
    for plan in ATTACKS:
        found = [outcomes for name, outcomes in sorted(cells.items()) if name.attack == plan.name]
        lines += [
            _row([plan.name, defence.name], [outcomes[defence.name] for outcomes in found])
            for defence in DEFENCES
            if found
        ]
    return lines


def _served_table(cells: Mapping[CellName, Outcomes]) -> list[str]:
    """The attacks that ran through HTTP, beside the same in memory."""
    served = {name: found for name, found in sorted(cells.items()) if name.lane != "memory"}
    if not served:
        return []
    lines = [
        "",
        "## Through the API",
        "",
        "A real `tiltyard serve` on a public address with default settings, its rater and PostgreSQL; every vote is a request.",
        "",
        *_heads("attack", "size"),
    ]
    for name, found in served.items():
        size = f"{name.share:.0%}, {name.accounts} accounts, {name.lane}"
        lines.append(_row([name.attack, size], [found["all"]]))
    return lines


def _heads(*first: str) -> list[str]:
    heads = [
        *first,
        "votes for the target",
        "counted before releases",
        "alarm after",
        "gain at the alarm",
        "gain before releases",
        "gain in the end",
        "outside its range",
        "stable held",
        "honest votes held",
        "too early",
        "excluded",
        "honest sessions flagged",
        "accounts flagged",
        "takes",
    ]
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(first)}{'--:|' * (len(heads) - len(first))}"]


def _row(first: list[str], found: Sequence[AttackOutcome]) -> str:
    alarms = [one.alarm_after for one in found if one.alarm_after is not None]
    gains = [one.gain_at_alarm for one in found if one.gain_at_alarm is not None]
    never = len(found) - len(alarms)
    alarm = _typical(alarms) if alarms else "none"
    if any(one.alarm_after is not None and not one.names_target for one in found):
        alarm += ", of another model"
    if alarms and never:
        alarm += f"; none in {never} of {len(found)}"
    cells = [
        *first,
        _typical(one.target_votes for one in found),
        _typical(one.counted_votes for one in found),
        alarm,
        _typical(gains) if gains else "–",
        _typical(one.gain_before for one in found),
        _typical(one.gain_after for one in found),
        _typical(one.out_of_range for one in found),
        f"{sum(not one.official for one in found)} of {len(found)}",
        _typical(one.honest_held for one in found),
        _typical(one.honest_lost for one in found),
        _typical(one.honest_excluded for one in found),
        f"{sum(one.honest_flagged for one in found)} of {sum(one.honest_sessions for one in found)}",
        _typical(one.accounts_flagged for one in found),
        _time(median(one.seconds for one in found)),
    ]
    return f"| {' | '.join(cells)} |"


def _typical(values: Iterable[int]) -> str:
    """The median, and the largest if it differs."""
    listed = sorted(values)
    middle = listed[(len(listed) - 1) // 2]
    return f"{middle}" if middle == listed[-1] else f"{middle} ({listed[-1]})"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _MANY_SECONDS else f"{seconds / 60:.0f} min"
