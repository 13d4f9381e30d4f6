-- name: live_running_arenas
-- Arenas in which turns have not ended.
SELECT DISTINCT arena FROM live_turns WHERE ended_at IS NULL ORDER BY arena;
