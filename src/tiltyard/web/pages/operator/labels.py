"""Texts of the operator's pages that are chosen by code. They are in English only."""

from __future__ import annotations

from collections.abc import Mapping

#: Groups of votes in which the crowd may change.
VOTE_GROUP_LABELS: Mapping[str, str] = {
    "all": "all votes",
    "new-voters": "the first ten votes of a voter",
    "skipping-voters": "votes of voters who mostly skip",
    "quick-votes": "votes within five seconds",
    "hours-0-6": "votes from 0 to 6 o'clock UTC",
    "hours-6-12": "votes from 6 to 12 o'clock UTC",
    "hours-12-18": "votes from 12 to 18 o'clock UTC",
    "hours-18-24": "votes from 18 to 24 o'clock UTC",
    "shared-networks-1": "votes from networks with many voters (first group)",
    "shared-networks-2": "votes from networks with many voters (second group)",
    "shared-networks-3": "votes from networks with many voters (third group)",
    "shared-networks-4": "votes from networks with many voters (fourth group)",
    "language-en": "votes with browsers in English",
    "language-zh": "votes with browsers in Chinese",
    "language-es": "votes with browsers in Spanish",
    "language-de": "votes with browsers in German",
    "language-fr": "votes with browsers in French",
    "other-languages": "votes with browsers in other languages",
}

#: What a page says after a form was obeyed.
NOTICES: Mapping[str, str] = {
    "created": "The arena is created, as a draft. The list shows what it needs until the first vote.",
    "enabled": "The model is enabled and may be served.",
    "retired": "The model is retired. Its battles still count.",
    "unchanged": "Nothing to change.",
    "described": "The details are saved.",
    "imported": "The answers are imported.",
    "discarded": "The file is discarded; nothing was imported.",
    "withdrawn": "Withdrawn. Names, hashes and battles are kept.",
    "policy": "The policy is changed. Applies from the next vote.",
    "phase": "The phase is changed. Applies from the next vote.",
    "settings": "The settings are saved.",
    "explained": "The change is explained. The next board is not held back by it.",
    "excluded": "The votes are excluded. The next board will not count them.",
    "restored": "The votes are restored. The next board will count them.",
    "settled": "The complaint is settled.",
    "revoked": "The token is revoked.",
    "hidden": "Hidden: it is served no more. You can show it again.",
    "shown": "It is served again.",
    "texts": "The texts are saved.",
    "stage-open": "The arena is open. From now on votes count.",
    "stage-clear": "The test votes are cleared.",
    "stage-pause": "The arena is paused. Voters see it within five seconds.",
    "stage-resume": "The arena is open again.",
    "stage-archive": "The arena is archived.",
    "stage-reopen": "The arena is open again.",
    "stage-delete": "The arena is hidden and will be deleted. Until then you can restore it on its page Stage.",
    "stage-keep": "The arena is restored.",
    "panel-closed": "The panel is closed. Its figures are final.",
    "adjudicated": "The adjudication is recorded. The votes stay as they are.",
    "uninvited": "The invitation is revoked. Whoever came in by it is out within seconds.",
    "operator-uninvited": "The invitation is revoked. Its link does not work any more.",
    "role": "The role is changed. Applies from the next click.",
    "operator-removed": "The operator is removed. Its sessions and tokens have ended.",
    "signed-out": "Signed out.",
    "factor-off": "The second factor is turned off.",
    "factor-needed": "Your role needs a second factor. Set it up to go on.",
}


#: What an operator can tell voters: its name, and where it is shown.
TEXTS: Mapping[str, tuple[str, str]] = {
    "announcement": ("Announcement", "Shown at the top of the page before the first vote."),
    "instructions": (
        "Instructions",
        (
            "What voters should look at when they compare responses. Shown before the first vote, and with the key i "
            "while they vote."
        ),
    ),
    "consent": (
        "Consent",
        (
            "Voters must agree to it before their first vote, and again if you change it. Who agreed to which version "
            "is stored. Programs that vote through the API are not asked."
        ),
    ),
    "thanks": ("Thanks", "Shown with the names, when a voter has finished a session."),
    "pause": ("During a pause", "Shown instead of matchups while the arena is paused."),
}

#: Roles of operators, and what each may do.
ROLE_MEANINGS: Mapping[str, str] = {
    "owner": "everything, including other operators",
    "operator": "everything in its arenas, except operators and deleting the arena",
    "moderator": "complaints, exclusions and voters",
    "analyst": "read and export",
}

OUTCOMES: Mapping[int, str] = {
    0: "A is better",
    1: "B is better",
    2: "Tie",
    3: "Both bad",
    4: "A, leaning",
    5: "B, leaning",
    6: "Inconsistent",
}

