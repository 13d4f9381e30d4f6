"""`ArenaFold`: all that is known of one source of an arena's votes, followed from event to event.

A standing, its ratings and its evaluations belong together: the rules are looked at after certain
votes, exactly there, however the log is cut into pieces on its way here.

What it keeps becomes arrays and plain values, and these become bytes. The bulk is laid out so that it packs well: cells
of pairs as steps from one prompt to the next, evaluations as columns. Every number is written in the narrowest type that
holds its column, byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from tiltyard.core.battles import CodedBattles
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.pair_counts import PairCells, PairCounts
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings, method_from_dict
from tiltyard.core.policy.state.session_memory import SessionMemories
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.publication import (
    Evaluation,
    EvaluationHistory,
    look,
    votes_between_evaluations,
)
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Array, Bools, Ints

#: Of evaluations that are further back, one in so many stays whole; of those still further, one in its square.
_THINNING_RATIO = 16
_MAGIC = b"tiltyard state 1\n"
_DIGEST_BYTES = 32
#: Fast: a stronger one takes ten times as long for a tenth less.
_COMPRESSION_LEVEL = 1
_WHOLE = ("<u1", "<u2", "<u4", "<i1", "<i2", "<i4", "<i8")
#: Names of the cells of pairs: by prompt of the roster, and by free prompt.
MET = "met"
FREE_MET = "free_met"
#: Names of the columns of the vote log begin with this.
_VOTES = "vote."
_RATED: tuple[Literal["mu", "phi2", "sigma2", "elo"], ...] = ("mu", "phi2", "sigma2", "elo")
_ONLINE = ("votes", "n_held", "since_fit", "prior_variance", "base", "unit")
_KNOWN = ("rating", "rd", "coverage")
Arrays = dict[str, Array]


class ArenaFold:
    """Standing, ratings and evaluations after so many events.

    Folding in any pieces gives the same bits, on every machine. ``whole`` is how many of the last evaluations keep all
    that they saw: older ones keep it ever more rarely, and always when they were and whether the rules
    held. Without it every evaluation is kept whole, which for millions of votes is much.
    """

    def __init__(
        self,
        policy: Policy,
        settings: RaterSettings | None = None,
        models: Sequence[str] = (),
        prompts: Sequence[str] = (),
        *,
        answered: Bools | None = None,
        whole: int | None = None,
    ) -> None:
        if whole is not None and whole < 1:
            raise BadOption(f"whole is {whole}; expected at least 1 evaluation")
        self.settings = RaterSettings() if settings is None else settings
        self.standing = Standing(policy, models, prompts, answered)
        self.rater = Rater(self.settings, len(models))
        self.history = EvaluationHistory.under(policy)
        self.whole = whole
        self._ranked = False

    @property
    def policy(self) -> Policy:
        return self.standing.policy

    @property
    def votes(self) -> int:
        return self.standing.votes

    def fold(self, events: Events) -> None:
        """The next events. After certain votes the rules are looked at (`look`)."""
        for _ in self.fold_evaluations(events):
            pass

    def fold_evaluations(self, events: Events) -> Iterator[tuple[int, bool]]:
        """The next events, stopping at each evaluation: after how many of them, and whether it is the last of them."""
        votes, before, start = np.flatnonzero(events.event == Event.VOTE) + 1, self.votes, 0
        while (ahead := self.history.next_votes - before) <= len(votes):
            stop, known = int(votes[ahead - 1]), len(self.history.evaluations)
            self._take(events[start:stop])
            self.rank()
            self.history = look(self.standing, self.history, time=int(events.time[stop - 1]))
            start = stop
            if len(self.history.evaluations) > known:
                self._thin_out()
                yield stop, self.history.next_votes - before > len(votes)
        if start < len(events):
            self._take(events[start:])

    def rank(self) -> None:
        """Bring the order up to the last vote. What later folds give does not depend on it."""
        if not self._ranked:
            self.standing.rank(self.rater.strengths(self.standing.enabled))
            self._ranked = True

    def widen(self, models: Sequence[str], prompts: Sequence[str]) -> None:
        """Make room for more models and prompts: the names so far, and new ones after them."""
        self.standing.widen(models, prompts)
        self.rater.widen(len(models))
        self._ranked = False

    def under(self, policy: Policy) -> None:
        """From now on this policy holds; see `Standing.under` for what of it cannot change."""
        self.rank()
        self.standing.under(policy)
        known = self.history.evaluations
        every = (
            votes_between_evaluations(self.standing) if known else EvaluationHistory.under(policy).next_votes
        )
        self.history = EvaluationHistory(known, policy.evaluations, (self.votes // every + 1) * every)

    def save(self) -> bytes:
        """Everything, as few bytes: equal states have equal bytes."""
        self.rank()
        return encode_fold(self.standing, self.rater, self.history, self.whole)

    @classmethod
    def restore(cls, saved: bytes) -> ArenaFold:
        """What was saved; it goes on as if it had never stopped."""
        standing, rater, history, whole = decode_fold(saved)
        following = cls(standing.policy, rater.settings, whole=whole)
        following.standing, following.rater, following.history = standing, rater, history
        following._ranked = True
        return following

    @staticmethod
    def save_all(followings: Sequence[ArenaFold]) -> bytes:
        """Several, one after another."""
        saved = [following.save() for following in followings]
        return b"".join(len(one).to_bytes(8, "little") + one for one in saved)

    @classmethod
    def restore_all(cls, saved: bytes) -> list[ArenaFold]:
        """What `save_all` saved."""
        return [cls.restore(each) for each in _parts(saved)]

    @staticmethod
    def digest_all(saved: bytes) -> bytes:
        """One hash of what `save_all` saved: of the contents, whatever the machine's zlib made of them."""
        return sha256(b"".join(state_digest(each) for each in _parts(saved))).digest()

    def digest(self) -> str:
        """One hash of everything."""
        return state_digest(self.save()).hex()

    def _take(self, events: Events) -> None:
        self.standing.fold(events)
        votes = events[events.event == Event.VOTE]
        self.rater.fold(CodedBattles(votes.a, votes.b, votes.kind))
        self._ranked = False

    def _thin_out(self) -> None:
        known = [*self.history.evaluations]
        if self.whole is not None:
            for number in _outline_numbers(len(known), self.whole):
                # When it was, and whether the rules held: nothing of the models.
                nothing = np.empty(0)
                known[number - 1] = replace(
                    known[number - 1],
                    order=np.empty(0, dtype=np.int64),
                    rating=nothing,
                    rd=nothing,
                    coverage=nothing,
                    rules=(),
                )
        self.history = replace(self.history, evaluations=tuple(known))


