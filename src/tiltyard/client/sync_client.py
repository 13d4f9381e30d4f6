"""The client: everything that the API of a Tiltyard server does, as methods."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tiltyard.atomic_files import atomic_write
from tiltyard.client import admin_calls, live_calls, operator_calls, reader_calls, voter_calls
from tiltyard.client.admin_calls import (
    AuditEntry,
    Complaint,
    Constants,
    Enabled,
    Excluded,
    Exclusion,
    Imported,
    ModelInfo,
    PromptInfo,
    Restored,
    Withdrawn,
)
from tiltyard.client.api_call import Call
from tiltyard.client.live_calls import ShownBattle, ShownFrame
from tiltyard.client.operator_calls import Me, NewToken, Token
from tiltyard.client.reader_calls import ArenaInfo, JsonDocument, ReportInfo, SnapshotInfo
from tiltyard.client.transport import Transport
from tiltyard.client.voter_calls import Ended, GateAnswer, Matchup, Revealed, RevealedVote, Side

__all__ = ["Client"]


class Client(Transport):
    """One voter, judge, reader or operator of a server. Cookies are kept: a client is one voter.

    ``timeout`` is for one request. For ``patience`` seconds in all, a call is sent again when the server
    cannot be reached or says "not now", if sending it twice does what sending it once does. A vote is
    such a call: the same vote again gives the same answer.

    What the server refuses is raised as it was there: `NotFound`, `NotAllowed`, `Closed`, `Expired`,
    `Conflict`, `NoMatchup`, `InputError`. A server that cannot be reached is a `StoreFault`.
    """

    def __init__(
        self, base_url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 10.0
    ) -> None:
        super().__init__(base_url, token, timeout, patience)

    # Voters

    def next_matchup(self, arena: str, *, ahead: bool = False) -> Matchup:
        """The matchup to show to this voter now; ``ahead``: a further one, to be shown next."""
        return self.call(voter_calls.next_matchup(arena, ahead=ahead))

    def gate(self, arena: str) -> GateAnswer:
        """What a new voter must do before the first matchup. A client does it by itself, when it is asked to."""
        return self.call(voter_calls.gate(arena))

    def open_matchups(self, arena: str) -> list[Matchup]:
        """What this voter was served and has not answered."""
        return self.call(voter_calls.open_matchups(arena))

    def show(self, matchup: str) -> Matchup:
        """Say that a matchup that was requested with ``ahead`` is shown now; otherwise it expires within minutes."""
        return self.call(voter_calls.show(matchup))

    def response(self, matchup: str, side: Side, image: int | None = None) -> bytes:
        """What stands on a side of an open matchup; or an image of its messages, by its number from 0."""
        return self.call(voter_calls.response(matchup, side, image))

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
    ) -> Ended:
        """Settle a matchup: ``model_a``, ``model_b``, ``tie`` or ``both_bad``. The last four are for judges.

        After an undo ``ballot`` is the one that `undo` returned. ``shown`` says how many seconds before a
        person's vote each response (``a``, ``b``) was first on screen. Who ``recognized`` a model by its response says
        so: such a vote is not rated.
        """
        return self.call(
            voter_calls.vote(
                matchup,
                winner,
                ballot=ballot,
                reveal=reveal,
                shown=shown,
                recognized=recognized,
                label=label,
                both_bad=both_bad,
                pref=pref,
                judge_model=judge_model,
            )
        )

    def undo(self, matchup: str, *, ballot: int = 0) -> Ended:
        """Undo the vote on a ballot, soon after it and before the names were shown: the matchup is open again."""
        return self.call(voter_calls.undo(matchup, ballot=ballot))

    def skip(self, matchup: str, *, reason: str | None = None, recognized: bool = False) -> Ended:
        """Pass a matchup over; a person may say why."""
        return self.call(voter_calls.skip(matchup, reason=reason, recognized=recognized))

    def reveal(self, matchup: str) -> Revealed:
        """The names; from now on the vote is final."""
        return self.call(voter_calls.reveal(matchup))

    def finish(self, arena: str) -> list[RevealedVote]:
        """End the session: the names of all votes since the last time, oldest first. These votes are final."""
        return self.call(voter_calls.finish(arena))

    def remark(self, matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> None:
        """Say why one voted so, before the names are shown. Only the operator reads it."""
        self.call(voter_calls.remark(matchup, tags, comment))

    def report(self, matchup: str, reason: str, note: str | None = None) -> None:
        """Tell the operator what is wrong with a matchup."""
        self.call(voter_calls.report(matchup, reason, note))

    # Voters in live battles

    def ask(self, arena: str, prompt: str, *, category: str | None = None) -> ShownBattle:
        """Send a prompt to two hidden models of a live arena."""
        return self.call(live_calls.ask(arena, prompt, category=category))

    def live_battle(self, matchup: str) -> ShownBattle:
        """A live battle with all its turns, as far as they may be shown."""
        return self.call(live_calls.live_battle(matchup))

    def live_frames(self, matchup: str, *, after: str | None = None) -> Iterator[ShownFrame]:
        """Both answers as they are written, until the turn ends; ``after``: turn and lengths that are known already."""
        with self.stream(live_calls.frames(matchup, after=after)) as pieces:
            yield from live_calls.read_frames(pieces)

    def follow_up(self, matchup: str, prompt: str) -> ShownBattle:
        """Send a further prompt to the same two models."""
        return self.call(live_calls.follow_up(matchup, prompt))

    def stop(self, matchup: str) -> ShownBattle:
        """Stop both answers; what is shown counts."""
        return self.call(live_calls.stop(matchup))

    def again(self, matchup: str) -> ShownBattle:
        """A new battle with the first prompt of this one, which is skipped unless it has ended."""
        return self.call(live_calls.again(matchup))

    def turn_vote(self, matchup: str, turn: int, winner: str) -> ShownBattle:
        """The verdict on one turn, in an arena that asks for it: ``model_a``, ``model_b``, ``tie`` or ``both_bad``."""
        return self.call(live_calls.turn_vote(matchup, turn, winner))

    # Readers

    def arenas(self) -> list[ArenaInfo]:
        """Open arenas, and closed ones that this client has a right to."""
        return self.call(reader_calls.arenas())

    def arena(self, name: str) -> ArenaInfo:
        """What an arena is called and how it is run."""
        return self.call(reader_calls.arena(name))

    def board(
        self,
        arena: str,
        *,
        source: str = "human",
        category: str | None = None,
        language: str | None = None,
        retired: bool = True,
        excluded: str = "left-out",
        identity: str = "with",
        lane: str = "all",
    ) -> JsonDocument:
        """The newest board; with a category or a language, that of those prompts alone.

        ``excluded="counted"`` counts excluded votes, too; ``identity="without"`` leaves out live battles that talk about
        who answers; ``lane="exploration"`` counts only votes on pairs that were chosen at random.
        """
        return self.call(
            reader_calls.board(
                arena,
                source=source,
                category=category,
                language=language,
                retired=retired,
                excluded=excluded,
                identity=identity,
                lane=lane,
            )
        )

    def effects(self, arena: str) -> JsonDocument:
        """Whether longer answers, or slower models, win more often in a live arena."""
        return self.call(reader_calls.effects(arena))

    def snapshots(
        self, arena: str, *, source: str = "human", before: SnapshotInfo | None = None, limit: int = 100
    ) -> list[SnapshotInfo]:
        """Published boards, newest first; ``before`` is the last one of the page before."""
        return self.call(reader_calls.snapshots(arena, source=source, before=before, limit=limit))

    def snapshot(
        self,
        arena: str,
        sha256: str,
        *,
        category: str | None = None,
        language: str | None = None,
        excluded: str = "left-out",
        identity: str = "with",
        lane: str = "all",
    ) -> JsonDocument:
        """A published board by its hash, which is checked; or that of some of its votes, as `board` filters them."""
        return self.call(
            reader_calls.snapshot(
                arena,
                sha256,
                category=category,
                language=language,
                excluded=excluded,
                identity=identity,
                lane=lane,
            )
        )

    def model(self, arena: str, name: str, *, source: str = "human") -> JsonDocument:
        """One model: its row and neighbours, head to head, results by prompt, history."""
        return self.call(reader_calls.model(arena, name, source=source))

    def reports(self, arena: str) -> list[ReportInfo]:
        """Weekly validity reports, newest first."""
        return self.call(reader_calls.reports(arena))

    def validity_report(self, arena: str, sha256: str) -> JsonDocument:
        """A weekly report by its hash, which is checked."""
        return self.call(reader_calls.report(arena, sha256))

    def save_battles(
        self,
        arena: str,
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",
        source: str = "human",
        table: str = "voters",
        snapshot: str | None = None,
    ) -> Path:
        """The battles of a release as a file: ``jsonl``, ``csv`` or ``parquet``. It appears whole or not at all.

        ``table`` is ``voters``, ``ordered`` or ``both``: a zip archive, which `tiltyard verify` checks once it is unpacked.
        """
        call = reader_calls.battles(arena, format=format, source=source, table=table, snapshot=snapshot)
        return self._save(call, path)

    def save_exact_battles(
        self,
        arena: str,
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",
        source: str | None = None,
        upto: int | None = None,
        release: str | None = None,
    ) -> Path:
        """All final battles with positions and times, as an operator; the audit log has an entry of it."""
        call = reader_calls.exact_battles(arena, format=format, source=source, upto=upto, release=release)
        return self._save(call, path)

    def battles(
        self, arena: str, *, source: str = "human", table: str = "voters", snapshot: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """The battles of a release one by one, as they come; ``table`` is ``voters`` or ``ordered``."""
        call = reader_calls.battles(arena, source=source, table=table, snapshot=snapshot)
        with self.stream(call) as pieces:
            left = b""
            for piece in pieces:
                *lines, left = (left + piece).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
            if left:
                yield json.loads(left)

    def _save(self, call: Call[bytes], path: str | os.PathLike[str]) -> Path:
        place = Path(path)
        with self.stream(call) as pieces, atomic_write(place) as file:
            file.writelines(pieces)
        return place

    # Operators

    def create_arena(
        self,
        name: str,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> ArenaInfo:
        """A new, empty arena; settings and constants of the policy that are not named have their defaults."""
        return self.call(admin_calls.create_arena(name, title=title, settings=settings, policy=policy))

    def change_arena(
        self, arena: str, *, title: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> ArenaInfo:
        """Another title, other settings; those that are not named stay."""
        return self.call(admin_calls.change_arena(arena, title=title, settings=settings))

    def import_answers(
        self, arena: str, answers: str | os.PathLike[str] | bytes, *, enable: bool = True
    ) -> Imported:
        """Let a file of answers (JSON lines) in, or the same as bytes. Answers that are there change nothing."""
        content = answers if isinstance(answers, bytes) else Path(answers)
        return self.call(admin_calls.import_answers(arena, content, enable=enable))

    def models(self, arena: str) -> list[ModelInfo]:
        """Every model that was ever added."""
        return self.call(admin_calls.models(arena))

    def enable(self, arena: str, model: str) -> Enabled:
        """Let a model be served."""
        return self.call(admin_calls.enable(arena, model))

    def retire(self, arena: str, model: str) -> Enabled:
        """Serve a model no more; its battles count."""
        return self.call(admin_calls.retire(arena, model))

    def prompts(self, arena: str, *, after: int = -1, limit: int = 100) -> list[PromptInfo]:
        """A page of prompts with their texts; ``after`` is the last number of the page before."""
        return self.call(admin_calls.prompts(arena, after=after, limit=limit))

    def response_of(self, arena: str, model: str, prompt: str, image: int | None = None) -> bytes:
        """A model's live response to a prompt, for whoever must decide about it; or an image of its messages."""
        return self.call(admin_calls.response_of(arena, model, prompt, image))

    def withdraw(self, arena: str, prompt: str, *, reason: str, model: str | None = None) -> Withdrawn:
        """Take down a prompt with all its responses, or one model's response to it."""
        return self.call(admin_calls.withdraw(arena, prompt, reason=reason, model=model))

    def policy(self, arena: str) -> Constants:
        """The ranking policy that is in force."""
        return self.call(admin_calls.policy(arena))

    def set_policy(self, arena: str, **constants: Any) -> Constants:
        """Change constants of the ranking policy from the next event on."""
        return self.call(admin_calls.set_policy(arena, constants))

    def set_phase(self, arena: str, phase: int) -> Constants:
        """How much of the ranking policy is in force, 1 to 4."""
        return self.call(admin_calls.set_phase(arena, phase))

    def exclusions(self, arena: str) -> list[Exclusion]:
        """Votes that were excluded, and whether they were restored."""
        return self.call(admin_calls.exclusions(arena))

    def exclude(
        self,
        arena: str,
        reason: str,
        *,
        sessions: Sequence[int] | None = None,
        voters: Sequence[str] | None = None,
        release: str | None = None,
        matchups: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        source: str | None = None,
    ) -> Excluded:
        """Leave votes out of the ratings: those that fit everything that is said. They stay in the log."""
        return self.call(
            admin_calls.exclude(
                arena,
                reason,
                sessions=sessions,
                voters=voters,
                release=release,
                matchups=matchups,
                since=since,
                until=until,
                source=source,
            )
        )

    def restore(self, arena: str, exclusion: int) -> Restored:
        """Let the votes of an exclusion count again."""
        return self.call(admin_calls.restore(arena, exclusion))

    def audit(self, arena: str, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Who changed what, newest first; ``before`` is the last entry of the page before."""
        return self.call(admin_calls.audit(arena, before=before, limit=limit))

    def complaints(
        self, arena: str, *, after: int = 0, limit: int = 100, settled: bool = False
    ) -> list[Complaint]:
        """What voters said is wrong, oldest first; ``settled``: also what was looked at."""
        return self.call(admin_calls.complaints(arena, after=after, limit=limit, settled=settled))

    def settle_complaint(self, arena: str, complaint: int) -> None:
        """A complaint was looked at."""
        self.call(admin_calls.settle_complaint(arena, complaint))

    # The server itself

    def claim(self, token: str, name: str, password: str) -> Me:
        """Become the operator with a link's token, which works once, and sign in."""
        return self.call(operator_calls.claim(token, name, password))

    def sign_in(self, name: str, password: str, code: str | None = None) -> Me:
        """Sign in as the operator; this client stays signed in by its cookie."""
        return self.call(operator_calls.sign_in(name, password, code))

    def sign_out(self) -> None:
        """End this sign-in."""
        self.call(operator_calls.sign_out())

    def me(self) -> Me:
        """Who this client is to the server, and what it may do."""
        return self.call(operator_calls.me())

    def list_tokens(self) -> list[Token]:
        """Every token there ever was, without the tokens themselves."""
        return self.call(operator_calls.list_tokens())

    def make_token(
        self, name: str, scopes: Sequence[str], *, arena: str | None = None, days: int | None = None
    ) -> NewToken:
        """A token for programs, of the scopes read, judge, import, admin or metrics."""
        return self.call(operator_calls.make_token(name, scopes, arena=arena, days=days))

    def revoke_token(self, api_token: int) -> None:
        """The token is worth nothing from now on."""
        self.call(operator_calls.revoke_token(api_token))

    def health(self) -> None:
        """Raises unless the process answers."""
        self.call(operator_calls.health())

    def ready(self) -> None:
        """Raises unless the process can serve voters."""
        self.call(operator_calls.ready())

    def metrics(self) -> str:
        """Figures in Prometheus's text format."""
        return self.call(operator_calls.metrics())
