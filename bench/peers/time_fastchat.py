"""Times the rating code of a FastChat checkout, named by FASTCHAT_CHECKOUT.

The package on PyPI lacks that file, so it is taken from a checkout of the repository; only the
one file is loaded, which needs no other part of FastChat.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

from timing import ELO_K, PERMUTATIONS, REFITS, Floats, asked, farthest, load, repeat, report, skip

FILE = Path("fastchat/serve/monitor/rating_systems.py")
OUTCOMES = np.array(["model_a", "model_b", "tie"])
SHARE_OF_A = np.array([1.0, 0.0, 0.5])


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("rating_systems", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its worker processes look the functions up by name
    spec.loader.exec_module(module)
    return module


class FastChat:
    def __init__(self, checkout: Path, data: Path) -> None:
        self.code = loaded(checkout / FILE)
        self.version = f"file {hashlib.sha256((checkout / FILE).read_bytes()).hexdigest()[:12]}"
        self.data = data

    def report(self, case: str, n: int, runs: list[float], note: str) -> None:
        report(peer="FastChat", version=self.version, case=case, n=n, runs=runs, note=note)

    def time_bt(self) -> None:
        """Integer codes and a categorical winner: the quickest frame it takes."""
        battles = load(self.data, "large")
        winner = pd.Categorical.from_codes(battles["winner"], OUTCOMES)
        frame = pd.DataFrame({"model_a": battles["a"], "model_b": battles["b"], "winner": winner})
        elo = self.code.compute_bt(frame).sort_index().to_numpy()
        runs = repeat(lambda: self.code.compute_bt(frame))
        note = f"frame of codes; {farthest(elo, self.data / 'exact-bt.npy')}"
        self.report("bt", len(frame), runs, note)

    def time_bt_names(self) -> None:
        frame = pd.read_parquet(self.data / "large.parquet", columns=["model_a", "model_b", "winner"])
        runs = repeat(lambda: self.code.compute_bt(frame))
        self.report("bt-names", len(frame), runs, "frame of names, read beforehand")

    def time_bootstrap(self) -> None:
        frame = pd.read_parquet(self.data / "medium.parquet", columns=["model_a", "model_b", "winner"])
        runs = repeat(lambda: self.code.compute_bootstrap_bt(frame, num_round=REFITS, num_cpu=1), most=5)
        self.report("bootstrap", len(frame), runs, "frame of names; one worker process")

    def time_style(self) -> None:
        """The fit on ready arrays: its own unpacking of a dict a battle is left out."""
        battles = load(self.data, "large")
        matchups = np.column_stack([battles["a"], battles["b"]])
        outcomes = SHARE_OF_A[battles["winner"]]
        models = battles["names"].tolist()

        def fit() -> Floats:
            fit = self.code.fit_contextual_bt(matchups, battles["style"], outcomes, models)
            return 400.0 * fit[: len(models)]

        note = f"ready arrays; {farthest(fit(), self.data / 'exact-style.npy')}"
        self.report("style", len(matchups), repeat(fit), note)

    def time_elo(self) -> None:
        """All permutations in step, as its vectorised Elo takes them; drawing them is counted."""
        battles = load(self.data, "medium")
        matchups = np.column_stack([battles["a"], battles["b"]])
        outcomes = SHARE_OF_A[battles["winner"]]
        rng = np.random.default_rng(1)

        def fit() -> Floats:
            order = np.empty((len(outcomes), PERMUTATIONS), np.int32)
            for permutation in range(PERMUTATIONS):
                order[:, permutation] = rng.permutation(len(outcomes))
            return self.code.fit_vectorized_elo(matchups, outcomes, order, len(battles["names"]), k=ELO_K)

        self.report("elo", len(outcomes) * PERMUTATIONS, repeat(fit, most=2), "all permutations in step")


def main() -> None:
    cases, data = asked(["bt", "bt-names", "bootstrap", "elo", "style"])
    checkout = os.environ.get("FASTCHAT_CHECKOUT")
    if not checkout or not (Path(checkout) / FILE).exists():
        skip("FastChat", f"FASTCHAT_CHECKOUT names no checkout that holds {FILE}")
        return
    fastchat = FastChat(Path(checkout), data)
    for case in cases:
        getattr(fastchat, f"time_{case.replace('-', '_')}")()


if __name__ == "__main__":
    main()
