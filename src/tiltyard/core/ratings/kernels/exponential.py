"""The exponential function in additions and multiplications alone: the same bits on every machine.

Libraries round `exp` as their processor's fastest variant does. State that is folded vote by vote must not depend
on it. The same source runs as Python or compiled.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

#: Whole, to 30 digits, because a step is subtracted in two parts.
_LN_2 = Decimal("0.693147180559945309417232121458")
#: Powers of two are tabulated in this many steps from one to the next.
_STEP_COUNT = 32
STEPS_PER_LOGIT = float(_STEP_COUNT / _LN_2)
#: ln 2 / 32 in two parts. The first has 30 bits: products with whole numbers below 2²³ are exact.
LN_2_HIGH = math.floor(float(_LN_2 / _STEP_COUNT) * 34_359_738_368.0) / 34_359_738_368.0
LN_2_LOW = float(_LN_2 / _STEP_COUNT - Decimal(LN_2_HIGH))


def _tabulate_roots() -> list[Decimal]:
    """2^(k/32), by square roots that are rounded at the fiftieth digit."""
    context = Context(prec=50)
    step = Decimal(2)
    for _ in range(_STEP_COUNT.bit_length() - 1):
        step = context.sqrt(step)
    roots = [Decimal(1)]
    for _ in range(_STEP_COUNT - 1):
        roots.append(context.multiply(roots[-1], step))
    return roots


#: The largest number whose exponential is one.
LARGEST_LOGITS = 709.782712893384
#: Coefficients of the series: 1/k!.
_3, _4, _5, _6 = 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0
#: 2^(k/32) as the nearest number, and what that leaves.
ROOTS = tuple(float(root) for root in _tabulate_roots())
ROOT_TAILS = tuple(float(root - Decimal(float(root))) for root in _tabulate_roots())


def exp(x: float) -> float:
    """e to the power of x, wrong by less than 0.55 units in the last place; subnormal results by less than 1.1.

    x = k·ln 2/32 + r: 2^(k/32) is looked up, and e^r − 1 is a short series, because r is below 0.011.
    """
    if not -746.0 < x <= LARGEST_LOGITS:
        return x if x != x else (math.inf if x > 0.0 else 0.0)
    k = math.floor(x * STEPS_PER_LOGIT + 0.5)
    r = (x - k * LN_2_HIGH) - k * LN_2_LOW
    rest = r + r * r * (0.5 + r * (_3 + r * (_4 + r * (_5 + r * _6))))
    root = ROOTS[k & 31]
    return math.ldexp(root + (ROOT_TAILS[k & 31] + root * rest), k >> 5)
