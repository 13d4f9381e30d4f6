"""A public release: two tables of the same battles, which give the board again and link nobody."""

import io
import json
import zipfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from support.busy_arenas import busy_yard, rate_all
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.replayed_logs import replay_log
from support.voted_arenas import lay_votes
from tiltyard.arena.log.battle_release import ReleaseChoice, export_release, make_release
from tiltyard.arena.log.votes import ArenaNames, Ballots
from tiltyard.arena.rating.board_publisher import BoardMoment, make_snapshot
from tiltyard.arena.rating.rater_progress import RatedArena
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.files.battle_source import open_battles
from tiltyard.postgres.connections import connect
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, file_hash, hash_line
from tiltyard.runs.run_verification import verify_run
from tiltyard.settings.arena_settings import ArenaSettings

KEYS = SecretKeys(["k" * 40])
MODELS, PROMPTS = 6, 10
CONTAINERS = ("jsonl", "csv", "parquet")


def board_of(url):
    """The board of people's votes up to the end of the log, as a release names it."""
    with connect(url) as connection:
        (head,) = connection.execute("SELECT max(position) FROM events").fetchone()
        fold = replay_log(connection, 1, head, 0)[0]
    moment = BoardMoment(0, head, datetime(2026, 1, 1, tzinfo=UTC), 0)
    made = make_snapshot(fold, RatedArena(1, "arena", ArenaSettings()), moment, [])
    return ReleaseChoice(1, "arena", 0, head, snapshot=made.sha256, document=made.document)


def released(url, choice, part, container="jsonl", keys=KEYS):
    return b"".join(export_release(url, keys, choice, part, container))


def unpacked(data, folder):
    zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
    return folder / "release"


def rows(data):
    """The battles of a file of JSON Lines, without what is null."""
    return [
        {key: value for key, value in json.loads(line).items() if value is not None}
        for line in data.splitlines()
    ]


@pytest.fixture(scope="module")
def arena(server, template):
    """One for all: releasing changes nothing."""
    with fresh_database(server, template) as url:
        made_arena(url, MODELS, PROMPTS)
        lay_votes(url, 1, 400, MODELS, PROMPTS, sessions=30)
        yield url


def test_a_release_verifies_in_every_format_and_a_changed_one_does_not(arena, tmp_path):
    choice = board_of(arena)
    for container in CONTAINERS:
        folder = unpacked(released(arena, choice, "both", container), tmp_path / container)
        result = verify_run(folder)
        assert result.passed, result.checks
        assert {"online ratings", "clustered intervals", "battles"} <= {one.name for one in result.checks}
        assert released(arena, choice, "both", container) == released(arena, choice, "both", container)
    lines = rows((tmp_path / "jsonl/release/voters.jsonl").read_bytes())
    assert lines
    for table, name, change in (
        ("voters", "clustered intervals", {"voter": lines[0]["voter"]}),
        ("voters", "battles", {"winner": "both_bad"}),
        ("ordered", "battles", {"winner": "both_bad"}),
        ("ordered", "ordered table", {"voter": "v"}),
        ("voters", "voters table", {"position": 7}),
        ("voters", "voters table", {"propensity": 0.125}),
        ("ordered", "ordered table", {"language": "is"}),
        ("ordered", "battles", {"model_a": "another"}),
    ):
        folder = unpacked(released(arena, choice, "both"), tmp_path / f"{table}-{next(iter(change))}")
        file = folder / f"{table}.jsonl"
        changed = rows(file.read_bytes())
        for row in changed[:200]:
            row.update(change)
        rewrite(folder, file.name, "".join(json.dumps(row) + "\n" for row in changed).encode())
        failed = {one.name for one in verify_run(folder).checks if not one.passed}
        assert name in failed
    folder = unpacked(released(arena, choice, "both"), tmp_path / "swapped")
    file = folder / "ordered.jsonl"
    rewrite(folder, file.name, b"\n".join(reversed(file.read_bytes().splitlines())) + b"\n")
    failed = {one.name for one in verify_run(folder).checks if not one.passed}
    assert failed == {"online ratings"}
    (folder / "more.txt").write_text("more")
    assert [one.name for one in verify_run(folder).checks if not one.passed] == ["more.txt"]


