"""Turns at what pages are made of slowly, which are those of boards that are counted on demand."""

from __future__ import annotations

from tiltyard.arena.boards.compute_once import BoundedQueue, SingleFlight

__all__ = ["BoundedQueue", "SingleFlight"]
