-- name: checkpoints_add
-- Store a checkpoint.
INSERT INTO checkpoints (arena, generation, position, digest, state, kernel)
VALUES (%(arena)s, %(generation)s, %(position)s, %(digest)s, %(state)s, %(version)s)
ON CONFLICT (arena, generation, position) DO UPDATE
SET kernel = excluded.kernel, digest = excluded.digest, state = excluded.state, made_at = now();

-- name: checkpoints_newest
-- The furthest checkpoint that this version can read.
SELECT arena, generation, position, digest, state, kernel FROM checkpoints
WHERE arena = %(arena)s AND kernel = %(version)s
ORDER BY position DESC, generation DESC LIMIT 1;

-- name: checkpoints_behind
-- Arenas that are rated further than the checkpoints of this version, while those of another version come nearer.
SELECT arena FROM (
    SELECT r.arena, r.position,
           coalesce(max(c.position) FILTER (WHERE c.kernel = %(version)s), 0) AS own,
           max(c.position) FILTER (WHERE c.kernel <> %(version)s) AS others
    FROM raters r JOIN checkpoints c USING (arena) WHERE r.position > %(events)s GROUP BY r.arena
) AS rated
WHERE position - own > %(events)s AND others > own ORDER BY position, arena;

-- name: checkpoints_list
-- Which checkpoints there are, the furthest first.
SELECT generation, position, kernel FROM checkpoints WHERE arena = %(arena)s
ORDER BY position DESC, generation DESC;

-- name: checkpoints_find
-- One checkpoint.
SELECT arena, generation, position, digest, state, kernel FROM checkpoints
WHERE arena = %(arena)s AND generation = %(generation)s AND position = %(position)s;

-- name: checkpoints_remove
-- Checkpoints that are not needed any more.
DELETE FROM checkpoints c
USING unnest(%(generations)s::bigint[], %(positions)s::bigint[]) AS gone (generation, position)
WHERE c.arena = %(arena)s AND c.generation = gone.generation AND c.position = gone.position;

-- name: checkpoints_forget
-- Delete checkpoints from a position on, of the generations up to one: they have the number of a voter who was erased.
DELETE FROM checkpoints WHERE arena = %(arena)s AND position >= %(first)s AND generation <= %(generation)s;