LANES: Mapping[str, str] = {
    "coverage": "Coverage",
    "contender": "Contender",
    "uncertainty": "Uncertainty",
    "exploration": "Exploration",
}

#: Scheduled work, by the names of its schedules.
JOBS: Mapping[str, str] = {
    "weekly-reports": "Weekly reports of all arenas",
    "thin-snapshots": "Thinning out old boards",
    "sweep-bytes": "Deletion of withdrawn files",
    "delete-arenas": "Deletion of arenas that are due",
    "delete-live-texts": "Deletion of texts and hashes of addresses that are due",
    "admit-votes": "Votes of new voters that have waited long enough",
    "judges": "Judging round of this arena",
}

#: Number, name, what it changes.
PHASES: tuple[tuple[int, str, str], ...] = (
    (
        1,
        "Shadow",
        (
            "Version 1 matchmaking, and the board is ordered by legacy Elo. The ranking policy is computed "
            "but not shown: no badges, no status, no lanes."
        ),
    ),
    (
        2,
        "Lanes",
        (
            "The four lanes choose matchups. The board is still ordered by legacy Elo; badges, coverage, "
            "status and the lane mix are also shown."
        ),
    ),
    (
        3,
        "Rating",
        (
            "The board is ordered by conservative score (or by Bradley–Terry, if the settings say so). "
            "Legacy Elo stays as a secondary figure. The status may become official."
        ),
    ),
    (
        4,
        "Governance",
        "As in phase 3, and a validity report is generated and stored every week.",
    ),
)

#: Constants of the ranking policy by group, in the order of the reference.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Matchmaking",
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
        "Floors",
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
        "Badges, publication, claims",
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
    "lane_weights": "Lane shares",
    "window": "Exposure window",
    "fairness": "Fairness",
    "tolerance": "Exposure tolerance",
    "tolerance_least": "Minimum tolerance",
    "guard": "Guard",
    "guard_least": "Minimum guard",
    "settling": "Settling time",
    "draws": "Draws of a lane",
    "contenders": "Contender band size",
    "challengers": "Challengers",
    "repeats": "Repeats of a prompt",
    "meetings": "Stored matchups of a pair",
    "session_pairs": "Matchups before a pair repeats",
    "sessions_kept": "Stored sessions",
    "prompt_floor": "Prompt floor",
    "top_prompt_floor": "Prompt floor at the top",
    "patience": "Attempts for each cell",
    "pair_floor": "Pair floor",
    "adjacent_votes": "Votes between neighbours",
    "adjacent_prompts": "Prompts between neighbours",
    "adjacent_attempts": "Attempts between neighbours",
    "established_votes": "Established: votes",
    "established_coverage": "Established: coverage",
    "established_rd": "Established: RD",
    "stable_rd": "Stable: RD",
    "stable_coverage": "Stable: coverage",
    "published_top": "Publication: top models",
    "published_rd": "Publication: median RD",
    "published_pairs": "Publication: adjacent pairs",
    "published_coverage": "Publication: coverage",
    "evaluated_every": "Votes between evaluations",
    "evaluations": "Consecutive evaluations",
    "settled_alpha": "Error of settled orders",
    "both_bad_bar": "Both-bad threshold",
    "both_bad_over": "Both-bad window",
    "form_votes": "Recent form",
    "free_prompts": "Free prompts",
    "visibility": "Visibility",
    "entry": "Entry",
    "entry_groups": "Groups that may come in",
    "gate": "Gate for new voters",
    "minute_limits": "Limits per minute",
    "undo_seconds": "Time to undo",
    "expiry_seconds": "Time to vote",
    "unseen_seconds": "Time to show a prefetched matchup",
    "snapshot_seconds": "Time between boards",
    "timezone": "Time zone",
    "order": "Order of the board",
    "settled_family": "Planned pairs of models",
    "reveal": "When names are shown",
    "session_votes": "Votes in a session",
    "shown_check": "Votes before a look",
    "ageing_hours": "Votes of new voters wait",
    "releases": "Released battles",
    "embed_sites": "Sites that may embed the board",
    "live_pace": "Pace of answers",
    "live_votes": "What is voted on",
    "live_budget_dollars": "Budget in total",
    "live_day_dollars": "Budget of a day",
    "live_voter_day_dollars": "Budget of a voter and day",
    "live_prompt_characters": "Longest prompt",
    "live_turns": "Turns of a battle",
    "live_answer_tokens": "Longest answer",
    "live_first_token_seconds": "Time to the first token",
    "live_gap_seconds": "Longest pause",
    "live_identity": "Names in answers",
    "live_retention_days": "Texts are kept for",
    "erased_votes": "Votes of deleted voters",
    "remark_retention_days": "Remarks are kept for",
    "session_retention_days": "Absent voters are kept for",
}

