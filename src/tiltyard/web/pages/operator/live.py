"""The entrants of a live arena: who answers, how well, and what it costs."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse

from tiltyard.arena.live.live_store import OVERVIEW_DAYS, LiveOverview, read_live_overview
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.pages.operator.operator_access import arena_of, arena_page, operator_router, pool_of

router = operator_router("/arenas/{arena}/live")

_MICRODOLLARS_RATIO = 1_000_000


class BudgetRow(NamedTuple):
    """One budget: what is counted, and the most that may be, in dollars."""

    name: str
    counted: str
    limit: str | None


@router.get("", response_class=HTMLResponse)
async def live_page(arena: str, request: Request) -> HTMLResponse:
    """Entrants, failures and money."""
    found = await arena_of(request, arena)
    overview = await read_live_overview(pool_of(request), found.arena) if found.settings.is_live else None
    return arena_page(
        request,
        found,
        "live.html",
        "live",
        overview=overview,
        budgets=() if overview is None else _budgets(overview, found.settings),
        days=OVERVIEW_DAYS,
        dollars=_dollars,
    )


def _budgets(overview: LiveOverview, settings: ArenaSettings) -> tuple[BudgetRow, ...]:
    return (
        BudgetRow("total", _dollars(overview.spending.total), _limit(settings.live_budget_dollars)),
        BudgetRow("today", _dollars(overview.spending.day), _limit(settings.live_day_dollars)),
    )


def _limit(dollars: float | None) -> str | None:
    return None if dollars is None else f"${dollars:,.2f}"


def _dollars(microdollars: int) -> str:
    """Cents, and more decimals for what is less than one."""
    dollars = microdollars / _MICRODOLLARS_RATIO
    return f"${dollars:,.2f}" if dollars >= 0.01 or not microdollars else f"${dollars:.6f}"
