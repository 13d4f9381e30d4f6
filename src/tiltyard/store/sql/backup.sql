-- name: backup_heads
-- Every arena and the last position of its log.
SELECT a.name, a.arena, coalesce(e.head, 0)
FROM arenas a
LEFT JOIN LATERAL (SELECT max(position) AS head FROM events WHERE events.arena = a.arena) e ON true
ORDER BY a.name;

-- name: backup_counts
-- Every arena, the first and last position of its log, and how many there are.
SELECT a.name, a.arena, coalesce(e.head, 0), coalesce(e.first, 1), coalesce(e.rows, 0)
FROM arenas a
LEFT JOIN (
    SELECT arena, max(position) AS head, min(position) AS first, count(*) AS rows FROM events GROUP BY arena
) e USING (arena)
ORDER BY a.name;

-- name: backup_bulky
-- Hashes of bytes that do not lie in the database.
SELECT sha256 FROM contents WHERE bytes IS NULL ORDER BY sha256;

-- name: backup_still_named
-- A row if bytes with this hash are still wanted.
SELECT FROM contents WHERE sha256 = %(sha256)s;

-- name: backup_relations
-- Tables, views and sequences that somebody made.
SELECT n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%'
    AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
ORDER BY 1
LIMIT 3;

-- name: backup_recorded
-- A backup was made, or one was restored.
INSERT INTO audit (actor, action, detail) VALUES ('cli', %(action)s, %(detail)s::jsonb);

-- name: backup_last
-- How many seconds ago the last backup was made, and where it was written.
SELECT extract(epoch FROM now() - at)::double precision, detail ->> 'file'
FROM audit WHERE action = 'backup' ORDER BY at DESC LIMIT 1;
