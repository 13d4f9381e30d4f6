"""How far a judge can be trusted, for readers: text for a terminal, a page, and a paragraph to cite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tiltyard.core.judging.diagnostics.label_agreement import LabelAgreement
from tiltyard.core.judging.diagnostics.rater_agreement import AgreementFigure
from tiltyard.core.judging.label_sample import LabelStratum
from tiltyard.report.escapes import escape_controls, plain_table
from tiltyard.report.html_parts import offline_page, section_html, sentence_html, table_html

_HEADS = ("of", "matches", "prompts", "agreement", "κ", "α")
_ORDER_HEADS = ("the judge's order", "judge", "people")
_FOOTER = (
    "In brackets: 95 % intervals, for all judged matches of the run and prompts like these; those of pairs of models are "
    "for the run's own prompts, and hold together."
)


@dataclass(frozen=True, slots=True)
class AgreementPart:
    """The agreement on some of the matches."""

    scope: str
    name: str
    found: LabelAgreement


@dataclass(frozen=True, slots=True)
class OrderPair:
    """Two models, the judge's better one first, and how far ahead people would put it: a difference of win shares."""

    better: str
    other: str
    judge: float
    people: AgreementFigure

    @property
    def turned(self) -> bool:
        """Whether people would put the other model first, surely."""
        return self.people.high is not None and self.people.high < 0.0

    @property
    def confirmed(self) -> bool:
        return self.people.low is not None and self.people.low > 0.0


