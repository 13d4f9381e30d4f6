"""Archived segments: a replay of them gives what the database gives, and nothing else is accepted or in them."""

import asyncio
import hashlib
import json
import shutil
from collections import deque
from contextlib import closing
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
from support.postgres_servers import fresh_database
from support.rated_arenas import Yard, rated_arena, tell, tell_all
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
from tiltyard.arena.rating.log_replay import FoldProgress, replay_log
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
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings


@pytest.fixture
def connection(database):
    with connect(database) as made:
        yield made


@pytest.fixture
def yard(database, connection):
    """An arena in which everything has happened, rated to its end; for tests that change it."""
    with closing(busy_yard(database)) as made:
        rate_all(made, connection)
        yield made


@pytest.fixture
def archive(yard, connection, tmp_path):
    made = archive_of(tmp_path)
    write_parts(connection, yard, made)
    return made


class Kept(NamedTuple):
    """The same for all tests that change nothing in the database."""

    yard: Yard
    connection: Connection
    archive: SegmentArchive


@pytest.fixture(scope="module")
def kept(server, template, tmp_path_factory):
    archive = archive_of(tmp_path_factory.mktemp("kept"))
    with (
        fresh_database(server, template) as url,
        connect(url) as connection,
        closing(busy_yard(url)) as yard,
    ):
        rate_all(yard, connection)
        write_parts(connection, yard, archive)
        yield Kept(yard, connection, archive)


@pytest.fixture
def copied(kept, tmp_path):
    """A copy of the archive, to be damaged."""
    made = archive_of(tmp_path)
    shutil.copytree(kept.archive.folder, made.folder)
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
    for upto in (1, 2, ends[0] - 1, *ends, ends[1] + 1, ends[2] - 3):
        for wanted in {0, 1, generation}:
            replayed = replay_archive(archive.folder, upto=upto, generation=wanted)
            assert replayed.position == upto
            saved = renumbered_state(connection, yard.arena, upto, wanted, numbers)
            again = FoldProgress(replayed.followings, upto).save()
            assert again == saved, (upto, wanted)


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("seed", range(8))
def test_wherever_a_log_is_cut_its_segments_give_the_same_bits(database, connection, tmp_path, seed):
    rng = np.random.default_rng(seed)
    with closing(Yard(database)) as yard:
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


def test_open_matchups_are_those_of_the_database(kept):
    yard, connection, archive = kept
    settings = rated_arena(connection, yard.arena).settings
    seen = 0
    for upto in range(yard.head // 3, yard.head, yard.head // 12):
        replayed = replay_archive(archive.folder, upto=upto, generation=0)
        for source in range(len(SOURCES)):
            board, opened = database_board(connection, yard, source, upto, 0)
            assert replayed.board(source, settings).document == board.document
            seen += len(opened)
    assert seen > 10


def test_without_options_all_of_it_is_replayed(kept):
    yard, _, archive = kept
    replayed = replay_archive(archive.folder)
    changes = "SELECT count(*) FROM events WHERE arena = %s AND kind IN (10, 11)"
    assert (replayed.position, replayed.arena) == (yard.head, yard.name)
    assert [(replayed.generation,)] == yard.sql(changes, (yard.arena,))


@pytest.mark.parametrize("upto", [0, -1, 10**9])
def test_a_position_that_is_not_in_the_archive_is_refused(kept, upto):
    with pytest.raises(BadOption, match="holds positions 1 to"):
        replay_archive(kept.archive.folder, upto=upto)


def test_a_vote_whose_undo_is_in_no_segment_yet_is_not_folded(database, connection, tmp_path):
    with closing(Yard(database)) as yard:
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


@pytest.mark.parametrize("name", [*SEGMENT_FILES, "manifest.json"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_byte_is_refused(copied, name, place):
    head = read_archive(copied.folder)[-1].sha256
    path = folders(copied)[place] / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BrokenArtifact, match=r"manifest\.json|was changed"):
        replay_archive(copied.folder, head=head)


@pytest.mark.parametrize("name", [*SEGMENT_FILES, "manifest.json"])
def test_a_missing_file_is_refused(copied, name):
    (folders(copied)[1] / name).unlink()
    with pytest.raises(BrokenArtifact, match=rf"{name}: No such file"):
        replay_archive(copied.folder)


def test_a_file_that_is_not_listed_is_refused(copied):
    (folders(copied)[0] / "notes.txt").write_text("I am Ada")
    with pytest.raises(BrokenArtifact, match=r"notes\.txt: not listed"):
        replay_archive(copied.folder)


def test_a_gap_is_refused(copied):
    shutil.rmtree(folders(copied)[1])
    with pytest.raises(BrokenArtifact, match="there is a gap"):
        replay_archive(copied.folder)


def test_an_archive_without_its_beginning_is_refused(copied):
    shutil.rmtree(folders(copied)[0])
    with pytest.raises(BrokenArtifact, match="begins at position 1"):
        replay_archive(copied.folder)


def test_an_archive_without_its_end_is_refused_by_who_knows_its_hash(copied):
    *_, last = read_archive(copied.folder)
    assert replay_archive(copied.folder, head=last.sha256).position == last.manifest.last
    shutil.rmtree(last.folder)
    with pytest.raises(BrokenArtifact, match="superseded or lacks segments"):
        replay_archive(copied.folder, head=last.sha256)


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_segments_is_refused(tmp_path, there):
    folder = tmp_path / "nothing"
    if there:
        folder.mkdir()
    with pytest.raises(BrokenArtifact, match="has no archived segment"):
        replay_archive(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 4, "columns": {}}, "format 4"),
        ({"format": 0}, "format"),
        ({"format": "1"}, "format"),
        ({"more": 1}, "more"),
        ({"first": 0}, "first"),
        ({"generation": 2}, "must list every generation"),
        ({"generation": 10**18}, "must list every generation"),
        ({"last": 5}, "not what its folder is called"),
        ({"files": {}}, "lists other files"),
        ({"arena": "another"}, "is of another|of the arena another"),
        ({"superseded": [{"generation": 1, "reason": "Ada asked"}]}, "superseded"),
    ],
)
def test_a_manifest_that_cannot_be_right_is_refused(copied, changes, words):
    edit_manifest(folders(copied)[1], **changes)
    with pytest.raises(BrokenArtifact, match=words):
        replay_archive(copied.folder)


