"""Expert panels on a real database: assigned evenly, stored for good, and repeatable from the log."""

import asyncio

import psycopg
import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.panelled import RATERS, finish_panel, panelled_arena
from support.pool_work import asked
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.operators.arena_changes import change_settings, set_enabled
from tiltyard.arena.operators.invitations import find_invitation
from tiltyard.arena.operators.panel_records import (
    PANEL_COLUMNS,
    adjudicate,
    agreement_rows,
    find_disagreements,
    panel_board,
    panel_progress,
    panel_table,
    read_panel,
)
from tiltyard.arena.operators.panels import (
    PanelTerms,
    close_panel,
    find_rater_by_invitation,
    find_rater_by_session,
    list_panels,
    open_panel,
)
from tiltyard.core.judging.diagnostics.rater_agreement import AgreementGap, RaterValue
from tiltyard.core.judging.panel_assignment import assign_items, list_panel_items
from tiltyard.errors import BadOption, Closed, Conflict, InputError, NotFound
from tiltyard.postgres.connections import connect, open_pool


def sql(url, text, *values):
    with connect(url) as connection:
        found = connection.execute(text, values)
        return found.fetchall() if found.description else None


def test_a_stranger_can_repeat_the_assignment_from_the_log(database):
    terms = PanelTerms("panel", RATERS, overlap=2, pairs_per_prompt=3)
    asyncio.run(panelled_arena(database, terms))
    ((detail,),) = sql(database, "SELECT detail FROM events WHERE kind = 20")
    models = set(detail["models"])
    answered = {prompt: set() for prompt in detail["prompts"]}
    for model, prompt in sql(database, "SELECT a, prompt FROM events WHERE kind = 6"):
        if prompt in answered and model in models:
            answered[prompt].add(model)
    items = list_panel_items(answered, detail["pairs_per_prompt"], detail["seed"])
    stored = sql(database, "SELECT prompt, one, other FROM panel_items ORDER BY item")
    assert stored == [(item.prompt, item.one, item.other) for item in items]
    tasks = assign_items(items, len(detail["sessions"]), detail["overlap"], detail["seed"])
    stored = sql(database, "SELECT item, rater, place, exchanged FROM panel_tasks")
    assert sorted(stored) == sorted((one.item, one.rater, one.place, one.exchanged) for one in tasks)
    sessions = [session for (session,) in sql(database, "SELECT session FROM panel_raters ORDER BY rater")]
    assert sessions == detail["sessions"]


