"""The configuration of judges that vote in an arena."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from tiltyard.core.judging.rubric import Rubric, parse_rubric
from tiltyard.errors import BadConfig, UnreadableFile
from tiltyard.settings.config_section import (
    ConfigSection,
    Count,
    Many,
    PathText,
    Text,
    Variable,
    default_if_empty,
    expecting,
    section_error,
    validate_section,
)
from tiltyard.settings.model_endpoints import REPLAY, address_problem, key_variable
from tiltyard.settings.prices import PriceBook, open_prices
from tiltyard.settings.regular_files import read_regular_text
from tiltyard.settings.rubric_files import SHIPPED, shipped_rubric
from tiltyard.settings.tournament_config import JudgeSettings, complete_judge
from tiltyard.settings.tournament_sections import Budget, ModeJudge, Prices
from tiltyard.settings.yaml_file import YamlFile, read_yaml

_Arena = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$"),
    expecting("the name of an arena: small letters, digits and '-'"),
]


class ArenaJudges(ConfigSection):
    """The judges, their rubric and their budget."""

    judges: Annotated[
        tuple[
            Annotated[
                ModeJudge, BeforeValidator(lambda one: {"model": one} if isinstance(one, str) else one)
            ],
            ...,
        ],
        Many,
        Field(min_length=1),
    ]
    #: The name of a built-in rubric, or the path of a file.
    rubric: Annotated[PathText, default_if_empty("preference")] = "preference"
    #: How many judges must have a result; by default more than half.
    quorum: Count | None = None
    budget_usd: Budget | None = None
    prices: Prices | None = None
    #: The ledger's location, if not ``TILTYARD_HOME`` or ``DATABASE_URL``.
    judgments_dir: PathText | None = None
    _file: YamlFile = PrivateAttr(default=YamlFile("judge.yaml", {}, {(): 1}))

    @property
    def path(self) -> Path:
        """The file that the configuration was read from."""
        return Path(self._file.name)

    @property
    def folder(self) -> Path:
        """The folder that the configuration's paths are relative to."""
        return self.path.parent

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
        place = self.folder / Path(self.rubric).expanduser()
        try:
            text = read_regular_text(place)
        except (OSError, UnicodeDecodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise UnreadableFile(
                f"{self._file.where(('rubric',))}: {place} cannot be read: {problem}; name a file, or one of "
                f"{', '.join(SHIPPED)}"
            ) from None
        return parse_rubric(place.stem, text, str(place))

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        names = [judge.name or judge.model for judge in self.judges]
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
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


def load_arena_judges(path: Path) -> ArenaJudges:
    """Read the file; raises `BadConfig` if it is invalid."""
    file = read_yaml(path)
    config = validate_section(ArenaJudges, file, {})
    config._file = file  # noqa: SLF001
    return config


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
        arenas = [one.arena for one in self.rounds]
        if len(set(arenas)) < len(arenas):
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
