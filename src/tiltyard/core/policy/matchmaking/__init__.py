"""Matchmaking: which two models meet next, and on which prompt.

This room is pure. A lane is a function of a standing and a seeded generator; what it returns
says which lane chose, why, and how likely the choice was.
"""
