"""Reports of simulated arenas: forecasts, and the policy compared with its thresholds."""

from tiltyard.report.simulation.forecast_report import (
    simulation_markdown,
    simulation_page,
    simulation_sentence,
    simulation_svgs,
    simulation_tables,
)

__all__ = [
    "simulation_markdown",
    "simulation_page",
    "simulation_sentence",
    "simulation_svgs",
    "simulation_tables",
]
