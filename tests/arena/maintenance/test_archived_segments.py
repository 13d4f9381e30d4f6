"""Archived segments: a replay of them gives what the database gives, and nothing else is accepted or in them."""

import asyncio
import hashlib
import json
import shutil
from collections import deque
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg import Connection

from support.archived_arenas import (
    FIRST_SESSION,
    SHOWN_SECONDS,
    TEXTS,
    archive_of,
    busy_yard,
    rate_all,
    write_parts,
)
from support.pool_work import asked
from support.postgres_servers import fresh_database
from support.rated_arenas import Yard, rated_arena, tell, tell_all
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.log.event_log import HUMAN, JUDGE, SOURCES
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.maintenance.segment_manifest import SEGMENT_FILES, list_segments, read_archive
from tiltyard.arena.maintenance.segment_replay import read_segment, replay_archive
from tiltyard.arena.maintenance.segment_writer import (
    SegmentArchive,
    read_voter_numbers,
    supersede_segments,
    write_segment,
)
from tiltyard.arena.operators.voter_data import erase_session
from tiltyard.arena.rating.arena_rater import active_exclusions
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot, open_matchups_at
from tiltyard.arena.rating.log_replay import FoldProgress
from tiltyard.arena.rating.rater_progress import (
    event_time,
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_rater_progress,
    read_undone_votes,
)
from tiltyard.errors import BadOption, BrokenArtifact, Conflict, InputError, StoreFault
from tiltyard.foundation.local_files import lock_file
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.settings.arena_settings import ArenaSettings


class Story(NamedTuple):
    """An arena in which everything has happened, rated to its end and archived; nobody is connected to it."""

    database: str
    state: dict
    archive: SegmentArchive


@pytest.fixture(scope="module")
def story(server, template, tmp_path_factory):
    archive = archive_of(tmp_path_factory.mktemp("story"))
    with fresh_database(server, template) as url:
        with connect(url) as connection, closing(busy_yard(url)) as yard:
            rate_all(yard, connection)
            write_parts(connection, yard, archive)
            state = {name: value for name, value in vars(yard).items() if not name.startswith("_")}
        yield Story(url.rpartition("/")[2], state, archive)


@contextmanager
def retold(server, story):
    """The same arena in a database of its own."""
    with fresh_database(server, story.database) as url:
        yard = Yard.__new__(Yard)
        vars(yard).update(deepcopy(story.state), url=url)
        yard._plain = connect(url, name="tiltyard test")
        allow_rewriting(yard._plain)
        yard._runner = asyncio.Runner()
        yard._connection = yard._runner.run(connect_async(url, name="tiltyard test"))
        with closing(yard):
            yield yard


@pytest.fixture
def yard(server, story):
    """For tests that change it."""
    with retold(server, story) as made:
        yield made


@pytest.fixture
def connection(yard):
    with connect(yard.url) as made:
        yield made


class Kept(NamedTuple):
    """The same for all tests that change nothing in the database."""

    yard: Yard
    connection: Connection
    archive: SegmentArchive


@pytest.fixture(scope="module")
def kept(server, story):
    with retold(server, story) as yard, connect(yard.url) as connection:
        yield Kept(yard, connection, story.archive)


@pytest.fixture
def archive(story, tmp_path):
    """A copy of the archive, to be changed."""
    made = archive_of(tmp_path)
    shutil.copytree(story.archive.folder, made.folder)
    shutil.copytree(story.archive.voters.parent, made.voters.parent)
    return made


def renumbered_state(connection, arena, upto, generation, numbers):
    """The state of a replay from the database whose voters have these numbers."""
    active = active_exclusions(read_exclusion_changes(connection, arena), generation)
    undone = read_undone_votes(connection, arena, 0, log_head(connection, arena))
    columns = read_columns(connection, arena, 0, upto).without(undone)
    columns = replace(columns, session=numbers.of(columns.session))
    progress = FoldProgress()
    excluded = read_excluded_votes(connection, arena, active)
    deque(progress.fold(columns, excluded, lambda: read_roster_sync(connection, arena)), maxlen=0)
    return progress.save()


