"""The pure core: battles, ratings, the ranking policy, judging and boards.

No I/O, no clock, no environment, no logging and no random state of its own; import-linter enforces it.
"""
