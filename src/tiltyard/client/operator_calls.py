"""What operators do: arenas, what they hold and leave out; and whether the server is well."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from tiltyard.client.api_call import Call, api_path, read_list, read_nothing, read_value
from tiltyard.client.transport import sends
from tiltyard.wire.arenas import (
    ArenaInfo,
    ChangeArenaRequest,
    CreateArenaRequest,
    Enabled,
    Imported,
    ImportedVotes,
    ModelInfo,
    PolicyInForce,
    PromptInfo,
    ShadowBoard,
    VoteFileInfo,
    Withdrawn,
    WithdrawRequest,
)
from tiltyard.wire.moderation import AuditEntry, Complaint, Excluded, ExcludeRequest, Exclusion, Restored
from tiltyard.wire.operators import Me
from tiltyard.wire.records import SourceName, body_of

#: Constants of the ranking policy by name: the server says which there are.
Constants = dict[str, Any]


class OperatorCalls:
    """The calls of operators."""

    @sends
    def create_arena(
        self,
        name: str,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        volatility: float | None = None,
    ) -> Call[ArenaInfo]:
        """A new, empty arena; settings and constants of the policy that are not named have their defaults."""
        request = CreateArenaRequest(
            name=name, title=title, settings=settings or {}, policy=policy or {}, volatility=volatility
        )
        read = read_value(ArenaInfo)
        return Call("POST", api_path("arenas"), read, body=body_of(request), repeatable=False)

    @sends
    def change_arena(
        self, arena: str, *, title: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Call[ArenaInfo]:
        """Another title, other settings; those that are not named stay."""
        body = body_of(ChangeArenaRequest(title=title, settings=settings or {}))
        return Call("PATCH", api_path("arenas", arena), read_value(ArenaInfo), body=body)

    @sends
    def import_answers(
        self,
        arena: str,
        answers: str | os.PathLike[str] | bytes,
        *,
        enable: bool = True,
        columns: Mapping[str, str] | None = None,
        only_model: str | None = None,
        partly: bool = False,
    ) -> Call[Imported]:
        """Let a file of answers (JSON Lines, JSON or CSV) in, or the same as bytes. Answers that are there change nothing.

        ``columns`` says what columns of other names hold, by their headers: ``{"question": "prompt", "llm": "model"}``.
        """
        stated = [f"{use}={header}" for header, use in (columns or {}).items()]
        return Call(
            "POST",
            api_path("arenas", arena, "responses"),
            read_value(Imported),
            {"enable": enable, "columns": stated, "only_model": only_model, "partly": partly},
            content=answers if isinstance(answers, bytes) else Path(answers),
            media_type="application/x-ndjson",
        )

    @sends
    def import_votes(
        self, arena: str, votes: str | os.PathLike[str] | bytes, *, name: str = "votes"
    ) -> Call[ImportedVotes]:
        """Bring in votes that people cast elsewhere: a file of battles, or the same as bytes. Repeated, it adds nothing."""
        return Call(
            "POST",
            api_path("arenas", arena, "past-votes"),
            read_value(ImportedVotes),
            {"name": name},
            content=votes if isinstance(votes, bytes) else Path(votes),
            media_type="application/x-ndjson",
        )

    @sends
    def past_votes(self, arena: str) -> Call[list[VoteFileInfo]]:
        """The files whose votes were imported, and how far each came."""
        return Call("GET", api_path("arenas", arena, "past-votes"), read_list(VoteFileInfo, "files"))

    @sends
    def models(self, arena: str) -> Call[list[ModelInfo]]:
        """Every model that was ever added."""
        return Call("GET", api_path("arenas", arena, "models"), read_list(ModelInfo, "models"))

    @sends
    def enable(self, arena: str, model: str) -> Call[Enabled]:
        """Let a model be served."""
        return Call("POST", api_path("arenas", arena, "models", model, "enable"), read_value(Enabled))

    @sends
    def retire(self, arena: str, model: str) -> Call[Enabled]:
        """Serve a model no more; its battles count."""
        return Call("POST", api_path("arenas", arena, "models", model, "retire"), read_value(Enabled))

    @sends
    def prompts(self, arena: str, *, after: int = -1, limit: int = 100) -> Call[list[PromptInfo]]:
        """A page of prompts with their texts; ``after`` is the last number of the page before."""
        query = {"after": after, "limit": limit}
        return Call("GET", api_path("arenas", arena, "prompts"), read_list(PromptInfo, "prompts"), query)

    @sends
    def response_of(self, arena: str, model: str, prompt: str, image: int | None = None) -> Call[bytes]:
        """A model's live response to a prompt, for whoever must decide about it; or an image of its messages."""
        query = {"model": model, "prompt": prompt, "image": image}
        return Call("GET", api_path("arenas", arena, "responses"), bytes, query)

    @sends
    def withdraw(self, arena: str, prompt: str, *, reason: str, model: str | None = None) -> Call[Withdrawn]:
        """Take down a prompt with all its responses, or one model's response to it."""
        body = body_of(WithdrawRequest(prompt=prompt, model=model, reason=reason))
        path = api_path("arenas", arena, "withdrawals")
        return Call("POST", path, read_value(Withdrawn), body=body, repeatable=False)

    @sends
    def policy(self, arena: str) -> Call[Constants]:
        """The ranking policy that is in force."""
        return Call("GET", api_path("arenas", arena, "policy"), _read_policy)

    @sends
    def set_policy(self, /, arena: str, **constants: Any) -> Call[Constants]:
        """Change constants of the ranking policy from the next event on."""
        return Call("PATCH", api_path("arenas", arena, "policy"), _read_policy, body=constants)

    @sends
    def shadow_board(self, arena: str, *, source: SourceName = "human") -> Call[ShadowBoard]:
        """Each model's rank by legacy Elo and under the ranking policy, and why they differ."""
        query = {"source": source, "format": "json"}
        return Call("GET", api_path("arenas", arena, "shadow"), read_value(ShadowBoard), query)

    @sends
    def exclusions(self, arena: str) -> Call[list[Exclusion]]:
        """Votes that were excluded, and whether they were restored."""
        return Call("GET", api_path("arenas", arena, "exclusions"), read_list(Exclusion, "exclusions"))

    @sends
    def exclude(
        self,
        arena: str,
        reason: str,
        *,
        sessions: Sequence[int] | None = None,
        voters: Sequence[str] | None = None,
        release: str | None = None,
        invitation: int | None = None,
        matchups: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        source: str | None = None,
    ) -> Call[Excluded]:
        """Leave votes out of the ratings: those that fit everything that is said. They stay in the log."""
        request = ExcludeRequest(
            reason=reason,
            sessions=None if sessions is None else list(sessions),
            voters=None if voters is None else list(voters),
            release=release,
            invitation=invitation,
            matchups=None if matchups is None else list(matchups),
            since=since,
            until=until,
            source=cast("SourceName | None", source),
        )
        path = api_path("arenas", arena, "exclusions")
        return Call("POST", path, read_value(Excluded), body=body_of(request), repeatable=False)

    @sends
    def restore(self, arena: str, exclusion: int) -> Call[Restored]:
        """Let the votes of an exclusion count again."""
        path = api_path("arenas", arena, "exclusions", str(exclusion), "restore")
        return Call("POST", path, read_value(Restored), repeatable=False)

    @sends
    def audit(self, arena: str, *, before: int | None = None, limit: int = 100) -> Call[list[AuditEntry]]:
        """Who changed what, newest first; ``before`` is the last entry of the page before."""
        query = {"before": before, "limit": limit}
        return Call("GET", api_path("arenas", arena, "audit"), read_list(AuditEntry, "entries"), query)

    @sends
    def complaints(
        self, arena: str, *, after: int = 0, limit: int = 100, settled: bool = False
    ) -> Call[list[Complaint]]:
        """What voters said is wrong, oldest first; ``settled``: also what was looked at."""
        query = {"after": after, "limit": limit, "settled": settled}
        return Call("GET", api_path("arenas", arena, "complaints"), read_list(Complaint, "complaints"), query)

    @sends
    def settle_complaint(self, arena: str, complaint: int) -> Call[None]:
        """A complaint was looked at."""
        return Call("POST", api_path("arenas", arena, "complaints", str(complaint), "settle"), read_nothing)

    # The server itself

    @sends
    def me(self) -> Call[Me]:
        """Who this client is to the server, and what it may do."""
        return Call("GET", api_path("me"), read_value(Me))

    @sends
    def health(self) -> Call[None]:
        """Raises unless the process answers."""
        return Call("GET", "/healthz", read_nothing)

    @sends
    def ready(self) -> Call[None]:
        """Raises unless the process can serve voters."""
        return Call("GET", "/readyz", read_nothing)

    @sends
    def metrics(self) -> Call[str]:
        """Figures in Prometheus's text format."""
        return Call("GET", "/metrics", bytes.decode)


def _read_policy(data: bytes) -> Constants:
    return dict(read_value(PolicyInForce)(data).policy)
