-- name: limits_lease
-- Refill buckets, subtract what a process has spent of each without a lease, and grant it a block if one is left. The
-- buckets are sorted, so that two processes do not wait for each other. A clock that goes back refills nothing.
INSERT INTO limit_buckets AS known (bucket, capacity, seconds, tokens, spent, granted, leased_at)
SELECT bucket, capacity, seconds, capacity - spent - granted, spent, granted, clock_timestamp()
FROM unnest(%(hashes)s::bytea[], %(capacities)s::float8[], %(spans)s::float8[], %(spent)s::float8[],
            %(blocks)s::float8[]) AS asked (bucket, capacity, seconds, spent, block),
    LATERAL (SELECT least(block, greatest(floor(capacity - spent), 0)) AS granted) AS first
ON CONFLICT (bucket) DO UPDATE SET
    capacity = excluded.capacity,
    seconds = excluded.seconds,
    spent = excluded.spent,
    leased_at = excluded.leased_at,
    (tokens, granted) = (
        SELECT greatest(left_over - granting, -excluded.capacity), granting
        FROM (
            SELECT least(
                excluded.capacity,
                known.tokens + greatest(extract(epoch FROM excluded.leased_at - known.leased_at), 0)
                    * excluded.capacity / excluded.seconds
            ) - excluded.spent AS left_over
        ) AS refilled,
        LATERAL (SELECT least(excluded.granted, greatest(floor(left_over), 0)) AS granting) AS block
    )
RETURNING bucket, granted, tokens;

-- name: limits_purge
-- Delete buckets that have been full again for a long time.
DELETE FROM limit_buckets WHERE leased_at < clock_timestamp() - interval '2 hours';

-- name: network_keys_make
-- The key of a day, unless another process has made it.
INSERT INTO network_keys (day, key) VALUES (%(day)s, %(key)s) ON CONFLICT DO NOTHING;

-- name: network_keys_find
-- The key of a day.
SELECT key FROM network_keys WHERE day = %(day)s;

-- name: network_keys_delete
-- Delete the keys of earlier days.
DELETE FROM network_keys WHERE day < %(before)s;
