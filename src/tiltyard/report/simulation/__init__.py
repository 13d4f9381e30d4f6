"""Simulated arenas, shown: what to expect of one, and the policy against its bars."""

from lab.suite_report import suite_markdown, suite_page, suite_svgs, suite_tables

from tiltyard.report.simulation.forecast import (
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
    "suite_markdown",
    "suite_page",
    "suite_svgs",
    "suite_tables",
]
