"""Settings and constants that are defined once: what each accepts follows from its type, bounds and choices."""

import math
from dataclasses import MISSING

import pytest

from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadOption
from tiltyard.foundation.field_definitions import definitions
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings

OWNERS = (ArenaSettings, ServingSettings, Policy)
FIELDS = [one for owner in OWNERS for one in definitions(owner).values()]


def named(one):
    return one.name


def refused(definition, value):
    with pytest.raises(BadOption) as caught:
        definition.check(value)
    return caught.value.option == definition.name


@pytest.mark.parametrize("definition", FIELDS, ids=named)
def test_a_default_is_allowed_and_survives_a_form_and_so_is_each_choice(definition):
    assert definition.default is not MISSING
    definition.check(definition.default)
    if definition.kind is not tuple or not definition.default:
        assert definition.read(definition.text(definition.default)) == definition.default
    for choice in definition.choices or ():
        definition.check((choice,) if definition.kind is tuple else choice)
    assert definition.meaning
    assert definition.expected


@pytest.mark.parametrize("definition", FIELDS, ids=named)
def test_values_of_another_type_are_refused(definition):
    wrong = [[], {}, object(), b"x", math.nan, math.inf, -math.inf]
    wrong += [] if definition.optional else [None]
    wrong += [] if definition.kind is bool else [True]
    wrong += [] if definition.kind is str and not definition.choices else ["no such choice"]
    wrong += [1.5] if definition.kind is int else []
    wrong += [("no such choice",)] if definition.choices or definition.kind is not tuple else []
    assert all(refused(definition, value) for value in wrong)


@pytest.mark.parametrize(
    "definition",
    [one for one in FIELDS if one.kind in (int, float) and not math.isinf(one.bounds[0])],
    ids=named,
)
def test_bounds_are_the_last_values_that_are_allowed(definition):
    least, most = definition.bounds
    step = 1 if definition.kind is int else 1e-13
    definition.check(least)
    assert refused(definition, least - step)
    if math.isfinite(most):
        definition.check(most)
        assert refused(
            definition, most + max(step, abs(most) * 1e-12) if definition.kind is float else most + 1
        )
    for text in ("", "x", "1e999", "9" * 400, "²"):
        if text or not definition.optional:
            with pytest.raises(BadOption):
                definition.read(text)


def test_what_may_be_empty_is_read_as_none():
    assert definitions(ArenaSettings)["remark_retention_days"].read("") is None
    assert definitions(ArenaSettings)["remark_retention_days"].read("30") == 30
    assert definitions(ServingSettings)["trusted_proxies"].read(" 10.0.0.7 ,, 10.1.0.0/16") == (
        "10.0.0.7",
        "10.1.0.0/16",
    )
    assert definitions(ServingSettings)["log_requests"].read("Yes") is True
