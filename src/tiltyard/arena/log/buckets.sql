-- name: buckets_find
-- The bucket in which an arena's log lies, and whether it is being moved to another.
SELECT bucket, moving_to IS NOT NULL FROM arenas WHERE arena = %(arena)s;

-- name: buckets_lock
-- One transaction at a time creates tables of a bucket.
SELECT pg_advisory_xact_lock(7208, %(bucket)s);

-- name: buckets_table
-- Whether a table exists.
SELECT to_regclass(%(name)s::text) IS NOT NULL;
