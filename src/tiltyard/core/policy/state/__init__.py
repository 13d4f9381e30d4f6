"""The ranking policy's state of an arena (`Standing`), folded from served matchups and votes.

This package is pure: no clock, no environment, no logging and no files. A `Standing` is
folded event by event or in bulk, with bit-for-bit the same result; the rules (`validity`) and
the lanes (`matchmaking`) read only this state.
"""
