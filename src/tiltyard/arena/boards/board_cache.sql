-- name: boards_listen
-- New snapshots are announced here.
LISTEN tiltyard_snapshot;

-- name: boards_places
-- Generation and position of the newest board of each of these arenas and source.
SELECT a.arena, s.source, newest.generation, newest.position
FROM unnest(%(arenas)s::integer[]) AS a (arena)
CROSS JOIN (VALUES (0), (1)) AS s (source)
CROSS JOIN LATERAL (
    SELECT generation, position FROM snapshots
    WHERE arena = a.arena AND source = s.source
    ORDER BY generation DESC, position DESC LIMIT 1
) newest;

-- name: boards_history
-- One model's row on the boards on which an evaluation fell, newest first.
SELECT s.generation, s.position, s.made_at, s.votes, r.value
FROM snapshots s
CROSS JOIN LATERAL (
    SELECT value FROM jsonb_array_elements(s.document::jsonb -> 'rows') AS rows (value)
    WHERE value ->> 'model' = %(model)s LIMIT 1
) r
WHERE s.arena = %(arena)s AND s.source = %(source)s AND s.evaluated
ORDER BY s.generation DESC, s.position DESC LIMIT %(limit)s;
