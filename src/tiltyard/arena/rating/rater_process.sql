-- name: leading_term
-- A new leader's number, unless the lease of the present leader is valid: whatever predecessors still write finds another
-- number.
INSERT INTO raters (arena, term, leader, process) VALUES (%(arena)s, 1, %(leader)s, %(process)s)
ON CONFLICT (arena) DO UPDATE
SET term = raters.term + 1, leader = excluded.leader, process = excluded.process, updated_at = now()
WHERE raters.process IS NULL OR raters.process = excluded.process OR NOT EXISTS (
    SELECT FROM processes p WHERE p.process = raters.process AND p.expires_at > clock_timestamp()
)
RETURNING term;

-- name: leading_resign
-- Nobody leads for now.
UPDATE raters SET leader = NULL, process = NULL WHERE arena = %(arena)s AND term = %(term)s;

-- name: leading_held
-- Arenas that a process leads, with their terms.
SELECT arena, term FROM raters WHERE process = %(process)s;
