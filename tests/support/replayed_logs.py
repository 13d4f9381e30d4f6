"""The log of an arena, folded from its beginning."""

from tiltyard.arena.rating.log_replay import FoldProgress, fold_until


def replay_log(connection, arena, upto, generation):
    """The fold of each source up to a position, with the first ``generation`` exclusions and restorations applied.

    It is the result that a rater must have. Up to the horizon, later events do not change it.
    """
    progress = FoldProgress()
    fold_until(connection, arena, progress, upto, generation)
    return dict(enumerate(progress.followings))