async def test_an_assignment_cannot_be_rewritten(database):
    await panelled_arena(database)
    for text in (
        "DELETE FROM panel_tasks",
        "UPDATE panel_tasks SET exchanged = NOT exchanged",
        "UPDATE panel_items SET prompt = 0",
        "DELETE FROM panel_items",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            sql(database, text)


def test_opening_a_panel_hides_names_and_is_audited(database):
    _, opened = asyncio.run(panelled_arena(database, reveal="vote"))
    assert (opened.panel.items, opened.panel.tasks) == (48, 96)
    assert len(set(opened.codes)) == 6
    ((settings,),) = sql(database, "SELECT settings FROM arenas")
    assert settings["reveal"] == "never"
    ((detail,),) = sql(database, "SELECT detail FROM audit WHERE action = 'open panel'")
    assert detail["reveal"] == ["vote", "never"]
    assert "Ada" not in str(sql(database, "SELECT detail FROM events WHERE kind = 20"))


async def test_a_link_leads_to_its_rater_and_other_links_to_none(database):
    arena, opened = await panelled_arena(database)

    async with open_pool(database, most=4) as pool:
        offer = await find_invitation(pool, opened.codes[2])
        assert not offer.single
        assert await find_rater_by_invitation(pool, offer.invitation) == opened.raters[2]
        assert await find_rater_by_invitation(pool, 10**9) is None
        found = await find_rater_by_session(pool, arena.arena, opened.raters[3].session)
        assert found == ("panel", opened.raters[3])
        assert await find_rater_by_session(pool, arena.arena, 5) is None
        assert await find_rater_by_session(pool, 10**6, opened.raters[3].session) is None


async def test_six_experts_finish_eight_prompts_and_four_models(database):
    arena, opened = await panelled_arena(database, reveal="session")
    assert await finish_panel(database, arena, opened.raters) == [16] * 6

    async with open_pool(database, most=4) as pool:
        record = await read_panel(pool, "arena", "panel")
        assert [(one.tasks, one.voted, one.skipped, one.left) for one in panel_progress(record)] == [
            (16, 16, 0, 0)
        ] * 6
        assert panel_board(record) is None
        rows = agreement_rows(record)
        assert [row.scope for row in rows] == ["all"] + ["rater"] * 6 + ["model"] * 4
        assert rows[0].found.pairs == 48
        assert rows[0].found.alpha.low < rows[0].found.alpha.value < rows[0].found.alpha.high
        closed = await close_panel(pool, "arena", "panel", actor="cli")
        assert closed.closed_at is not None
        async with pool.connection() as connection:
            assert (await find_arena(connection, "arena")).settings.reveal == "session"
        board = panel_board(await read_panel(pool, "arena", "panel"))
        assert board.rows[0].model == "model-3"
        assert board.rows[0].rank_low == 1
        with pytest.raises(Closed, match="closed already"):
            await close_panel(pool, "arena", "panel", actor="cli")
    assert sql(database, "SELECT count(*) FROM endings WHERE revealed_at IS NOT NULL") == [(0,)]
    assert sql(database, "SELECT DISTINCT lane, reason, given_up FROM matchups") == [(3, "expert panel", 0)]


async def test_sides_follow_the_assignment_and_values_do_not_depend_on_them(database):
    arena, opened = await panelled_arena(database)
    await finish_panel(database, arena, opened.raters, noise=0.0)
    wrong = sql(
        database,
        "SELECT count(*) FROM panel_tasks t JOIN panel_items i USING (panel, item)"
        " JOIN panel_raters r USING (panel, rater)"
        " JOIN matchups m ON m.session = r.session AND m.prompt = i.prompt"
        " AND least(m.a, m.b) = i.one AND greatest(m.a, m.b) = i.other WHERE t.exchanged <> (m.a = i.other)",
    )
    assert wrong == [(0,)]

    async with open_pool(database, most=4) as pool:
        record = await read_panel(pool, "arena", "panel")
        assert {vote.value for vote in record.cast()} == {RaterValue.SECOND}
        assert agreement_rows(record)[0].found.alpha.value == 1.0
        assert find_disagreements(record) == []
        with pytest.raises(Closed, match="do not disagree"):
            await adjudicate(pool, "arena", "panel", 0, RaterValue.TIE, "because", actor="cli")


async def test_an_adjudication_is_a_record_beside_the_votes(database):
    arena, opened = await panelled_arena(database)
    await finish_panel(database, arena, opened.raters, noise=0.6)
    votes = sql(database, "SELECT * FROM endings ORDER BY serial")
    head = sql(database, "SELECT max(position) FROM events")

    async with open_pool(database, most=4) as pool:
        before = await read_panel(pool, "arena", "panel")
        item = find_disagreements(before)[0][0].item
        with pytest.raises(InputError):
            await adjudicate(pool, "arena", "panel", item, RaterValue.TIE, " ", actor="cli")
        with pytest.raises(NotFound, match="no item"):
            await adjudicate(pool, "arena", "panel", 999, RaterValue.TIE, "x", actor="cli")
        await adjudicate(pool, "arena", "panel", item, RaterValue.TIE, "first", actor="cli")
        await adjudicate(pool, "arena", "panel", item, RaterValue.FIRST, "better", actor="operator:x")
        after = await read_panel(pool, "arena", "panel")
        assert after.votes == before.votes
        said = after.items[item].adjudication
        assert (said.verdict, said.note, said.actor) == (RaterValue.FIRST, "better", "operator:x")
        # What is left to do comes first.
        assert find_disagreements(after)[-1][0].item == item
        row = next(row for row in panel_table(after) if row["item"] == item)
        assert (row["adjudication"], row["adjudication_note"]) == ("model_a", "better")
    assert sql(database, "SELECT * FROM endings ORDER BY serial") == votes
    assert sql(database, "SELECT max(position) FROM events") == head
    assert sql(database, "SELECT count(*) FROM panel_adjudications") == [(2,)]
    entries = sql(database, "SELECT detail->'verdict' FROM audit WHERE action = 'adjudicate' ORDER BY entry")
    assert entries == [([None, "tie"],), (["tie", "model_a"],)]


async def test_the_table_has_a_row_for_each_task_also_without_a_vote(database):
    arena, _ = await panelled_arena(database)

    async with open_pool(database, most=4) as pool:
        rows = panel_table(await read_panel(pool, "arena", "panel"))
        assert len(rows) == 96
        assert {row["state"] for row in rows} == {"open"}
        assert all(list(row) == list(PANEL_COLUMNS) for row in rows)
        found = agreement_rows(await read_panel(pool, "arena", "panel"))
        assert found[0].found.alpha.gap is AgreementGap.NO_VOTES
    assert arena.name == "arena"


def test_what_cannot_be_a_panel_is_refused_and_leaves_nothing(database):
    asyncio.run(make_arena(database, 3, 4))

    async def refused(pool, error, said, terms, **settings):
        if settings:
            await change_settings(pool, "arena", settings, actor="cli")
        with pytest.raises(error, match=said):
            await open_panel(pool, "arena", terms, shard=0, actor="cli")

    async def work(pool):
        await refused(pool, BadOption, "overlap", PanelTerms("p", ("A", "B"), overlap=3))
        await refused(pool, NotFound, "no prompt 'nope'", PanelTerms("p", ("A", "B"), prompts=("nope",)))
        await refused(pool, NotFound, "no category", PanelTerms("p", ("A", "B"), categories=("maths",)))
        await refused(pool, BadOption, "pairs per prompt", PanelTerms("p", ("A", "B"), pairs_per_prompt=0))
        await refused(pool, Conflict, "link", PanelTerms("p", ("A", "B")), entry="passcode")
        await refused(pool, Conflict, "link", PanelTerms("p", ("A", "B")), entry="open", visibility="closed")
        await change_settings(pool, "arena", {"visibility": "open"}, actor="cli")
        with pytest.raises(NotFound, match="arena"):
            await open_panel(pool, "other", PanelTerms("p", ("A",), overlap=1), shard=0, actor="cli")
        with pytest.raises(NotFound, match="no panel"):
            await close_panel(pool, "arena", "p", actor="cli")
        assert await list_panels(pool, "arena") == []
        for table in ("invitations", "panel_raters", "panel_items"):
            assert sql(database, f"SELECT count(*) FROM {table}") == [(0,)]
        await open_panel(pool, "arena", PanelTerms("p", ("A", "B")), shard=0, actor="cli")
        await refused(pool, Conflict, "already", PanelTerms("p", ("A", "B")))

    asked(database, work)


@pytest.mark.parametrize(
    "options",
    [
        {"raters": ()},
        {"raters": ("A", "A")},
        {"raters": ("A\nB",)},
        {"raters": ("A",), "seed": -1},
        {"raters": ("A",), "seed": 2**53},
        {"raters": ("A",) * 101},
        {"name": "", "raters": ("A",)},
    ],
)
def test_terms_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError):
        PanelTerms(**({"name": "p"} | options))


