-- name: contents_lock_shared
-- Shared lock of writers: no bytes are deleted until this transaction ends.
SELECT pg_advisory_xact_lock_shared(7206, 0);

-- name: contents_lock
-- Exclusive lock for deleting: no bytes are stored until this transaction ends.
SELECT pg_advisory_xact_lock(7206, 0);

-- name: contents_known
-- Which of these hashes have a row.
SELECT sha256 FROM contents WHERE sha256 = ANY(%(sha256)s);

-- name: contents_add
-- Bytes by their hash, or only their hash where the bytes lie elsewhere.
INSERT INTO contents (sha256, size, bytes)
SELECT * FROM unnest(%(sha256)s::bytea[], %(size)s::bigint[], %(bytes)s::bytea[])
ON CONFLICT (sha256) DO NOTHING;

-- name: contents_read
-- The bytes with this hash; null where they lie elsewhere.
SELECT bytes FROM contents WHERE sha256 = %(sha256)s;

-- name: contents_of_response
-- The hash and the media type of a response.
SELECT sha256, media_type FROM responses WHERE response = %(response)s AND withdrawn_at IS NULL;

-- name: contents_of_kept
-- The same of a response that may also be hidden, for operators.
SELECT sha256, media_type FROM responses
WHERE response = %(response)s AND (withdrawn_at IS NULL OR hidden_at IS NOT NULL);

-- name: contents_abandoned
-- Hashes that only withdrawn responses refer to (hidden ones may be shown again), and those without a response for a day.
SELECT c.sha256
FROM contents c
WHERE NOT EXISTS (
        SELECT FROM responses r
        WHERE r.sha256 = c.sha256 AND (r.withdrawn_at IS NULL OR r.hidden_at IS NOT NULL)
    )
    AND (
        EXISTS (SELECT FROM responses r WHERE r.sha256 = c.sha256)
        OR c.added_at < now() - interval '1 day'
    );

-- name: contents_still_abandoned
-- Those of them that no live response has got meanwhile.
SELECT c.sha256, c.bytes IS NULL
FROM contents c
WHERE c.sha256 = ANY(%(sha256)s)
    AND NOT EXISTS (
        SELECT FROM responses r
        WHERE r.sha256 = c.sha256 AND (r.withdrawn_at IS NULL OR r.hidden_at IS NOT NULL)
    );

-- name: contents_remove
-- These rows, and the bytes in them.
DELETE FROM contents WHERE sha256 = ANY(%(sha256)s);