@pytest.mark.parametrize("text", ["[]", "{", "null", '{"format": 1, "format": 1}', "[" * 100_000])
def test_a_manifest_that_is_no_manifest_is_refused(copied, text):
    (folders(copied)[1] / "manifest.json").write_text(text)
    with pytest.raises(BrokenArtifact, match=r"manifest\.json"):
        replay_archive(copied.folder)


def forge(copied, name, change):
    """Rewrite a file of the second segment, and make everything consistent again."""
    path = folders(copied)[1] / name
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    relink(copied)


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
def test_a_forged_segment_that_is_consistent_ends_in_an_error_and_no_traceback(copied, name, change):
    forge(copied, name, change)
    with pytest.raises(BrokenArtifact):
        replay_archive(copied.folder)


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


def test_numbers_of_voters_are_random(kept, tmp_path):
    made = [kept.archive, archive_of(tmp_path)]
    write_parts(kept.connection, kept.yard, made[1])
    first, second = (read_voter_numbers(archive.voters) for archive in made)
    assert first.numbers.keys() == second.numbers.keys()
    assert not set(first.numbers.values()) & set(second.numbers.values())
    assert first.numbering != second.numbering
    assert all(0 <= number < 2**63 for number in first.numbers.values())


def test_numbers_of_voters_are_readable_by_their_owner_only(kept):
    assert kept.archive.voters.stat().st_mode & 0o777 == 0o600


def test_numbers_of_voters_cannot_lie_in_the_archive(kept, tmp_path):
    yard, connection, _ = kept
    inside = SegmentArchive(tmp_path / "archive", tmp_path / "archive" / "voters.parquet")
    with pytest.raises(BadOption, match="lies in the archive"):
        write_segment(connection, rated_arena(connection, yard.arena), inside)


def test_an_archive_is_replayed_when_the_numbers_are_deleted_and_not_continued(yard, connection, archive):
    before = FoldProgress(replay_archive(archive.folder).followings).save()
    archive.voters.unlink()
    assert FoldProgress(replay_archive(archive.folder).followings).save() == before
    yard.played(0, 1)
    yard.age()
    rate_all(yard, connection)
    arena = rated_arena(connection, yard.arena)
    with pytest.raises(BadOption, match="does not have the numbers of the voters"):
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


def erase(database, yard, session):
    async def scene():
        async with open_pool(database, most=1) as pool:
            return await erase_session(pool, yard.name, session, reason="a request", actor="cli")

    return asyncio.run(scene())


def test_after_an_erasure_a_new_generation_lists_the_old_one_and_why(yard, connection, database, archive):
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
    assert erase(database, yard, session).details > 0

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


