"""The ranking policy of an arena: what each constant means, changed after a look at what changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.operators.arena_changes import apply_policy_changes, current_policy, set_policy
from tiltyard.core.policy.state.policy import PHASES, Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import BadOption
from tiltyard.foundation.field_definitions import FieldDefinition, definitions, whole_number
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router

router = operator_router("/arenas/{arena}")

#: Name, label and text of an input.
Input = tuple[str, str, str]


@router.get("/policy", response_class=HTMLResponse)
async def policy_page(visit: OnArena) -> HTMLResponse:
    """All constants, with their meanings."""
    policy = await current_policy(visit.pool, visit.arena.name)
    return _form(visit, policy, {})


@router.get("/policy/review", response_class=HTMLResponse)
async def policy_review(visit: OnArena) -> HTMLResponse:
    """Review the changes before they are saved."""
    policy = await current_policy(visit.pool, visit.arena.name)
    given = dict(visit.request.query_params)
    try:
        changed = read_constants(policy, given)
        Standing(policy, (), ()).under(apply_policy_changes(policy, changed))
    except BadOption as error:
        return _form(visit, policy, given, trouble=str(error), status=422)
    new = {definition: changed[name] for name, definition in definitions(Policy).items() if name in changed}
    rows = [(one, one.text(getattr(policy, one.name)), one.text(value)) for one, value in new.items()]
    sent = [each for one, value in new.items() for each in _inputs(one, value, {})]
    return visit.page("policy_review.html", "policy", rows=rows, sent=sent)


@router.post("/policy")
async def policy_form(visit: OnArena) -> Response:
    """Save the reviewed changes."""
    policy = await current_policy(visit.pool, visit.arena.name)
    given = {name: str(value) for name, value in (await visit.request.form()).items()}
    try:
        changed = read_constants(policy, given)
        await set_policy(visit.pool, visit.arena.name, changed, actor=visit.actor.name)
    except BadOption as error:
        return _form(visit, policy, given, trouble=str(error), status=422)
    return visit.done("policy" if changed else "unchanged", "policy")


@router.get("/phase", response_class=HTMLResponse)
async def phase_page(visit: OnArena) -> HTMLResponse:
    """The four phases, and the current one."""
    policy = await current_policy(visit.pool, visit.arena.name)
    return visit.page("phase.html", "phase", phases=PHASES, phase=policy.phase)


@router.get("/phase/confirm", response_class=HTMLResponse)
async def phase_confirm(visit: OnArena, phase: int) -> HTMLResponse:
    """Confirm a change of phase."""
    policy = await current_policy(visit.pool, visit.arena.name)
    apply_policy_changes(policy, {"phase": phase})
    return visit.page("phase_confirm.html", "phase", now=PHASES[policy.phase - 1], then=PHASES[phase - 1])


@router.post("/phase")
async def phase_form(visit: OnArena) -> Response:
    """Change the phase."""
    given = str((await visit.request.form()).get("phase", ""))
    before = await current_policy(visit.pool, visit.arena.name)
    number = whole_number(given)
    changed = {"phase": given[:100] if number is None else number}
    after = await set_policy(visit.pool, visit.arena.name, changed, actor=visit.actor.name)
    return visit.done("unchanged" if after == before else "phase", "phase")


def constants(
    policy: Policy, given: Mapping[str, str]
) -> dict[str, list[tuple[FieldDefinition, list[Input]]]]:
    """All constants but the phase, by group, each with its inputs; ``given`` values replace the current ones."""
    found: dict[str, list[tuple[FieldDefinition, list[Input]]]] = {}
    for name, definition in definitions(Policy).items():
        if definition.group:
            inputs = _inputs(definition, getattr(policy, name), given)
            found.setdefault(definition.group, []).append((definition, inputs))
    return found


def read_constants(policy: Policy, given: Mapping[str, str]) -> dict[str, object]:
    """The constants that a form changes; `BadOption` for invalid values."""
    changed: dict[str, object] = {}
    for name, definition in definitions(Policy).items():
        old = getattr(policy, name)
        inputs = [one for one, _, _ in _inputs(definition, old, {})]
        if definition.fixed or not definition.group or not given.keys() >= set(inputs):
            continue
        texts = [given[one].strip() for one in inputs]
        value = (
            tuple(map(replace(definition, kind=float).read, texts))
            if definition.kind is tuple
            else definition.read(texts[0])
        )
        if value != old:
            changed[name] = value
    return changed


def _form(visit: ArenaVisit, policy: Policy, given: Mapping[str, str], **said: Any) -> HTMLResponse:
    groups = constants(policy, given)
    return visit.page("policy.html", "policy", groups=groups, **said)


def _inputs(definition: FieldDefinition, value: Any, given: Mapping[str, str]) -> list[Input]:
    """An input for the value, or for each of several, one for each lane."""
    name = definition.name
    if definition.kind is not tuple:
        return [(name, name, given.get(name, definition.text(value)))]
    named = {f"{name}_{lane.value}": lane.name.capitalize() for lane in Lane}
    return [
        (one, label, given.get(one, definition.text(each)))
        for (one, label), each in zip(named.items(), value, strict=True)
    ]
