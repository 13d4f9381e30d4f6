"""A voter who says what they can judge is served that alone; the log keeps it, and no rating depends on it."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest

from support.folded_votes import rows
from support.live_arenas import voting_queue_of
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.voting.voter_requests import DeclaredSkills, Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import NoMatchup
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

#: Language and category of each prompt.
PROMPTS = [
    ("en", "physics"),
    ("en", "law"),
    ("de", "physics"),
    ("de", "law"),
    (None, "physics"),
    ("fr", None),
]


def run(coroutine):
    return asyncio.run(coroutine)


def folded(url, arena):
    """What a replay of the whole log makes of people's votes."""
    with connect(url) as connection:
        head = connection.execute("SELECT max(position) FROM events").fetchone()[0]
        return replay_log(connection, arena.arena, head, 0)[HUMAN]


async def make_arena(url):
    """Four models that have answered every prompt."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        path.write_text(
            "".join(
                json.dumps(
                    {
                        "prompt_id": f"p{p}",
                        "prompt": f"What of {p}?",
                        "model": f"m{m}",
                        "response": f"{p} and {m}",
                        **{k: v for k, v in (("language", language), ("category", category)) if v},
                    }
                )
                + "\n"
                for m in range(4)
                for p, (language, category) in enumerate(PROMPTS)
            )
        )
        async with open_pool(url, most=2) as pool:
            made = await create_arena(pool, "arena", settings=ArenaSettings(reveal="never", undo_seconds=0.0))
            await import_answers(pool, BlobStore(pool, FolderStorage(Path(folder))), "arena", path)
    return made


def test_only_what_fits_is_served_and_the_log_says_by_what(database):
    """Prompts whose language or category is not stated fit everybody. A replay takes no notice of any of it."""
    voters = {
        Voter(1): set(range(6)),
        Voter(2, declared=DeclaredSkills(languages=("de",))): {2, 3, 4},
        Voter(3, declared=DeclaredSkills(categories=("law",))): {1, 3, 5},
        Voter(4, declared=DeclaredSkills(("en", "fr"), ("physics",))): {0, 4, 5},
    }

    async def vote():
        arena = await make_arena(database)
        async with voting_queue_of(database, arena) as queue:
            for voter, fitting in voters.items():
                served = set()
                for turn in range(18):
                    offered = await queue.next_matchup(voter)
                    served.add(offered.prompt)
                    await queue.vote(voter, offered.matchup, Kind(turn % 3))
                assert served == fitting
            return arena

    arena = run(vote())
    details = rows(database, "SELECT DISTINCT session, detail FROM events WHERE kind = 0 ORDER BY session")
    assert details == [
        (1, None),
        (2, {"languages": ["de"]}),
        (3, {"categories": ["law"]}),
        (4, {"languages": ["en", "fr"], "categories": ["physics"]}),
    ]
    propensities = [one for (one,) in rows(database, "SELECT propensity FROM matchups")]
    assert all(0.0 < one <= 1.0 for one in propensities)
    before = folded(database, arena).digest()
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET detail = NULL WHERE kind = 0")
    assert folded(database, arena).digest() == before


async def test_another_declaration_ends_what_does_not_fit_it(database):
    """One that was shown has expired then; one that waited to be shown is released."""
    async with voting_queue_of(database, await make_arena(database)) as queue:
        english = Voter(1, declared=DeclaredSkills(("en",), ("law",)))
        shown = await queue.next_matchup(english)
        ahead = await queue.look_ahead(english, shown.matchup)
        german = Voter(1, declared=DeclaredSkills(("de",), ("law",)))
        fitting = await queue.next_matchup(german)
        assert (shown.prompt, fitting.prompt) in {(1, 3), (1, 5), (5, 5), (5, 3)}
        opened = {one.prompt for one in await queue.open_matchups(german)}
        assert opened <= {3, 5}
        assert ahead.prompt in {1, 5}
    ended = rows(
        database, "SELECT DISTINCT m.prompt FROM endings e JOIN matchups m USING (arena, source, serial)"
    )
    assert {prompt for (prompt,) in ended} <= {1}


def test_nothing_that_fits_is_refused_and_changes_nothing(database):
    async def ask():
        async with voting_queue_of(database, await make_arena(database)) as queue:
            nobody = Voter(1, declared=DeclaredSkills(("la",), ("law",)))
            await queue.next_matchup(nobody)

    with pytest.raises(NoMatchup, match="you can judge"):
        run(ask())
    assert rows(database, "SELECT 1 FROM events WHERE kind IN (0, 14)") == []


def test_who_recognizes_a_model_votes_and_is_not_rated(database):
    """The vote, or the skip, is kept as not blind, with the reason; it is in no rating."""

    async def vote():
        arena = await make_arena(database)
        async with voting_queue_of(database, arena) as queue:
            for detail in (None, {"recognized": True}, {"recognized": False}):
                offered = await queue.next_matchup(Voter(1))
                ended = await queue.vote(Voter(1), offered.matchup, Kind.WIN_A, detail=detail)
                assert ended.blind == (detail != {"recognized": True})
                assert (await queue.vote(Voter(1), offered.matchup, Kind.WIN_A)).blind == ended.blind
            offered = await queue.next_matchup(Voter(1))
            detail = {"reason": "language", "recognized": True}
            await queue.skip(Voter(1), offered.matchup, detail=detail)
            await queue.skip(Voter(1), offered.matchup)
        return arena

    arena = run(vote())
    kept = rows(database, "SELECT kind, blind, detail FROM events WHERE kind IN (1, 2) ORDER BY position")
    assert kept == [
        (1, True, None),
        (1, False, {"recognized": True}),
        (1, True, {"recognized": False}),
        (2, None, {"reason": "language", "recognized": True}),
    ]
    assert folded(database, arena).votes == 2
