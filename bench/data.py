"""Make the benchmark's battles: `python bench/data.py DIR --size full`.

Two sets are written to DIR, each as `NAME.npz` (integer codes) and `NAME.parquet` (names):
`large` for the cases that count or stream battles, `medium` for those that refit or permute them.
The same size gives the same battles with the same NumPy release.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SEED = 20_250_101
STRENGTH_SD = 200.0
TIE_SHARE = 0.16
STYLE_EFFECTS = np.array([0.25, -0.10, 0.05, 0.10])  # logits per standard deviation
ELO_PER_LOGIT = 400.0 / np.log(10.0)
OUTCOMES = ("model_a", "model_b", "tie")  # the order of the winner codes 0, 1, 2

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Size:
    battles: int
    models: int
    prompts: int


SIZES: dict[str, dict[str, Size]] = {
    "full": {
        "large": Size(battles=5_000_000, models=250, prompts=500_000),
        "medium": Size(battles=100_000, models=100, prompts=10_000),
    },
    "small": {
        "large": Size(battles=100_000, models=50, prompts=10_000),
        "medium": Size(battles=5_000, models=20, prompts=500),
    },
}


def battles(size: Size, seed: int = SEED) -> Arrays:
    """Battles between uniformly drawn pairs; given the style, the expected score is Bradley-Terry's.

    A tie takes equally from both sides' chances, so counting ties as half wins is exactly right.
    """
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, STRENGTH_SD / ELO_PER_LOGIT, size.models)
    a = rng.integers(0, size.models, size.battles)
    b = (a + rng.integers(1, size.models, size.battles)) % size.models
    style = rng.standard_normal((size.battles, len(STYLE_EFFECTS)))
    score = 1.0 / (1.0 + np.exp(strength[b] - strength[a] - style @ STYLE_EFFECTS))
    closeness = score * (1.0 - score)
    tie = closeness * (TIE_SHARE / closeness.mean())
    drawn = rng.random(size.battles)
    winner = np.where(drawn < score - tie / 2, 0, np.where(drawn < score + tie / 2, 2, 1))
    return {
        "a": a.astype(np.int32),
        "b": b.astype(np.int32),
        "winner": winner.astype(np.uint8),
        "prompt": rng.integers(0, size.prompts, size.battles).astype(np.int32),
        "style": style,
        "names": model_names(size.models),
        "strength": strength * ELO_PER_LOGIT,
    }


def model_names(count: int) -> NDArray[np.str_]:
    return np.array([f"org-{code % 25:02}/model-{code:03}" for code in range(count)])


def question_ids(count: int, seed: int = SEED) -> list[str]:
    digits = np.random.default_rng(seed + 1).bytes(16 * count).hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def as_table(arrays: Arrays, prompts: int) -> pa.Table:
    def spelled(codes: NDArray[np.generic], words: list[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words)).cast(pa.string())

    names = arrays["names"].tolist()
    return pa.table(
        {
            "model_a": spelled(arrays["a"], names),
            "model_b": spelled(arrays["b"], names),
            "winner": spelled(arrays["winner"], list(OUTCOMES)),
            "question_id": spelled(arrays["prompt"], question_ids(prompts)),
        }
    )


def write(folder: Path, sizes: dict[str, Size]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        arrays = battles(size)
        pq.write_table(as_table(arrays, size.prompts), folder / f"{name}.parquet")
        np.savez(folder / f"{name}.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=SIZES, default="full")
    options = parser.parse_args()
    write(options.folder, SIZES[options.size])


if __name__ == "__main__":
    main()
