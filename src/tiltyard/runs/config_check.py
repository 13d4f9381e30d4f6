"""Checks that a run used its own configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tiltyard.core.board.board_rows import parameters_of
from tiltyard.errors import TiltyardError
from tiltyard.runs.tournament_manifest import RatingParameters, TournamentManifest, rating_methods
from tiltyard.runs.verification_checks import RunCheck

_NAME = "configuration"

#: What is compared, the configured value, and the value in the manifest.
_Compared = tuple[str, object, object]


def configured_check(manifest: TournamentManifest) -> RunCheck:
    """Compare the manifest with the resolved configuration in it; missing sections are not compared."""
    config = manifest.config
    unsaid = [name for name in dict.fromkeys(sum(_PARTS, ())) if name not in config]
    for sections, part in _PARTS.items():
        if not set(sections).isdisjoint(unsaid):
            continue
        try:
            found = next((one for one in part(config, manifest) if one[1] != one[2]), None)
        except (TiltyardError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            detail = f"{', '.join(sections)} cannot be compared with the manifest: {error!r}"
            return RunCheck(_NAME, passed=False, detail=detail)
        if found is not None:
            name, stated, used = found
            return RunCheck(_NAME, passed=False, detail=f"{name}: it has {stated}, but the manifest {used}")
    if not unsaid:
        return RunCheck(_NAME, passed=True, detail="the manifest agrees with it")
    missing = ", ".join(unsaid)
    detail = f"the manifest agrees with it; not compared, because it does not contain them: {missing}"
    unchecked = f"whether the run used the configured {missing}"
    return RunCheck(_NAME, passed=True, detail=detail, exact=False, unchecked=unchecked)


def _entrants(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    stated = config["entrants"]
    yield "entrants", [one["entrant_id"] for one in stated], manifest.entrants
    yield "families", {one["entrant_id"]: one.get("family") for one in stated}, manifest.families


def _rubrics(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    yield "rubrics", list(config["rubrics"]), list(manifest.rubrics)


def _mode(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    mode = config["modes"][manifest.mode]
    judges = mode["judges"]
    yield "judges", [one["name"] for one in judges], manifest.judges
    yield "models of the judges", [one["model"] for one in judges], manifest.judge_models
    families = {one["name"]: one.get("family") for one in judges}
    yield "families of the judges", families, manifest.judge_families
    yield "quorum", mode["quorum"], manifest.quorum
    yield "seed of the mode", mode["seed"], manifest.pilot_seed
    yield "limit_pairs", mode.get("limit_pairs", manifest.limit_pairs), manifest.limit_pairs
    yield "sample_pairs", mode.get("sample_pairs"), manifest.sample_pairs


def _methods(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    elo, ratings = config["elo"], config["ratings"]
    yield "elo.n_perms", elo["n_perms"], manifest.n_perms
    yield "elo.shuffle_seed", elo["shuffle_seed"], manifest.shuffle_seed
    yield "elo.k_factor_sweep", list(elo["k_factor_sweep"]), manifest.k_sweep
    yield "ratings.n_bootstraps", ratings["n_bootstraps"], manifest.n_bootstraps
    inconsistent = ratings["inconsistent"]
    parameters = RatingParameters(
        lean=ratings["lean"],
        inconsistent={"half": 0.5, "drop": None}.get(inconsistent, inconsistent),
        n_bootstraps=ratings["n_bootstraps"],
        seed=ratings["seed"],
        initial_rating=elo["initial_rating"],
        default_k=elo["default_k"],
        n_perms=elo["n_perms"],
        shuffle_seed=elo["shuffle_seed"],
    )
    bradley_terry, elo_method = rating_methods(parameters)
    yield from _parameters("Bradley–Terry", parameters_of(bradley_terry), manifest.bradley_terry)
    yield from _parameters("Elo", parameters_of(elo_method), manifest.elo)


def _parameters(title: str, stated: Mapping[str, Any], used: Mapping[str, Any]) -> Iterator[_Compared]:
    for name in dict.fromkeys((*stated, *used)):
        yield f"{title}'s {name}", stated.get(name), used.get(name)


def _overall(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    yield "anchors", len(config["anchors"]), len(manifest.anchors)
    weights = dict.fromkeys(manifest.rubrics, 1.0) if manifest.anchors else {}
    stated = config["overall"]
    yield "overall", weights if stated is None else stated, manifest.overall


#: Sections of the configuration, and the functions that compare them.
_PARTS: Mapping[tuple[str, ...], Callable[[Mapping[str, Any], TournamentManifest], Iterator[_Compared]]] = {
    ("entrants",): _entrants,
    ("rubrics",): _rubrics,
    ("modes",): _mode,
    ("elo", "ratings"): _methods,
    ("overall", "anchors"): _overall,
}
