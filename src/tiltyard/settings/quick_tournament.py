"""Writes the configuration of a tournament from a few words, so that none has to be written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tiltyard.errors import BadOption
from tiltyard.foundation.option_names import option_name
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.settings.prices import PriceEntry, open_prices
from tiltyard.settings.rubric_files import SHIPPED
from tiltyard.settings.yaml_file import write_yaml

#: The rubric where none is named.
_DEFAULT_RUBRIC = "preference"
_COMMENTS = {
    "entrants": "The models that are compared, by their names in the answers.",
    "prompts": "The prompts, and the files with the answers to them. Paths are relative to this file.",
    "rubrics": f"What judges compare: {', '.join(SHIPPED)}, or your own: `my_dimension: {{path: FILE}}`.",
    "modes": "Who judges, and on which prompts. `tiltyard run FILE --mode NAME` runs one of these modes.",
    "checks": "Control questions for each judge and dimension.",
    "budget_usd": "A run never spends more than this, in dollars.",
    "prices": "Dollars for a million tokens.",
}
_EXAMPLES = {"budget_usd": 5.0, "prices": {"my-model": {"input": 0.2, "output": 0.8}}}


@dataclass(frozen=True, slots=True)
class QuickJudge:
    """A judge as a command names it; what is not stated is taken from what is known of the model."""

    model: str
    provider: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    #: Further fields of a judge, as in a configuration.
    options: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """The fields of a judge that differ from their defaults."""
        known = open_prices().shipped.get(self.model)
        provider = self.provider or (known.provider if known is not None else None)
        if provider is None:
            provider = next(
                (name for name, one in PROVIDERS.items() if self.model.startswith(one.model_prefixes)),
                "openai",
            )
        address = self.base_url
        if address is None and self.provider is None and known is not None and known.base_url:
            address = known.base_url[0]
        stated = {
            "model": self.model,
            "provider": provider,
            "base_url": address,
            "api_key_env": self.api_key_env,
        }
        return {name: value for name, value in stated.items() if value is not None} | dict(self.options)


def quick_rubric(stated: str | None) -> tuple[str, dict[str, Any] | None]:
    """The dimension and section of a rubric: the name of a built-in one, or a file."""
    name = stated or _DEFAULT_RUBRIC
    if name in SHIPPED:
        return name, None
    path = Path(name)
    if not path.is_file():
        raise BadOption(f"{option_name('rubric', name)} is neither a file nor one of {', '.join(SHIPPED)}")
    return path.stem, {"path": str(path.resolve())}


def quick_document(
    entrants: Sequence[str],
    judges: Sequence[QuickJudge],
    rubrics: Sequence[str],
    *,
    mode: str,
    budget_usd: float | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
) -> dict[str, Any]:
    """A configuration beside ``prompts.jsonl`` and ``answers.jsonl``, as written to its file."""
    document: dict[str, Any] = {
        "entrants": [{"entrant_id": name} for name in entrants],
        "prompts": {"bank_path": "prompts.jsonl"},
        "answers": ["answers.jsonl"],
        "rubrics": dict(quick_rubric(one) for one in rubrics or (_DEFAULT_RUBRIC,)),
        "modes": {mode: {"judges": [judge.settings() for judge in judges]}},
    }
    if budget_usd is not None:
        document["budget_usd"] = budget_usd
    if prices:
        document["prices"] = {
            name: entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            for name, entry in prices.items()
        }
    return document


def quick_yaml(document: Mapping[str, Any]) -> str:
    """The text of a configuration, with a comment before each section; common sections that it lacks are comments."""
    return "\n".join(_blocks(document))


def _blocks(document: Mapping[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        comment = f"# {_COMMENTS[name]}\n" if name in _COMMENTS else ""
        yield f"{comment}{write_yaml({name: value})}"
    for name, value in _EXAMPLES.items():
        if name not in document:
            lines = f"{_COMMENTS[name]}\n{write_yaml({name: value})}".splitlines()
            yield "".join(f"# {line}\n" for line in lines)
