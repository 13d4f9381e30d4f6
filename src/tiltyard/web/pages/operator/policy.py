"""The ranking policy of an arena: what each constant means, changed after a look at what changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.arena_changes import apply_policy_changes, current_policy, set_policy
from tiltyard.core.policy.state.policy import BOUNDS, KEPT_SHAPES, Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import BadOption
from tiltyard.web.pages.operator.labels import (
    EXPECTED,
    FIXED,
    GROUPS,
    LABELS,
    LANES,
    MEANINGS,
    PHASES,
)
from tiltyard.web.pages.operator.number_input import finite_number, whole_number
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

__all__ = ["PolicyConstant", "constants", "read_constants", "router"]

router = operator_router("/arenas/{arena}")

_CHOICES = {"fairness": ("strict", "scoped"), "free_prompts": ("yes", "no")}
_MULTI_VALUE_CONSTANT = "lane_weights"
#: The phase has its own page; constants that determine what is stored cannot change.
_NOT_EDITABLE = frozenset({"phase", *KEPT_SHAPES})


@dataclass(frozen=True, slots=True)
class PolicyConstant:
    """One constant in the form, with an input for each of its values."""

    name: str
    label: str
    meaning: str
    expected: str
    default: str
    fixed: bool
    choices: tuple[str, ...]
    #: Name, label and text of each input.
    inputs: tuple[tuple[str, str, str], ...]


@router.get("/policy", response_class=HTMLResponse)
async def policy_page(arena: str, request: Request) -> HTMLResponse:
    """All constants, with their meanings."""
    found = await arena_of(request, arena)
    policy = await current_policy(pool_of(request), arena)
    return _form(request, found, policy, {})


@router.get("/policy/review", response_class=HTMLResponse)
async def policy_review(arena: str, request: Request) -> HTMLResponse:
    """Review the changes before they are saved."""
    found = await arena_of(request, arena)
    policy = await current_policy(pool_of(request), arena)
    given = dict(request.query_params)
    try:
        changed = read_constants(policy, given)
        Standing(policy, (), ()).under(apply_policy_changes(policy, changed))
    except BadOption as error:
        return _form(request, found, policy, given, trouble=str(error), status=422)
    rows = [
        (name, MEANINGS[name], _text(getattr(policy, name)), _text(value)) for name, value in changed.items()
    ]
    sent = [one for name, value in changed.items() for one in _inputs(name, value, {})]
    return arena_page(request, found, "policy_review.html", "policy", rows=rows, sent=sent, labels=LABELS)


@router.post("/policy")
async def policy_form(arena: str, request: Request) -> Response:
    """Save the reviewed changes."""
    found = await arena_of(request, arena)
    policy = await current_policy(pool_of(request), arena)
    given = {name: str(value) for name, value in (await request.form()).items()}
    try:
        changed = read_constants(policy, given)
        await set_policy(pool_of(request), arena, changed, actor=actor_of(request).name)
    except BadOption as error:
        return _form(request, found, policy, given, trouble=str(error), status=422)
    return redirect_with_notice("policy" if changed else "unchanged", "arenas", arena, "policy")


@router.get("/phase", response_class=HTMLResponse)
async def phase_page(arena: str, request: Request) -> HTMLResponse:
    """The four phases, and the current one."""
    found = await arena_of(request, arena)
    policy = await current_policy(pool_of(request), arena)
    return arena_page(request, found, "phase.html", "phase", phases=PHASES, phase=policy.phase)


@router.get("/phase/confirm", response_class=HTMLResponse)
async def phase_confirm(arena: str, request: Request, phase: int) -> HTMLResponse:
    """Confirm a change of phase."""
    found = await arena_of(request, arena)
    policy = await current_policy(pool_of(request), arena)
    apply_policy_changes(policy, {"phase": phase})
    return arena_page(
        request, found, "phase_confirm.html", "phase", now=PHASES[policy.phase - 1], then=PHASES[phase - 1]
    )


@router.post("/phase")
async def phase_form(arena: str, request: Request) -> Response:
    """Change the phase."""
    given = str((await request.form()).get("phase", ""))
    before = await current_policy(pool_of(request), arena)
    number = whole_number(given)
    changed = {"phase": given[:100] if number is None else number}
    after = await set_policy(pool_of(request), arena, changed, actor=actor_of(request).name)
    return redirect_with_notice("unchanged" if after == before else "phase", "arenas", arena, "phase")


def constants(policy: Policy, given: Mapping[str, str]) -> list[tuple[str, list[PolicyConstant]]]:
    """All constants but the phase, by group; ``given`` values replace the current ones."""
    return [(title, [_constant(policy, name, given) for name in names]) for title, names in GROUPS]


def read_constants(policy: Policy, given: Mapping[str, str]) -> dict[str, object]:
    """The constants that a form changes; `BadOption` for invalid values."""
    changed: dict[str, object] = {}
    for name in (one.name for one in fields(Policy) if one.name not in _NOT_EDITABLE):
        old = getattr(policy, name)
        texts = [given.get(one) for one, _, _ in _inputs(name, old, {})]
        if None in texts:
            continue
        values = [_read(name, text or "", old[0] if name == _MULTI_VALUE_CONSTANT else old) for text in texts]
        value = tuple(values) if name == _MULTI_VALUE_CONSTANT else values[0]
        if value != old:
            changed[name] = value
    return changed


def _form(
    request: Request,
    arena: Arena,
    policy: Policy,
    given: Mapping[str, str],
    *,
    trouble: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    groups = constants(policy, given)
    return arena_page(
        request, arena, "policy.html", "policy", status=status, groups=groups, fixed=FIXED, trouble=trouble
    )


def _constant(policy: Policy, name: str, given: Mapping[str, str]) -> PolicyConstant:
    return PolicyConstant(
        name=name,
        label=LABELS[name],
        meaning=MEANINGS[name],
        expected=_expected(name),
        default=_text(getattr(Policy(), name)),
        fixed=name in KEPT_SHAPES,
        choices=_CHOICES.get(name, ()),
        inputs=_inputs(name, getattr(policy, name), given),
    )


def _expected(name: str) -> str:
    return EXPECTED.get(name) or next(expected for names, _, _, expected in BOUNDS if name in names)


def _inputs(name: str, value: Any, given: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    if name != _MULTI_VALUE_CONSTANT:
        return ((name, name, given.get(name, _text(value))),)
    labels = [LANES[lane.name.lower()] for lane in Lane]
    return tuple(
        (f"{name}_{k}", labels[k], given.get(f"{name}_{k}", _text(one))) for k, one in enumerate(value)
    )


def _read(name: str, text: str, old: object) -> object:
    """Parse the text of an input, in the type of the current value."""
    text = text.strip()
    if isinstance(old, str):
        return text
    whole = isinstance(old, int)
    value = whole_number(text) if whole else finite_number(text)
    if value is None:
        raise BadOption(f"{name} is {text[:100]!r}; expected {'a whole number' if whole else 'a number'}")
    return value


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