def database_board(connection, yard, source, position, generation):
    following = replay_log(connection, yard.arena, position, generation)[source]
    moment = BoardMoment(source, position, event_time(connection, yard.arena, position), generation)
    opened = open_matchups_at(connection, yard.arena, source, following, position)
    return make_snapshot(following, rated_arena(connection, yard.arena), moment, opened), opened


def edit_manifest(folder, **changes):
    path = folder / "manifest.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps(document | changes))


def relink(archive):
    """Make a forged archive consistent: each manifest states the files there are and follows the one before."""
    previous = None
    for folder in sorted(entry for entry in archive.folder.iterdir() if entry.is_dir()):
        files = {
            name: {
                "rows": pq.read_metadata(folder / name).num_rows,
                "size": (folder / name).stat().st_size,
                "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
            }
            for name in SEGMENT_FILES
        }
        edit_manifest(folder, files=files, previous=previous)
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        previous = {"generation": 1, "sha256": digest}


def folders(archive):
    return sorted(entry for entry in archive.folder.iterdir() if entry.is_dir())


# The round trip


def test_a_replay_of_segments_has_the_bits_of_the_database(kept):
    yard, connection, archive = kept
    generation = read_rater_progress(connection, yard.arena).generation
    numbers = read_voter_numbers(archive.voters)
    assert generation > 2
    assert len(numbers.numbers) > 5
    ends = [segment.manifest.last for segment in read_archive(archive.folder)]
    for upto in (1, ends[0] - 1, *ends, ends[1] + 1):
        for wanted in {0, generation}:
            replayed = replay_archive(archive.folder, upto=upto, generation=wanted)
            assert replayed.position == upto
            saved = renumbered_state(connection, yard.arena, upto, wanted, numbers)
            again = FoldProgress(replayed.followings, upto).save()
            assert again == saved, (upto, wanted)


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("seed", range(8))
def test_wherever_a_log_is_cut_its_segments_give_the_same_bits(database, tmp_path, seed):
    rng = np.random.default_rng(seed)
    with connect(database) as connection, closing(Yard(database)) as yard:
        tell_all(yard, rng)
        tell(yard, rng, 30)
        yard.age()
        rate_all(yard, connection)
        archive, arena = archive_of(tmp_path), rated_arena(connection, yard.arena)
        for end in (*sorted({*rng.integers(1, yard.head, 6).tolist()}), yard.head):
            write_segment(connection, arena, archive, upto=end)
        numbers = read_voter_numbers(archive.voters)
        for upto in rng.integers(1, yard.head + 1, 5).tolist():
            generation = int(rng.integers(len(read_exclusion_changes(connection, yard.arena)) + 1))
            replayed = replay_archive(archive.folder, upto=upto, generation=generation)
            saved = renumbered_state(connection, yard.arena, upto, generation, numbers)
            assert FoldProgress(replayed.followings, upto).save() == saved
            for source in range(len(SOURCES)):
                board, _ = database_board(connection, yard, source, upto, generation)
                assert replayed.board(source, arena.settings).document == board.document


def test_a_replay_of_segments_gives_the_published_boards(kept):
    yard, connection, archive = kept
    settings = rated_arena(connection, yard.arena).settings
    published = yard.sql(
        "SELECT source, generation, position, document FROM snapshots WHERE arena = %s ORDER BY position",
        (yard.arena,),
    )
    assert {source for source, *_ in published} == {HUMAN, JUDGE}
    for source, generation, position, document in published:
        replayed = replay_archive(archive.folder, upto=position, generation=generation)
        assert replayed.board(source, settings).document == document


def test_without_options_all_of_it_is_replayed(kept):
    yard, _, archive = kept
    replayed = replay_archive(archive.folder)
    changes = "SELECT count(*) FROM events WHERE arena = %s AND kind IN (10, 11)"
    assert (replayed.position, replayed.arena) == (yard.head, yard.name)
    assert [(replayed.generation,)] == yard.sql(changes, (yard.arena,))


