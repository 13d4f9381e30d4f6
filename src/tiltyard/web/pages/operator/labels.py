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
    "LIVE_SETTINGS",
    "MEANINGS",
    "NOTICES",
    "OUTCOMES",
    "PHASES",
    "ROLE_MEANINGS",
    "ROLE_NAMES",
    "SETTINGS",
    "SOURCES",
    "STAGES",
    "TEXTS",
    "VOTE_GROUP_LABELS",
]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


#: Groups of votes in which the crowd may change.
VOTE_GROUP_LABELS: Mapping[str, str] = {
    "all": _("all votes"),
    "new-voters": _("the first ten votes of a voter"),
    "skipping-voters": _("votes of voters who mostly skip"),
    "quick-votes": _("votes within five seconds"),
    "hours-0-6": _("votes from 0 to 6 o'clock UTC"),
    "hours-6-12": _("votes from 6 to 12 o'clock UTC"),
    "hours-12-18": _("votes from 12 to 18 o'clock UTC"),
    "hours-18-24": _("votes from 18 to 24 o'clock UTC"),
    "shared-networks-1": _("votes from networks with many voters (first group)"),
    "shared-networks-2": _("votes from networks with many voters (second group)"),
    "shared-networks-3": _("votes from networks with many voters (third group)"),
    "shared-networks-4": _("votes from networks with many voters (fourth group)"),
    "language-en": _("votes with browsers in English"),
    "language-zh": _("votes with browsers in Chinese"),
    "language-es": _("votes with browsers in Spanish"),
    "language-de": _("votes with browsers in German"),
    "language-fr": _("votes with browsers in French"),
    "other-languages": _("votes with browsers in other languages"),
}

#: What a page says after a form was obeyed.
NOTICES: Mapping[str, str] = {
    "created": _("The arena is created, as a draft. The list shows what it needs until the first vote."),
    "enabled": _("The model is enabled and may be served."),
    "retired": _("The model is retired. Its battles still count."),
    "unchanged": _("Nothing to change."),
    "described": _("The details are saved."),
    "imported": _("The answers are imported."),
    "discarded": _("The file is discarded; nothing was imported."),
    "withdrawn": _("Withdrawn. Names, hashes and battles are kept."),
    "policy": _("The policy is changed. Applies from the next vote."),
    "phase": _("The phase is changed. Applies from the next vote."),
    "settings": _("The settings are saved."),
    "explained": _("The change is explained. The next board is not held back by it."),
    "excluded": _("The votes are excluded. The next board will not count them."),
    "restored": _("The votes are restored. The next board will count them."),
    "settled": _("The complaint is settled."),
    "revoked": _("The token is revoked."),
    "hidden": _("Hidden: it is served no more. You can show it again."),
    "shown": _("It is served again."),
    "texts": _("The texts are saved."),
    "stage-open": _("The arena is open. From now on votes count."),
    "stage-clear": _("The test votes are cleared."),
    "stage-pause": _("The arena is paused. Voters see it within five seconds."),
    "stage-resume": _("The arena is open again."),
    "stage-archive": _("The arena is archived."),
    "stage-reopen": _("The arena is open again."),
    "stage-delete": _(
        "The arena is hidden and will be deleted. Until then you can restore it on its page Stage."
    ),
    "stage-keep": _("The arena is restored."),
    "panel-closed": _("The panel is closed. Its figures are final."),
    "adjudicated": _("The adjudication is recorded. The votes stay as they are."),
    "uninvited": _("The invitation is revoked. Whoever came in by it is out within seconds."),
    "operator-uninvited": _("The invitation is revoked. Its link does not work any more."),
    "role": _("The role is changed. Applies from the next click."),
    "operator-removed": _("The operator is removed. Its sessions and tokens have ended."),
    "signed-out": _("Signed out."),
    "factor-off": _("The second factor is turned off."),
    "factor-needed": _("Your role needs a second factor. Set it up to go on."),
}

