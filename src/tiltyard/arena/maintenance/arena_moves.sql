-- name: moves_begin
-- An arena is going to be moved: from now on nobody remembers its bucket. Returns the bucket in which it lies.
UPDATE arenas SET moving_to = %(target)s WHERE arena = %(arena)s AND bucket <> %(target)s RETURNING bucket;

-- name: moves_switch
-- The log lies in the new bucket from now on; no row is changed if it already does.
UPDATE arenas SET bucket = %(target)s, moving_to = NULL, moved_from = %(source)s, moved_at = now()
WHERE arena = %(arena)s AND bucket = %(source)s AND moving_to = %(target)s;

-- name: moves_left
-- The bucket in which an old copy of a log lies, and for how many seconds nobody has used it.
SELECT moved_from, extract(epoch FROM now() - moved_at)::double precision FROM arenas
WHERE arena = %(arena)s AND moved_from IS NOT NULL AND moved_from <> bucket;

-- name: moves_forget
-- The old copy was deleted.
UPDATE arenas SET moved_from = NULL, moved_at = NULL WHERE arena = %(arena)s;

-- name: moves_last_serial
-- The last serial of a source's matchups, or -1.
SELECT coalesce(max(serial), -1) FROM matchups WHERE arena = %(arena)s AND source = %(source)s;

-- name: moves_delete_events
-- Delete an old copy of the log.
DELETE FROM events WHERE arena = %(arena)s;

-- name: moves_delete_matchups
-- Delete an old copy of the matchups.
DELETE FROM matchups WHERE arena = %(arena)s;

-- name: moves_delete_endings
-- Delete an old copy of the endings.
DELETE FROM endings WHERE arena = %(arena)s;

-- name: moves_columns
-- The columns of a partitioned table, without the bucket.
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass(%(table)s::text) AND attnum > 0 AND NOT attisdropped AND attname <> 'bucket'
ORDER BY attnum;
