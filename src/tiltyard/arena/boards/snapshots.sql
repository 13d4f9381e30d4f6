-- name: snapshots_add
-- A board as it was published; nothing happens if there is one of this place already.
INSERT INTO snapshots (arena, source, generation, position, sha256, votes, evaluated, document, shadow, strengths,
                       summary)
VALUES (%(arena)s, %(source)s, %(generation)s, %(position)s, %(sha256)s, %(votes)s, %(evaluated)s,
        %(document)s, %(shadow)s, %(strengths)s, %(summary)s)
ON CONFLICT (arena, source, generation, position) DO UPDATE
SET evaluated = snapshots.evaluated OR excluded.evaluated
RETURNING sha256;

-- name: snapshots_latest
-- The newest board of a source.
SELECT arena, source, generation, position, sha256, votes, evaluated, document, shadow, strengths, made_at
FROM snapshots WHERE arena = %(arena)s AND source = %(source)s
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_latest_place
-- Generation and position of the newest board of a source.
SELECT generation, position FROM snapshots WHERE arena = %(arena)s AND source = %(source)s
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_by_hash
-- A board of an arena by the hash of its document.
SELECT arena, source, generation, position, sha256, votes, evaluated, document, shadow, strengths, made_at
FROM snapshots WHERE sha256 = %(sha256)s AND arena = %(arena)s
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_list
-- Boards of a source, newest first, before a given one. Those of the newest generation that are kept for ever
-- can be cited.
SELECT s.source, s.generation, s.position, s.sha256, s.votes, s.evaluated, s.made_at,
       s.generation = newest.generation AND (s.evaluated OR s.generation > 0 AND NOT EXISTS (
           SELECT FROM snapshots earlier
           WHERE earlier.arena = s.arena AND earlier.source = s.source
               AND earlier.generation = s.generation AND earlier.position < s.position
       ))
FROM snapshots s
CROSS JOIN (
    SELECT max(generation) AS generation FROM snapshots WHERE arena = %(arena)s AND source = %(source)s
) newest
WHERE s.arena = %(arena)s AND s.source = %(source)s
    AND (%(generation)s::bigint IS NULL OR (s.generation, s.position) < (%(generation)s, %(position)s))
ORDER BY s.generation DESC, s.position DESC LIMIT %(limit)s;

-- name: snapshots_scores
-- What boards said of these models: the one at a place and those before it on which an evaluation fell, every
-- so-manieth of them, oldest first.
WITH kept AS (
    SELECT generation, position, votes, document,
           row_number() OVER (ORDER BY generation DESC, position DESC) - 1 AS back, count(*) OVER () AS boards
    FROM snapshots
    WHERE arena = %(arena)s AND source = %(source)s
        AND ((generation, position) = (%(generation)s, %(position)s)
            OR evaluated AND (generation, position) < (%(generation)s, %(position)s))
)
SELECT r.value ->> 'model', d.document ->> 'at', k.votes,
       (r.value ->> CASE WHEN %(elo)s THEN 'legacy_elo' ELSE 'bradley_terry' END)::float8
FROM kept k
CROSS JOIN LATERAL (SELECT k.document::jsonb AS document OFFSET 0) d
CROSS JOIN LATERAL jsonb_array_elements(d.document -> 'rows') AS r (value)
WHERE k.back %% greatest((k.boards + %(most)s - 1) / %(most)s, 1) = 0
    AND r.value ->> 'model' = ANY(%(models)s::text[])
ORDER BY k.generation, k.position;

-- name: snapshots_citable
-- The last board of a generation, up to a place, that is kept for ever: an evaluation fell on it, or it is the first
-- after votes were excluded or restored.
SELECT s.source, s.generation, s.position, s.sha256, s.votes, s.evaluated, s.made_at, true
FROM snapshots s
WHERE s.arena = %(arena)s AND s.source = %(source)s
    AND s.generation = %(generation)s AND s.position <= %(position)s
    AND (s.evaluated OR s.generation > 0 AND NOT EXISTS (
        SELECT FROM snapshots earlier
        WHERE earlier.arena = s.arena AND earlier.source = s.source
            AND earlier.generation = s.generation AND earlier.position < s.position
    ))
ORDER BY s.position DESC LIMIT 1;

-- name: snapshots_amended
-- Of the votes up to a board's position: how many it counts that are excluded as of a later position, and how many it
-- leaves out that count as of then.
SELECT count(*) FILTER (WHERE later AND NOT at_board), count(*) FILTER (WHERE at_board AND NOT later)
FROM (
    SELECT bool_or(x.excluded <= %(position)s AND (x.restored IS NULL OR x.restored > %(position)s)) AS at_board,
           bool_or(x.excluded <= %(upto)s AND (x.restored IS NULL OR x.restored > %(upto)s)) AS later
    FROM exclusions x
    JOIN excluded_votes v USING (exclusion)
    JOIN endings d ON d.arena = %(arena)s AND d.source = v.source AND d.serial = v.serial
    WHERE x.arena = %(arena)s AND v.source = %(source)s AND d.position <= %(position)s AND d.undone IS NULL
    GROUP BY v.serial
) votes;

-- name: snapshots_thin
-- Boards go after a while; the newest of each source stays, and so do those on which an evaluation fell and the first
-- after votes were excluded or restored.
DELETE FROM snapshots s
WHERE NOT s.evaluated AND s.made_at < %(before)s
    AND EXISTS (
        SELECT FROM snapshots newer
        WHERE newer.arena = s.arena AND newer.source = s.source
            AND (newer.generation, newer.position) > (s.generation, s.position)
    )
    AND (s.generation = 0 OR EXISTS (
        SELECT FROM snapshots earlier
        WHERE earlier.arena = s.arena AND earlier.source = s.source
            AND earlier.generation = s.generation AND earlier.position < s.position
    ));