#: What each constant means: the words of the reference, which a test compares.
MEANINGS: Mapping[str, str] = {
    "phase": (
        "1: version 1 matchmaking, order by Elo, the rest is computed but not shown. 2: lanes. 3: order by "
        "conservative score. 4: weekly validity report"
    ),
    "lane_weights": "shares of coverage, contender, uncertainty and exploration",
    "window": "served matchups in which exposures are compared",
    "fairness": "strict: all lanes within tolerance; scoped: all but the contender lane",
    "tolerance": "share of its target by which a model's exposure may deviate",
    "tolerance_least": "exposures that are always tolerated",
    "guard": "share of the target at which the controller acts before the tolerance is reached",
    "guard_least": "minimum number of exposures at which it acts; never more than half of the tolerance",
    "settling": "matchups for each model before exposures are controlled, and before the contender lane starts",
    "draws": "draws of a lane before the coverage lane takes over",
    "contenders": "size of the contender band",
    "challengers": "models below the band that contenders may be matched with",
    "repeats": (
        "how often a prompt may occur among a pair's last matchups; with fewer than 5 prompts ⌈10/prompts⌉ + "
        "1"
    ),
    "meetings": "number of a pair's last matchups that are stored",
    "session_pairs": "matchups before a session sees the same pair again",
    "sessions_kept": "number of sessions whose history is stored",
    "prompt_floor": "decisive votes that fill a cell of model and prompt",
    "top_prompt_floor": "the same in the contender band",
    "patience": "attempts, as a multiple of the floor, after which a cell is exhausted",
    "pair_floor": "decisive votes after which a pair counts as compared",
    "adjacent_votes": "decisive votes that adjacent models at the top need",
    "adjacent_prompts": "prompts on which they need them, or all that they share",
    "adjacent_attempts": "attempts after which a pair is indistinguishable so far",
    "established_votes": "decisive votes of an established model",
    "established_coverage": "its prompt coverage, at least",
    "established_rd": "its RD, at most",
    "stable_rd": "RD of a stable model, at most",
    "stable_coverage": "its prompt coverage, at least",
    "published_top": "number of top models that the publication rules check",
    "published_rd": "their median RD, at most",
    "published_pairs": "share of their adjacent pairs with floors met",
    "published_coverage": "their mean prompt coverage, at least",
    "evaluated_every": "votes between evaluations",
    "evaluations": "consecutive evaluations at which the rules must hold",
    "settled_alpha": "maximum probability that anything a board ever calls settled is false",
    "both_bad_bar": "both-bad rate above which a finding is raised",
    "both_bad_over": "number of votes for that rate",
    "form_votes": "number of votes in a model's recent form",
    "free_prompts": (
        "voters write their own prompts: the arena's prompts are categories, and claims count the different prompts that "
        "were written"
    ),
}

#: What may be given for a constant, as the policy's own errors say it.
EXPECTED: Mapping[str, str] = {
    "lane_weights": "four shares that add up to 1",
    "fairness": "strict or scoped",
    "top_prompt_floor": "1 or more, and at least prompt_floor",
    "form_votes": "1 or more, and at most both_bad_over",
    "free_prompts": "yes or no",
}

#: Why some constants cannot change.
FIXED = "It determines what the arena stores, so it is fixed when the arena is created."

