-- name: lags
-- How far each arena's rater has folded its log.
SELECT a.arena, a.name, r.position, r.horizon, r.leader, extract(epoch FROM now() - r.updated_at)::double precision
FROM arenas a LEFT JOIN raters r USING (arena) ORDER BY a.name;
