"""Ratings of categories moved towards each other: closer to the truth, with intervals that hold, and never without a base."""

import numpy as np
import pytest

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.category_shrinkage import shrink_categories

UNIT = 400.0 / np.log(10.0)


def table(strength, battles, rng, among=None):
    models = np.arange(len(strength)) if among is None else np.asarray(among)
    a, b = (models[rng.integers(0, len(models), battles)] for _ in range(2))
    b = np.where(a == b, models[(np.searchsorted(models, a) + 1) % len(models)], b)
    won = rng.random(battles) < 1.0 / (1.0 + 10.0 ** ((strength[b] - strength[a]) / 400.0))
    codes = CodedBattles(
        a.astype(np.uint16), b.astype(np.uint16), np.where(won, Kind.WIN_A, Kind.WIN_B).astype(np.uint8)
    )
    return Table.from_codes(tuple(f"m{k:02d}" for k in range(len(strength))), codes)


def centred(values):
    return values - np.nanmean(values, axis=-1, keepdims=True)


def world(seed, effect, missing=0.0, categories=8, models=12, battles=400):
    """Ratings of each category, and the true strengths."""
    rng = np.random.default_rng([31, seed])
    truth = rng.normal(0.0, 150.0, models) + rng.normal(0.0, effect, (categories, models))
    own = []
    for strength in truth:
        there = np.flatnonzero(rng.random(models) >= missing)
        own.append(BradleyTerry()(table(strength, battles, rng, there)))
    return own, truth


@pytest.mark.parametrize(("effect", "missing"), [(0.0, 0.0), (30.0, 0.0), (100.0, 0.0), (60.0, 0.3)])
def test_moved_ratings_are_closer_and_their_intervals_hold(effect, missing):
    errors, held = [], []
    for seed in range(6):
        own, truth = world(seed, effect, missing)
        for category, moved, strength in zip(own, shrink_categories(own, 0.95), truth, strict=True):
            given = np.isfinite(moved.rating)
            true = np.where(given, strength, np.nan)
            shift = np.nanmean(true - moved.rating)
            errors.append(
                [
                    np.nanmean((centred(moved.rating) - centred(true)) ** 2),
                    np.nanmean((centred(np.where(given, category.rating, np.nan)) - centred(true)) ** 2),
                ]
            )
            inside = (moved.low + shift <= true) & (true <= moved.high + shift)
            held.append(inside[given].mean())
    moved, raw = np.sqrt(np.mean(errors, axis=0))
    assert moved < raw
    assert np.mean(held) >= 0.93


def test_without_effects_all_categories_tell_the_same():
    own, _ = world(1, 0.0)
    moved = np.array([one.rating for one in shrink_categories(own, 0.95)])
    raw = np.array([one.rating for one in own])
    assert centred(moved).std(axis=0).mean() < 0.4 * centred(raw).std(axis=0).mean()
    narrow = np.mean([one.high - one.low for one in shrink_categories(own, 0.95)])
    assert narrow < 0.8 * np.mean([one.interval.high - one.interval.low for one in own])


def test_a_shifted_zero_changes_nothing_but_the_zero():
    shifted = [BradleyTerry(anchor="m03", anchor_rating=900.0)(one) for one in tables(2)]
    plain = shrink_categories([BradleyTerry()(one) for one in tables(2)], 0.95)
    for one, other in zip(plain, shrink_categories(shifted, 0.95), strict=True):
        np.testing.assert_allclose(centred(one.rating), centred(other.rating), atol=1e-6)
        np.testing.assert_allclose(one.high - one.low, other.high - other.low, atol=1e-6)


def tables(seed):
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, 150.0, 6)
    return [table(strength + rng.normal(0.0, 50.0, 6), 300, rng) for _ in range(4)]


def test_too_little_to_tell_how_categories_differ_gives_none():
    own, _ = world(3, 50.0)
    assert shrink_categories(own[:2], 0.95) is None
    plain = BradleyTerry(interval="none")
    assert shrink_categories([plain(one) for one in tables(3)], 0.95) is None


def test_a_model_of_one_category_has_no_moved_rating():
    own, _ = world(4, 50.0)
    rng = np.random.default_rng(4)
    alone = BradleyTerry()(table(np.zeros(13), 600, rng))
    moved = shrink_categories([*own, alone], 0.95)
    assert np.isnan(moved[-1].rating[12])
    assert np.isfinite(moved[-1].rating[:12]).all()