def _parts(saved: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(saved):
        stop = start + 8 + int.from_bytes(saved[start : start + 8], "little")
        yield saved[start + 8 : stop]
        start = stop


def _outline_numbers(n: int, whole: int) -> list[int]:
    """Numbers of the evaluations that keep only their outline from the ``n``-th on.

    Number k stays whole while fewer than ``whole``·16^j have come after it, for some j with 16^j | k.
    """
    found = []
    step = 1
    while (number := n - whole * step) >= 1:
        if number % step == 0 and number % (step * _THINNING_RATIO):
            found.append(number)
        step *= _THINNING_RATIO
    return found


def encode_fold(standing: Standing, rater: Rater, history: EvaluationHistory, whole: int | None) -> bytes:
    """All of it as bytes."""
    checkpoint = save(standing)
    arrays, values = dict(checkpoint.arrays), dict(checkpoint.values)
    for name in _cell_names(arrays):
        tally = arrays.pop(f"{name}.tally")
        # From each prompt of a pair to the next; of the first, the prompt itself.
        wide = arrays.pop(f"{name}.prompts").astype(np.int64)
        steps = np.diff(wide, prepend=0)
        first = _firsts(arrays[name])
        steps[first] = wide[first]
        arrays[f"{name}.steps"] = steps
        for k in range(4):
            arrays[f"{name}.{k}"] = np.ascontiguousarray(tally[:, k])
    arrays |= _rated(rater) | _evaluated(history.evaluations)
    values["evaluations"] = {
        "in_a_row": history.in_a_row,
        "next_votes": history.next_votes,
        "whole": whole,
        "rules": [[asdict(rule) for rule in known.rules] for known in history.evaluations if known.rules],
    }
    online = {name: getattr(rater.online, name) for name in _ONLINE}
    values["rater"] = {"settings": asdict(rater.settings), "votes": rater.votes, "online": online}
    return encode_state(arrays, values)


def decode_fold(saved: bytes) -> tuple[Standing, Rater, EvaluationHistory, int | None]:
    """What was packed, ready to go on."""
    arrays, values = decode_state(saved)
    _, settings = method_from_dict({"policy": values["policy"], "rater": values["rater"]["settings"]})
    for name in _cell_names(arrays):
        met = arrays[name]
        steps = arrays[f"{name}.steps"]
        total = np.cumsum(steps)
        first = _firsts(met)
        sizes = met[:, 2][met[:, 2] > 0]
        arrays[f"{name}.prompts"] = (total - np.repeat(total[first] - steps[first], sizes)).astype(np.uint32)
        arrays[f"{name}.tally"] = np.stack([arrays[f"{name}.{k}"] for k in range(4)], axis=1)
    evaluated = values["evaluations"]
    rules = [tuple(Rule(**rule) for rule in known) for known in evaluated["rules"]]
    history = EvaluationHistory(_evaluations(arrays, rules), evaluated["in_a_row"], evaluated["next_votes"])
    rater = _rater(arrays, values["rater"], settings)
    return restore(StateCheckpoint(arrays, values)), rater, history, evaluated["whole"]


def _cell_names(arrays: Arrays) -> list[str]:
    """The names of the cells of pairs that these arrays have."""
    return [name for name in (MET, FREE_MET) if name in arrays]


def _firsts(met: Ints) -> Ints:
    """Where the cells of each pair that has some begin."""
    sizes = met[:, 2][met[:, 2] > 0]
    return np.asarray(np.cumsum(sizes) - sizes)


@dataclass(frozen=True, slots=True, eq=False)
class StateCheckpoint:
    """Arrays by name, and plain values that JSON preserves exactly."""

    arrays: Mapping[str, Array]
    values: Mapping[str, Any]

    def digest(self) -> str:
        """A hash of everything: equal standings have equal digests."""
        digest = hashlib.sha256(json.dumps(self.values, sort_keys=True, ensure_ascii=False).encode())
        for name in sorted(self.arrays):
            array = self.arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def save(standing: Standing) -> StateCheckpoint:
    window = standing.window
    epochs = sorted(window.matchups)
    arrays: dict[str, Array] = {
        **{name: np.array(place) for name, place in _places(standing).items()},
        "epoch": np.array(epochs, dtype=np.int64),
        "epoch_enabled": np.stack([window.enabled[epoch] for epoch in epochs]),
        "epoch_matchups": np.array([window.matchups[epoch] for epoch in epochs], dtype=np.int64),
        **{
            f"strengths.{part.name}": np.array(getattr(standing.strengths, part.name))
            for part in fields(Strengths)
        },
        **_pair_columns(standing.meetings, MET),
        **standing.sessions.saved(),
    }
    if standing.policy.free_prompts:
        arrays |= _pair_columns(standing.prompt_meetings, FREE_MET)
    if standing.vote_log is not None:
        arrays |= {_VOTES + name: column for name, column in standing.vote_log.columns().items()}
    values = {
        "policy": standing.policy.to_dict(),
        "models": list(standing.models),
        "prompts": list(standing.prompts),
        "votes": standing.votes,
        "skipped": standing.skipped,
        "expired": standing.expired,
        "served": window.served,
        "now": window.epoch,
    }
    return StateCheckpoint(arrays, values)


def restore(checkpoint: StateCheckpoint) -> Standing:
    """Restore a saved standing, which continues as if it had never been interrupted."""
    arrays, values = checkpoint.arrays, checkpoint.values
    policy = Policy(**{**values["policy"], "lane_weights": tuple(values["policy"]["lane_weights"])})
    standing = Standing(policy, values["models"], values["prompts"], arrays["answered"])
    for name, place in _places(standing).items():
        place[...] = arrays[name]
    standing.votes, standing.skipped, standing.expired = (
        values[name] for name in ("votes", "skipped", "expired")
    )
    window = standing.window
    window.served, window.epoch = values["served"], values["now"]
    window.enabled = {
        int(epoch): among.copy()
        for epoch, among in zip(arrays["epoch"], arrays["epoch_enabled"], strict=True)
    }
    window.matchups = {
        int(epoch): counts.tolist()
        for epoch, counts in zip(arrays["epoch"], arrays["epoch_matchups"], strict=True)
    }
    standing.sessions = SessionMemories.restored(policy, arrays)
    _restore_pairs(standing.meetings, arrays, MET)
    if policy.free_prompts:
        free = standing.prompt_meetings
        _restore_pairs(free, arrays, FREE_MET)
        # Sums over prompts are those of the categories.
        free.decisive[...], free.attempts[...] = standing.meetings.decisive, standing.meetings.attempts
        for low, high, cells in free:
            free.prompts[low, high] = free.prompts[high, low] = cells.tally[:, :2].any(axis=1).sum()
    votes = {name.removeprefix(_VOTES): arrays[name] for name in arrays if name.startswith(_VOTES)}
    standing.vote_log = VoteLog.of(votes) if votes else None
    standing.strengths = Strengths(*(arrays[f"strengths.{field.name}"] for field in fields(Strengths)))
    standing.cells.refresh()
    standing._roster_changed()  # noqa: SLF001
    return standing


def _places(standing: Standing) -> dict[str, Array]:
    """Arrays of fixed shape by name, as in memory."""
    cells, meetings, window = standing.cells, standing.meetings, standing.window
    return {
        "answered": cells.answered,
        "enabled": cells.enabled,
        "tally": cells.tally,
        "pair.decisive": meetings.decisive,
        "pair.attempts": meetings.attempts,
        "pair.prompts": meetings.prompts,
        "pair.least": meetings.least,
        "window.a": window.a,
        "window.b": window.b,
        "window.state": window.state,
        "window.serial": window.serial,
        "window.epoch": window.epoch_of,
        "window.exposures": window.exposures,
        "model_votes.ring": standing.model_votes.ring,
        "model_votes.total": standing.model_votes.total,
        "model_votes.flagged": standing.model_votes.flagged,
        "prompt_votes.ring": standing.prompt_votes.ring,
        "prompt_votes.total": standing.prompt_votes.total,
        "prompt_votes.flagged": standing.prompt_votes.flagged,
        "record": standing.record,
        "shown": standing.shown,
        "arrived": standing.arrived,
        "lanes": standing.lanes,
    }


def _pair_columns(meetings: PairCounts, name: str) -> dict[str, Array]:
    """The sparse cells of all pairs, concatenated."""
    pairs = list(meetings)
    packed = [cells.packed() for _, _, cells in pairs]
    rows = [(low, high, len(cells), len(cells.recent)) for low, high, cells in pairs]
    tally = np.frombuffer(b"".join(tally for _, tally in packed), dtype=np.uint32)
    return {
        name: np.array(rows, dtype=np.int64).reshape(-1, 4),
        f"{name}.prompts": np.frombuffer(b"".join(prompts for prompts, _ in packed), dtype=np.uint32),
        f"{name}.tally": tally.reshape(-1, 4),
        f"{name}.recent": np.array(
            [prompt for _, _, cells in pairs for prompt in cells.recent], dtype=np.int64
        ),
    }


def _restore_pairs(meetings: PairCounts, arrays: Mapping[str, Array], name: str) -> None:
    prompts, tally = arrays[f"{name}.prompts"].tobytes(), arrays[f"{name}.tally"].tobytes()
    shown = arrays[f"{name}.recent"].tolist()
    cell = recent = 0
    for low, high, n_cells, n_recent in arrays[name].tolist():
        start, stop = 4 * cell, 4 * (cell + n_cells)
        cells = PairCells()
        cells.put(prompts[start:stop], tally[4 * start : 4 * stop])
        cells.recent = shown[recent : recent + n_recent]
        meetings.put(low, high, cells)
        cell, recent = cell + n_cells, recent + n_recent


def _evaluated(evaluations: tuple[Evaluation, ...]) -> Arrays:
    """Columns of all evaluations; those that keep only their outline have no models."""
    empty = np.empty(0)
    return {
        "evaluation.votes": np.diff(_column(known.votes for known in evaluations), prepend=0),
        "evaluation.time": np.diff(_column(known.time for known in evaluations), prepend=0),
        "evaluation.holds": _column(known.holds for known in evaluations),
        "evaluation.rules": _column(len(known.rules) for known in evaluations),
        "evaluation.ranked": _column(len(known.order) for known in evaluations),
        "evaluation.models": _column(len(known.rating) for known in evaluations),
        "evaluation.order": np.concatenate([empty.astype(np.int64), *(known.order for known in evaluations)]),
        **{
            f"evaluation.{name}": np.concatenate([empty, *(getattr(known, name) for known in evaluations)])
            for name in _KNOWN
        },
    }


def _evaluations(arrays: Arrays, rules: Iterable[tuple[Rule, ...]]) -> tuple[Evaluation, ...]:
    votes, time = (np.cumsum(arrays[f"evaluation.{name}"]).tolist() for name in ("votes", "time"))
    holds, ruled = (arrays[f"evaluation.{name}"].tolist() for name in ("holds", "rules"))
    order = _cut(arrays["evaluation.order"], arrays["evaluation.ranked"])
    known = {name: _cut(arrays[f"evaluation.{name}"], arrays["evaluation.models"]) for name in _KNOWN}
    told = iter(rules)
    return tuple(
        Evaluation(
            votes=votes[k],
            time=time[k],
            order=order[k],
            **{name: known[name][k] for name in _KNOWN},
            rules=next(told) if ruled[k] else (),
            holds=bool(holds[k]),
        )
        for k in range(len(votes))
    )


def _rated(rater: Rater) -> Arrays:
    plain, online = rater.to_dict(), rater.online
    return {
        **{f"rater.{name}": np.array(plain[name], dtype=np.float64) for name in _RATED},
        "online.mean": online.mean,
        "online.upper": online.settled[np.triu_indices(online.n_models)],
        "online.held": online.held[: online.n_held],
        "online.points": online.points,
    }


def _rater(arrays: Arrays, values: Mapping[str, Any], settings: RaterSettings) -> Rater:
    models = len(arrays["online.mean"])
    online = replace(
        settings.online.initial(models),
        mean=arrays["online.mean"],
        settled=np.zeros((models, models)),
        points=arrays["online.points"],
        **values["online"],
    )
    upper = np.triu_indices(models)
    online.settled[upper] = online.settled.T[upper] = arrays["online.upper"]
    online.held[: online.n_held] = arrays["online.held"]
    rater = Rater.from_dict(
        settings,
        {
            "mu": arrays["rater.mu"].tolist(),
            "phi2": arrays["rater.phi2"].tolist(),
            "sigma2": arrays["rater.sigma2"].tolist(),
            "elo": arrays["rater.elo"].tolist(),
            "votes": values["votes"],
            "online": settings.online.initial(0).to_dict(),
        },
    )
    rater.online = online
    return rater


def _column(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, dtype=np.int64)


def _cut(array: Array, sizes: Ints) -> list[Array]:
    stops = np.cumsum(sizes).tolist()
    return [array[stop - size : stop].copy() for stop, size in zip(stops, sizes.tolist(), strict=True)]


def encode_state(arrays: Mapping[str, Array], values: Mapping[str, object]) -> bytes:
    """One run of bytes: what it is, its digest, and its contents."""
    body = _body(arrays, values)
    return b"".join((_MAGIC, hashlib.sha256(body).digest(), zlib.compress(body, _COMPRESSION_LEVEL)))


def decode_state(packed: bytes) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays, in the types that they had, and the values that were given with them."""
    if not packed.startswith(_MAGIC):
        raise BadOption(f"these bytes do not begin with {_MAGIC!r}: they are no saved state of this version")
    try:
        body = zlib.decompress(packed[len(_MAGIC) + _DIGEST_BYTES :])
    except zlib.error as error:
        raise BadOption(f"a saved state cannot be unpacked ({error}); use an older one") from None
    if hashlib.sha256(body).digest() != state_digest(packed):
        raise BadOption("a saved state does not have the digest that it names; use an older one")
    size = int.from_bytes(body[:8], "little")
    head = json.loads(body[8 : 8 + size])
    arrays: dict[str, Array] = {}
    place = 8 + size
    for name, dtype, kept, shape in head["arrays"]:
        stop = place + int(np.prod(shape, dtype=np.int64)) * np.dtype(kept).itemsize
        planes = np.frombuffer(body[place:stop], dtype=np.uint8).reshape(np.dtype(kept).itemsize, -1)
        arrays[name] = np.ascontiguousarray(planes.T).view(kept).reshape(shape).astype(dtype)
        place = stop
    return arrays, head["values"]


def state_digest(packed: bytes) -> bytes:
    """The digest of what was packed."""
    return packed[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]


def _body(arrays: Mapping[str, Array], values: Mapping[str, object]) -> bytes:
    narrow = {name: _narrowed(arrays[name]) for name in sorted(arrays)}
    listed = [
        [name, arrays[name].dtype.newbyteorder("<").str, array.dtype.str, list(array.shape)]
        for name, array in narrow.items()
    ]
    head = json.dumps(
        {"arrays": listed, "values": values}, sort_keys=True, ensure_ascii=True, allow_nan=False
    ).encode()
    return b"".join((len(head).to_bytes(8, "little"), head, *(_planes(array) for array in narrow.values())))


def _narrowed(array: Array) -> Array:
    """The same numbers in the narrowest type that holds them all."""
    if array.dtype.kind not in "iu":
        return array.astype(array.dtype.newbyteorder("<"), copy=False)
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    kept = next(one for one in _WHOLE if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    return array.astype(kept)


def _planes(array: Array) -> bytes:
    """The lowest byte of every number, then the next of every number, and so on."""
    plain = np.ascontiguousarray(array).reshape(-1)
    return plain.view(np.uint8).reshape(-1, array.dtype.itemsize).T.tobytes()
