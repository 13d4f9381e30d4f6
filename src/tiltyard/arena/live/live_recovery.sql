-- name: live_running_arenas
-- Arenas in which turns have not ended.
SELECT DISTINCT arena FROM live_turns WHERE ended_at IS NULL ORDER BY arena;

-- name: live_running_process
-- The process in which the last turn of a battle runs; no row if it has ended.
SELECT process FROM live_turns
WHERE arena = %(arena)s AND matchup = %(matchup)s AND ended_at IS NULL AND process IS NOT NULL;