def test_a_position_that_is_not_in_the_archive_is_refused(kept):
    for upto in (0, -1, 10**9):
        with pytest.raises(BadOption, match="positions 1 to"):
            replay_archive(kept.archive.folder, upto=upto)


def test_a_vote_whose_undo_is_in_no_segment_yet_is_not_folded(database, tmp_path):
    with connect(database) as connection, closing(Yard(database)) as yard:
        kept, undone = yard.played(0, 1), yard.played(0, 2)
        yard.age()
        last = yard.head
        yard.played(1, 2)  # can be undone still, so that the horizon ends before it
        assert yard.undo(undone)
        rate_all(yard, connection)
        assert read_rater_progress(connection, yard.arena).horizon == last + 1
        archive = archive_of(tmp_path)
        write_segment(connection, rated_arena(connection, yard.arena), archive, upto=last)
        replayed = replay_archive(archive.folder)
        assert replayed.followings[HUMAN].votes == 1
        assert [one.serial for one in replayed.opened[HUMAN]] == [undone[1]]
        assert kept[1] != undone[1]


def test_the_matchups_are_archived_with_their_probability(kept):
    yard, _, archive = kept
    stored = yard.sql(
        "SELECT source, serial, position, response_a, response_b, propensity, given_up FROM matchups"
        " WHERE arena = %s ORDER BY source, serial",
        (yard.arena,),
    )
    rows = []
    for segment in read_archive(archive.folder):
        columns = read_segment(segment, "matchups.parquet")
        rows += zip(*(columns[name].tolist() for name in columns), strict=True)
    assert sorted(rows) == stored


# What is refused


def test_a_changed_byte_is_refused(archive):
    head = read_archive(archive.folder)[-1].sha256
    for path in sorted(archive.folder.glob("*/*")):
        was = path.read_bytes()
        data = bytearray(was)
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        with pytest.raises(BrokenArtifact, match=r"manifest\.json|was changed"):
            replay_archive(archive.folder, head=head)
        path.write_bytes(was)
    assert replay_archive(archive.folder, head=head)


def test_a_missing_file_and_one_that_is_not_listed_are_refused(archive):
    for name in (*SEGMENT_FILES, "manifest.json"):
        path = folders(archive)[1] / name
        was = path.read_bytes()
        path.unlink()
        with pytest.raises(BrokenArtifact, match=name):
            replay_archive(archive.folder)
        path.write_bytes(was)
    (folders(archive)[0] / "notes.txt").write_text("I am Ada")
    with pytest.raises(BrokenArtifact, match=r"notes\.txt"):
        replay_archive(archive.folder)


def test_an_archive_without_its_middle_or_its_beginning_is_refused(archive):
    shutil.rmtree(folders(archive)[1])
    with pytest.raises(BrokenArtifact, match="a gap"):
        replay_archive(archive.folder)
    shutil.rmtree(folders(archive)[0])
    with pytest.raises(BrokenArtifact, match="position 1"):
        replay_archive(archive.folder)


def test_an_archive_without_its_end_is_refused_by_who_knows_its_hash(archive):
    *_, last = read_archive(archive.folder)
    assert replay_archive(archive.folder, head=last.sha256).position == last.manifest.last
    shutil.rmtree(last.folder)
    with pytest.raises(BrokenArtifact, match="superseded or lacks"):
        replay_archive(archive.folder, head=last.sha256)


def test_a_folder_without_segments_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(BrokenArtifact, match="no archived segment"):
            replay_archive(folder)


