"""LMArena's ratings of its own files, by arena-rank: plain, with style, and for each category.

python rate_lmarena.py OUT.json FILE… writes the ratings that the tests compare ours with. Categories are those of
LMArena's boards: a battle belongs to every one whose condition it meets.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
from arena_rank.utils.data_utils import ContextualPairDataset, PairDataset

FEATURES = ["sum_assistant_tokens", "header_count", "list_count", "bold_count"]
CATEGORIES = {
    "code": lambda row: row["is_code"],
    "creative_writing": lambda row: row["category_tag"]["creative_writing_v0.1"]["creative_writing"],
    "hard": lambda row: sum(row["category_tag"]["criteria_v0.1"].values()) >= 6,
    "instruction_following": lambda row: row["category_tag"]["if_v0.1"]["if"],
    "long_query": lambda row: row["conv_metadata"]["sum_user_tokens"] >= 500,
    "math": lambda row: row["category_tag"]["math_v0.1"]["math"],
    "multi_turn": lambda row: row["conv_metadata"]["turns"] > 1,
}


def plain(frame: pd.DataFrame) -> dict[str, float]:
    dataset = PairDataset.from_pandas(frame)
    model = BradleyTerry(n_competitors=len(dataset.competitors), ftol=1e-15)
    found = model.compute_ratings_and_cis(dataset)
    return dict(zip(found["competitors"], map(float, found["ratings"]), strict=True))


def with_style(frame: pd.DataFrame) -> dict[str, float]:
    frame = frame.copy()
    for name in FEATURES:
        sides = []
        for side in "ab":
            key = f"sum_assistant_{side}_tokens" if name == FEATURES[0] else f"{name}_{side}"
            counts = [row[key] for row in frame["conv_metadata"]]
            sides.append(
                pd.Series([sum(c.values()) if isinstance(c, dict) else c for c in counts], dtype=float)
            )
        total = (sides[0] + sides[1]).replace(0, 1)
        frame[name] = ((sides[0] - sides[1]) / total).to_numpy()
    dataset = ContextualPairDataset.from_pandas(frame, feature_cols=FEATURES)
    model = ContextualBradleyTerry(
        n_competitors=len(dataset.competitors), n_features=len(FEATURES), ftol=1e-15
    )
    found = model.compute_ratings_and_cis(dataset)
    return dict(zip(found["competitors"], map(float, found["ratings"]), strict=True))


def main() -> None:
    out, *files = map(Path, sys.argv[1:])
    ratings = {}
    for path in files:
        frame = pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
        ratings[path.name] = {"plain": plain(frame), "style": with_style(frame), "by": {}}
        for name, belongs in CATEGORIES.items():
            part = frame[frame.apply(belongs, axis=1)].reset_index(drop=True)
            ratings[path.name]["by"][name] = {"plain": plain(part), "style": with_style(part)}
    out.write_text(json.dumps(ratings, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