@dataclass(frozen=True, slots=True)
class JudgeTrust:
    """What labels say of a run's judges together."""

    #: What the figures hold for: the models of the judges, and the hashes of the rubrics.
    proves: Mapping[str, Any]
    run: str
    judges: tuple[str, ...]
    seed: int
    #: Matches that were drawn, and that somebody labelled.
    drawn: int
    labelled: int
    raters: tuple[str, ...]
    strata: tuple[LabelStratum, ...]
    overall: LabelAgreement
    parts: tuple[AgreementPart, ...]
    people: LabelAgreement
    #: How many human votes tell as much as one verdict.
    worth: AgreementFigure
    #: People whose labels are the same wherever both have some: one sheet may be a copy of the other.
    copies: tuple[tuple[str, str], ...]
    #: How much more often people prefer the longer response, and the judge's own family, than the judge does.
    longer: AgreementFigure
    own_family: AgreementFigure
    #: Of the judge's results, the share that changed with the order of the responses.
    contradicted: float
    #: Of people's preferences, the share for the response that was shown first.
    shown_first: float | None
    order: tuple[OrderPair, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def trust_text(found: JudgeTrust) -> str:
    """Everything that a terminal shows."""
    parts = [escape_controls(cite_paragraph(found)), plain_table([_HEADS, *_rows(found)]), *_remarks(found)]
    if turned := [pair for pair in found.order if pair.turned]:
        parts.append(plain_table([_ORDER_HEADS, *_order_rows(turned)]))
    return "\n\n".join([*parts, _FOOTER])


def trust_page(found: JudgeTrust) -> str:
    """The same as one page of HTML, with every pair of models."""
    body = "".join(
        (
            section_html("trust", "How far can the judge be trusted?", *map(_line, [cite_paragraph(found)])),
            section_html("agreement", "Agreement with people", table_html(_HEADS, _rows(found))),
            section_html("remarks", "What else the labels say", *map(_line, _remarks(found))),
            section_html(
                "order",
                "The models' order under the people",
                table_html(_ORDER_HEADS, _order_rows(found.order)),
            ),
        )
    )
    return offline_page(f"The judge of {found.run}", body, footer=_FOOTER)


def cite_paragraph(found: JudgeTrust) -> str:
    """A paragraph that says what was measured, and how."""
    judge = found.judges[0] if len(found.judges) == 1 else f"The panel of {', '.join(found.judges)}"
    people = "1 person" if len(found.raters) == 1 else f"{len(found.raters)} people"
    text = (
        f"{judge} agrees with people on {_percent(found.overall.agreed)} of the matches (a tie, both bad and a judge that "
        f"contradicts itself count as one answer); Cohen's κ is {_number(found.overall.kappa)}, Krippendorff's α "
        f"{_number(found.overall.alpha)}. {people} labelled {found.labelled:,} of {found.drawn:,} matches, on "
        f"{found.overall.prompts:,} prompts, drawn at random from {sum(one.matches for one in found.strata):,} by how sure "
        "the judge was, without names and with sides at random. The figures are of these people."
    )
    if found.people.agreed.value is None:
        return f"{text} No match was labelled by two people, so that nothing tells how far people agree with each other."
    text = f"{text} Two people agree with each other on {_percent(found.people.agreed)}."
    if found.worth.value is None:
        return text
    return f"{text} If judge and people err independently, one verdict tells as much as {_number(found.worth)} human votes."


def _rows(found: JudgeTrust) -> Iterator[Sequence[str]]:
    parts = [("all", found.overall), *((f"{one.scope} {one.name}", one.found) for one in found.parts)]
    if found.people.matches:
        parts.append(("people with each other", found.people))
    for name, part in parts:
        figures = _percent(part.agreed), _number(part.kappa), _number(part.alpha)
        yield (name, f"{part.matches:,}", f"{part.prompts:,}", *figures)


def _remarks(found: JudgeTrust) -> Iterator[str]:
    if found.labelled < found.drawn:
        yield f"{found.drawn - found.labelled:,} of the {found.drawn:,} drawn matches are not labelled yet."
    for part in found.parts:
        if part.scope == "the judge" and not part.found.matches:
            yield f"No match is labelled on which the judge {part.name}: the figures of all are without an interval."
    for one, other in found.copies:
        yield f"{one} and {other} said the same of every match. If one sheet is a copy of the other, leave it out."
    yield f"The judge contradicted itself when the order changed in {found.contradicted:.0%} of the matches."
    for figure, what in (
        (found.longer, "the longer response"),
        (found.own_family, "a model of its own family"),
    ):
        if figure.value is not None:
            yield _lean(figure, what)
    if found.shown_first is not None:
        yield f"People chose the response that they saw first in {found.shown_first:.0%} of their preferences; sides were random."
    turned = sum(pair.turned for pair in found.order)
    confirmed = sum(pair.confirmed for pair in found.order)
    yield (
        f"Of {len(found.order):,} pairs of models, people confirm the judge's order of {confirmed:,} and turn that of "
        f"{turned:,}; {len(found.order) - confirmed - turned:,} these labels cannot tell."
    )


def _lean(figure: AgreementFigure, what: str) -> str:
    assert figure.value is not None
    how = f"people's share of choosing {what} less the judge's is {_difference(figure)} points"
    if figure.low is None or figure.high is None or figure.low <= 0.0 <= figure.high:
        return f"No sign that the judge favours or disfavours {what}: {how}."
    return f"The judge {'favours' if figure.value < 0.0 else 'disfavours'} {what}: {how}."


def _order_rows(pairs: Sequence[OrderPair]) -> Iterator[Sequence[str]]:
    for pair in pairs:
        said = "turned" if pair.turned else "confirmed" if pair.confirmed else "cannot tell"
        yield (
            f"{pair.better} over {pair.other}",
            f"{100 * pair.judge:+.0f} points",
            f"{_difference(pair.people)} points, {said}",
        )


def _line(sentence: str) -> str:
    return f"<p>{sentence_html(sentence)}</p>"


def _percent(figure: AgreementFigure) -> str:
    return _shown(figure, lambda value: f"{100 * value:.0f}", " %")


def _number(figure: AgreementFigure) -> str:
    return _shown(figure, lambda value: f"{value:.2f}", "")


def _difference(figure: AgreementFigure) -> str:
    return _shown(figure, lambda value: f"{100 * value:+.0f}", "")


def _shown(figure: AgreementFigure, write: Callable[[float], str], unit: str) -> str:
    if figure.value is None:
        return f"– ({figure.gap})"
    if figure.low is None or figure.high is None:
        return f"{write(figure.value)}{unit} ({figure.gap})"
    return f"{write(figure.value)}{unit} ({write(figure.low)} to {write(figure.high)}{unit})"