def test_a_manifest_that_cannot_be_right_is_refused(archive):
    path = folders(archive)[1] / "manifest.json"
    was = path.read_bytes()
    for changes, words in (
        ({"format": 4, "columns": {}}, "format 4"),
        ({"format": 0}, "format"),
        ({"format": "1"}, "format"),
        ({"more": 1}, "more"),
        ({"first": 0}, "first"),
        ({"generation": 2}, "every generation"),
        ({"generation": 10**18}, "every generation"),
        ({"last": 5}, "its folder"),
        ({"files": {}}, "other files"),
        ({"arena": "another"}, "another"),
        ({"superseded": [{"generation": 1, "reason": "Ada asked"}]}, "superseded"),
    ):
        edit_manifest(path.parent, **changes)
        with pytest.raises(BrokenArtifact, match=words):
            replay_archive(archive.folder)
        path.write_bytes(was)
    for text in ("[]", "{", "null", '{"format": 1, "format": 1}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(BrokenArtifact, match=r"manifest\.json"):
            replay_archive(archive.folder)


def forge(archive, name, change):
    """Rewrite a file of the second segment, and make everything consistent again."""
    path = folders(archive)[1] / name
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    relink(archive)


def constant(column, value):
    def change(table):
        place = table.schema.get_field_index(column)
        values = np.full(table.num_rows, value) if not isinstance(value, str) else [value] * table.num_rows
        return table.set_column(place, table.schema.field(place), [values])

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("events.parquet", constant("a", 99)),
        ("events.parquet", constant("prompt", 10**12)),
        ("events.parquet", constant("kind", 17)),
        ("events.parquet", constant("source", 2)),
        ("events.parquet", constant("position", 1)),
        ("events.parquet", constant("outcome", 200)),
        ("events.parquet", lambda table: table.slice(1)),
        ("events.parquet", lambda table: table.slice(0, table.num_rows - 1)),
        ("events.parquet", lambda table: table.slice(0, 0)),
        ("events.parquet", lambda table: table.drop_columns(["lane"])),
        ("models.parquet", lambda table: table.drop_columns(["name"])),
        ("policies.parquet", constant("policy", "{")),
        ("policies.parquet", constant("policy", "[]")),
        ("policies.parquet", constant("policy", '{"policy": {"lanes": 3}}')),
    ],
)
def test_a_forged_segment_that_is_consistent_ends_in_an_error_and_no_traceback(archive, name, change):
    forge(archive, name, change)
    with pytest.raises(BrokenArtifact):
        replay_archive(archive.folder)


# What is not in it


def archived_values(archive):
    """Every value of every column, and every text of the manifests."""
    numbers, texts = set(), []
    for segment in read_archive(archive.folder):
        texts.append((segment.folder / "manifest.json").read_text())
        for name in SEGMENT_FILES:
            table = pq.read_table(segment.folder / name)
            texts.append(str(table.schema.metadata))
            for column in table.columns:
                values = column.to_pylist()
                numbers.update(value for value in values if isinstance(value, int | float))
                texts += [value for value in values if isinstance(value, str)]
    return numbers, texts


def test_no_address_no_text_and_no_session_is_in_an_archive(kept):
    yard, _, archive = kept
    sessions = {session for (session,) in yard.sql("SELECT DISTINCT session FROM matchups")}
    assert len(sessions) > 5
    assert min(sessions) > FIRST_SESSION
    numbers, texts = archived_values(archive)
    assert SHOWN_SECONDS in numbers  # what is looked for would be found
    assert any("m0" in text for text in texts)
    assert not sessions & numbers
    raw = b"".join(path.read_bytes() for path in archive.folder.rglob("*") if path.is_file())
    for text in (*TEXTS, *map(str, sessions)):
        assert not any(text in found for found in texts), text
        assert text.encode() not in raw, text
    for session in sessions:
        assert session.to_bytes(8, "little") not in raw
        assert session.to_bytes(8, "big") not in raw


def test_numbers_of_voters_are_random_and_for_their_owner_only(kept, tmp_path):
    made = [kept.archive, archive_of(tmp_path)]
    write_parts(kept.connection, kept.yard, made[1])
    first, second = (read_voter_numbers(archive.voters) for archive in made)
    assert first.numbers.keys() == second.numbers.keys()
    assert not set(first.numbers.values()) & set(second.numbers.values())
    assert first.numbering != second.numbering
    assert all(0 <= number < 2**63 for number in first.numbers.values())
    assert kept.archive.voters.stat().st_mode & 0o777 == 0o600


