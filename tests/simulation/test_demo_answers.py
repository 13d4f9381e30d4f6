"""The invented arena's answers: of every kind, the same each time, and told apart by anybody."""

import base64
import collections
import io
import struct
import wave
import zlib

import numpy as np
import pytest

from tiltyard.arena.content.answer_rows import read_checked_answers
from tiltyard.core.battles import Kind
from tiltyard.files.answers import write_answers
from tiltyard.simulation.demo.demo_roster import (
    MODELS,
    NEWCOMER,
    PUSHED,
    REMARKS,
    RETIRED,
    AnswerLevel,
    demo_prompts,
    human_preference,
    judge_preference,
    level_of,
)
from tiltyard.simulation.demo.model_answers import Canvas, demo_answers, draw_picture, synthesise_tune


@pytest.fixture(scope="module")
def answers():
    return list(demo_answers())


def carried(answer):
    return base64.b64decode(answer.response.partition(",")[2])


def pixels(data):
    """A PNG of ours, read back."""
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    size = struct.unpack(">I", data[start - 8 : start - 4])[0]
    rows = np.frombuffer(zlib.decompress(data[start : start + size]), dtype=np.uint8)
    rows = rows.reshape(height, 1 + 3 * width)
    assert set(rows[:, 0]) == {2}
    return np.cumsum(rows[:, 1:].astype(np.int64), axis=0).astype(np.uint8).reshape(height, width, 3)


def test_every_model_answers_every_prompt(answers):
    assert len(answers) == len(MODELS) * len(demo_prompts()) == 360
    assert len({(one.model, one.prompt_id) for one in answers}) == 360
    assert {NEWCOMER, PUSHED, RETIRED} < set(MODELS)
    assert {one.model for one in demo_answers(NEWCOMER)} == {NEWCOMER}


def test_everything_a_voter_can_meet_is_there(answers):
    prompts = demo_prompts()
    assert {one.kind for one in prompts} == {"text", "image", "audio", "app"}
    assert {one.language for one in prompts} == {"en", "fr", "de", "ar", "he", "ja"}
    assert {one.category for one in prompts} == {
        "writing", "code", "maths", "advice", "apps", "pictures", "sound",
    }  # fmt: skip
    texts = "\n".join(one.response for one in answers if one.kind == "text")
    for piece in ("```python", "```sql", "```css", "|---", "$$", "**", "\n1. ", "\n- "):
        assert piece in texts


def test_answers_are_different_whole_and_anonymous(answers):
    seen = collections.Counter((one.prompt_id, one.response) for one in answers)
    assert max(seen.values()) == 1
    whole = [one for one in answers if one.kind == "text" and one.model != "heron-1b"]
    assert [(one.model, one.prompt_id) for one in whole if one.response.count("```") % 2] == []
    for one in answers:
        data = one.response.encode() if one.kind == "text" else carried(one)
        assert [model for model in MODELS if model.encode() in data.lower()] == []


def test_an_arena_takes_all_of_them_in(answers, tmp_path):
    write_answers(tmp_path / "answers.jsonl", answers)
    taken = list(read_checked_answers(tmp_path / "answers.jsonl"))
    types = collections.Counter(one.media_type.partition(";")[0] for one in taken)
    assert types == {"text/plain": 260, "image/png": 40, "audio/wav": 30, "text/html": 30}
    assert max(len(one.data) for one in taken) < 100_000


def test_they_are_the_same_each_time(answers):
    some = ("argent-70b", "heron-1b")
    assert list(demo_answers(*some)) == [one for one in answers if one.model in some]


def test_stronger_models_give_better_answers():
    levels = {
        name: np.mean([level_of(k, p) for p in range(len(demo_prompts()))]) for k, name in enumerate(MODELS)
    }
    order = sorted(levels, key=levels.get, reverse=True)
    assert order[:4] == ["argent-70b", "brioche-large", "cormorant-2", "dunlin-pro"]
    assert levels["argent-70b"] > 1.8
    assert levels["heron-1b"] < 0.2


@pytest.mark.slow(but_every=4)
@pytest.mark.parametrize("scene", ["lighthouse", "sunrise", "apple", "sailing-boat"])
def test_a_better_picture_has_more_in_it(scene):
    colours = [
        len(np.unique(pixels(draw_picture(scene, level, 40)).reshape(-1, 3), axis=0)) for level in AnswerLevel
    ]
    assert colours[AnswerLevel.GOOD] > colours[AnswerLevel.FAIR] > colours[AnswerLevel.POOR]


@pytest.mark.parametrize(
    ("tune", "level"), list(zip(("arpeggio", "doorbell", "lullaby"), AnswerLevel, strict=True))
)
def test_a_sound_can_be_heard_and_ends(tune, level):
    with wave.open(io.BytesIO(synthesise_tune(tune, level, 40))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        assert 1.0 < file.getnframes() / file.getframerate() < 5.0
    assert 10_000 < np.abs(samples).max() <= 14_000


def test_shapes_cover_what_lies_in_them_and_nothing_else():
    canvas = Canvas(40, 30)
    canvas.fade((0, 0, 0), (0, 0, 0))
    canvas.polygon([(10, 10), (30, 10), (30, 20), (10, 20)], (200, 104, 56))
    canvas.ellipse(20, 15, 0, 5, (255, 255, 255))
    canvas.circle(-50, -50, 5, (255, 255, 255))
    seen = pixels(canvas.png())
    assert (seen[11:19, 11:29] == (200, 104, 56)).all()
    assert seen[:9].max() == seen[22:].max() == seen[:, :9].max() == seen[:, 32:].max() == 0
    canvas.circle(20, 15, 4, (0, 0, 0), strength=0.5)
    assert tuple(pixels(canvas.png())[15, 20]) == (100, 52, 28)


def votes_of(taste, left, right, n=400):
    rng = np.random.default_rng(3)
    prompts = [one.name for one in demo_prompts() if one.kind == "text"]
    return collections.Counter(taste(left, right, prompts[k % len(prompts)], rng) for k in range(n))


def test_people_prefer_what_is_better_on_either_side():
    taste = human_preference()
    assert votes_of(taste, "argent-70b", "heron-1b")[Kind.WIN_A] > 270
    assert votes_of(taste, "heron-1b", "argent-70b")[Kind.WIN_B] > 270
    assert votes_of(taste, "gannet-3b", "heron-1b")[Kind.BOTH_BAD] > 60


def test_judges_cannot_look_or_listen():
    taste, rng = judge_preference(), np.random.default_rng(0)
    assert human_preference()("ember-8b", "<script>alert(1)</script>", "tally", rng) is None
    assert human_preference()("ember-8b", "dunlin-pro", "no such prompt", rng) is None
    for prompt in demo_prompts():
        decided = taste("ember-8b", "dunlin-pro", prompt.name, rng)
        assert (decided is None) == (prompt.kind != "text")


def test_judges_like_the_polite():
    people, judges = (
        votes_of(taste, "ember-8b", "dunlin-pro", 2000) for taste in (human_preference(), judge_preference())
    )
    assert judges[Kind.WIN_A] > people[Kind.WIN_A] + 100


def test_remarks_fit_what_is_asked_for():
    from tiltyard.wire.records import MAX_COMMENT_CHARACTERS, REMARK_TAG_LIMIT, TAGS

    for tags, comment in REMARKS:
        assert 0 < len(tags) <= REMARK_TAG_LIMIT
        assert set(tags) <= set(TAGS)
        assert comment is None or len(comment) <= MAX_COMMENT_CHARACTERS
