"""Times arena-rank: the fits alone, without intervals.

Its operations are compiled by a first run that is not counted, but every fit compiles its
optimiser anew, whoever calls it: those seconds are its own and are counted.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
from arena_rank.utils.data_utils import ContextualPairDataset, PairDataset

from timing import ELO_PER_LOGIT, Floats, asked, farthest, load, repeat, report

VERSION = version("arena-rank")
OUTCOMES = np.array(["model_a", "model_b", "tie"])


def fitted(frame: pd.DataFrame) -> Floats:
    dataset = PairDataset.from_pandas(frame)
    model = BradleyTerry(n_competitors=len(dataset.competitors)).fit(dataset)
    return np.asarray(jax.block_until_ready(model.params["ratings"])) * ELO_PER_LOGIT


def time_bt(data: Path) -> None:
    """Integer codes and a categorical winner: the quickest frame it takes."""
    battles = load(data, "large")
    winner = pd.Categorical.from_codes(battles["winner"], OUTCOMES)
    frame = pd.DataFrame({"model_a": battles["a"], "model_b": battles["b"], "winner": winner})
    elo = fitted(frame)
    note = f"frame of codes; {farthest(elo, data / 'exact-bt.npy')}"
    runs = repeat(lambda: fitted(frame))
    report(peer="arena-rank", version=VERSION, case="bt", n=len(frame), runs=runs, note=note)


def time_bt_names(data: Path) -> None:
    """Names as strings, as its documentation shows; reading the frame is not counted."""
    frame = pd.read_parquet(data / "large.parquet", columns=["model_a", "model_b", "winner"])
    fitted(frame)
    runs = repeat(lambda: fitted(frame))
    note = "frame of names, read beforehand"
    report(peer="arena-rank", version=VERSION, case="bt-names", n=len(frame), runs=runs, note=note)


def time_style(data: Path) -> None:
    """The fit on ready arrays, without its default shrinking of the style effects."""
    battles = load(data, "large")
    models = len(battles["names"])
    dataset = ContextualPairDataset(
        competitors=battles["names"].tolist(),
        pairs=jnp.column_stack([battles["a"], battles["b"]]),
        outcomes=jnp.array([1.0, 0.0, 0.5])[battles["winner"]],
        features=jnp.asarray(battles["style"]),
        weights=jnp.ones(len(battles["a"])),
    )

    def fit() -> Floats:
        model = ContextualBradleyTerry(n_competitors=models, n_features=dataset.n_features, reg=0.0)
        ratings = model.fit(dataset).params["ratings"]
        return np.asarray(jax.block_until_ready(ratings)) * ELO_PER_LOGIT

    note = f"ready arrays; {farthest(fit(), data / 'exact-style.npy')}"
    runs = repeat(fit)
    report(peer="arena-rank", version=VERSION, case="style", n=dataset.n_pairs, runs=runs, note=note)


if __name__ == "__main__":
    timed = {"bt": time_bt, "bt-names": time_bt_names, "style": time_style}
    chosen, folder = asked(list(timed))
    for name in chosen:
        timed[name](folder)