def test_numbers_of_voters_cannot_lie_in_the_archive(kept, tmp_path):
    yard, connection, _ = kept
    inside = SegmentArchive(tmp_path / "archive", tmp_path / "archive" / "voters.parquet")
    with pytest.raises(BadOption, match="in the archive"):
        write_segment(connection, rated_arena(connection, yard.arena), inside)


def test_an_archive_is_replayed_when_the_numbers_are_deleted_and_not_continued(yard, connection, archive):
    before = FoldProgress(replay_archive(archive.folder).followings).save()
    archive.voters.unlink()
    assert FoldProgress(replay_archive(archive.folder).followings).save() == before
    yard.played(0, 1)
    yard.age()
    rate_all(yard, connection)
    arena = rated_arena(connection, yard.arena)
    with pytest.raises(BadOption, match="the numbers"):
        write_segment(connection, arena, archive)
    assert not archive.voters.exists()


def test_after_a_deletion_all_voters_can_get_other_numbers(yard, connection, archive):
    old = read_voter_numbers(archive.voters)
    archive.voters.unlink()
    arena = rated_arena(connection, yard.arena)
    assert len(supersede_segments(connection, arena, archive, reason="format")) == 3
    new = read_voter_numbers(archive.voters)
    assert new.numbers.keys() == old.numbers.keys()
    assert set(new.numbers.values()) <= archived_values(archive)[0]
    assert not set(old.numbers.values()) & archived_values(archive)[0]
    yard.played(0, 1)
    yard.age()
    rate_all(yard, connection)
    write_segment(connection, arena, archive)
    assert replay_archive(archive.folder).position == yard.head


def test_a_voter_who_comes_back_keeps_the_number(yard, connection, archive):
    (session,) = yard.sql("SELECT session FROM matchups WHERE arena = %s LIMIT 1", (yard.arena,))[0]
    before = read_voter_numbers(archive.voters)
    yard.played(0, 1, session=session)
    yard.played(0, 1, session=FIRST_SESSION + 99)
    yard.age()
    rate_all(yard, connection)
    made = write_segment(connection, rated_arena(connection, yard.arena), archive)
    after = read_voter_numbers(archive.voters)
    assert after.numbers.items() > before.numbers.items()
    voters = set(read_segment(made, "events.parquet")["voter"].tolist())
    assert {after.numbers[session], after.numbers[FIRST_SESSION + 99]} <= voters
    assert replay_archive(archive.folder).position == yard.head


# Generations


def test_after_an_erasure_a_new_generation_lists_the_old_one_and_why(yard, connection, archive):
    old = read_archive(archive.folder)
    boards = [replay_archive(archive.folder).board(source, ArenaSettings()).document for source in (0, 1)]
    (session,) = yard.sql(
        "SELECT session FROM events WHERE arena = %s AND kind = 1 AND source = 0 AND position > %s LIMIT 1",
        (yard.arena, old[0].manifest.last),
    )[0]
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1 AND position <= %s", (old[0].manifest.last,))
    supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="format")
    old = read_archive(archive.folder)
    known = set(read_voter_numbers(archive.voters).numbers)
    erased = asked(
        yard.url, lambda pool: erase_session(pool, yard.name, session, reason="a request", actor="cli")
    )
    assert erased.details > 0

    replaced = supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    new = read_archive(archive.folder)
    assert new[0] == old[0]
    assert replaced == new[1:]
    assert new[1].manifest.generation == old[1].manifest.generation + 1
    gone = new[1].manifest.superseded[-1]
    assert (gone.generation, gone.sha256, gone.reason) == (
        old[1].manifest.generation,
        old[1].sha256,
        "erasure",
    )
    assert new[2].manifest.superseded[-1].sha256 == old[2].sha256
    voters = set(read_voter_numbers(archive.voters).numbers)
    # In this yard, judges have numbers of people too.
    assert session not in voters or yard.sql(
        "SELECT 1 FROM events WHERE session = %s AND source = 1", (session,)
    )
    (renamed,) = voters - known
    voter = read_voter_numbers(archive.voters).numbers[renamed]
    for segment in new:
        events = read_segment(segment, "events.parquet")
        assert np.isnan(events["shown_a"][events["voter"] == voter]).all()
    again = replay_archive(archive.folder)
    assert [again.board(source, ArenaSettings()).document for source in (0, 1)] == boards