def test_a_superseded_generation_is_refused(yard, connection, archive, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(archive.folder, copy)
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1")
    supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    place = folders(archive)[0]
    shutil.rmtree(place)
    shutil.copytree(copy / place.name, place)
    with pytest.raises(
        BrokenArtifact, match="generation 1 is superseded: the next segment follows generation 2"
    ):
        replay_archive(archive.folder)


def test_a_segment_that_follows_a_superseded_one_is_refused(yard, connection, archive, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(archive.folder, copy)
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1")
    supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    place = folders(archive)[2]
    shutil.rmtree(place)
    shutil.copytree(copy / place.name, place)
    with pytest.raises(BrokenArtifact, match=r"the one that it follows was superseded at .* \(erasure\)"):
        replay_archive(archive.folder)


def test_the_last_segment_of_an_old_copy_is_refused_by_who_knows_the_hash(
    yard, connection, archive, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(archive.folder, copy)
    yard.sql("UPDATE events SET detail = NULL WHERE kind = 1")
    replaced = supersede_segments(connection, rated_arena(connection, yard.arena), archive, reason="erasure")
    assert replay_archive(copy).position == yard.head  # nothing in the copy says that it is old
    with pytest.raises(BrokenArtifact, match="superseded or lacks segments"):
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
    with pytest.raises(BadOption, match=f"votes are final up to position {yard.head - 2}"):
        write_segment(connection, arena, archive, upto=yard.head)
    with pytest.raises(
        BadOption, match=f"begins at position {yard.head - 1}.* cannot end at {yard.head - 2}"
    ):
        write_segment(connection, arena, archive)


def test_another_arena_is_not_written_to_an_archive(database, connection, archive):
    with closing(busy_yard(database, seed=7, name="another")) as other:
        rate_all(other, connection)
        arena = rated_arena(connection, other.arena)
        with pytest.raises(BadOption, match="not another; choose another folder"):
            write_segment(connection, arena, archive)
        with pytest.raises(BadOption, match="not another; choose another folder"):
            supersede_segments(connection, arena, archive, reason="damage")


@pytest.mark.parametrize(
    "restored",
    [
        "UPDATE raters SET horizon = horizon - 1",
        "UPDATE events SET at = at + interval '1 microsecond' WHERE position = (SELECT max(position) FROM events)",
    ],
)
def test_another_history_of_the_same_arena_is_not_mixed_with_an_archive(yard, connection, archive, restored):
    yard.sql(restored)
    arena, before = rated_arena(connection, yard.arena), read_archive(archive.folder)
    with pytest.raises(BadOption, match="an older backup was restored"):
        write_segment(connection, arena, archive)
    with pytest.raises(BadOption, match="an older backup was restored"):
        supersede_segments(connection, arena, archive, reason="erasure")
    assert read_archive(archive.folder) == before


def test_an_archive_has_one_writer(yard, connection, archive):
    with (archive.folder / ".lock").open("ab") as held:
        assert lock_file(held, wait=False)
        with pytest.raises(Conflict, match="another process writes"):
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
    with pytest.raises(BadOption, match=r"cannot write .*file.*; choose another"):
        write_segment(kept.connection, rated_arena(kept.connection, kept.yard.arena), archive)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM events WHERE position = 20", "the log has a gap between positions 1 and"),
        ("DELETE FROM matchups WHERE serial = 1", "the table of matchups has"),
    ],
)
def test_a_damaged_log_is_not_archived(yard, connection, tmp_path, damage, words):
    yard.sql(damage)
    archive = archive_of(tmp_path)
    with pytest.raises(StoreFault, match=words):
        write_segment(connection, rated_arena(connection, yard.arena), archive)
    assert list_segments(archive.folder) == []


def test_numbers_of_two_archives_are_not_taken_for_one(yard, connection, archive):
    numbers = pq.read_table(archive.voters).to_pydict()
    numbers["numbering"][0] = "another"
    pq.write_table(pa.table(numbers), archive.voters)
    with pytest.raises(BadOption, match="not the numbers of one archive's voters"):
        read_voter_numbers(archive.voters)


def test_a_broken_chain_is_not_continued(yard, connection, archive):
    edit_manifest(folders(archive)[0], written_at="2020-01-01")
    with pytest.raises(BrokenArtifact, match="follows another manifest"):
        write_segment(connection, rated_arena(connection, yard.arena), archive)


@pytest.mark.parametrize("data", [b"", b"PAR1"])
def test_numbers_that_cannot_be_read_are_not_replaced(yard, connection, archive, data):
    archive.voters.write_bytes(data)
    with pytest.raises(InputError, match=r"voters\.parquet"):
        write_segment(connection, rated_arena(connection, yard.arena), archive)
    assert archive.voters.read_bytes() == data


def test_nothing_is_deleted_from_the_database(yard, connection, tmp_path):
    counted = "SELECT count(*), max(position) FROM events WHERE arena = %s"
    before = yard.sql(counted, (yard.arena,))
    write_parts(connection, yard, archive_of(tmp_path))
    assert yard.sql(counted, (yard.arena,)) == before
    assert len(list_segments(tmp_path / "archive")) == 3
