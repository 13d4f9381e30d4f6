"""Matchmaking: chooses the next two models and their prompt.

This package is pure. A lane is a function of a standing and a seeded generator; its result
includes the lane, the reason and the probability of the choice.
"""
