"""What voters do, people and judges alike, and what they do in live battles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from tiltyard.client.api_call import (
    Call,
    LineStream,
    api_path,
    gate_call,
    read_list,
    read_nothing,
    read_value,
)
from tiltyard.client.transport import sends, streams
from tiltyard.errors import BadOption
from tiltyard.wire.live import (
    FollowUpRequest,
    LivePromptRequest,
    ShownBattle,
    ShownFrame,
    TurnVoteRequest,
    TurnWinner,
)
from tiltyard.wire.records import ComplaintReason, Label, SkipReason, Tag, Winner, body_of
from tiltyard.wire.voting import (
    ComplaintRequest,
    Ended,
    GateAnswer,
    Matchup,
    NextMatchupRequest,
    RemarkRequest,
    Revealed,
    RevealedVote,
    ShownTimes,
    SkipRequest,
    UndoRequest,
    VoteRequest,
)

Side = Literal["a", "b"]


class VoterCalls:
    """The calls of voters."""

    @sends
    def next_matchup(self, arena: str, *, ahead: bool = False) -> Call[Matchup]:
        """The matchup to show to this voter now; ``ahead``: a further one, to be shown next."""
        body = body_of(NextMatchupRequest(ahead=ahead))
        return Call("POST", api_path("arenas", arena, "matchups"), read_value(Matchup), body=body)

    @sends
    def gate(self, arena: str) -> Call[GateAnswer]:
        """What a new voter must do before the first matchup. A client does it by itself, when it is asked to."""
        return gate_call(arena)

    @sends
    def open_matchups(self, arena: str) -> Call[list[Matchup]]:
        """What this voter was served and has not answered."""
        return Call("GET", api_path("arenas", arena, "matchups"), read_list(Matchup, "matchups"))

    @sends
    def show(self, matchup: str) -> Call[Matchup]:
        """Say that a matchup that was requested with ``ahead`` is shown now; otherwise it expires within minutes."""
        return Call("POST", api_path("matchups", matchup, "show"), read_value(Matchup))

    @sends
    def response(self, matchup: str, side: Side, image: int | None = None) -> Call[bytes]:
        """What stands on a side of an open matchup; or an image of its messages, by its number from 0."""
        path = api_path("m", matchup, side).removeprefix("/api/v1")
        return Call("GET", path, bytes, {"image": image})

    @sends
    def vote(
        self,
        matchup: str,
        winner: str,
        *,
        ballot: int = 0,
        reveal: bool = False,
        shown: Mapping[str, float] | None = None,
        recognized: bool = False,
        label: str | None = None,
        both_bad: bool | None = None,
        pref: float | None = None,
        judge_model: str | None = None,
    ) -> Call[Ended]:
        """Settle a matchup: ``model_a``, ``model_b``, ``tie`` or ``both_bad``. The last four are for judges.

        After an undo ``ballot`` is the one that `undo` returned. ``shown`` says how many seconds before a
        person's vote each response (``a``, ``b``) was first on screen. Who ``recognized`` a model by its response says
        so: such a vote is not rated.
        """
        if shown is not None and shown.keys() != {"a", "b"}:
            raise BadOption(f"shown has the seconds of a and b, not of {', '.join(shown) or 'neither'}")
        request = VoteRequest(
            winner=cast("Winner", winner),
            ballot=ballot,
            shown=None if shown is None else ShownTimes(a=shown["a"], b=shown["b"]),
            reveal=reveal,
            recognized=recognized,
            label=cast("Label | None", label),
            both_bad=both_bad,
            pref=pref,
            judge_model=judge_model,
        )
        return Call("POST", api_path("matchups", matchup, "vote"), read_value(Ended), body=body_of(request))

    @sends
    def undo(self, matchup: str, *, ballot: int = 0) -> Call[Ended]:
        """Undo the vote on a ballot, soon after it and before the names were shown: the matchup is open again."""
        body = body_of(UndoRequest(ballot=ballot))
        return Call("POST", api_path("matchups", matchup, "undo"), read_value(Ended), body=body)

    @sends
    def skip(self, matchup: str, *, reason: str | None = None, recognized: bool = False) -> Call[Ended]:
        """Pass a matchup over; a person may say why."""
        body = body_of(SkipRequest(reason=cast("SkipReason | None", reason), recognized=recognized))
        return Call("POST", api_path("matchups", matchup, "skip"), read_value(Ended), body=body)

    @sends
    def reveal(self, matchup: str) -> Call[Revealed]:
        """The names; from now on the vote is final."""
        return Call("POST", api_path("matchups", matchup, "reveal"), read_value(Revealed))

    @sends
    def finish(self, arena: str) -> Call[list[RevealedVote]]:
        """End the session: the names of all votes since the last time, oldest first. These votes are final."""
        read = read_list(RevealedVote, "votes")
        # What was told once is not told again: an answer that is lost is found on the page of one's own votes.
        return Call("POST", api_path("arenas", arena, "finish"), read, repeatable=False)

    @sends
    def remark(self, matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> Call[None]:
        """Say why one voted so, before the names are shown. Only the operator reads it."""
        body = body_of(RemarkRequest(tags=cast("list[Tag]", list(tags)), comment=comment))
        return Call("PUT", api_path("matchups", matchup, "remark"), read_nothing, body=body)

    @sends
    def report(self, matchup: str, reason: str, note: str | None = None) -> Call[None]:
        """Tell the operator what is wrong with a matchup."""
        body = body_of(ComplaintRequest(reason=cast("ComplaintReason", reason), note=note))
        path = api_path("matchups", matchup, "report")
        # Told twice, it is written down twice.
        return Call("POST", path, read_nothing, body=body, repeatable=False)

    # Live battles

    @sends
    def ask(self, arena: str, prompt: str, *, category: str | None = None) -> Call[ShownBattle]:
        """Send a prompt to two hidden models of a live arena."""
        body = body_of(LivePromptRequest(prompt=prompt, category=category))
        path = api_path("arenas", arena, "live")
        # Sent twice, it may cost twice.
        return Call("POST", path, read_value(ShownBattle), body=body, repeatable=False)

    @sends
    def live_battle(self, matchup: str) -> Call[ShownBattle]:
        """A live battle with all its turns, as far as they may be shown."""
        return Call("GET", api_path("live", matchup), read_value(ShownBattle))

    @streams
    def live_frames(self, matchup: str, *, after: str | None = None) -> LineStream[ShownFrame]:
        """Both answers as they are written, until the turn ends; ``after``: turn and lengths that are known already."""
        path = api_path("live", matchup, "frames")
        return LineStream(Call("GET", path, bytes, {"after": after}), _read_frame)

    @sends
    def follow_up(self, matchup: str, prompt: str) -> Call[ShownBattle]:
        """Send a further prompt to the same two models."""
        body = body_of(FollowUpRequest(prompt=prompt))
        path = api_path("live", matchup, "turns")
        return Call("POST", path, read_value(ShownBattle), body=body, repeatable=False)

    @sends
    def stop(self, matchup: str) -> Call[ShownBattle]:
        """Stop both answers; what is shown counts."""
        return Call("POST", api_path("live", matchup, "stop"), read_value(ShownBattle))

    @sends
    def again(self, matchup: str) -> Call[ShownBattle]:
        """A new battle with the first prompt of this one, which is skipped unless it has ended."""
        return Call("POST", api_path("live", matchup, "again"), read_value(ShownBattle), repeatable=False)

    @sends
    def turn_vote(self, matchup: str, turn: int, winner: str) -> Call[ShownBattle]:
        """The verdict on one turn, in an arena that asks for it: ``model_a``, ``model_b``, ``tie`` or ``both_bad``."""
        body = body_of(TurnVoteRequest(turn=turn, winner=cast("TurnWinner", winner)))
        return Call("POST", api_path("live", matchup, "turn-vote"), read_value(ShownBattle), body=body)


def _read_frame(line: bytes) -> ShownFrame | None:
    """The data of an event, which is one line; others are its id and comments."""
    if not line.startswith(b"data: "):
        return None
    return read_value(ShownFrame)(line.removeprefix(b"data: "))
