"""Sentences of rooms below the pages, for the catalogue: patterns of rules and findings (see `sentences`), and the
titles of problems."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ANYTHING", "ITEMS", "PROBLEMS", "SENTENCES"]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


_COVERAGE = (
    _("Prompt coverage is at least %(bar)s."),
    _("%(filled)s of %(eligible)s prompts filled, %(exhausted)s exhausted"),
)
_RD = (_("RD is at most %(bar)s."), _("RD is %(rd)s"))
_TOO_FEW = _("fewer than two models are enabled")

#: What rules ask, and who or what falls short of them.
_RULES: Mapping[str, tuple[str, ...]] = {
    "decisive-votes": (
        _("The model has at least %(bar)s decisive votes."),
        _("%(decisive)s of %(votes)s votes were decisive"),
    ),
    "established-coverage": _COVERAGE,
    "stable-coverage": _COVERAGE,
    "established-rd": _RD,
    "stable-rd": _RD,
    "neighbour-floors": (
        _("The floors of the pairs with both neighbours in rank are met."),
        _("short: %(list)s"),
    ),
    "top-rd": (
        _("The median RD of the top %(top)s is at most %(bar)s."),
        _("%(above)s of %(all)s have a larger RD: %(list)s"),
        _TOO_FEW,
    ),
    "top-pairs": (
        _(
            "Of the adjacent pairs of the top %(top)s, %(share)s have %(votes)s decisive votes on %(prompts)s "
            "prompts, or on all that they share."
        ),
        _("%(short)s of %(all)s adjacent pairs are short: %(list)s"),
        _TOO_FEW,
    ),
    "top-coverage": (
        _("The mean prompt coverage of the top %(top)s is at least %(bar)s."),
        _("%(short)s of %(all)s are below: %(list)s"),
        _("no prompt to be compared on: %(list)s"),
        _TOO_FEW,
    ),
}

#: Findings about how an arena is served and what its board claims.
_ARENA: Mapping[str, tuple[str, ...]] = {
    "both-bad-models": (
        _("Both responses were called bad in more than %(share)s of the last votes of %(list)s."),
        _(
            "Read some of these models' responses: broken or empty ones must be replaced or the model retired."
        ),
    ),
    "both-bad-prompts": (
        _("Both responses were called bad in more than %(share)s of the last votes on %(list)s."),
        _("Reword or drop these prompts: nobody answers them well enough to be compared."),
    ),
    "excluded-counted": (
        _(
            "This board counts votes that the operator has excluded. Its order is that of batch Bradley–Terry; it "
            "has no badges and is never official."
        ),
        _("Compare it with the board without them; the ratings of the arena rest on that one."),
    ),
    "family-outgrown": (
        _("Order-proven marks were planned for %(planned)s pairs of models, and there are %(pairs)s by now."),
        _("Set proven_family to the pairs of the largest roster that is planned."),
    ),
    "filtered-board": (
        _(
            "This board shows some prompts only. Its order is that of batch Bradley–Terry on the votes there; it has "
            "no badges and is never official."
        ),
        _("Claim nothing of the whole arena from it: the board without a filter does that."),
    ),
    "mix-infeasible": (
        _(
            "With %(models)s models, strict fairness leaves the contender lane at most %(ceiling)s of the matchups; "
            "its weight is %(weight)s."
        ),
        _(
            "Fairness wins and the lane gets less. Set fairness to scoped if the best models must meet more often."
        ),
    ),
    "official-withheld": (
        _(
            "The publication rules hold for the order by conservative score (%(list)s), and the board shows other "
            "models, or other places, at the top."
        ),
        _("Call the board calibrating, or show the order by conservative score."),
    ),
    "order-disproven": (
        _("Direct votes prove an order that the board shows the other way round: %(list)s."),
        _("Do not claim the places of these models: other opponents, or the time of the votes, decide them."),
    ),
    "orders-disagree": (
        _("By batch Bradley–Terry, beyond its uncertainty and unlike the board: %(list)s."),
        _("Do not claim the order of these models; look for a burst of votes or for a change in a model."),
    ),
    "outside-tolerance": (
        _(
            "%(name)s has %(exposures)s exposures in the window; %(target)s were due, give or take %(tolerance)s."
        ),
        _(
            "Look for models that share few prompts with the others, or for matchups that were not chosen by the "
            "lanes."
        ),
    ),
}

#: Findings of the ratings themselves.
_RATINGS: Mapping[str, tuple[str, ...]] = {
    "cycles": (_("Some models beat each other in a ring: %(list)s."), _("No single order fits them.")),
    "disconnected": (
        _(
            "The battles fall into %(sets)s sets of models that never met each other; ratings are comparable only "
            "within a set. Apart from the largest: %(list)s."
        ),
        _("Add battles between the sets before comparing across them."),
    ),
    "failed-replicates": (
        _("%(failed)s of %(all)s bootstrap replicates left some models incomparable and were set aside."),
        _("Collect more battles of the rarest pairs, or read the sandwich intervals."),
    ),
    "few-battles": (
        _("Fewer than %(least)s battles each: %(list)s."),
        _("Read their ratings as a first impression."),
    ),
    "few-effective-prompts": (
        _(
            "Prompts or voters are few or uneven: in the rank ranges of %(list)s they count like %(prompts)s even "
            "ones."
        ),
        _("Spread battles evenly over more prompts and voters."),
    ),
    "few-prompts": (
        _(
            "The battles name one prompt only, so intervals are battle-level: they speak of these prompts only."
        ),
        _("Use at least %(least)s prompts to learn how far the ranking holds for prompts like these."),
        _("Only %(prompts)s prompts: intervals for prompts like these rest on little."),
        _("Use at least %(least)s prompts before trusting small differences."),
    ),
    "few-voters": (
        _("Only %(voters)s voters are known, too few to say how others would vote."),
        _("Read the intervals as speaking of these voters."),
    ),
    "mixed-dimensions": (
        _("Battles on %(dimensions)s dimensions are pooled: %(list)s."),
        _("Rate them apart with --by dimension."),
    ),
    "mixed-sources": (
        _("Battles decided by %(name)s and %(other)s are pooled, though they need not agree."),
        _("Rate them apart with --by source."),
    ),
    "no-prompts": (
        _("No battle names its prompt, so intervals are battle-level: they speak of these prompts only."),
        _("Add question_id to learn how far the ranking holds for prompts like these."),
    ),
    "no-spread": (
        _(
            "These battles went exactly as the ratings expect, so they do not show how far ratings may be off; no "
            "interval is given."
        ),
        _("Collect more battles."),
    ),
    "not-converged": (_("The fit did not settle."), _("Treat every number here as unreliable.")),
    "one-sided": (
        _(
            "Between %(list)s and the other models points only ever went one way, so no finite difference fits; they "
            "are not compared."
        ),
        _("Collect battles between them that might go the other way, or state a weak prior (--prior-sd)."),
    ),
    "only-loses": (
        _("%(list)s lost every battle: no lower limit to the rating, so none is given."),
        _("Let it meet weaker models, or state a weak prior (--prior-sd)."),
        _("%(list)s lost every battle: only the prior limits the rating from below."),
        _("Let it meet weaker models."),
    ),
    "only-wins": (
        _("%(list)s won every battle: no upper limit to the rating, so none is given."),
        _("Let it meet stronger models, or state a weak prior (--prior-sd)."),
        _("%(list)s won every battle: only the prior limits the rating from above."),
        _("Let it meet stronger models."),
    ),
    "order-withheld": (
        _("So few prompts or voters decide the ratings of %(list)s that their rank ranges rule nothing out."),
        _("Spread battles evenly over more prompts and voters."),
        _(
            "With %(prompts)s prompts, one of them with %(share)s of the battles, Elo proves no order, so rank "
            "ranges rule nothing out."
        ),
        _(
            "Use at least %(least)s prompts with at most %(most)s of the battles each, or rate by Bradley–Terry."
        ),
    ),
    "poor-fit": (
        _(
            "Pairs stray %(times)s times as far from their ratings as chance allows; worst is %(name)s against "
            "%(other)s: scored %(scored)s, expected %(expected)s."
        ),
        _("Read the pairwise win rates beside the ratings, and rate by category or dimension."),
    ),
    "self-battles": (
        _("%(battles)s battles compare a model with itself; they say nothing of skill and are left out."),
        _("Check how the pairs were made."),
    ),
    "unrated": (_("%(list)s took part in no battle that rates skill."), _("Collect some.")),
    "weights-ignored": (
        _("Some battles carry a weight; Glicko-2 has no place for it, and every vote counts one."),
        _("Use Bradley–Terry or Elo for weighted battles."),
    ),
    "without-prompt": (
        _(
            "%(without)s of %(all)s battles (%(share)s) name no prompt. They count in ratings and intervals, but show "
            "nothing of how prompts differ."
        ),
        _("Add question_id to every battle."),
    ),
}

#: By the name of a rule or finding.
SENTENCES: Mapping[str, tuple[str, ...]] = {**_RULES, **_ARENA, **_RATINGS}

#: Items that are the same in every language: names with numbers.
ANYTHING = ("%(name)s",)
_BAD = (_("%(name)s (%(share)s of %(votes)s)"),)
#: Items of lists that are not, by the name of the rule or finding.
ITEMS: Mapping[str, tuple[str, ...]] = {
    "both-bad-models": _BAD,
    "both-bad-prompts": _BAD,
    "neighbour-floors": (_("%(name)s %(votes)s votes"),),
    "order-disproven": (
        _("%(name)s above %(other)s on these prompts"),
        _("%(name)s above %(other)s on prompts like these"),
    ),
    "orders-disagree": (_("%(name)s above %(other)s"),),
    "top-pairs": (
        _("%(name)s share no prompt"),
        _(
            "%(name)s %(have)s of %(need)s votes and %(seen)s of %(wanted)s prompts (indistinguishable so far)"
        ),
        _("%(name)s %(have)s of %(need)s votes and %(seen)s of %(wanted)s prompts"),
        _("%(name)s %(have)s of %(need)s votes (indistinguishable so far)"),
        _("%(name)s %(have)s of %(need)s votes"),
        _("%(name)s %(seen)s of %(wanted)s prompts (indistinguishable so far)"),
        _("%(name)s %(seen)s of %(wanted)s prompts"),
    ),
}

#: Titles of problems, as `problems` has them.
PROBLEMS = (
    _("It has ended"),
    _("It was not answered in time"),
    _("Nobody is signed in"),
    _("Something went wrong in here"),
    _("The arena cannot be reached right now"),
    _("The method is not known here"),
    _("The request cannot be read"),
    _("The request did not come in time"),
    _("The request does not make sense"),
    _("The request has a form that is not read here"),
    _("The request is too large"),
    _("The request was refused"),
    _("The request's headers are too large"),
    _("There is no such thing here"),
    _("There is nothing to vote on"),
    _("This contradicts what is there already"),
    _("This is not allowed"),
    _("Too many requests"),
    _("Too many wait for this"),
)
