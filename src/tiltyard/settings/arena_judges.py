"""The configuration of judges that vote in an arena."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from tiltyard.core.judging.question import Rubric
from tiltyard.errors import BadConfig
from tiltyard.settings.config_section import (
    ConfigFile,
    ConfigSection,
    Count,
    Many,
    PathText,
    Text,
    Variable,
    default_if_empty,
    expecting,
    repeated,
    section_error,
    validate_section,
)
from tiltyard.settings.model_endpoints import REPLAY, address_problem, key_variable
from tiltyard.settings.prices import PriceBook, open_prices
from tiltyard.settings.tournament_config import (
    SHIPPED,
    JudgeSettings,
    complete_judge,
    read_rubric,
    shipped_rubric,
)
from tiltyard.settings.tournament_sections import Budget, Judges, ModeJudge, Prices
from tiltyard.settings.yaml_file import read_yaml

_Arena = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$"),
    expecting("the name of an arena: small letters, digits and '-'"),
]


class ArenaJudges(ConfigFile):
    """The judges, their rubric and their budget."""

    judges: Annotated[Judges, Many, Field(min_length=1)]
    #: The name of a built-in rubric, or the path of a file.
    rubric: Annotated[PathText, default_if_empty("preference")] = "preference"
    #: How many judges must have a result; by default more than half.
    quorum: Count | None = None
    budget_usd: Budget | None = None
    prices: Prices | None = None
    #: The ledger's location, if not ``TILTYARD_HOME`` or ``DATABASE_URL``.
    judgments_dir: PathText | None = None

    def complete(self) -> tuple[JudgeSettings, ...]:
        """The judges, with all defaults filled in."""
        prices = open_prices(self.prices, self.folder)
        return tuple(_complete(judge, self.folder, prices) for judge in self.judges)

    @property
    def majority(self) -> int:
        """The number of judges that must have a result."""
        return self.quorum or len(self.judges) // 2 + 1

    def read_rubric(self) -> Rubric:
        """Load the built-in rubric of this name, or read it from the file."""
        if self.rubric in SHIPPED:
            return shipped_rubric(self.rubric)
        path = self.at(self.rubric)
        return read_rubric(path.stem, path, self.where("rubric"))

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        twice = repeated(judge.name or judge.model for judge in self.judges)
        if twice is not None:
            raise section_error(f"duplicate judge name {twice!r}; rename one of them", "judges")
        if self.majority > len(self.judges):
            raise section_error(f"expected at most the number of judges, {len(self.judges)}", "quorum")
        for number, judge in enumerate(self.judges):
            problem = address_problem(judge.provider, judge.base_url)
            if problem is not None:
                raise section_error(problem, "judges", number, "base_url")
            if judge.batch:
                raise section_error(
                    "batches are not supported for live votes; remove it", "judges", number, "batch"
                )
        return self


class JudgeRound(ConfigSection):
    """Scheduled judging in one arena: a number of matchups each time it is due."""

    arena: _Arena
    #: The configuration of the judges, relative to the file that refers to it.
    config: PathText
    #: The schedule: five cron fields, UTC.
    cron: Text = "0 * * * *"
    matchups: Count = 50
    url: Text = "http://127.0.0.1:8420"
    #: The environment variable with a token that has the scope ``judge``.
    token_env: Variable = "TILTYARD_TOKEN"  # noqa: S105 - a name, not a token


class _Rounds(ConfigSection):
    rounds: Annotated[tuple[JudgeRound, ...], Many, Field(min_length=1)]

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if repeated(one.arena for one in self.rounds) is not None:
            raise section_error("duplicate arena; give each arena one round", "rounds")
        return self


def load_judge_rounds(path: Path) -> tuple[JudgeRound, ...]:
    """The rounds of a file, with the paths of their configurations resolved."""
    rounds = validate_section(_Rounds, read_yaml(path), {}).rounds
    return tuple(
        one.model_copy(update={"config": str(path.parent / Path(one.config).expanduser())}) for one in rounds
    )


def _complete(judge: ModeJudge, folder: Path, prices: PriceBook) -> JudgeSettings:
    stated = judge.model_dump()
    stated["name"] = judge.name or judge.model
    stated["api_key_env"] = key_variable(judge.provider, judge.api_key_env, judge.base_url)
    if judge.provider == REPLAY:
        if judge.base_url is None:
            raise BadConfig(f"judge {stated['name']}: replay needs base_url: the file of recorded replies")
        stated["base_url"] = str((folder / Path(judge.base_url).expanduser()).resolve())
    return complete_judge(stated, prices)
