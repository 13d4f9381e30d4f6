"""Arenas: voting queues, the rater that follows the log, judges as voters, imports and exports.

Nothing here speaks HTTP: `web` does.
"""
