"""The live arena: desks that take votes, the rater that follows the log, judges as voters, imports and exports.

Nothing here speaks SQL or HTTP: `store` keeps, `web` talks.
"""
