"""Texts of the operator's pages that are chosen by code. Templates translate them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "ACTIONS",
    "BOUNDS",
    "CHOICES",
    "EXPECTED",
    "FIXED",
    "GROUPS",
    "JOBS",
    "LABELS",
    "LANES",
    "MEANINGS",
    "NOTICES",
    "OUTCOMES",
    "PHASES",
    "SETTINGS",
    "SOURCES",
]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


#: What a page says after a form was obeyed.
NOTICES: Mapping[str, str] = {
    "created": _("The arena is made. Next: upload answers."),
    "enabled": _("The model is enabled and may be served."),
    "retired": _("The model is retired. Its battles still count."),
    "unchanged": _("It was so already; nothing changed."),
    "imported": _("The answers are in."),
    "discarded": _("The file is thrown away; nothing of it was let in."),
    "withdrawn": _("It is withdrawn. Names, hashes and battles stay."),
    "policy": _("The policy is changed, from the next event on."),
    "phase": _("The phase is changed, from the next event on."),
    "settings": _("The settings are saved."),
    "excluded": _("The votes are left out. The next board comes without them."),
    "restored": _("The votes count again. The next board comes with them."),
    "settled": _("The complaint is settled."),
    "revoked": _("The token is worth nothing from now on."),
}

#: What the audit calls a change.
ACTIONS = (
    _("change policy"),
    _("change settings"),
    _("claim"),
    _("create arena"),
    _("enable model"),
    _("exclude votes"),
    _("import answers"),
    _("make token"),
    _("restore votes"),
    _("retire model"),
    _("revoke token"),
    _("settle complaint"),
    _("sign in"),
    _("withdraw"),
)
#: What settings and constants may be set to.
CHOICES = (
    *(_("open"), _("closed"), _("strict"), _("scoped"), _("conservative"), _("bradley-terry")),
    *(_("session"), _("vote"), _("never")),
)
SOURCES = (_("human"), _("llm-judge"))

OUTCOMES: Mapping[int, str] = {
    0: _("A is better"),
    1: _("B is better"),
    2: _("Tie"),
    3: _("Both bad"),
    4: _("A, leaning"),
    5: _("B, leaning"),
    6: _("Inconsistent"),
}

LANES: Mapping[str, str] = {
    "coverage": _("Coverage"),
    "contender": _("Contender"),
    "uncertainty": _("Uncertainty"),
    "exploration": _("Exploration"),
}

#: Scheduled work, by the names of its schedules.
JOBS: Mapping[str, str] = {
    "weekly-reports": _("Weekly reports of all arenas"),
    "thin-snapshots": _("Thinning of old boards"),
    "sweep-bytes": _("Sweeping of withdrawn bytes"),
    "judges": _("The round of this arena's judges"),
}

#: Number, name, what it changes.
PHASES: tuple[tuple[int, str, str], ...] = (
    (
        1,
        _("Shadow"),
        _(
            "Version 1 matches and legacy Elo orders the board. The ranking policy is computed unseen: "
            "no badges, no status, no lanes."
        ),
    ),
    (
        2,
        _("Lanes"),
        _(
            "The four lanes choose matchups. Legacy Elo still orders the board; badges, coverage, status "
            "and the lane mix are shown beside it."
        ),
    ),
    (
        3,
        _("Rating"),
        _(
            "The board is ordered by conservative score (or by Bradley–Terry, if the settings say so). "
            "Legacy Elo stays as a secondary figure. The status may become official."
        ),
    ),
    (
        4,
        _("Governance"),
        _("As in phase 3, and every week a validity report is made and kept."),
    ),
)

#: Constants of the ranking policy by group, in the order of the reference.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        _("Matchmaking"),
        (
            "lane_weights",
            "window",
            "fairness",
            "tolerance",
            "tolerance_least",
            "guard",
            "guard_least",
            "settling",
            "draws",
            "contenders",
            "challengers",
            "repeats",
            "meetings",
            "session_pairs",
            "sessions_kept",
        ),
    ),
    (
        _("Floors"),
        (
            "prompt_floor",
            "top_prompt_floor",
            "patience",
            "pair_floor",
            "adjacent_votes",
            "adjacent_prompts",
            "adjacent_attempts",
        ),
    ),
    (
        _("Badges, publication, claims"),
        (
            "established_votes",
            "established_coverage",
            "established_rd",
            "stable_rd",
            "stable_coverage",
            "published_top",
            "published_rd",
            "published_pairs",
            "published_coverage",
            "evaluated_every",
            "evaluations",
            "proven_alpha",
            "both_bad_bar",
            "both_bad_over",
            "form_votes",
        ),
    ),
)

#: What people call each constant of the policy and each setting.
LABELS: Mapping[str, str] = {
    "lane_weights": _("Lane shares"),
    "window": _("Exposure window"),
    "fairness": _("Fairness"),
    "tolerance": _("Exposure tolerance"),
    "tolerance_least": _("Least tolerance"),
    "guard": _("Guard"),
    "guard_least": _("Least guard"),
    "settling": _("Settling time"),
    "draws": _("Draws of a lane"),
    "contenders": _("Contender band size"),
    "challengers": _("Challengers"),
    "repeats": _("Repeats of a prompt"),
    "meetings": _("Meetings remembered"),
    "session_pairs": _("Rest between the same pair"),
    "sessions_kept": _("Sessions remembered"),
    "prompt_floor": _("Prompt floor"),
    "top_prompt_floor": _("Prompt floor at the top"),
    "patience": _("Patience with a cell"),
    "pair_floor": _("Pair floor"),
    "adjacent_votes": _("Votes between neighbours"),
    "adjacent_prompts": _("Prompts between neighbours"),
    "adjacent_attempts": _("Attempts between neighbours"),
    "established_votes": _("Established: votes"),
    "established_coverage": _("Established: coverage"),
    "established_rd": _("Established: RD"),
    "stable_rd": _("Stable: RD"),
    "stable_coverage": _("Stable: coverage"),
    "published_top": _("Publication: top models"),
    "published_rd": _("Publication: median RD"),
    "published_pairs": _("Publication: adjacent pairs"),
    "published_coverage": _("Publication: coverage"),
    "evaluated_every": _("Votes between evaluations"),
    "evaluations": _("Evaluations in a row"),
    "proven_alpha": _("Error of “order proven”"),
    "both_bad_bar": _("Both-bad bar"),
    "both_bad_over": _("Both-bad window"),
    "form_votes": _("Recent form"),
    "visibility": _("Visibility"),
    "undo_seconds": _("Time to take back"),
    "expiry_seconds": _("Time to vote"),
    "snapshot_seconds": _("Time between boards"),
    "timezone": _("Time zone"),
    "order": _("Order of the board"),
    "proven_family": _("Pairs of “order proven”"),
    "reveal": _("When names are told"),
    "session_votes": _("Votes of a session"),
}

#: What each constant means: the words of the reference, which a test compares.
MEANINGS: Mapping[str, str] = {
    "phase": _(
        "1: version 1 serves, Elo orders, the rest is computed unseen. 2: lanes. "
        "3: order by conservative score. 4: weekly validity report"
    ),
    "lane_weights": _("shares of coverage, contender, uncertainty and exploration"),
    "window": _("served matchups in which exposures are compared"),
    "fairness": _("strict: all lanes within tolerance; scoped: all but the contender lane"),
    "tolerance": _("share of its target by which a model's exposure may stray"),
    "tolerance_least": _("exposures that are always tolerated"),
    "guard": _("share of the target at which the controller acts before the tolerance is reached"),
    "guard_least": _("exposures at which it does, at least; never more than half of the tolerance"),
    "settling": _(
        "matchups for each model before exposures are steered, and before the contender lane wakes"
    ),
    "draws": _("draws of a lane before coverage answers in its place"),
    "contenders": _("size of the contender band"),
    "challengers": _("models below the band that contenders may meet"),
    "repeats": _(
        "how often a prompt may stand among a pair's last meetings; with fewer than 5 prompts ⌈10/prompts⌉ + 1"
    ),
    "meetings": _("a pair's last meetings"),
    "session_pairs": _("matchups before a session sees a pair again"),
    "sessions_kept": _("sessions that are remembered"),
    "prompt_floor": _("decisive votes that fill a cell of model and prompt"),
    "top_prompt_floor": _("the same in the contender band"),
    "patience": _("times its floor in attempts, after which a cell is exhausted"),
    "pair_floor": _("decisive votes from which a pair counts as met"),
    "adjacent_votes": _("decisive votes that adjacent models at the top need"),
    "adjacent_prompts": _("prompts on which they need them, or all that they share"),
    "adjacent_attempts": _("attempts after which a pair is indistinguishable so far"),
    "established_votes": _("decisive votes of an established model"),
    "established_coverage": _("its prompt coverage, at least"),
    "established_rd": _("its RD, at most"),
    "stable_rd": _("RD of a stable model, at most"),
    "stable_coverage": _("its prompt coverage, at least"),
    "published_top": _("models that the publication rules look at"),
    "published_rd": _("their median RD, at most"),
    "published_pairs": _("share of their adjacent pairs with floors met"),
    "published_coverage": _("their mean prompt coverage, at least"),
    "evaluated_every": _("votes between evaluations"),
    "evaluations": _("evaluations in a row that must hold"),
    "proven_alpha": _("probability that any mark of a board is false, at most"),
    "both_bad_bar": _("both-bad rate above which a finding is raised"),
    "both_bad_over": _("votes over which it is taken"),
    "form_votes": _("votes of a model's recent form"),
}

#: What may be given for a constant, as the policy's own errors say it.
EXPECTED: Mapping[str, str] = {
    "lane_weights": _("four shares that add up to 1"),
    "fairness": _("strict or scoped"),
    "top_prompt_floor": _("1 or more, and at least prompt_floor"),
    "form_votes": _("1 or more, and at most both_bad_over"),
}
BOUNDS = (
    _("1, 2, 3 or 4"),
    _("1 or more"),
    _("a share between 0 and 1"),
    _("a probability above 0 and below 1"),
    _("an RD above 0"),
    _("0 or more"),
)

#: Why some constants cannot change.
FIXED = _("It shapes what the arena remembers, and holds for the arena's whole life.")

#: What each setting of an arena means, with its bounds.
SETTINGS: Mapping[str, tuple[str, str]] = {
    "visibility": (
        _(
            "open: everybody may vote and read the board. closed: only the operator and tokens with a right "
            "to it; to all others the arena is not there"
        ),
        _("open or closed"),
    ),
    "undo_seconds": (
        _("how long a vote can be taken back, unless the names were shown; 0: never"),
        _("seconds, 0 to 600"),
    ),
    "expiry_seconds": (_("how long a matchup waits for its vote"), _("seconds, 1 to 86,400")),
    "snapshot_seconds": (
        _("the least time between two snapshots of the board; those at evaluations come besides"),
        _("seconds, 0.05 to 86,400"),
    ),
    "timezone": (
        _("where the weeks of the validity report begin, and the days of these pages"),
        _("a name such as UTC or Europe/Berlin"),
    ),
    "order": (
        _("what orders the board from phase 3 on. The board follows with the next vote or change"),
        _("conservative or bradley-terry"),
    ),
    "proven_family": (
        _(
            "how many pairs share the error of the “order proven” marks: those of the largest roster that is "
            "planned. Empty: those of the roster"
        ),
        _("a number of pairs, or empty"),
    ),
    "reveal": (
        _(
            "when people are told the names behind the responses that they voted on. session: of all votes together, "
            "after so many or when the voter presses Finish. vote: after each vote. never: not at all"
        ),
        _("session, vote or never"),
    ),
    "session_votes": (
        _("votes after which the names are told, where they are told by session"),
        _("a number of votes, 1 to 200"),
    ),
}
