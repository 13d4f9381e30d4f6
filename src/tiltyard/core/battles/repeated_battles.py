"""Finds battles that are in a log twice: files joined, exported or named a second time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiltyard.core.battles.batch import BattleBatch, NameColumn
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys, hash_texts, mix_bits

__all__ = ["battle_keys", "count_repeats"]


def battle_keys(batch: BattleBatch) -> Keys | None:
    """A key of each battle that names its prompt, and its voter or judge; equal keys are the same battle again.

    Without a voter or judge two equal rows may well be two people who agree.
    """
    judge = batch.tags.get("judge_model")
    if batch.prompt is None or (batch.voter is None and judge is None):
        return None
    known = np.zeros(len(batch), dtype=bool)
    key = batch.prompt
    for names in (batch.model_a, batch.model_b, batch.tags.get("dimension")):
        if names is not None:
            key = mix_bits(key) ^ _name_keys(names)
    if batch.voter is not None:
        known |= batch.voter != MISSING_KEY
        key = mix_bits(key) ^ batch.voter
    if judge is not None:
        known |= np.array([name != "" for name in judge.values], dtype=bool)[judge.codes]
        key = mix_bits(key) ^ _name_keys(judge)
    key = mix_bits(key) ^ batch.kind.astype(np.uint64)
    if batch.pref is not None:
        key = mix_bits(key) ^ batch.pref.view(np.uint64)
    known &= batch.prompt != MISSING_KEY
    keys: Keys = mix_bits(key)[known]
    return keys


def count_repeats(keys: Sequence[Keys]) -> int:
    """How many battles repeat an earlier one."""
    if not keys:
        return 0
    ordered = np.sort(np.concatenate(keys))
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


def _name_keys(names: NameColumn) -> Keys:
    return hash_texts(names.values)[names.codes]