async def test_retired_models_and_other_prompts_are_not_asked_about(database):
    await make_arena(database, 4, 4)

    async with open_pool(database, most=4) as pool:
        await set_enabled(pool, "arena", "model-0", enabled=False, actor="cli")
        terms = PanelTerms("p", ("A", "B"), prompts=("prompt-1", "prompt-3"))
        opened = await open_panel(pool, "arena", terms, shard=0, actor="cli")
        assert opened.panel.items == 6
        record = await read_panel(pool, "arena", "p")
        assert {one.prompt for one in record.items} == {"prompt-1", "prompt-3"}
        assert "model-0" not in {name for one in record.items for name in (one.model_a, one.model_b)}
        async with pool.connection() as connection:
            assert (await find_arena(connection, "arena")).settings.reveal == "never"


async def test_a_queue_that_runs_learns_of_a_new_panel(database):
    arena = await make_arena(database, 3, 3)
    async with voting_queue_of(database, arena) as queue, open_pool(database, most=2) as pool:
        terms = PanelTerms("p", ("A", "B"), seed=3)
        opened = await open_panel(pool, "arena", terms, shard=0, actor="cli")
        from tiltyard.arena.voting.voter_requests import Voter

        offered = await queue.next_matchup(Voter(opened.raters[0].session))
        assert queue.state.open[offered.matchup].session == opened.raters[0].session
        assert sql(database, "SELECT reason FROM matchups") == [("expert panel",)]
