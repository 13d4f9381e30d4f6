"""Rubric files: the built-in ones and the user's own."""

from __future__ import annotations

from importlib.resources import files

from tiltyard.core.judging.rubric import Rubric, parse_rubric
from tiltyard.errors import BadConfig, UnreadableFile
from tiltyard.settings.regular_files import read_regular_text
from tiltyard.settings.tournament_config import TournamentConfig

#: Dimensions with a built-in rubric.
SHIPPED = ("factuality", "calibration", "clinical_utility", "preference")


def load_rubric(config: TournamentConfig, dimension: str) -> Rubric:
    """The rubric of a dimension: the configured file, or the built-in one."""
    path = config.rubrics[dimension].path
    return _of_name(config, dimension) if path is None else _read(config, dimension, path)


def shipped_rubric(dimension: str) -> Rubric:
    """A built-in rubric."""
    text = files("tiltyard.settings").joinpath("rubrics", f"{dimension}.txt").read_text(encoding="utf-8")
    return parse_rubric(dimension, text, f"{dimension}.txt")


def _of_name(config: TournamentConfig, dimension: str) -> Rubric:
    if dimension not in SHIPPED:
        raise BadConfig(
            f"{config.where('rubrics', dimension)}: no built-in rubric has this name; "
            f"give a path, or choose one of {', '.join(SHIPPED)}"
        )
    return shipped_rubric(dimension)


def _read(config: TournamentConfig, dimension: str, path: str) -> Rubric:
    place = config.at(path)
    try:
        text = read_regular_text(place)
    except FileNotFoundError:
        where = config.where("rubrics", dimension, "path")
        raise BadConfig(f"{where}: file not found: {place}; check the path") from None
    except UnicodeDecodeError:
        raise UnreadableFile(f"{place}: not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise UnreadableFile(f"{place}: cannot be read: {problem}") from None
    return parse_rubric(dimension, text, str(place))