def test_nothing_is_superseded_without_a_change(yard, connection, archive):
    arena = rated_arena(connection, yard.arena)
    before = read_archive(archive.folder)
    assert supersede_segments(connection, arena, archive, reason="erasure") == []
    assert read_archive(archive.folder) == before


def test_a_segment_that_only_follows_a_replaced_one_says_so(yard, connection, archive):
    first = read_archive(archive.folder)[0].manifest.last
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1 AND position <= %s", (first,))
    supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    reasons = [segment.manifest.superseded[0].reason for segment in read_archive(archive.folder)]
    assert reasons == ["erasure", "predecessor", "predecessor"]


def test_segments_of_a_superseded_generation_are_refused(yard, connection, archive, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(archive.folder, copy)
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1")
    replaced = supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    for number, words in ((0, "generation 1 .*generation 2"), (2, r"\(erasure\)")):
        place, kept = folders(archive)[number], tmp_path / "kept"
        place.rename(kept)
        shutil.copytree(copy / place.name, place)
        with pytest.raises(BrokenArtifact, match=words):
            replay_archive(archive.folder)
        shutil.rmtree(place)
        kept.rename(place)
    # Nothing in an old copy says that it is old, but who knows the hash refuses it.
    assert replay_archive(copy).position == yard.head
    with pytest.raises(BrokenArtifact, match="superseded or lacks"):
        replay_archive(copy, head=replaced[-1].sha256)


def test_a_damaged_segment_is_written_again(yard, connection, archive):
    (folders(archive)[1] / "events.parquet").write_bytes(b"")
    made = supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="damage")
    assert [each.manifest.superseded[-1].reason for each in made] == ["damage", "predecessor"]
    assert replay_archive(archive.folder).position == yard.head


def test_a_rewrite_that_was_interrupted_is_finished_by_the_next(yard, connection, archive, monkeypatch):
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1")
    arena = rated_arena(connection, yard.arena)
    from tiltyard.arena.maintenance import segment_writer

    put, calls = segment_writer._put, []

    def once(*values):
        calls.append(values)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return put(*values)

    monkeypatch.setattr(segment_writer, "_put", once)
    with pytest.raises(KeyboardInterrupt):
        supersede_segments(connection, arena, archive, reason="erasure")
    with pytest.raises(BrokenArtifact):
        read_archive(archive.folder)
    monkeypatch.setattr(segment_writer, "_put", put)
    assert len(supersede_segments(connection, arena, archive, reason="erasure")) == 2
    assert [each.manifest.generation for each in read_archive(archive.folder)] == [2, 2, 2]


# Who writes, and what


def test_only_final_votes_are_archived(yard, connection, archive):
    arena = rated_arena(connection, yard.arena)
    yard.played(0, 1)
    with pytest.raises(BadOption, match=f"position {yard.head - 2}"):
        write_segment(connection, arena, archive, upto=yard.head)
    with pytest.raises(BadOption, match=f"position {yard.head - 1}.* {yard.head - 2}"):
        write_segment(connection, arena, archive)


