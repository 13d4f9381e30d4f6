"""The English sentences of all findings, by name: the one table that terminal, report, pages and API text use.

Those that an arena's pages can show are marked for the catalogues of other languages. A name with a case
(``few-prompts/one``) is one of several sentences of the same finding. docs/reference/findings.md lists every value.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiltyard.core.ratings.sentences import Template


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


_SPREAD_BATTLES = _("Spread battles evenly over more prompts and voters.")
_ABOVE = _("{above} above {below}")
_BAD = _("{name} ({share:.0%} of {votes})")
_OWN_FAMILY = (
    "{who} lets its own family win in {share:.0 %} [{low:.0p}, {high:.0p}] of {trials} matches against others; "
    "other judges of the same matches do in {others_share:.0 %} [{others_low:.0p}, {others_high:.0p}] of {others_trials}."
)
_SHOW_GOLD = "Add the line # uses: gold to the rubric, or the placeholder gold_answer in braces."
_UNREADABLE = "{who} gave no readable verdict in {share:.0 %} of {questions} questions."
_SHARED_RANGES = _("Ranges of ranks that are shared are not settled yet.")

_LANES = _(
    "Look for models that share few prompts with the others, or for matchups that were not chosen by the lanes."
)

#: About the battles, and what can be compared.
_BATTLES: Mapping[str, Template] = {
    "adaptive-design": Template(
        "Pairs were chosen as verdicts came in: the order of {pairs_settled} of {pairs} pairs of models is settled, all at "
        "once at 95%, however often the run looked.",
        "Quote this for the order; intervals are made as if pairs had been chosen beforehand.",
    ),
    "adaptive-pairs": Template(
        "Pairs follow running ratings: models that had just won met others that had. Later battles then hardly correct "
        "luck, and intervals are too narrow: where only neighbours met, 95% intervals held in 76% of simulated cases.",
        "Rate only battles whose pairs were drawn regardless of ratings (--where), if the log says which.",
    ),
    "disconnected": Template(
        _(
            "The battles fall into {sets} sets of models that never met each other; ratings are comparable only "
            "within a set. Apart from the largest: {models}."
        ),
        _("Add battles between the sets before comparing across them."),
    ),
    "few-battles": Template(
        _("Fewer than {least} battles each: {models}."),
        _("Treat their ratings as preliminary."),
        {"": _("{model} ({battles})")},
    ),
    "mixed-dimensions": Template(
        "Battles on {count} dimensions are pooled: {dimensions}.",
        "Rate them separately with --by dimension.",
    ),
    "mixed-sources": Template(
        "Battles decided by {sources} are pooled, although they may disagree.",
        "Rate them separately with --by source.",
        both=True,
    ),
    "one-sided": Template(
        _(
            "Between {models} and the other models, one side won every point, so no finite difference fits; they "
            "are not compared."
        ),
        "Collect more battles between them, or set a weak prior (--prior-sd).",
    ),
    "only-loses": Template(
        _("{models} lost every battle: the rating has no lower limit, so none is given."),
        "Compare it with weaker models, or set a weak prior (--prior-sd).",
    ),
    "only-loses/prior": Template(
        _("{models} lost every battle: only the prior limits the rating from below."),
        _("Compare it with weaker models."),
    ),
    "only-wins": Template(
        _("{models} won every battle: the rating has no upper limit, so none is given."),
        "Compare it with stronger models, or set a weak prior (--prior-sd).",
    ),
    "only-wins/prior": Template(
        _("{models} won every battle: only the prior limits the rating from above."),
        _("Compare it with stronger models."),
    ),
    "self-battles": Template(
        "{battles:,} battles compare a model with itself; they do not measure skill and are left out.",
        "Check how the pairs were made.",
    ),
    "repeated-battles": Template(
        "{repeats:,} of {battles:,} battles repeat another: the same time, or the same prompt and voter or judge, "
        "with the same models in the same places, and result.",
        "If battles were logged or joined twice, leave out the copies with --drop-duplicates.",
    ),
    "repeated-block": Template(
        "{repeats:,} of {battles:,} battles are in blocks that repeat earlier rows one by one, in their order: "
        "intervals are too narrow.",
        "If files were joined twice, leave out the copies with --drop-duplicates.",
    ),
    "names-alike": Template(
        "Names that are the same but for spaces, case, hyphens or Unicode form are rated as different models, with "
        "their battles: {names}.",
        "If they are the same models, join them with {option}.",
        {"": "{other} ({battles:,}) beside {model}"},
    ),
    "outer-spaces": Template(
        "Outer spaces, which would make other names, are removed from values of {columns}: {rows:,}.",
        "Remove them from the file if others read it.",
    ),
    "padded-headers": Template(
        "Outer spaces are removed from headers: {headers}.",
        "Remove them from the file if others read it.",
    ),
    "empty-winners": Template(
        "Rows that name no winner: {rows:,}.",
        "Leave them out with --skip-invalid; if they mean ties, say so with --outcomes =tie.",
    ),
    "winner-spellings": Template(
        "Winners that are models of their rows in another spelling: {rows:,}, of {names}.",
        "Let names count in any spelling with {option}.",
    ),
    "invalid-rows": Template(
        "Rows that are no battles: {rows:,}; {reasons}.",
        "Say what words of winners mean with --outcomes, or leave these rows out with --skip-invalid.",
    ),
    "one-sided-voters": Template(
        "Voters who always chose the same side, beyond chance: {voters:,}, with {battles:,} decided battles.",
        "Let tiltyard check name them, and leave them out with --where.",
    ),
    "same-prompts": Template(
        "The texts of {prompts:,} prompts nearly repeat another's; each counts as the same prompt as that one.",
        "If they differ in what matters, keep them apart with --cluster prompt.",
    ),
    "several-baselines": Template(
        "{count} models are the baseline of some battles: {models}. No win rate against one is given.",
        "Rate them separately with --by category, or choose one with --baseline.",
    ),
    "unrated": Template(
        _("{models} took part in no battle that rates skill."), _("Collect battles with these models.")
    ),
    "weights-ignored": Template(
        "Some battles have a weight, which Glicko-2 does not support: every vote counts as one.",
        "Use Bradley–Terry or Elo for weighted battles.",
    ),
}

#: About intervals and the fit.
_INTERVALS: Mapping[str, Template] = {
    "cycles": Template(
        _("Some models beat each other in a ring: {rings}."),
        _("No single order fits them."),
        {"": _("{first} > {second} > {third} > {first}")},
    ),
    "dependent-prompts": Template(
        "Prompts of one {level} depend on each other (p = {p:.3f}): a typical interval is "
        "± {by_prompt:.0f} points by prompt and ± {by_group:.0f} by {level}. Each comparison uses the wider of both.",
        "Choose --cluster {level} (for other {levels}) or --cluster prompt (for these {groups} {levels}).",
    ),
    "dependent-prompts/few": Template(
        "Prompts of one {level} depend on each other (p = {p:.3f}): a typical interval is "
        "± {by_prompt:.0f} points by prompt, and {groups} {levels} are too few for one by {level}.",
        "Add prompts of other {levels}, or choose --cluster prompt (for these {groups} {levels} only).",
    ),
    "failed-replicates": Template(
        "{failed} of {replicates} bootstrap replicates left some models incomparable and were discarded.",
        "Collect more battles of the rarest pairs, or read the sandwich intervals.",
    ),
    "few-effective-prompts": Template(
        _(
            "Prompts or voters are few or uneven: in the intervals of {models} they count like {prompts:.0f} even "
            "ones."
        ),
        _SPREAD_BATTLES,
    ),
    "few-prompts": Template(
        _("Only {prompts} prompts stand for all prompts like these."),
        _("Use at least {least} prompts before trusting small differences."),
    ),
    "few-prompts/one": Template(
        _("The battles name only one prompt, so intervals hold for these prompts only."),
        _("Use at least {least} prompts to see whether the ranking holds for prompts like these."),
    ),
    "few-voters": Template(
        _("Only {voters} voters are known, too few to predict how others would vote."),
        _("The intervals, and what is said of an order, hold for these voters only."),
    ),
    "few-voters/alike": Template(
        _(
            "Only {voters} voters are known; a test finds no differences between them, so prompts alone count."
        ),
        _("Collect the votes of at least {least} voters before trusting small differences."),
    ),
    "few-voters/one": Template(
        _("The battles name only one voter, so intervals hold for this voter only."),
        _(
            "Collect the votes of at least {least} voters to see whether the ranking holds for voters like these."
        ),
    ),
    "few-voters/sampled": Template(
        _("Only {voters} voters stand for all voters like these."),
        _("Collect the votes of at least {least} voters before trusting small differences."),
    ),
    "interval-withheld": Template(
        _(
            "So few prompts, groups of prompts or voters decide the ratings of {models} that no interval is given and "
            "their rank ranges rule nothing out."
        ),
        _SPREAD_BATTLES,
    ),
    "interval-withheld/elo": Template(
        "With {prompts} prompts, one of them with {share:.0%} of the battles, Elo gives no reliable interval and "
        "settles no order.",
        "Use at least {least} prompts with at most {most:.0%} of the battles each, or rate by Bradley–Terry.",
    ),
    "interval-withheld/elo-voters": Template(
        "With {voters} voters, one of them with {share:.0%} of the votes, Elo gives no reliable interval and "
        "settles no order.",
        "Use at least {least} voters with at most {most:.0%} of the votes each, or rate by Bradley–Terry, which "
        "limits what one voter weighs.",
    ),
    "no-prompts": Template(
        _("No battle names its prompt, so intervals hold for these prompts only."),
        _("Add question_id to see whether the ranking holds for prompts like these."),
    ),
    "no-spread": Template(
        _(
            "These battles went exactly as the ratings predict, so they do not show how uncertain the ratings are; no "
            "interval is given."
        ),
        _("Collect more battles."),
    ),
    "not-converged": Template(_("The fit did not converge."), _("Treat all numbers here as unreliable.")),
    "poor-fit": Template(
        _(
            "Pairs deviate from their ratings {times:.1f} times as much as chance explains; the worst is {model_a} "
            "against {model_b}: scored {scored:.2f}, expected {expected:.2f}."
        ),
        "Compare the pairwise win rates with the ratings, and rate by category or dimension.",
    ),
    "weight-limited/prompt": Template(
        _(
            "One prompt had {share:.0%} of the battles. Each weighs at most {most:.0%} now (reduced: {limited})."
        ),
        "Change the limit with --max-share (in Python, max_share).",
    ),
    "weight-limited/voter": Template(
        _(
            "One voter cast {share:.0%} of the votes. Each weighs at most {most:.0%} now (reduced: {limited})."
        ),
        "Change the limit with --max-share (in Python, max_share).",
    ),
    "without-prompt": Template(
        _(
            "{without:,} of {battles:,} battles ({share:.0%}) name no prompt. They count in ratings and intervals, "
            "but do not show how prompts differ."
        ),
        _("Add question_id to every battle."),
    ),
}

#: About an arena: how it is served, what its board claims, and its weekly report.
_ARENA: Mapping[str, Template] = {
    "both-bad-models": Template(
        _("Both responses were called bad in more than {share:.0%} of the last votes of {models}."),
        _(
            "Read some of these models' responses: broken or empty ones must be replaced or the model retired."
        ),
        {"": _BAD},
    ),
    "both-bad-prompts": Template(
        _("Both responses were called bad in more than {share:.0%} of the last votes on {prompts}."),
        _("Reword or remove these prompts: no model answers them well enough to be compared."),
        {"": _BAD},
    ),
    "both-bad-prompts/free-prompts": Template(
        _(
            "Both responses were called bad in more than {share:.0%} of the last votes in the category {prompts}."
        ),
        _("Read what voters write there: the models answer it too badly to be compared."),
        {"": _BAD},
    ),
    "crowd-changed": Template(
        _("The crowd changed: results have shifted by more than chance explains for {changes}."),
        _(
            "Stored answers cannot change, so the voters did. The votes of those who shifted them are held, and this board is "
            "made without them, until an operator has looked at them."
        ),
        {
            "all": _("{model} (all votes)"),
            "new-voters": _("{model} (votes of new voters)"),
            "skipping-voters": _("{model} (votes of voters who mostly skip)"),
            "quick-votes": _("{model} (votes within five seconds)"),
            "hours-0-6": _("{model} (votes from 0 to 6 o'clock UTC)"),
            "hours-6-12": _("{model} (votes from 6 to 12 o'clock UTC)"),
            "hours-12-18": _("{model} (votes from 12 to 18 o'clock UTC)"),
            "hours-18-24": _("{model} (votes from 18 to 24 o'clock UTC)"),
            "shared-networks-1": _("{model} (votes from networks with many voters)"),
            "shared-networks-2": _("{model} (votes from networks with many voters)"),
            "shared-networks-3": _("{model} (votes from networks with many voters)"),
            "shared-networks-4": _("{model} (votes from networks with many voters)"),
            "language-en": _("{model} (votes with browsers in English)"),
            "language-zh": _("{model} (votes with browsers in Chinese)"),
            "language-es": _("{model} (votes with browsers in Spanish)"),
            "language-de": _("{model} (votes with browsers in German)"),
            "language-fr": _("{model} (votes with browsers in French)"),
            "other-languages": _("{model} (votes with browsers in other languages)"),
        },
    ),
    "churn-beyond-bands": Template(
        "At the top, models changed order although their bands of rating ± 2·RD were apart: {pairs}.",
        "RD was too small there, or something changed: a model's responses, its voters, or its opponents.",
        {"": "{model} and {other}"},
    ),
    "all-votes-counted": Template(
        _(
            "This board counts all votes: also excluded ones, those that wait, those that came before a look at both "
            "responses, and those of voters who knew a name. It has no badges and is never official."
        ),
        _("Compare it with the board without them, on which the arena's ratings are based."),
    ),
    "excluded-counted": Template(
        _(
            "This board counts votes that the operator has excluded. It is made by the method of the whole board; it "
            "has no badges and is never official."
        ),
        _("Compare it with the board without them, on which the arena's ratings are based."),
    ),
    "exploration-only": Template(
        _(
            "This board counts only votes on pairs that were chosen at random, whatever the ratings say: nobody can "
            "steer which models meet. It has fewer votes, no badges, and is never official."
        ),
        _("Compare it with the official board: where the two differ beyond their intervals, look into it."),
    ),
    "days-differ": Template(
        _("Voters of different days vote differently: an order is settled only if it is clear beyond that."),
        _("Collect votes on more than these {days} days."),
    ),
    "few-prompts-to-settle": Template(
        _("{prompts} prompts are too few: add about {more}."),
        _("More votes on the same prompts settle little more."),
    ),
    "few-prompts-to-settle/one": Template(
        _("One prompt is too few: add about {more}."),
        _("With one prompt nothing is settled for prompts like it."),
    ),
    "family-outgrown": Template(
        _(
            "The error of settled orders was divided among {planned} planned pairs of models, but there are {pairs} now."
        ),
        _("Set settled_family to the number of pairs of the largest planned roster."),
    ),
    "few-days": Template(
        _(
            "Everybody may vote here. Nothing is settled before voters came on {least} days; so far it is {days}."
        ),
        _("Wait: voters of one day may all have followed the same link."),
    ),
    "filtered-board": Template(
        _(
            "This board shows only some prompts. It is made from their votes alone, by the method of the whole "
            "board; it has no badges and is never official."
        ),
        _("Do not draw conclusions about the whole arena from it; use the board without a filter."),
    ),
    "mix-infeasible": Template(
        "With {models} models, strict fairness leaves the contender lane at most {ceiling:.1%} of the matchups; "
        "its weight is {weight:.0%}.",
        "Fairness wins and the lane gets less. Set fairness to scoped if the best models must meet more often.",
    ),
    "official-held": Template(
        _(
            "The publication rules hold, but “officially stable” is held back while the cross-check disagrees."
        ),
        _("Wait until the two orders agree again, or find out why they do not."),
    ),
    "official-lost": Template(
        "The board stopped being official at {lost} votes.",
        "The history of the rules shows which of them failed.",
        {"": "{votes:,}"},
    ),
    "official-next": Template(
        _("All rules hold. Official after {evaluations} more evaluations, in about {votes} votes."),
        _("They must hold at each of them."),
    ),
    "official-next/one": Template(
        _("All rules hold. Official after the next evaluation, in about {votes} votes."),
        _("They must hold then, too."),
    ),
    "official-withheld": Template(
        _(
            "The publication rules hold for the order by conservative score ({models}), and the board shows other "
            "models, or other places, at the top."
        ),
        _("Call the board calibrating, or show the order by conservative score."),
    ),
    "order-contradicted": Template(
        "By the exploration lane alone, beyond its uncertainty: {pairs}.",
        "The order of the board may depend on how matchups were chosen. Compare both with batch "
        "Bradley–Terry.",
        {"": _ABOVE},
    ),
    "order-settled/contradicted": Template(
        _(
            "The votes settle the order of {pairs_settled} of {pairs} pairs, {contradicted} of them against the order shown."
        ),
        _("Trust the ranges of ranks, not the places."),
    ),
    "order-settled/everything": Template(
        _("The order of all {models} models is settled."),
        _("This holds at every look, for prompts like these."),
    ),
    "order-settled/first": Template(
        _(
            "{sharing} is first. Pairs settled: {pairs_settled} of all {pairs}; neighbouring ones: {neighbours_settled} of {neighbours}."
        ),
        _SHARED_RANGES,
    ),
    "order-settled/first-of-placed": Template(
        _(
            "{sharing} is first of those that can be placed; {unplaced} cannot. Pairs settled: {pairs_settled} of all {pairs}; neighbouring ones: {neighbours_settled} of {neighbours}."
        ),
        _SHARED_RANGES,
    ),
    "order-settled/nothing": Template(
        _("No order is settled yet."),
        _("More votes, prompts or voters are needed before any order can be claimed."),
    ),
    "order-settled/shared-first": Template(
        _(
            "{first} models tie for first: {sharing}. Pairs settled: {pairs_settled} of all {pairs}; neighbouring ones: {neighbours_settled} of {neighbours}."
        ),
        _SHARED_RANGES,
    ),
    "order-settled/shared-first-of-placed": Template(
        _(
            "{first} models tie for first: {sharing}; {unplaced} cannot be placed. Pairs settled: {pairs_settled} of all {pairs}; neighbouring ones: {neighbours_settled} of {neighbours}."
        ),
        _SHARED_RANGES,
    ),
    "order-settled/too-few": Template(
        _("There are fewer than two ranked models, so there is no order to settle."),
        _("Add models, or wait for votes."),
    ),
    "order-withdrawn": Template(
        _("Called settled at one of the last evaluations, and not any more: {pairs}."),
        _(
            "Do not repeat these claims. Of all that a board ever calls settled, at most one board in twenty is wrong."
        ),
        {"": _ABOVE},
    ),
    "orders-disagree": Template(
        _(
            "By batch Bradley–Terry, unlike the board at two evaluations in a row, or ruling out a place on it: {pairs}."
        ),
        _("Do not claim the order of these models; look for a burst of votes or for a change in a model."),
        {"": _ABOVE},
    ),
    "outside-tolerance": Template(
        _(
            "Exposures of {model} in the window: {exposures}; {target:.0f} were due, give or take {tolerance:.0f}."
        ),
        _LANES,
    ),
    "outside-tolerance/windows": Template(
        _(
            "In {outside:,} of {windows:,} full windows of one roster some model's exposures were outside tolerance."
        ),
        _LANES,
    ),
    "sides-uneven": Template(
        "Left and right were not drawn evenly for {models}.",
        "Sides must be drawn after the choice, by a fair coin: a bias of voters no longer cancels.",
    ),
}

#: About the answers and judges of a tournament. A share comes with its interval and the trials behind it.
_TOURNAMENTS: Mapping[str, Template] = {
    "disagrees-with-itself": Template(
        "{who} chose the same when asked again in only {share:.0 %} [{low:.0p}, {high:.0p}] of {trials} repeats.",
        "Lower its temperature if that can be set, or let several judges decide.",
    ),
    "fails-canaries": Template(
        "{who} passes too few planted questions: {kinds}.",
        "Read its reasoning on them before trusting its other verdicts.",
        {"": "{kind} {passed} of {asked}"},
    ),
    "flips-often": Template(
        "{who} changes the winner with the order in {share:.0 %} [{low:.0p}, {high:.0p}] of {trials} matches "
        "decided in both orders.",
        "Compare the ratings under each choice of what inconsistent counts, or choose a steadier judge.",
    ),
    "gold-missing/judged": Template(
        "{gold:,} of {prompts:,} prompts have a gold answer. In {dimensions}, the others are judged without one.",
        "To leave them out, set needs: gold for the rubric.",
    ),
    "gold-missing/left-out": Template(
        "{gold:,} of {prompts:,} prompts have a gold answer. The others are left out of {dimensions}.",
        "Add gold answers, or remove needs: gold.",
    ),
    "gold-not-shown/needs": Template(
        "{dimension} leaves out prompts without a gold answer, but its rubric shows none to the judge.",
        _SHOW_GOLD,
    ),
    "gold-not-shown/words": Template(
        "The rubric of {dimension} speaks of a gold answer (“{words}”), but the judge is shown none.",
        _SHOW_GOLD,
    ),
    "judge-model-changed": Template(
        "The provider served several models as the judge {judge}: {models}.",
        "Their verdicts are pooled, as of one judge. Name a dated model instead of an alias, if the provider has one.",
        {"": "{model} {replies:,} replies"},
    ),
    "own-reply-form": Template(
        "The rubric of {dimension} asks for a reply in a form of its own (“{words}”), which contradicts the one "
        "that the judge is told.",
        "Every judge is told how to reply: delete it, before judgments are paid for by this rubric.",
    ),
    "prefers-lists": Template(
        "{who} lets the response with more list items win in {share:.0 %} [{low:.0p}, {high:.0p}] of {trials} "
        "matches where the two differ.",
        "Lists may go with merit: rate with style control to see what remains of the order.",
    ),
    "prefers-longer": Template(
        "{who} lets the longer response win in {share:.0 %} [{low:.0p}, {high:.0p}] of {trials} matches where the "
        "two differ.",
        "Length may go with merit: rate with style control to see what remains of the order.",
    ),
    "prefers-own-family": Template(
        _OWN_FAMILY,
        "Leave this judge out where its family competes, or rate by the others.",
    ),
    "prefers-own-family/alone": Template(
        "{who} lets its own family win in {share:.0 %} [{low:.0p}, {high:.0p}] of {trials} matches against "
        "others; one judge alone cannot tell preference from merit.",
        "Add a judge of another family.",
    ),
    "prompt-cache-idle": Template(
        "Prompt caching was requested, but no token was read from the cache ({written:,} were written).",
        "The cacheable prefix may be shorter than the provider's least, or calls further apart than its ttl.",
    ),
    "prompt-cache-incomplete/cache": Template(
        "{judges}: the mode has prewarm, but prompt_cache is off, so nothing is cached.",
        "Set prompt_cache: 1h under judge, or prewarm: false in the mode.",
    ),
    "prompt-cache-incomplete/prewarm": Template(
        "{judges}: prompt_cache is on, but the mode has no prewarm: calls that run at once each write the rubric "
        "to the cache, at a higher price.",
        "Set prewarm: true in the mode.",
    ),
    "refuses": Template(
        "{who} refused {share:.0 %} of {questions} questions.",
        "Check which prompts it refuses: they are not missing at random.",
    ),
    "slot-preference/first": Template(
        "{who} prefers the response shown first: of {trials} matches whose winner changed with the order it chose "
        "the first slot in {share:.0 %} [{low:.0p}, {high:.0p}].",
        "Where both orders are asked it cancels in the ratings; it costs decisive results.",
    ),
    "slot-preference/second": Template(
        "{who} prefers the response shown second: of {trials} matches whose winner changed with the order it chose "
        "the first slot in {share:.0 %} [{low:.0p}, {high:.0p}].",
        "Where both orders are asked it cancels in the ratings; it costs decisive results.",
    ),
    "steering-answers": Template(
        "{answers:,} of the judged answers speak to their judge: {models}.",
        "Read them. Nothing in an answer is taken for a verdict, but a judge can be persuaded: compare the ratings "
        "with those without these answers.",
        {
            "verdict": "{model} {answers:,} (to {prompt}: a verdict of its own)",
            "delimiter": "{model} {answers:,} (to {prompt}: an end of the quotation)",
            "address": "{model} {answers:,} (to {prompt}: a request to the judge)",
            "hidden": "{model} {answers:,} (to {prompt}: hidden characters)",
        },
        items_by="kind",
    ),
    "truncated-answers": Template(
        "{answers:,} of the judged answers were cut off: {models}.",
        "The models may be better than these answers. Raise max_tokens under generate:, run tiltyard generate "
        "again, and judge the whole answers.",
        {"": "{model} {answers:,}"},
    ),
    "truncates": Template(
        "{who} was cut off in {share:.0 %} of {questions} questions.",
        "Raise max_tokens; cut-off replies favour short reasoning.",
    ),
    "unparseable": Template(_UNREADABLE, "Read some of its replies in questions/."),
    "unparseable/schema": Template(
        _UNREADABLE,
        "Ask for the verdict by tool or text: this server may not hold its replies to a schema.",
    ),
    "unparseable/text": Template(_UNREADABLE, "Ask for the verdict by schema or tool."),
    "unparseable/tool": Template(
        _UNREADABLE, "Ask for the verdict by schema or text: this server may not force its tools."
    ),
}

#: About a model that a judge placed among models that people have rated.
_PLACEMENTS: Mapping[str, Template] = {
    "already-rated": Template(
        "People have voted on {model} already: its overall rating is theirs, and the judge does not move it.",
        "Read the judge's own rating of it beside, under the judged dimension.",
    ),
    "judged-earlier": Template(
        "People have not rated {models}, so earlier judged battles of them are in no rating.",
        "Place each of them by a run of its own.",
    ),
    "judge-only/battles": Template(
        "People have not rated {model}. Its rating and interval are conditional on the judge: they hold if it "
        "decides as people do. {battles} judged battles against {opponents} opponents are too few to check that, "
        "so no rank and no order is claimed.",
        "Judge at least {least} battles (--n).",
    ),
    "judge-only/opponents": Template(
        "People have not rated {model}. Its rating and interval are conditional on the judge: they hold if it "
        "decides as people do. {opponents} opponents with a human rating are too few to check that, so no rank "
        "and no order is claimed.",
        "Compare it with at least {least} models that people have rated.",
    ),
    "judge-slope-unknown": Template(
        "The judged battles do not tell how sharp the judge is compared with people, so it is taken to be between "
        "{least:.2f} and {most:.0f} times as sharp, and the interval of {model} is wide, above all at either end.",
        "Append some 300 battles of the same judge between models that people have rated.",
    ),
    "not-placed/lost": Template(
        "{model} lost every judged battle: its rating has no lower limit, so none is given.",
        "Judge more prompts (--n).",
    ),
    "not-placed/opponents": Template(
        "{model} met no model with a human rating, so it cannot be placed among them.",
        "Collect human battles in which its opponents both win and lose.",
    ),
    "not-placed/slope": Template(
        "{model} is not placed: the judge tells models apart less than {least:.2f} times as sharply as people do.",
        "Ask another judge.",
    ),
    "not-placed/won": Template(
        "{model} won every judged battle: its rating has no upper limit, so none is given.",
        "Judge more prompts (--n).",
    ),
    "placed-by-judge": Template(
        "People have not rated {model}: its rating and interval are conditional on the judge. How much the judge's "
        "bias varies by model was estimated from the human ratings of {opponents} opponents: a standard deviation "
        "of about {bias:.0f} points, and of at most {most:.0f} with 95 % confidence. Its differences between models "
        "are about {slope:.1f} times people's (95 % interval {slope_low:.1f} to {slope_high:.1f}). The interval of the "
        "rating allows for both. "
        "Among the models that people have rated, {model} ranks between {low} and {high} of {models}.",
        "The interval does not allow for a judge that favours {model} in particular, such as one of its own "
        "family. Judge more prompts (--n) to narrow it.",
    ),
}

_LENGTH_ADVICE = _(
    "A longer answer may be the better one or a padded one; votes do not say which, and the ratings use no lengths."
)
_WAITING_ADVICE = _(
    "Where both answers are shown at one pace, voters cannot see who was slow; an effect then belongs to the models that "
    "take their time, not to the waiting."
)
_COLLECT = _("At least {least:,} are needed.")

#: About length and waiting in live battles.
_EFFECTS: Mapping[str, Template] = {
    "effects-unknown/both": Template(
        _("Effects of length and of waiting time cannot be told apart from the models that answer."),
        _("They can be once the lengths and times of each model vary."),
    ),
    "effects-unknown/length": Template(
        _("The effect of length cannot be told apart from the models that answer."),
        _("It can be once the lengths of each model's answers vary."),
    ),
    "effects-unknown/prompts": Template(
        _("Effects of length and waiting time are not estimated yet. Prompts compared: {count:,}."),
        _COLLECT,
    ),
    "effects-unknown/voters": Template(
        _("Effects of length and waiting time are not estimated yet. Voters so far: {count:,}."),
        _COLLECT,
    ),
    "effects-unknown/votes": Template(
        _("Effects of length and waiting time are not estimated yet. Votes without “both bad”: {count:,}."),
        _COLLECT,
    ),
    "effects-unknown/waiting": Template(
        _("The effect of waiting time cannot be told apart from the models that answer."),
        _("It can be once the times of each model vary."),
    ),
    "length-effect/less": Template(
        _(
            "Shorter answers win more often: half the length is worth {points:.0f} points ({low:.0f} to {high:.0f})."
        ),
        _LENGTH_ADVICE,
    ),
    "length-effect/more": Template(
        _(
            "Longer answers win more often: twice the length is worth {points:.0f} points ({low:.0f} to {high:.0f})."
        ),
        _LENGTH_ADVICE,
    ),
    "length-effect/none": Template(
        _(
            "Length shows no effect beyond chance: twice the length is worth between {below:.0f} points less and {above:.0f} points more."
        ),
        _LENGTH_ADVICE,
    ),
    "waiting-effect/less": Template(
        _(
            "Faster models win more often: half the waiting time is worth {points:.0f} points ({low:.0f} to {high:.0f})."
        ),
        _WAITING_ADVICE,
    ),
    "waiting-effect/more": Template(
        _(
            "Slower models win more often: twice the waiting time is worth {points:.0f} points ({low:.0f} to {high:.0f})."
        ),
        _WAITING_ADVICE,
    ),
    "waiting-effect/none": Template(
        _(
            "Waiting time shows no effect beyond chance: twice the time is worth between {below:.0f} points less and {above:.0f} points "
            "more."
        ),
        _WAITING_ADVICE,
    ),
}

#: By name, or name and case.
FINDINGS: Mapping[str, Template] = {
    **_BATTLES,
    **_INTERVALS,
    **_ARENA,
    **_TOURNAMENTS,
    **_PLACEMENTS,
    **_EFFECTS,
}
