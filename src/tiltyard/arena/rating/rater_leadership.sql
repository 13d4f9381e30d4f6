-- name: leading_alive
-- A leader whose machine has vanished is noticed within seconds, and its locks are freed.
SELECT set_config('tcp_keepalives_idle', '1', false), set_config('tcp_keepalives_interval', '1', false),
       set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '4000', false);

-- name: leading_try
-- The lock of an arena's leader, held as long as the connection lives; false if another has it.
SELECT pg_try_advisory_lock(7207, %(arena)s);

-- name: leading_release
-- Another may lead.
SELECT pg_advisory_unlock(7207, %(arena)s);

-- name: leading_term
-- A new leader's number: whatever its predecessors still write finds another one.
INSERT INTO raters (arena, term, leader) VALUES (%(arena)s, 1, %(leader)s)
ON CONFLICT (arena) DO UPDATE
SET term = raters.term + 1, leader = excluded.leader, updated_at = now()
RETURNING term;

-- name: leading_resign
-- Nobody leads for now.
UPDATE raters SET leader = NULL WHERE arena = %(arena)s AND term = %(term)s;

-- name: leading_held
-- Arenas whose lock this connection holds.
SELECT objid::integer FROM pg_locks
WHERE locktype = 'advisory' AND classid = 7207 AND objsubid = 2 AND granted AND pid = pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
