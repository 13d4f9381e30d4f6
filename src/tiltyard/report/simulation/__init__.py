"""Simulated arenas, shown: what to expect of one, and the policy against its bars."""

from tiltyard.report.simulation.forecast_report import (
    simulation_markdown,
    simulation_page,
    simulation_svgs,
    simulation_tables,
)

__all__ = [
    "simulation_markdown",
    "simulation_page",
    "simulation_svgs",
    "simulation_tables",
]
