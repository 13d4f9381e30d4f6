"""The ranking policy of an arena: what each constant means, changed after a look at what changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.shadow_boards import shadow_board
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.operators.arena_changes import (
    apply_policy_changes,
    current_method,
    current_policy,
    set_policy,
)
from tiltyard.core.policy.state.policy import PHASES, Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import NotFound
from tiltyard.foundation.field_definitions import FieldDefinition, definitions, whole_number
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router
from tiltyard.wire.arenas import ShadowBoard

router = operator_router("/arenas/{arena}")

#: Name, label and text of an input.
Input = tuple[str, str, str]


@router.get("/policy")
async def policy_page(visit: OnArena) -> HTMLResponse:
    """All constants, with their meanings."""
    policy, settings = await current_method(visit.pool, visit.arena.name)
    return await _form(visit, policy, {}, volatility=settings.glicko2.initial_volatility)


@router.get("/policy/review")
async def policy_review(visit: OnArena) -> HTMLResponse:
    """Review the changes before they are saved."""
    policy = await current_policy(visit.pool, visit.arena.name)
    given = dict(visit.request.query_params)
    visit.on_refusal(_form, policy, given)
    changed = read_constants(policy, given)
    Standing(policy, (), ()).under(apply_policy_changes(policy, changed))
    new = {definition: changed[name] for name, definition in definitions(Policy).items() if name in changed}
    rows = [(one, one.text(getattr(policy, one.name)), one.text(value)) for one, value in new.items()]
    sent = [each for one, value in new.items() for each in _inputs(one, value, {})]
    return visit.page("policy_review.html", "policy", rows=rows, sent=sent)


@router.post("/policy")
async def policy_form(visit: OnArena) -> Response:
    """Save the reviewed changes."""
    policy = await current_policy(visit.pool, visit.arena.name)
    given = {name: str(value) for name, value in (await visit.request.form()).items()}
    visit.on_refusal(_form, policy, given)
    changed = read_constants(policy, given)
    await set_policy(visit.pool, visit.arena.name, changed, actor=visit.actor.name)
    return visit.done("policy" if changed else "unchanged", "policy")


@router.get("/phase")
async def phase_page(visit: OnArena) -> HTMLResponse:
    """The four phases, and the current one."""
    policy = await current_policy(visit.pool, visit.arena.name)
    return visit.page("phase.html", "phase", phases=PHASES, phase=policy.phase)


@router.get("/phase/confirm")
async def phase_confirm(visit: OnArena, phase: int) -> HTMLResponse:
    """Confirm a change of phase."""
    policy = await current_policy(visit.pool, visit.arena.name)
    apply_policy_changes(policy, {"phase": phase})
    now, then = PHASES[policy.phase - 1], PHASES[phase - 1]
    return visit.page("phase_confirm.html", "phase", now=now, then=then, shadow=await _shadow(visit))


@router.post("/phase")
async def phase_form(visit: OnArena) -> Response:
    """Change the phase."""
    given = str((await visit.request.form()).get("phase", ""))
    before = await current_policy(visit.pool, visit.arena.name)
    number = whole_number(given)
    changed = {"phase": given[:100] if number is None else number}
    after = await set_policy(visit.pool, visit.arena.name, changed, actor=visit.actor.name)
    return visit.done("unchanged" if after == before else "phase", "phase")


@router.get("/shadow")
async def shadow_page(visit: OnArena) -> HTMLResponse:
    """Each model's rank by legacy Elo and under the policy, and why they differ."""
    policy = await current_policy(visit.pool, visit.arena.name)
    return visit.page("shadow.html", "shadow", phase=policy.phase, shadow=await _shadow(visit))


async def _shadow(visit: ArenaVisit) -> ShadowBoard | None:
    """That of people's votes, if there is a board."""
    try:
        return shadow_board(await boards_of(visit.request).latest(visit.arena.arena, HUMAN))
    except NotFound:
        return None


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


async def _form(visit: ArenaVisit, policy: Policy, given: Mapping[str, str], **said: Any) -> HTMLResponse:
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