#: What the audit calls a change.
ACTIONS = (
    _("change policy"),
    _("change role"),
    _("change settings"),
    _("change stage"),
    _("change text"),
    _("claim"),
    _("clear test votes"),
    _("create arena"),
    _("delete arena"),
    _("delete old copy"),
    _("enable model"),
    _("erase session"),
    _("erase texts"),
    _("erase voter"),
    _("exclude votes"),
    _("export battles"),
    _("export conversations"),
    _("hide"),
    _("import answers"),
    _("invite"),
    _("invite operator"),
    _("make password link"),
    _("make token"),
    _("move arena"),
    _("open arena"),
    _("remove operator"),
    _("request deletion"),
    _("reset second factor"),
    _("restore arena"),
    _("restore votes"),
    _("retire model"),
    _("change entrants"),
    _("describe model"),
    _("revoke invitation"),
    _("revoke operator invitation"),
    _("revoke token"),
    _("set passcode"),
    _("set password"),
    _("set up second factor"),
    _("settle complaint"),
    _("show again"),
    _("sign in"),
    _("sign out"),
    _("turn off second factor"),
    _("use recovery code"),
    _("withdraw"),
)
#: What settings and constants may be set to.
CHOICES = (
    *(_("open"), _("closed"), _("strict"), _("scoped"), _("conservative"), _("bradley-terry")),
    *(_("session"), _("vote"), _("never"), _("invitation"), _("passcode"), _("sign-in")),
    *(_("yes"), _("no"), _("public"), _("always"), _("anonymous"), _("removed")),
    *(_("both"), _("ordered")),
    *(_("auto"), _("proof"), _("none")),
    *(_("equal"), _("as-it-comes"), _("complete"), _("whole"), _("turn")),
)
SOURCES = (_("human"), _("llm-judge"))
#: Stages of an arena.
STAGES = (_("draft"), _("paused"), _("archived"), _("deleting"))

#: What an operator can tell voters: its name, and where it is shown.
TEXTS: Mapping[str, tuple[str, str]] = {
    "announcement": (_("Announcement"), _("Shown at the top of the page before the first vote.")),
    "instructions": (
        _("Instructions"),
        _(
            "What voters should look at when they compare responses. Shown before the first vote, and with the key i "
            "while they vote."
        ),
    ),
    "consent": (
        _("Consent"),
        _(
            "Voters must agree to it before their first vote, and again if you change it. Who agreed to which version "
            "is stored. Programs that vote through the API are not asked."
        ),
    ),
    "thanks": (_("Thanks"), _("Shown with the names, when a voter has finished a session.")),
    "pause": (_("During a pause"), _("Shown instead of matchups while the arena is paused.")),
}

#: Roles of operators, and what each may do.
ROLE_MEANINGS: Mapping[str, str] = {
    "owner": _("everything, including other operators"),
    "operator": _("everything in its arenas, except operators and deleting the arena"),
    "moderator": _("complaints, exclusions and voters"),
    "analyst": _("read and export"),
}
ROLE_NAMES = (_("owner"), _("operator"), _("moderator"), _("analyst"))

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
    "thin-snapshots": _("Thinning out old boards"),
    "sweep-bytes": _("Deletion of withdrawn files"),
    "delete-arenas": _("Deletion of arenas that are due"),
    "delete-live-texts": _("Deletion of texts and hashes of addresses that are due"),
    "admit-votes": _("Votes of new voters that have waited long enough"),
    "judges": _("Judging round of this arena"),
}

#: Number, name, what it changes.
PHASES: tuple[tuple[int, str, str], ...] = (
    (
        1,
        _("Shadow"),
        _(
            "Version 1 matchmaking, and the board is ordered by legacy Elo. The ranking policy is computed "
            "but not shown: no badges, no status, no lanes."
        ),
    ),
    (
        2,
        _("Lanes"),
        _(
            "The four lanes choose matchups. The board is still ordered by legacy Elo; badges, coverage, "
            "status and the lane mix are also shown."
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
        _("As in phase 3, and a validity report is generated and stored every week."),
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
            "settled_alpha",
            "both_bad_bar",
            "both_bad_over",
            "form_votes",
            "free_prompts",
        ),
    ),
)

