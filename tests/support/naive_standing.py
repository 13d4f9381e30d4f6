"""The slow twin: everything that a standing knows, recounted from a plain list of events."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

from support.arena_logs import Log
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import NO_SESSION, Event
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.prompt_cells import FEW_ATTEMPTS_WEIGHT

WON_BY_A = (Kind.WIN_A, Kind.LEAN_A, Kind.WIN_A_FLAGGED, Kind.LEAN_A_FLAGGED)
WON_BY_B = (Kind.WIN_B, Kind.LEAN_B, Kind.WIN_B_FLAGGED, Kind.LEAN_B_FLAGGED)


class NaiveStanding:
    """Lists of what happened; every question is answered by looking at all of it."""

    def __init__(self, log: Log) -> None:
        self.policy, self.m, self.p = log.policy, len(log.models), len(log.prompts)
        self.answered = {(i, q) for i in range(self.m) for q in range(self.p) if log.answered[i, q]}
        self.enabled: set[int] = set()
        self.served: list[dict] = []
        self.votes: list[dict] = []
        self.band: set[int] = set()
        self.strengths = None
        for k, row in enumerate(log.rows):
            if k in log.ranks:
                self.strengths = log.strengths(log.ranks[k])
            self._take(row)

    def _take(self, row: dict) -> None:
        event = row["event"]
        if event == Event.SERVED:
            self.served.append({**row, "among": frozenset(self.enabled), "gone": False})
        elif event == Event.VOTE:
            self.votes.append(row)
        elif event == Event.EXPIRE:
            for shown in self.served:
                shown["gone"] |= shown["serial"] == row["serial"]
        elif event in (Event.ENABLE, Event.RETIRE):
            (self.enabled.add if event == Event.ENABLE else self.enabled.discard)(row["a"])
        elif event in (Event.RESPOND, Event.WITHDRAW):
            cell = row["a"], row["prompt"]
            (self.answered.add if event == Event.RESPOND else self.answered.discard)(cell)

    def order(self) -> list[int]:
        if self.strengths is None:
            return sorted(self.enabled)
        score = self.strengths.rating - 2 * self.strengths.rd
        return sorted(self.enabled, key=lambda i: (-score[i], i))

    def in_band(self) -> set[int]:
        return set(self.order()[: self.policy.contenders])

    def result(self, row: dict, model: int) -> int:
        """0 won, 1 lost, 2 tie, 3 both bad."""
        if row["kind"] in WON_BY_A:
            return 0 if row["a"] == model else 1
        if row["kind"] in WON_BY_B:
            return 1 if row["a"] == model else 0
        return 3 if row["kind"] == Kind.BOTH_BAD else 2

    def remembered(self, row: dict, model: int) -> int:
        """The same with 4 added where a judge called both bad."""
        return self.result(row, model) + (4 if row["kind"] > Kind.INCONSISTENT else 0)

    def of_model(self, model: int, prompt: int | None = None) -> list[int]:
        rows = [row for row in self.votes if model in (row["a"], row["b"])]
        return [self.result(row, model) for row in rows if prompt in (None, row["prompt"])]

    def of_pair(self, one: int, other: int) -> list[dict]:
        return [row for row in self.votes if {row["a"], row["b"]} == {one, other}]

    def eligible(self, model: int) -> list[int]:
        """Prompts that it has answered, and at least one other enabled model too."""
        return [
            q
            for q in range(self.p)
            if (model, q) in self.answered and any((j, q) in self.answered for j in self.enabled - {model})
        ]

    def deficit(self, model: int, prompt: int) -> bool:
        floor = self.policy.top_prompt_floor if model in self.in_band() else self.policy.prompt_floor
        results = self.of_model(model, prompt)
        return decisive(results) < floor and len(results) < self.policy.patience * floor

    def need(self, model: int, prompt: int) -> float:
        if model not in self.enabled or prompt not in self.eligible(model):
            return float("-inf")
        few = 1.0 / (1.0 + len(self.of_model(model, prompt)))
        return 1.0 + FEW_ATTEMPTS_WEIGHT * few if self.deficit(model, prompt) else few

    def filled(self, model: int) -> list[int]:
        floor = self.policy.prompt_floor
        return [q for q in self.eligible(model) if decisive(self.of_model(model, q)) >= floor]

    def exhausted(self, model: int) -> list[int]:
        most = self.policy.patience * self.policy.prompt_floor
        left = set(self.eligible(model)) - set(self.filled(model))
        return [q for q in left if len(self.of_model(model, q)) >= most]

    def thin(self, model: int) -> int:
        """Enabled opponents with whom it has too few decisive votes."""
        if model not in self.enabled:
            return 0
        votes = {j: self.of_pair(model, j) for j in self.enabled - {model}}
        return sum(
            sum(self.result(row, model) < 2 for row in rows) < self.policy.pair_floor
            for rows in votes.values()
        )

    def window(self) -> list[dict]:
        return [row for row in self.served[-self.policy.window :] if not row["gone"]]

    def counted(self) -> list[dict]:
        """The slots that fairness looks at."""
        strict = self.policy.fairness == "strict"
        return [row for row in self.window() if strict or row["lane"] != Lane.CONTENDER]

    def exposures(self) -> Counter:
        return Counter(model for row in self.counted() for model in (row["a"], row["b"]))

    def target(self, model: int) -> Fraction:
        """Σ over window slots in which the model was enabled of 2/M."""
        return sum(
            (Fraction(2, len(row["among"])) for row in self.counted() if model in row["among"]), Fraction()
        )

    def recent_meetings(self, one: int, other: int) -> list[int]:
        shown = [row["prompt"] for row in self.served if {row["a"], row["b"]} == {one, other}]
        return shown[-self.policy.meetings :]

    def sessions(self) -> dict[int, tuple[list[frozenset[int]], dict[frozenset[int], list[int]]]]:
        """Last pairs and all prompts by pair, of each session that is still remembered."""
        kept: dict[int, tuple[list, dict]] = {}
        for row in self.served:
            session = row.get("session", NO_SESSION)
            if session == NO_SESSION:
                continue
            pairs, prompts = kept.pop(session, ([], defaultdict(list)))
            pair = frozenset((row["a"], row["b"]))
            pairs.append(pair)
            if row["prompt"] not in prompts[pair]:
                prompts[pair].append(row["prompt"])
            kept[session] = pairs, prompts
            if len(kept) > self.policy.sessions_kept:
                del kept[next(iter(kept))]
        most = self.policy.session_pairs
        last = {name: pairs[len(pairs) - min(most, len(pairs)) :] for name, (pairs, _) in kept.items()}
        free = self.policy.free_prompts  # no category is remembered
        return {
            name: (last[name], {pair: [] for pair in last[name]} if free else dict(prompts))
            for name, (_, prompts) in kept.items()
        }


def decisive(results: list[int]) -> int:
    return sum(result < 2 for result in results)
