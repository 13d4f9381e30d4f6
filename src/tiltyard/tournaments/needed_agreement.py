"""Whether a tournament's judges are proved to agree with people well enough, by what `tiltyard agree --json` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tiltyard.core.ratings.proportions import wilson_interval
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.foundation.local_files import read_regular
from tiltyard.runs.manifest import parse_document
from tiltyard.tournaments.tournament_plan import TournamentPlan

#: The agreement that is assumed before anything is measured: that of a good judge.
_ASSUMED_SHARE = 0.75
_MOST_LABEL_COUNT = 2_000


@dataclass(frozen=True, slots=True)
class NeededAgreement:
    """The least lower limit of plain agreement, and the file that proves it."""

    least: float
    proof: Path

    def __post_init__(self) -> None:
        if not 0.0 < self.least < 1.0:
            raise BadOption(
                f"--needs-agreement is {self.least}; expected a share between 0 and 1, such as 0.6"
            )

    def problem(self, plan: TournamentPlan) -> str | None:
        """Why these judges are not proved, and what to do; ``None`` if they are."""
        try:
            text = read_regular(self.proof)
        except FileNotFoundError:
            return f"nothing proves the judge: {self.proof} does not exist. {self._advice(_ASSUMED_SHARE)}"
        except OSError as error:
            raise UnreadableFile(f"{self.proof}: {error.strerror}") from None
        document = parse_document(str(self.proof), text)
        try:
            proved, agreed = document["proves"], document["overall"]["agreed"]
            models, rubrics = [str(one) for one in proved["judges"]], dict(proved["rubrics"])
            parts = [one["found"]["agreed"] for one in document["parts"] if one["scope"] == "dimension"]
            # Every dimension must hold by itself.
            worst = min([agreed, *parts], key=lambda one: -1.0 if one["low"] is None else float(one["low"]))
            value, low = worst["value"], None if worst["low"] is None else float(worst["low"])
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UnreadableFile(
                f"{self.proof} is no proof; expected what `tiltyard agree RUN SHEET… --json` prints"
            ) from None
        asked = sorted(seat.settings.model for seat in plan.seats)
        if models != asked:
            return (
                f"{self.proof} is of {', '.join(models)}, and this run asks {', '.join(asked)}. "
                f"{self._advice(_ASSUMED_SHARE)}"
            )
        stated = {section.rubric.dimension: section.rubric.sha256 for section in plan.sections}
        changed = sorted(
            name for name in stated.keys() | rubrics.keys() if stated.get(name) != rubrics.get(name)
        )
        if changed:
            return f"{self.proof} is of other rubrics ({', '.join(changed)} changed). {self._advice(_ASSUMED_SHARE)}"
        if value is None or low is None or low < self.least:
            shown = "unknown" if low is None else f"{low:.2f}"
            return (
                f"the judge's agreement with people is {'unknown' if value is None else f'{value:.2f}'}, at least {shown}; "
                f"{self.least:.2f} is needed. {self._advice(_ASSUMED_SHARE if value is None else value)}"
            )
        return None

    def _advice(self, share: float) -> str:
        count = labels_to_prove(self.least, share)
        if count is None:
            return f"With an agreement of {share:.0%} no number of labels proves it: choose a better judge or rubric."
        return (
            f"If it agrees with people on {share:.0%} of the matches, about {count:,} labels prove it: run without "
            f"--needs-agreement, then `tiltyard agree RUN --labels {max(count, 20)}`"
        )


def labels_to_prove(least: float, share: float) -> int | None:
    """How many labels of different prompts have a lower limit above ``least``; ``None`` if no sensible number has."""
    for count in range(10, _MOST_LABEL_COUNT + 1, 10):
        if wilson_interval(share, count, count - 1, 0.95)[0] >= least:
            return count
    return None
