"""A standing as plain arrays: saved, restored, compared.

Derived values are recomputed when a checkpoint is restored; what is saved equals, bit for bit, the
result of replaying the whole log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.pair_counts import PairCells, PairCounts
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.session_memory import SessionMemories
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.state.vote_log import VoteLog

__all__ = ["FREE_MET", "MET", "StateCheckpoint", "restore", "save"]

Array = npt.NDArray[Any]

#: Names of the cells of pairs: by prompt of the roster, and by free prompt.
MET = "met"
FREE_MET = "free_met"
#: Names of the columns of the vote log begin with this.
_VOTES = "vote."


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
    """Save the state of a standing."""
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
        **_free_columns(standing),
        **_vote_columns(standing),
        **standing.sessions.saved(),
    }
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
        _restore_free(standing, arrays)
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


def _free_columns(standing: Standing) -> dict[str, Array]:
    """Votes of pairs by free prompt, where there are any."""
    return _pair_columns(standing.prompt_meetings, FREE_MET) if standing.policy.free_prompts else {}


def _vote_columns(standing: Standing) -> dict[str, Array]:
    log = standing.vote_log
    return {} if log is None else {_VOTES + name: column for name, column in log.columns().items()}


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


def _restore_free(standing: Standing, arrays: Mapping[str, Array]) -> None:
    """Votes of pairs by free prompt; sums over prompts are those of the categories."""
    free = standing.prompt_meetings
    _restore_pairs(free, arrays, FREE_MET)
    free.decisive[...], free.attempts[...] = standing.meetings.decisive, standing.meetings.attempts
    for low, high, cells in free:
        free.prompts[low, high] = free.prompts[high, low] = cells.tally[:, :2].any(axis=1).sum()