#: What people call each constant of the policy and each setting.
LABELS: Mapping[str, str] = {
    "lane_weights": _("Lane shares"),
    "window": _("Exposure window"),
    "fairness": _("Fairness"),
    "tolerance": _("Exposure tolerance"),
    "tolerance_least": _("Minimum tolerance"),
    "guard": _("Guard"),
    "guard_least": _("Minimum guard"),
    "settling": _("Settling time"),
    "draws": _("Draws of a lane"),
    "contenders": _("Contender band size"),
    "challengers": _("Challengers"),
    "repeats": _("Repeats of a prompt"),
    "meetings": _("Stored matchups of a pair"),
    "session_pairs": _("Matchups before a pair repeats"),
    "sessions_kept": _("Stored sessions"),
    "prompt_floor": _("Prompt floor"),
    "top_prompt_floor": _("Prompt floor at the top"),
    "patience": _("Attempts for each cell"),
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
    "evaluations": _("Consecutive evaluations"),
    "settled_alpha": _("Error of settled orders"),
    "both_bad_bar": _("Both-bad threshold"),
    "both_bad_over": _("Both-bad window"),
    "form_votes": _("Recent form"),
    "free_prompts": _("Free prompts"),
    "visibility": _("Visibility"),
    "entry": _("Entry"),
    "entry_groups": _("Groups that may come in"),
    "gate": _("Gate for new voters"),
    "minute_limits": _("Limits per minute"),
    "undo_seconds": _("Time to undo"),
    "expiry_seconds": _("Time to vote"),
    "unseen_seconds": _("Time to show a prefetched matchup"),
    "snapshot_seconds": _("Time between boards"),
    "timezone": _("Time zone"),
    "order": _("Order of the board"),
    "settled_family": _("Planned pairs of models"),
    "reveal": _("When names are shown"),
    "session_votes": _("Votes in a session"),
    "shown_check": _("Votes before a look"),
    "ageing_hours": _("Votes of new voters wait"),
    "releases": _("Released battles"),
    "embed_sites": _("Sites that may embed the board"),
    "live_pace": _("Pace of answers"),
    "live_votes": _("What is voted on"),
    "live_budget_dollars": _("Budget in total"),
    "live_day_dollars": _("Budget of a day"),
    "live_voter_day_dollars": _("Budget of a voter and day"),
    "live_prompt_characters": _("Longest prompt"),
    "live_turns": _("Turns of a battle"),
    "live_answer_tokens": _("Longest answer"),
    "live_first_token_seconds": _("Time to the first token"),
    "live_gap_seconds": _("Longest pause"),
    "live_identity": _("Names in answers"),
    "live_retention_days": _("Texts are kept for"),
    "erased_votes": _("Votes of deleted voters"),
    "remark_retention_days": _("Remarks are kept for"),
    "session_retention_days": _("Absent voters are kept for"),
}

#: What each constant means: the words of the reference, which a test compares.
MEANINGS: Mapping[str, str] = {
    "phase": _(
        "1: version 1 matchmaking, order by Elo, the rest is computed but not shown. 2: lanes. 3: order by "
        "conservative score. 4: weekly validity report"
    ),
    "lane_weights": _("shares of coverage, contender, uncertainty and exploration"),
    "window": _("served matchups in which exposures are compared"),
    "fairness": _("strict: all lanes within tolerance; scoped: all but the contender lane"),
    "tolerance": _("share of its target by which a model's exposure may deviate"),
    "tolerance_least": _("exposures that are always tolerated"),
    "guard": _("share of the target at which the controller acts before the tolerance is reached"),
    "guard_least": _("minimum number of exposures at which it acts; never more than half of the tolerance"),
    "settling": _(
        "matchups for each model before exposures are controlled, and before the contender lane starts"
    ),
    "draws": _("draws of a lane before the coverage lane takes over"),
    "contenders": _("size of the contender band"),
    "challengers": _("models below the band that contenders may be matched with"),
    "repeats": _(
        "how often a prompt may occur among a pair's last matchups; with fewer than 5 prompts ⌈10/prompts⌉ + "
        "1"
    ),
    "meetings": _("number of a pair's last matchups that are stored"),
    "session_pairs": _("matchups before a session sees the same pair again"),
    "sessions_kept": _("number of sessions whose history is stored"),
    "prompt_floor": _("decisive votes that fill a cell of model and prompt"),
    "top_prompt_floor": _("the same in the contender band"),
    "patience": _("attempts, as a multiple of the floor, after which a cell is exhausted"),
    "pair_floor": _("decisive votes after which a pair counts as compared"),
    "adjacent_votes": _("decisive votes that adjacent models at the top need"),
    "adjacent_prompts": _("prompts on which they need them, or all that they share"),
    "adjacent_attempts": _("attempts after which a pair is indistinguishable so far"),
    "established_votes": _("decisive votes of an established model"),
    "established_coverage": _("its prompt coverage, at least"),
    "established_rd": _("its RD, at most"),
    "stable_rd": _("RD of a stable model, at most"),
    "stable_coverage": _("its prompt coverage, at least"),
    "published_top": _("number of top models that the publication rules check"),
    "published_rd": _("their median RD, at most"),
    "published_pairs": _("share of their adjacent pairs with floors met"),
    "published_coverage": _("their mean prompt coverage, at least"),
    "evaluated_every": _("votes between evaluations"),
    "evaluations": _("consecutive evaluations at which the rules must hold"),
    "settled_alpha": _("maximum probability that anything a board ever calls settled is false"),
    "both_bad_bar": _("both-bad rate above which a finding is raised"),
    "both_bad_over": _("number of votes for that rate"),
    "form_votes": _("number of votes in a model's recent form"),
    "free_prompts": _(
        "voters write their own prompts: the arena's prompts are categories, and claims count the different prompts that "
        "were written"
    ),
}

