"""Standing: what the ranking policy knows of an arena, folded from what was served and voted.

This room is pure. It has no clock, no environment, no logging and no files. A `Standing` is
folded event by event or in bulk, and both reach the same bits; it is the one thing that the
rules (`validity`) and the lanes (`matchmaking`) look at.
"""
