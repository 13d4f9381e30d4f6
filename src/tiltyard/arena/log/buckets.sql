-- name: buckets_lock
-- One transaction at a time creates tables of a bucket.
SELECT pg_advisory_xact_lock(7208, %(bucket)s);

-- name: buckets_table
-- Whether a table exists.
SELECT to_regclass(%(name)s::text) IS NOT NULL;