#: What may be given for a constant, as the policy's own errors say it.
EXPECTED: Mapping[str, str] = {
    "lane_weights": _("four shares that add up to 1"),
    "fairness": _("strict or scoped"),
    "top_prompt_floor": _("1 or more, and at least prompt_floor"),
    "form_votes": _("1 or more, and at most both_bad_over"),
    "free_prompts": _("yes or no"),
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
FIXED = _("It determines what the arena stores, so it is fixed when the arena is created.")

#: What each setting of an arena means, with its bounds.
SETTINGS: Mapping[str, tuple[str, str]] = {
    "visibility": (
        _(
            "open: everyone can vote and see the board. closed: only the operator and authorized tokens can; "
            "for everyone else the arena does not exist"
        ),
        _("open or closed"),
    ),
    "entry": (
        _(
            "who can come in, unless the arena is closed. open: everyone. invitation: people with an invitation link. "
            "passcode: people with the passcode. sign-in: people who sign in through your organisation. "
            "Nobody else sees anything of the arena, not even its board"
        ),
        _("open, invitation, passcode or sign-in"),
    ),
    "entry_groups": (
        _("if people sign in: only members of one of these groups can come in. Empty: everyone who signs in"),
        _("names of groups, with commas between them, or nothing"),
    ),
    "gate": (
        _(
            "what a new voter of an open arena must do first. proof: the browser computes for a moment. none: nothing. "
            "auto: proof if the service has a public address"
        ),
        _("auto, proof or none"),
    ),
    "minute_limits": (
        _("what all voters of the arena together may do in a minute; more is refused until the next"),
        _(
            "sessions, matchups, votes, skips, reveals and reports, such as votes=5000, sessions=1000; or nothing"
        ),
    ),
    "undo_seconds": (
        _("how long a vote can be undone, unless the names have been shown; 0: never"),
        _("seconds, 0 to 600"),
    ),
    "expiry_seconds": (_("how long a matchup stays open for a vote"), _("seconds, 1 to 86,400")),
    "unseen_seconds": (
        _("how long a matchup that the page loaded in advance waits to be shown"),
        _("seconds, 1 to 3,600"),
    ),
    "snapshot_seconds": (
        _("minimum time between two snapshots of the board; evaluations create additional snapshots"),
        _("seconds, 0.05 to 86,400"),
    ),
    "timezone": (
        _("used for the weeks of the validity report and the days on these pages"),
        _("a name such as UTC or Europe/Berlin"),
    ),
    "order": (
        _("how the board is ordered from phase 3 on. Applies from the next vote or change"),
        _("conservative or bradley-terry"),
    ),
    "settled_family": (
        _(
            "number of pairs among which the error of settled orders is divided: the pairs of the largest "
            "planned set of models. Empty: four fifths for the models that are there before the first vote, the "
            "rest for those that arrive later"
        ),
        _("a number of pairs, or empty"),
    ),
    "reveal": (
        _(
            "when voters see which models wrote the responses they voted on. session: for all votes "
            "together, after a set number of votes or when the voter presses Finish. vote: after each vote. "
            "never: not at all"
        ),
        _("session, vote or never"),
    ),
    "session_votes": (
        _("number of votes after which the names are shown, if they are shown by session"),
        _("a number of votes, 1 to 200"),
    ),
    "shown_check": (
        _(
            "a person's vote counts only if both responses were sent to the voter and shown for a moment, one to three "
            "seconds. public: in arenas that everybody on the internet can vote in. always or never: in any case"
        ),
        _("public, always or never"),
    ),
    "ageing_hours": (
        _(
            "how long votes of new voters wait before they count, where everybody can vote. Empty: 24 hours on a public "
            "address, and not at all elsewhere. 0: not at all"
        ),
        _("hours, 0 to 720, or empty"),
    ),
    "releases": (
        _(
            "which tables of the battles readers can download. both: in log order without voters, and shuffled with voters "
            "under numbers of one release, of whom those with several votes can be recognised by how they voted. ordered: "
            "only the first. none: neither"
        ),
        _("both, ordered or none"),
    ),
    "embed_sites": (
        _(
            "sites that may show the board in a frame, separated by spaces. Only boards of open arenas can be embedded"
        ),
        _("addresses such as https://example.org, or empty"),
    ),
    "erased_votes": (
        _(
            "what becomes of the votes of a voter whose data are deleted. anonymous: they stay, as those of a number"
            " that nobody has. removed: they leave, and the boards are computed again"
        ),
        _("anonymous or removed"),
    ),
    "remark_retention_days": (
        _("after how many days remarks and the words of reports are deleted. Empty: never"),
        _("a number of days, or empty"),
    ),
    "session_retention_days": (
        _(
            "after how many days without a matchup or vote a voter's data are deleted. The votes stay, as those of a"
            " number that nobody has. Empty: never"
        ),
        _("a number of days, or empty"),
    ),
}

#: Settings of a live arena besides: meaning and expected value.
LIVE_SETTINGS: Mapping[str, tuple[str, str]] = {
    "live_pace": (
        _(
            "how answers appear. equal: neither side before the other, both at the same speed. as-it-comes: as the "
            "models send them. complete: when both are complete"
        ),
        _("equal, as-it-comes or complete"),
    ),
    "live_votes": (
        _(
            "whole: one vote on the battle. turn: also a verdict on each turn, which is exported but not rated"
        ),
        _("whole or turn"),
    ),
    "live_budget_dollars": (
        _("the most that calls to models may cost in total. Empty: no limit"),
        _("US dollars, or empty"),
    ),
    "live_day_dollars": (
        _("the most that calls to models may cost on one day (UTC). Empty: no limit"),
        _("US dollars, or empty"),
    ),
    "live_voter_day_dollars": (
        _("the most that calls to models may cost for one voter on one day (UTC). Empty: no limit"),
        _("US dollars, or empty"),
    ),
    "live_prompt_characters": (_("the longest prompt"), _("a number of characters, 1 to 100,000")),
    "live_turns": (_("the most turns of a battle"), _("a number of turns, 1 to 50")),
    "live_answer_tokens": (
        _("the longest answer. It decides how much money is reserved for a call"),
        _("a number of tokens, 1 to 100,000"),
    ),
    "live_first_token_seconds": (
        _("how long a model may take to begin its answer; the same for all models"),
        _("seconds, 1 to 600"),
    ),
    "live_gap_seconds": (
        _("how long a model may pause within its answer; the same for all models"),
        _("seconds, 1 to 600"),
    ),
    "live_identity": (
        _(
            "what happens to names of models, families and makers in answers. flag: the turn is flagged. mask: they are"
            " also masked in what is shown and kept, by the same rule on both sides"
        ),
        _("flag or mask"),
    ),
    "live_retention_days": (
        _("after how many days prompts and answers are deleted; the votes stay. Empty: never"),
        _("a number of days, or empty"),
    ),
}
