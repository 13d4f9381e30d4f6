"""What a run did, in words: a paragraph for the methods section of a paper, and a BibTeX entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiltyard._version import __version__
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.board import RatedGroup
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2, RatingMethod
from tiltyard.report.board_formats import latex_text, method_title

_TIES = {
    "half": "A tie counts as half a win for each side",
    "davidson": "Ties are modelled by Davidson's parameter",
    "drop": "Ties are left out",
}
_MADE_BY = {
    "sandwich": "a cluster-robust (sandwich) variance",
    "bootstrap": "a bootstrap",
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What identifies a run besides its ratings."""

    #: The field by which the battles are divided into groups.
    by: str | None = None
    #: Whether a battle may count in several groups.
    overlapping: bool = False
    style: tuple[str, ...] = ()
    #: The condition that the battles meet.
    where: str | None = None
    #: The SHA-256 of the file of battles, and of that and the settings together, as the manifest states them.
    battles_sha256: str | None = None
    identity: str | None = None


def methods_text(groups: Sequence[RatedGroup], facts: RunFacts) -> str:
    """A paragraph that says how these ratings were made."""
    return " ".join(_sentences(groups, facts))


def _sentences(groups: Sequence[RatedGroup], facts: RunFacts) -> Iterator[str]:
    method = groups[0].ratings.method
    yield f"We rated {_counted(groups)} with Tiltyard {__version__}, by {_method_words(method)}."
    if facts.where is not None:
        yield f"Only battles for which {facts.where} were taken."
    if facts.by is not None:
        several = ", and a battle counts in each group that it names" if facts.overlapping else ""
        yield f"Each {facts.by} ({len(groups)} groups) was rated from its own battles alone{several}."
    ties = _TIES.get(getattr(method, "ties", ""), "")
    if ties:
        yield f"{ties}; {_both_bad_words(method)}."
    if facts.style:
        yield f"Style was controlled for: {', '.join(facts.style)}."
    if isinstance(method, BradleyTerry):
        if method.even_pairs is not None:
            yield f"Every pair of models with at least {method.even_pairs:,} battles weighs the same."
        if method.max_share is not None and method.max_share < 1.0:
            yield f"No prompt and no voter weighs more than {100 * method.max_share:g}% of the battles, if there are enough of them."
    yield from _interval_sentences(groups)
    if facts.battles_sha256 is not None:
        yield f"The battles are the file battles.parquet with the SHA-256 {facts.battles_sha256}."
    if facts.identity is not None:
        yield (
            f"The run, which is these battles and these settings, has the identity {facts.identity} "
            "in manifest.json; `tiltyard verify` recomputes it and every number."
        )


def _counted(groups: Sequence[RatedGroup]) -> str:
    """Models, battles, prompts and voters, the last two where battles name them."""
    models = {row.model for rated in groups for row in rated.board.rows if row.group is not None}
    battles = sum(rated.board.n_battles for rated in groups)
    prompts, voters = (_count_named(groups, unit) for unit in ("prompt", "voter"))
    on = f" on {prompts:,} prompts" if prompts else ""
    by = f" by {voters:,} voters" if voters else ""
    return f"{len(models):,} models from {battles:,} battles{on}{by}"


def _count_named(groups: Sequence[RatedGroup], unit: str) -> int:
    """The distinct prompts or voters of the battles; 0 where they are not known."""
    found: list[Keys] = []
    for rated in groups:
        if unit in rated.table.keyed and rated.table.has_log:
            keys = (getattr(run, unit) for run in rated.table.scan())
            found += [np.unique(part) for part in keys if part is not None]
    if not found:
        return 0
    distinct = np.unique(np.concatenate(found))
    return int((distinct != MISSING_KEY).sum())


def _method_words(method: RatingMethod) -> str:
    if isinstance(method, BradleyTerry):
        origin = f"the mean of the models that battles connect is {method.base:g}"
        if method.anchor is not None:
            origin = f"{method.anchor} has {method.anchor_rating:g}"
        prior = "" if method.prior_sd is None else f" and a normal prior of {method.prior_sd:g} points"
        return (
            f"the Bradley–Terry model, fitted by maximum likelihood{prior}; {method.scale:g} points are odds of "
            f"ten to one, and {origin}"
        )
    if isinstance(method, Elo):
        orders = f"the mean over {method.n_permutations:,} orders of the battles"
        if method.n_permutations == 0:
            orders = "one pass in the order of the log"
        return (
            f"Elo with K = {method.k:g}, started at {method.start:g}, {orders}; {method.spread:g} points are odds of "
            "ten to one"
        )
    if isinstance(method, Glicko2):
        return f"Glicko-2 in the order of the log, started at {method.start:g} with an RD of {method.initial_rd:g}"
    return method_title(method.name)


def _both_bad_words(method: RatingMethod) -> str:
    if getattr(method, "both_bad", "drop") == "tie":
        return "the outcome both_bad counts as a tie"
    return "battles with the outcome both_bad are counted but rate nobody"


def _interval_sentences(groups: Sequence[RatedGroup]) -> Iterator[str]:
    intervals = [rated.ratings.interval for rated in groups]
    known = [interval for interval in intervals if interval is not None]
    if not known:
        yield "The ratings have no intervals, and no order is claimed."
        return
    first = known[0]
    made_by = _MADE_BY.get(first.made_by, first.made_by)
    rests = {f"{_cluster_words(one.clusters)}, for {one.scope}" for one in known}
    basis = rests.pop() if len(rests) == 1 else "with clusters and a scope that each board states"
    yield f"Intervals have a level of {100 * first.level:g}% and come from {made_by}, {basis}."
    ranks = next((rated.ranks for rated in groups if rated.ranks is not None), None)
    if ranks is not None:
        scope = " within a group" if len(groups) > 1 else ""
        yield f"Settled orders, and the ranges of ranks that follow from them, hold simultaneously at {100 * ranks.level:g}%{scope}."


def _cluster_words(clusters: str) -> str:
    if clusters == "battle":
        return "which takes battles as independent"
    return f"clustered by {clusters.replace(' × ', ' and ')}"


def bibtex_entry(title: str, groups: Sequence[RatedGroup], facts: RunFacts) -> str:
    """An entry without author, year and address: the run does not know them."""
    key = "tiltyard" if facts.identity is None else f"tiltyard-{facts.identity[:12]}"
    method = method_title(groups[0].ratings.method.name)
    run = "" if facts.identity is None else f". Run identity {facts.identity}"
    return (
        f"@misc{{{key},\n"
        f"  title = {{{{{latex_text(title)}}}}},\n"
        f"  howpublished = {{Ratings computed with Tiltyard {__version__}}},\n"
        f"  note = {{{latex_text(method)} ratings of {_counted(groups)}{run}}},\n"
        "}\n"
    )
