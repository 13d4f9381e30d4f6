-- name: lags
-- How far each arena's log goes, and how far its rater has folded it.
SELECT a.name, coalesce(e.head, 0), r.position, r.horizon, r.leader,
       extract(epoch FROM now() - r.updated_at)::double precision
FROM arenas a
LEFT JOIN raters r USING (arena)
LEFT JOIN LATERAL (SELECT max(position) AS head FROM events WHERE events.arena = a.arena) e ON true
ORDER BY a.name;
