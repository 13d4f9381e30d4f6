"""Filtered boards and pairs, computed from the votes behind a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.log.votes import Ballots, VoteTally
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.board.arena_board import make_arena_board, with_first_place
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.document import (
    BoardDocument,
    FilteredBoard,
    LaneFilter,
    LeftOutVotes,
    PromptFilter,
    with_published_numbers,
)
from tiltyard.core.board.win_rates import PairScore
from tiltyard.core.live.prompt_texts import free_prompt_name
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_SESSION, Event, Events
from tiltyard.core.policy.state.rating_fold import Rater
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import EvaluationHistory
from tiltyard.core.ratings import Finding
from tiltyard.foundation.arrays import Bools, Ints

#: What a kind of vote means for the left model: 0 a win, 1 a loss, 2 a tie, 3 both bad.
_RESULTS = {Kind.WIN_A: 0, Kind.LEAN_A: 0, Kind.WIN_B: 1, Kind.LEAN_B: 1, Kind.TIE: 2, Kind.INCONSISTENT: 2}
_OUTCOME = np.array([_RESULTS.get(kind.plain, 3) for kind in Kind])
_FLAGGED = np.array([kind.flagged for kind in Kind])
_COUNTED = {"left-out": (), "counted": (Finding("excluded-counted"),), "all": (Finding("all-votes-counted"),)}
_SOME_PROMPTS = Finding("filtered-board")
_RANDOM_PAIRS = Finding("exploration-only")


class BoardOrigin(TypedDict):
    """The arena and the snapshot of a document."""

    arena: str
    source: str
    snapshot: str
    position: int
    generation: int


@dataclass(frozen=True, slots=True)
class VoteSubset:
    """A subset of an arena's votes: one source, some prompts, with or without excluded votes."""

    source: int = 0
    category: str | None = None
    language: str | None = None
    #: Whether votes that the official board leaves out are included: excluded ones, or all.
    excluded: LeftOutVotes = "left-out"
    #: Which matchups, by the lane that chose them.
    lane: LaneFilter = "all"

    @property
    def counted(self) -> bool:
        """Whether excluded votes are included."""
        return self.excluded != "left-out"

    @property
    def unrated(self) -> bool:
        """Whether votes that are not rated are included."""
        return self.excluded == "all"

    @property
    def whole(self) -> bool:
        """Whether these are exactly the votes that published boards count."""
        return not self.some_prompts and not self.counted and self.lane == "all"

    @property
    def some_prompts(self) -> bool:
        """Whether votes are left out by what they are about."""
        return self.category is not None or self.language is not None


@dataclass(frozen=True, slots=True, eq=False)
class FilterRoster:
    """Models and prompts of a filter, as of a snapshot: what came later is not in it, or does not matter."""

    #: Names by number.
    models: Sequence[str]
    #: Names of the filter's prompts; later ones may be among them.
    prompts: Mapping[int, str]
    #: The position at which each model was first enabled, in log order.
    arrivals: Mapping[int, int]
    #: Model and prompt of the responses that could be served.
    answered: Ints

    def prompts_with(self, ballots: Ballots) -> Ints:
        """Numbers of the prompts that had responses or votes, in order."""
        return np.union1d(self.answered[:, 1], ballots.prompt)

    def answers_to(self, prompts: Ints) -> Bools:
        """Which model had a response to which of these prompts."""
        cells = np.zeros((len(self.models), len(prompts)), dtype=bool)
        cells[self.answered[:, 0], np.searchsorted(prompts, self.answered[:, 1])] = True
        return cells


def table_from_tally(tally: VoteTally, models: Sequence[str], prompts: Mapping[int, str]) -> Table:
    """Convert counts to a table with one row per vote, clustered by prompt: in a live arena, by the one that was written."""
    names = sorted(models)
    place = {name: k for k, name in enumerate(names)}
    code = np.array([place[name] for name in models], dtype=np.int64)
    numbers = np.array(sorted(prompts), dtype=np.int64)
    keys = hash_texts([prompts[number] for number in numbers.tolist()])
    row = np.repeat(np.arange(len(tally)), tally.count)
    prompt = keys[np.searchsorted(numbers, tally.prompt)]
    written = np.flatnonzero(tally.free_prompt != NO_FREE_PROMPT)
    prompt[written] = hash_texts([free_prompt_name(one) for one in tally.free_prompt[written].tolist()])
    codes = CodedBattles(
        code[tally.a[row]], code[tally.b[row]], tally.kind[row].astype(np.uint8), prompt=prompt[row]
    )
    return Table.from_codes(names, codes)


