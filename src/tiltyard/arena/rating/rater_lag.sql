-- name: lags
-- How far each arena's rater has folded its log.
SELECT a.arena, a.name, r.position, r.horizon, r.leader, extract(epoch FROM now() - r.updated_at)::double precision
FROM arenas a LEFT JOIN raters r USING (arena) ORDER BY a.name;

-- name: lags_head
-- How far one arena's log goes. Asked of all at once, it would lock the partitions of all.
SELECT coalesce(max(position), 0) FROM events WHERE arena = %(arena)s;
