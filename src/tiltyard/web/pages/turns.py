"""Turns at what pages are made of slowly, which are those of boards that are counted on demand."""

from __future__ import annotations

from tiltyard.arena.boards.sparing import Together, Turns

__all__ = ["Together", "Turns"]
