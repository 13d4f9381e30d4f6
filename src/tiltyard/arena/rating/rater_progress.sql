-- name: raters_find
-- How far an arena is rated.
SELECT position, horizon, generation, term FROM raters WHERE arena = %(arena)s;

-- name: raters_arenas
-- The arenas with these numbers, with what their operators have set.
SELECT arena, name, settings FROM arenas WHERE arena = ANY(%(arenas)s) ORDER BY arena;

-- name: raters_buckets
-- All buckets that are in use.
SELECT DISTINCT bucket FROM arenas;

-- name: raters_unrated
-- The arenas of a bucket whose log is longer than what is rated.
SELECT a.arena FROM arenas a LEFT JOIN raters r USING (arena)
WHERE a.bucket = %(bucket)s
    AND EXISTS (SELECT FROM events e WHERE e.arena = a.arena AND e.position > coalesce(r.position, 0));

-- name: raters_time
-- When an event happened.
SELECT at FROM events WHERE arena = %(arena)s AND position = %(position)s;

-- name: raters_first_undoable
-- The first vote after a position that may still be undone, and for how many seconds. A subquery, so that endings are looked up
-- one by one and only as far as needed. An ending at another position has replaced that of an undone vote. Imported votes
-- (mark 4) are final.
SELECT e.position, %(undo_seconds)s - extract(epoch FROM clock_timestamp() - e.at) FROM events e
WHERE e.arena = %(arena)s AND e.position > %(after)s AND e.kind = 1
    AND e.at > clock_timestamp() - make_interval(secs => %(undo_seconds)s) AND e.mark IS DISTINCT FROM 4
    AND coalesce((
        SELECT n.position = e.position AND n.revealed_at IS NULL AND n.undone IS NULL FROM endings n
        WHERE n.arena = %(arena)s AND n.source = e.source AND n.serial = e.serial
    ), true)
ORDER BY e.position LIMIT 1;

-- name: raters_claim
-- Make the votes up to a position final, so that they can no longer be undone.
UPDATE raters SET horizon = greatest(horizon, %(horizon)s) WHERE arena = %(arena)s AND term = %(term)s;

-- name: raters_undone
-- Positions of the votes that were undone by events in a range.
SELECT (detail ->> 'vote')::bigint FROM events
WHERE arena = %(arena)s AND position > %(after)s AND position <= %(upto)s AND kind = 8;

-- name: raters_advance
-- Advance the rater's progress, if it still leads and no other process has changed it.
UPDATE raters SET position = %(position)s, generation = %(generation)s, updated_at = now()
WHERE arena = %(arena)s AND term = %(term)s AND position = %(was_position)s AND generation = %(was_generation)s;

-- name: raters_notify
-- Notify web processes of a new board.
SELECT pg_notify('tiltyard_snapshot', %(payload)s);

-- name: raters_exclusions
-- Exclusions of an arena, with the events by which votes left and came back.
SELECT exclusion, excluded, restored FROM exclusions WHERE arena = %(arena)s;

-- name: raters_erased_from
-- From where on an exclusion erased a voter; null if it did not.
SELECT erased_from FROM exclusions WHERE arena = %(arena)s AND exclusion = %(exclusion)s;

-- name: raters_excluded_votes
-- Votes of these exclusions.
SELECT DISTINCT source, serial FROM excluded_votes WHERE arena = %(arena)s AND exclusion = ANY(%(exclusions)s);

-- name: raters_first_excluded
-- The positions at which the first vote of these exclusions counts, and at which the first was cast; one that waited counts
-- where it was admitted. Where voters were erased, both are their first event.
WITH erased AS (
    SELECT min(erased_from) AS position FROM exclusions WHERE arena = %(arena)s AND exclusion = ANY(%(exclusions)s)
)
SELECT least(min(coalesce(e.admitted, e.position)), (SELECT position FROM erased)),
    least(min(e.position), (SELECT position FROM erased))
FROM excluded_votes v JOIN endings e USING (arena, source, serial)
WHERE v.arena = %(arena)s AND v.exclusion = ANY(%(exclusions)s) AND e.kind = 1;

-- name: raters_open
-- Matchups in a range that had not ended at a position. A vote that was undone is not an ending.
SELECT m.serial, m.nominal, m.lane FROM matchups m LEFT JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = %(source)s AND m.serial >= %(first)s AND m.serial < %(stop)s
    AND (e.position IS NULL OR e.undone IS NOT NULL OR e.position > %(position)s);