def filtered_board(
    ballots: Ballots,
    roster: FilterRoster,
    *,
    published: BoardDocument,
    about: BoardOrigin,
    part: VoteSubset,
) -> FilteredBoard:
    """The board of these votes, by the method of the published board that they are behind."""
    method, prompts = published.method, roster.prompts_with(ballots)
    standing = Standing(
        method.policy,
        roster.models,
        [roster.prompts[number] for number in prompts.tolist()],
        roster.answers_to(prompts),
    )
    standing.fold(_events(ballots, prompts, roster, published, source=part.source))
    rater = Rater(method.rater, len(roster.models))
    rater.fold(CodedBattles(ballots.a, ballots.b, ballots.kind.astype(np.uint8)))
    standing.rank(rater.strengths(standing.enabled))
    made = make_arena_board(
        standing,
        EvaluationHistory.under(method.policy),
        order=method.order,
        legacy_elo=rater.elo,
        volatility=rater.volatility,
        batch=replace(batch_ratings(standing, method.cross_check), least_days=method.least_days),
        family=method.settled_family,
    )
    board = with_published_numbers(with_first_place(made, standing, rater, method.cross_check))
    said = list(_COUNTED[part.excluded])
    if part.some_prompts:
        said.append(_SOME_PROMPTS)
    if part.lane == "exploration":
        said.append(_RANDOM_PAIRS)
    fit = () if board.cross_check is None else board.cross_check.findings
    return FilteredBoard(
        **about,
        filter=PromptFilter(part.category, part.language, part.lane),
        excluded=part.excluded,
        prompts=len(prompts),
        votes=len(ballots),
        order=board.order,
        phase=board.phase,
        settled=board.settled,
        first_place=board.first_place,
        cross_check=board.cross_check,
        rows=tuple(replace(row, badge=None, waiting=(), official=False) for row in board.rows),
        findings=(*said, *fit),
        method=method,
    )


def _events(
    ballots: Ballots, prompts: Ints, roster: FilterRoster, published: BoardDocument, *, source: int
) -> Events:
    """Votes in log order, between them the arrivals of models, and at the end the retirement of those that are retired."""
    n = len(ballots)
    nothing, small = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.uint8)
    votes = Events(
        event=np.full(n, Event.VOTE, dtype=np.uint8),
        a=ballots.a,
        b=ballots.b,
        prompt=np.searchsorted(prompts, ballots.prompt),
        kind=ballots.kind.astype(np.uint8),
        lane=small,
        nominal=small,
        serial=nothing,
        # Judges are no sample of voters.
        session=ballots.session if source == HUMAN else np.full(n, NO_SESSION),
        time=ballots.at,
        free_prompt=ballots.free_prompt,
    )
    parts, start = [], 0
    for model, position in roster.arrivals.items():
        stop = int(np.searchsorted(ballots.position, position))
        parts += [votes[start:stop], Events.of([{"event": Event.ENABLE, "a": model}])]
        start = stop
    retired = {row.model for row in published.rows if not row.enabled}
    gone = [{"event": Event.RETIRE, "a": k} for k, name in enumerate(roster.models) if name in retired]
    return Events.joined([*parts, votes[start:], Events.of(gone)])


def pair_results(tally: VoteTally, models: Sequence[str], shown: Sequence[int]) -> list[PairScore]:
    """How each two of these models did against each other, in their order; those that never met are left out.

    ``score`` is the first model's share of the points; a tie counts half.
    """
    place = np.full(len(models), -1)
    place[list(shown)] = np.arange(len(shown))
    a, b = place[tally.a], place[tally.b]
    outcome, swap = _OUTCOME[tally.kind], a > b
    outcome = np.where(swap & (outcome < 2), 1 - outcome, outcome)
    cells = np.zeros((len(shown), len(shown), 5), dtype=np.int64)
    inside = (a >= 0) & (b >= 0)
    low, high, count = np.minimum(a, b)[inside], np.maximum(a, b)[inside], tally.count[inside]
    np.add.at(cells, (low, high, outcome[inside]), count)
    np.add.at(cells, (low, high, 4), count * _FLAGGED[tally.kind[inside]])
    pairs: list[PairScore] = []
    for first, second in np.argwhere(cells.sum(axis=2)).tolist():
        wins, losses, ties, unrated, flagged = cells[first, second].tolist()
        battles = wins + losses + ties
        pairs.append(
            {
                "model_a": models[shown[first]],
                "model_b": models[shown[second]],
                "battles": battles,
                "both_bad": unrated + flagged,
                "score": (wins + 0.5 * ties) / battles if battles else None,
            }
        )
    return pairs