def test_another_arena_is_not_written_to_an_archive(yard, connection, archive):
    with closing(Yard(yard.url, name="another")) as other:
        other.played(0, 1)
        other.age()
        rate_all(other, connection)
        arena = rated_arena(connection, other.arena)
        with pytest.raises(BadOption, match="another folder"):
            write_segment(connection, arena, archive)
        with pytest.raises(BadOption, match="another folder"):
            supersede_segments(connection, arena, archive, reason="damage")


def test_another_history_of_the_same_arena_is_not_mixed_with_an_archive(yard, connection, archive):
    before = read_archive(archive.folder)
    last = "UPDATE events SET at = at {} interval '1 microsecond' WHERE position = (SELECT max(position) FROM events)"
    horizon = "UPDATE raters SET horizon = horizon {} 1"
    for restored, back in ((horizon.format("-"), horizon.format("+")), (last.format("+"), last.format("-"))):
        yard.sql(restored)
        arena = rated_arena(connection, yard.arena)
        with pytest.raises(BadOption, match="older backup"):
            write_segment(connection, arena, archive)
        with pytest.raises(BadOption, match="older backup"):
            supersede_segments(connection, arena, archive, reason="erasure")
        yard.sql(back)
    assert read_archive(archive.folder) == before


def test_an_archive_has_one_writer(yard, connection, archive):
    with (archive.folder / ".lock").open("ab") as held:
        assert lock_file(held, wait=False)
        with pytest.raises(Conflict, match="another process"):
            write_segment(connection, rated_arena(connection, yard.arena), archive)


def test_what_a_killed_writer_left_is_deleted(yard, connection, archive):
    left = archive.folder / f".{folders(archive)[0].name}.x" / "old"
    left.mkdir(parents=True)
    (left / "events.parquet").write_bytes(b"erased")
    assert replay_archive(archive.folder).position == yard.head
    supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    assert not left.parent.exists()


@pytest.mark.parametrize("there", ["folder", "voters"])
def test_places_that_cannot_be_written_are_refused(kept, tmp_path, there):
    (tmp_path / "file").write_text("")
    archive = replace(archive_of(tmp_path), **{there: tmp_path / "file" / "inside"})
    with pytest.raises(BadOption, match=r"cannot write .*file"):
        write_segment(kept.connection, rated_arena(kept.connection, kept.yard.arena), archive)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM events WHERE position = 20", "a gap"),
        ("DELETE FROM matchups WHERE serial = 1", "matchups"),
    ],
)
def test_a_damaged_log_is_not_archived(yard, connection, tmp_path, damage, words):
    yard.sql(damage)
    archive = archive_of(tmp_path)
    with pytest.raises(StoreFault, match=words):
        write_segment(connection, rated_arena(connection, yard.arena), archive)
    assert list_segments(archive.folder) == []


def test_numbers_that_cannot_be_right_are_neither_read_nor_replaced(yard, connection, archive):
    numbers = pq.read_table(archive.voters).to_pydict()
    arena = rated_arena(connection, yard.arena)
    for data in (b"", b"PAR1"):
        archive.voters.write_bytes(data)
        with pytest.raises(InputError, match=r"voters\.parquet"):
            write_segment(connection, arena, archive)
        assert archive.voters.read_bytes() == data
    numbers["numbering"][0] = "another"
    pq.write_table(pa.table(numbers), archive.voters)
    with pytest.raises(BadOption, match="one archive"):
        read_voter_numbers(archive.voters)


def test_a_broken_chain_is_not_continued(kept, archive):
    edit_manifest(folders(archive)[0], written_at="2020-01-01")
    with pytest.raises(BrokenArtifact, match="another manifest"):
        write_segment(kept.connection, rated_arena(kept.connection, kept.yard.arena), archive)


def test_nothing_is_deleted_from_the_database(yard, connection, tmp_path):
    counted = "SELECT count(*), max(position) FROM events WHERE arena = %s"
    before = yard.sql(counted, (yard.arena,))
    write_parts(connection, yard, archive_of(tmp_path))
    assert yard.sql(counted, (yard.arena,)) == before
    assert len(list_segments(tmp_path / "archive")) == 3
