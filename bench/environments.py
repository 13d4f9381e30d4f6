"""The measured packages, their cases and pinned versions, each in a separate environment."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = "3.11"

CASES = {  # sizes as in `--size full`
    "bt": "Bradley-Terry ratings from 5 M integer-coded battles of 250 models",
    "bt-names": "the same from names (bare and Tiltyard: from the Parquet file; peers: in memory)",
    "bootstrap": "100 bootstrap refits of Bradley-Terry, 100 k battles of 100 models",
    "elo": "Elo over 1000 permutations of 100 k battles, K = 16, shuffling included; n counts updates",
    "glicko2": "Glicko-2, vote by vote, 5 M votes on 250 models",
    "style": "Bradley-Terry with 4 style covariates, 5 M battles of 250 models",
    "read": "5 M battles in a Parquet file (bare: merely reading four columns as plain strings)",
}


@dataclass(frozen=True)
class Contestant:
    name: str
    script: Path
    cases: tuple[str, ...]
    packages: tuple[str, ...]


BARE = Contestant(
    name="bare",
    script=HERE / "bare.py",
    cases=tuple(CASES),
    packages=("numba==0.68.1", "numpy==2.4.6", "pyarrow==26.0.1", "scipy==1.17.1"),
)

PEERS = (
    Contestant(
        name="evalica",
        script=HERE / "peers" / "time_evalica.py",
        cases=("bt", "bt-names", "elo"),
        packages=("evalica==0.4.2", "numpy==2.4.6", "pandas==3.1.1", "scipy==1.17.1"),
    ),
    Contestant(
        name="evalica-names",
        script=HERE / "peers" / "time_evalica_names.py",
        cases=("elo",),
        packages=("evalica==0.4.2", "numpy==2.4.6", "pandas==3.1.1", "scipy==1.17.1"),
    ),
    Contestant(
        name="arena-rank",
        script=HERE / "peers" / "time_arena_rank.py",
        cases=("bt", "bt-names", "style"),
        packages=(
            "arena-rank==0.1.1",
            "jax==0.8.1",
            "jaxlib==0.8.1",
            "numpy==2.3.3",
            "optax==0.2.8",
            "pandas==3.1.1",
            "pyarrow==26.0.1",
        ),
    ),
    Contestant(
        name="FastChat",
        script=HERE / "peers" / "time_fastchat.py",
        cases=("bt", "bt-names", "bootstrap", "elo", "style"),
        packages=("numpy==2.4.6", "pandas==3.1.1", "pyarrow==26.0.1", "scipy==1.17.1", "tqdm==4.70.1"),
    ),
    Contestant(
        name="elote",
        script=HERE / "peers" / "time_elote.py",
        cases=("glicko2",),
        packages=("elote==1.5.1", "numpy==2.4.6", "scipy==1.17.1"),
    ),
)


def python_for(contestant: Contestant, scratch: Path) -> Path:
    """The interpreter of the contestant's environment, made first if its pins have changed."""
    folder = scratch / "environments" / contestant.name
    python, pins = folder / "bin" / "python", folder / "pins.txt"
    wanted = "\n".join(contestant.packages)
    if not pins.exists() or pins.read_text() != wanted:
        subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", PYTHON, folder], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", python]
        subprocess.run([*install, *contestant.packages], check=True)
        pins.write_text(wanted)
    return python