def rewrite(folder, name, data):
    """Change a file, and the hashes with it."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest["files"][name] = file_hash(folder / name)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / MANIFEST_HASH).write_bytes(hash_line(folder))


def test_the_tables_tell_pairs_and_outcomes_and_nothing_by_which_rows_are_found(arena):
    choice = board_of(arena)
    ordered, voters = (rows(released(arena, choice, part)) for part in ("ordered", "voters"))
    assert {key for row in ordered for key in row} == {"model_a", "model_b", "winner", "source", "dimension"}
    assert {key for row in voters for key in row} == {
        "model_a", "model_b", "winner", "source", "dimension", "question_id", "voter",
    }  # fmt: skip
    with connect(arena) as connection:
        log = connection.execute(
            "SELECT a.name, b.name FROM events e JOIN models a ON a.model = e.a JOIN models b ON b.model = e.b "
            "WHERE e.kind = 1 ORDER BY e.position"
        ).fetchall()
    assert [(row["model_a"], row["model_b"]) for row in ordered] == log
    same = [
        Counter((row["model_a"], row["model_b"], row["winner"]) for row in table)
        for table in (ordered, voters)
    ]
    assert same[0] == same[1]
    with connect(arena) as connection:
        counts = connection.execute(
            "SELECT count(DISTINCT session), count(DISTINCT prompt) FROM matchups"
        ).fetchone()
    assert (len({row["voter"] for row in voters}), len({row["question_id"] for row in voters})) == counts


def made_ballots(n, *, voters=30, prompts=20, models=6, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(models, size=n)
    return Ballots(
        position=np.arange(1, n + 1),
        session=rng.integers(voters, size=n),
        a=a,
        b=(a + rng.integers(1, models, size=n)) % models,
        prompt=rng.integers(prompts, size=n),
        kind=np.where(rng.random(n) < 0.5, 0, 1),
        free_prompt=np.zeros(n, dtype=np.int64),
        at=np.zeros(n, dtype=np.int64),
    )


NAMES = ArenaNames(
    tuple(f"model-{k}" for k in range(6)), tuple((f"prompt-{k}", None, None) for k in range(20))
)


def release_of(ballots, position, keys=KEYS):
    return make_release(ballots, NAMES, ReleaseChoice(1, "arena", 0, position), keys)


def test_another_release_has_another_order_and_other_numbers():
    ballots = made_ballots(400)
    first, again, later = (release_of(ballots, position) for position in (400, 400, 401))
    assert list(first.table("voters")) == list(again.table("voters"))
    one, two = (list(release.table("voters")) for release in (first, later))
    assert not {row.voter for row in one} & {row.voter for row in two}
    assert not {row.question_id for row in one} & {row.question_id for row in two}
    plain = [[(row.model_a, row.model_b, row.winner) for row in table] for table in (one, two)]
    assert plain[0] != plain[1]
    assert sorted(plain[0]) == sorted(plain[1])
    assert list(first.table("ordered")) == list(later.table("ordered"))
    other = release_of(ballots, 400, SecretKeys(["o" * 40]))
    assert other.tag != first.tag


def test_a_vote_less_makes_another_release_of_the_same_position():
    ballots = made_ballots(400)
    without = ballots[ballots.session != 3]
    assert release_of(ballots, 400).tag != release_of(without, 400).tag


def test_numbers_are_by_appearance_so_that_they_say_nothing():
    table = list(release_of(made_ballots(400), 400).table("voters"))
    for name, letter in (("voter", "v"), ("question_id", "p")):
        seen = list(dict.fromkeys(getattr(row, name) for row in table))
        assert [text.rpartition(f"-{letter}")[2] for text in seen] == [
            str(k) for k in range(1, len(seen) + 1)
        ]


def test_prompts_that_voters_wrote_are_apart_from_the_operators():
    ballots = made_ballots(4)
    both = replace(ballots, prompt=np.array([1, 1, 2, 2]), free_prompt=np.array([0, 1, 1, 2]))
    table = list(release_of(both, 4).table("voters"))
    assert sorted(Counter(row.question_id for row in table).values()) == [1, 1, 2]


def test_rows_of_two_releases_are_in_unrelated_orders():
    ballots = made_ballots(2000)
    first, second = (
        [(row.model_a, row.model_b, row.winner) for row in release_of(ballots, position).table("voters")]
        for position in (2000, 2001)
    )
    agree = sum(one == two for one, two in zip(first, second, strict=True))
    by_chance = sum(count**2 for count in Counter(first).values()) / len(first)
    assert abs(agree - by_chance) < 6 * by_chance**0.5


def test_an_arena_without_votes_has_empty_tables(database, tmp_path):
    made_arena(database, 2, 2)
    choice = ReleaseChoice(1, "arena", 0, 0)
    assert released(database, choice, "voters") == b""
    for container in CONTAINERS:
        folder = unpacked(released(database, choice, "both", container), tmp_path / container)
        assert verify_run(folder).passed
    assert list(open_battles(tmp_path / "parquet" / "release" / "voters.parquet").battles()) == []


def test_every_board_of_an_arena_in_which_everything_happened_follows_from_its_release(database, tmp_path):
    yard = busy_yard(database)
    with connect(database) as connection:
        rate_all(yard, connection)
        boards = connection.execute(
            "SELECT source, generation, position, sha256, document FROM snapshots WHERE arena = %s",
            (yard.arena,),
        ).fetchall()
    yard.close()
    assert len({generation for _, generation, *_ in boards}) > 2
    checked = 0
    for number, (source, generation, position, sha256, document) in enumerate(boards):
        choice = ReleaseChoice(
            yard.arena, json.loads(document)["arena"], source, position, generation, sha256.hex(), document
        )
        folder = unpacked(released(database, choice, "both"), tmp_path / str(number))
        result = verify_run(folder)
        assert result.passed, (source, generation, position, [one for one in result.checks if not one.passed])
        checked += json.loads(document)["votes"] > 0
    assert checked > 5
