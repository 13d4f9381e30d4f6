"""Builds a plan from a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltyard.core.judging.canaries import CheckCounts, check_questions
from tiltyard.core.judging.matches import Match, MatchList, Prompt, all_pairs, pilot_subset
from tiltyard.core.judging.pair_spread import sample_pairs
from tiltyard.core.judging.question_context import image_urls
from tiltyard.core.judging.rubric import Rubric
from tiltyard.errors import BadConfig
from tiltyard.files.answer import Answer
from tiltyard.judges.judge_setup import JudgeSetup
from tiltyard.settings.tournament_config import RunMode, TournamentConfig
from tiltyard.tournaments.inputs import TournamentInputs
from tiltyard.tournaments.tournament_plan import PlanDimension, TournamentPlan


def select_prompts(bank: Sequence[Prompt], mode: RunMode) -> Sequence[Prompt]:
    """The prompts of a mode: all, or a stratified sample; the whole bank if it is smaller than the sample."""
    if mode.prompts.all:
        return bank
    if mode.prompts.sizes is not None:
        return pilot_subset(bank, mode.prompts.sizes, mode.seed)
    assert mode.prompts.n is not None
    return pilot_subset(bank, min(mode.prompts.n, len(bank)), mode.seed)


def make_plan(
    config: TournamentConfig,
    mode: RunMode,
    inputs: TournamentInputs,
    seats: Sequence[JudgeSetup],
    around: str | None = None,
) -> TournamentPlan:
    """All pairs of entrants on all selected prompts in all dimensions, or a sample; or only the pairs of one model."""
    prompts = select_prompts(inputs.bank, mode)
    entrants = [one.entrant_id for one in config.entrants]
    matches = all_pairs(prompts, entrants, config.dimensions, inputs.answers.keys(), mode.limit_pairs, around)
    matches = sample_pairs(matches, mode.sample_pairs, mode.seed)
    if not matches.matches:
        raise BadConfig(
            f"{config.path}: no two entrants have answered the same prompt; "
            f"missing answers: {', '.join(f'{name} {n}' for name, n in matches.missing.items())}"
        )
    checks = CheckCounts(**config.checks.model_dump())
    return plan_of_matches(prompts, inputs.answers, inputs.rubrics, matches, seats, checks)


def plan_of_matches(
    prompts: Sequence[Prompt],
    answers: Mapping[tuple[str, str], Answer],
    rubrics: Mapping[str, Rubric],
    matches: MatchList,
    seats: Sequence[JudgeSetup],
    checks: CheckCounts,
) -> TournamentPlan:
    """A plan for exactly the given matches."""
    names = [seat.name for seat in seats]
    by_dimension: dict[str, list[Match]] = {name: [] for name in rubrics}
    for match in matches.matches:
        by_dimension[match.dimension].append(match)
    shown = {
        (model, match.prompt_id) for match in matches.matches for model in (match.model_a, match.model_b)
    }
    _check_images([answers[place] for place in sorted(shown)], seats)
    responses = {place: answers[place].response for place in shown}
    sections = [
        PlanDimension(
            rubric, by_dimension[name], check_questions(by_dimension[name], responses, names, checks)
        )
        for name, rubric in rubrics.items()
    ]
    return TournamentPlan(seats, prompts, {place: answers[place] for place in shown}, sections, matches)


def _check_images(answers: Sequence[Answer], seats: Sequence[JudgeSetup]) -> None:
    """Reject conversations with images for a judge that does not see them."""
    blind = [seat.name for seat in seats if not seat.settings.images]
    for answer in answers if blind else ():
        if any(image_urls(message) for message in answer.messages):
            raise BadConfig(
                f"the conversation of prompt {answer.prompt_id} has an image, but the judge {blind[0]} is not said to see "
                "images; set images: true for judges that do, or leave the prompt out of the bank"
            )