#: What each setting of an arena means, with its bounds.
SETTINGS: Mapping[str, tuple[str, str]] = {
    "visibility": (
        (
            "open: everyone can vote and see the board. closed: only the operator and authorized tokens can; "
            "for everyone else the arena does not exist"
        ),
        "open or closed",
    ),
    "entry": (
        (
            "who can come in, unless the arena is closed. open: everyone. invitation: people with an invitation link. "
            "passcode: people with the passcode. sign-in: people who sign in through your organisation. "
            "Nobody else sees anything of the arena, not even its board"
        ),
        "open, invitation, passcode or sign-in",
    ),
    "entry_groups": (
        "if people sign in: only members of one of these groups can come in. Empty: everyone who signs in",
        "names of groups, with commas between them, or nothing",
    ),
    "gate": (
        (
            "what a new voter of an open arena must do first. proof: the browser computes for a moment. none: nothing. "
            "auto: proof if the service has a public address"
        ),
        "auto, proof or none",
    ),
    "minute_limits": (
        "what all voters of the arena together may do in a minute; more is refused until the next",
        "sessions, matchups, votes, skips, reveals and reports, such as votes=5000, sessions=1000; or nothing",
    ),
    "undo_seconds": (
        "how long a vote can be undone, unless the names have been shown; 0: never",
        "seconds, 0 to 600",
    ),
    "expiry_seconds": ("how long a matchup stays open for a vote", "seconds, 1 to 86,400"),
    "unseen_seconds": (
        "how long a matchup that the page loaded in advance waits to be shown",
        "seconds, 1 to 3,600",
    ),
    "snapshot_seconds": (
        "minimum time between two snapshots of the board; evaluations create additional snapshots",
        "seconds, 0.05 to 86,400",
    ),
    "timezone": (
        "used for the weeks of the validity report and the days on these pages",
        "a name such as UTC or Europe/Berlin",
    ),
    "order": (
        "how the board is ordered from phase 3 on. Applies from the next vote or change",
        "conservative or bradley-terry",
    ),
    "settled_family": (
        (
            "number of pairs among which the error of settled orders is divided: the pairs of the largest "
            "planned set of models. Empty: four fifths for the models that are there before the first vote, the "
            "rest for those that arrive later"
        ),
        "a number of pairs, or empty",
    ),
    "reveal": (
        (
            "when voters see which models wrote the responses they voted on. session: for all votes "
            "together, after a set number of votes or when the voter presses Finish. vote: after each vote. "
            "never: not at all"
        ),
        "session, vote or never",
    ),
    "session_votes": (
        "number of votes after which the names are shown, if they are shown by session",
        "a number of votes, 1 to 200",
    ),
    "shown_check": (
        (
            "a person's vote counts only if both responses were sent to the voter and shown for a moment, one to three "
            "seconds. public: in arenas that everybody on the internet can vote in. always or never: in any case"
        ),
        "public, always or never",
    ),
    "ageing_hours": (
        (
            "how long votes of new voters wait before they count, where everybody can vote. Empty: 24 hours on a public "
            "address, and not at all elsewhere. 0: not at all"
        ),
        "hours, 0 to 720, or empty",
    ),
    "releases": (
        (
            "which tables of the battles readers can download. both: in log order without voters, and shuffled with voters "
            "under numbers of one release, of whom those with several votes can be recognised by how they voted. ordered: "
            "only the first. none: neither"
        ),
        "both, ordered or none",
    ),
    "embed_sites": (
        "sites that may show the board in a frame, separated by spaces. Only boards of open arenas can be embedded",
        "addresses such as https://example.org, or empty",
    ),
    "erased_votes": (
        (
            "what becomes of the votes of a voter whose data are deleted. anonymous: they stay, as those of a number"
            " that nobody has. removed: they leave, and the boards are computed again"
        ),
        "anonymous or removed",
    ),
    "remark_retention_days": (
        "after how many days remarks and the words of reports are deleted. Empty: never",
        "a number of days, or empty",
    ),
    "session_retention_days": (
        (
            "after how many days without a matchup or vote a voter's data are deleted. The votes stay, as those of a"
            " number that nobody has. Empty: never"
        ),
        "a number of days, or empty",
    ),
}

#: Settings of a live arena besides: meaning and expected value.
LIVE_SETTINGS: Mapping[str, tuple[str, str]] = {
    "live_pace": (
        (
            "how answers appear. equal: neither side before the other, both at the same speed. as-it-comes: as the "
            "models send them. complete: when both are complete"
        ),
        "equal, as-it-comes or complete",
    ),
    "live_votes": (
        "whole: one vote on the battle. turn: also a verdict on each turn, which is exported but not rated",
        "whole or turn",
    ),
    "live_budget_dollars": (
        "the most that calls to models may cost in total. Empty: no limit",
        "US dollars, or empty",
    ),
    "live_day_dollars": (
        "the most that calls to models may cost on one day (UTC). Empty: no limit",
        "US dollars, or empty",
    ),
    "live_voter_day_dollars": (
        "the most that calls to models may cost for one voter on one day (UTC). Empty: no limit",
        "US dollars, or empty",
    ),
    "live_prompt_characters": ("the longest prompt", "a number of characters, 1 to 100,000"),
    "live_turns": ("the most turns of a battle", "a number of turns, 1 to 50"),
    "live_answer_tokens": (
        "the longest answer. It decides how much money is reserved for a call",
        "a number of tokens, 1 to 100,000",
    ),
    "live_first_token_seconds": (
        "how long a model may take to begin its answer; the same for all models",
        "seconds, 1 to 600",
    ),
    "live_gap_seconds": (
        "how long a model may pause within its answer; the same for all models",
        "seconds, 1 to 600",
    ),
    "live_identity": (
        (
            "what happens to names of models, families and makers in answers. flag: the turn is flagged. mask: they are"
            " also masked in what is shown and kept, by the same rule on both sides"
        ),
        "flag or mask",
    ),
    "live_retention_days": (
        "after how many days prompts and answers are deleted; the votes stay. Empty: never",
        "a number of days, or empty",
    ),
}
