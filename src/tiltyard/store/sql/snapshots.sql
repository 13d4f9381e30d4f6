-- name: snapshots_add
-- A board as it was published; nothing happens if there is one of this place already.
INSERT INTO snapshots (arena, source, generation, position, sha256, votes, evaluated, document, strengths)
VALUES (%(arena)s, %(source)s, %(generation)s, %(position)s, %(sha256)s, %(votes)s, %(evaluated)s,
        %(document)s, %(strengths)s)
ON CONFLICT (arena, source, generation, position) DO UPDATE
SET evaluated = snapshots.evaluated OR excluded.evaluated
RETURNING sha256;

-- name: snapshots_latest
-- The newest board of a source.
SELECT arena, source, generation, position, sha256, votes, evaluated, document, strengths, made_at
FROM snapshots WHERE arena = %(arena)s AND source = %(source)s
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_latest_place
-- Where the newest board of a source stands.
SELECT generation, position FROM snapshots WHERE arena = %(arena)s AND source = %(source)s
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_by_hash
-- A board of an arena by the hash of its document.
SELECT arena, source, generation, position, sha256, votes, evaluated, document, strengths, made_at
FROM snapshots WHERE sha256 = %(sha256)s AND arena = %(arena)s
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_list
-- Boards of a source, newest first, before a given one.
SELECT source, generation, position, sha256, votes, evaluated, made_at
FROM snapshots
WHERE arena = %(arena)s AND source = %(source)s
    AND (%(generation)s::bigint IS NULL OR (generation, position) < (%(generation)s, %(position)s))
ORDER BY generation DESC, position DESC LIMIT %(limit)s;

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
SELECT k.position, k.votes, d.document ->> 'at', r.value ->> 'model', (r.value ->> 'conservative')::float8,
       (r.value ->> 'rating')::float8, (r.value ->> 'rd')::float8, (r.value ->> 'bradley_terry')::float8,
       (r.value ->> 'legacy_elo')::float8
FROM kept k
CROSS JOIN LATERAL (SELECT k.document::jsonb AS document OFFSET 0) d
CROSS JOIN LATERAL jsonb_array_elements(d.document -> 'rows') AS r (value)
WHERE k.back %% greatest((k.boards + %(most)s - 1) / %(most)s, 1) = 0
    AND r.value ->> 'model' = ANY(%(models)s::text[])
ORDER BY k.generation, k.position;

-- name: snapshots_held
-- The last boards up to a place, of its generation, on which an evaluation fell, newest first: did all rules hold?
SELECT s.votes, coalesce((
    SELECT bool_and((rule.value ->> 'holds')::boolean)
    FROM jsonb_array_elements(s.document::jsonb -> 'rules') AS rule (value)
), false)
FROM snapshots s
WHERE s.arena = %(arena)s AND s.source = %(source)s AND s.evaluated
    AND s.generation = %(generation)s AND s.position <= %(position)s
ORDER BY s.position DESC LIMIT %(limit)s;

-- name: snapshots_citable
-- The last board up to a place on which an evaluation fell: such boards stay.
SELECT source, generation, position, sha256, votes, evaluated, made_at
FROM snapshots
WHERE arena = %(arena)s AND source = %(source)s AND evaluated
    AND (generation, position) <= (%(generation)s, %(position)s)
ORDER BY generation DESC, position DESC LIMIT 1;

-- name: snapshots_thin
-- Boards on which no evaluation fell go after a while; the newest of each source stays.
DELETE FROM snapshots s
WHERE NOT s.evaluated AND s.made_at < %(before)s
    AND EXISTS (
        SELECT FROM snapshots newer
        WHERE newer.arena = s.arena AND newer.source = s.source
            AND (newer.generation, newer.position) > (s.generation, s.position)
    );
