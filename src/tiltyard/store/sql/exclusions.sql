-- name: exclusions_add
-- Votes are going to be excluded, by the event at this position.
INSERT INTO exclusions (arena, reason, excluded, made_at) VALUES (%(arena)s, %(reason)s, %(position)s, %(at)s)
RETURNING exclusion;

-- name: exclusions_choose
-- Which votes: those that fit everything that was said. Votes that were taken back are none.
WITH chosen AS (
INSERT INTO excluded_votes (exclusion, arena, source, serial)
SELECT %(exclusion)s, d.arena, d.source, d.serial
FROM endings d
JOIN matchups m USING (arena, source, serial)
JOIN events e ON e.arena = d.arena AND e.position = d.position
WHERE d.arena = %(arena)s AND d.kind = 1 AND d.undone IS NULL
    AND (%(source)s::smallint IS NULL OR d.source = %(source)s)
    AND (%(sessions)s::bigint[] IS NULL OR m.session = ANY(%(sessions)s))
    AND (%(matchups)s::uuid[] IS NULL OR m.matchup = ANY(%(matchups)s))
    AND (%(first)s::bigint IS NULL OR e.position >= %(first)s)
    AND (%(end)s::bigint IS NULL OR e.position < %(end)s)
RETURNING serial
)
SELECT count(*) FROM chosen;

-- name: exclusions_position_at
-- The first position at this time or later: positions are in the order of time.
WITH RECURSIVE search (low, high) AS (
    SELECT 1::bigint, coalesce(max(position), 0) + 1 FROM events WHERE arena = %(arena)s
    UNION ALL
    SELECT CASE WHEN e.at < %(at)s THEN e.position + 1 ELSE s.low END,
           CASE WHEN e.at < %(at)s THEN s.high ELSE e.position END
    FROM search s JOIN events e ON e.arena = %(arena)s AND e.position = (s.low + s.high) / 2
    WHERE s.low < s.high
)
SELECT max(low) FROM search;

-- name: exclusions_list
-- Every exclusion of an arena, newest first.
SELECT x.exclusion, x.reason, x.excluded, x.restored, x.made_at,
       (SELECT count(*) FROM excluded_votes v WHERE v.exclusion = x.exclusion)
FROM exclusions x WHERE x.arena = %(arena)s ORDER BY x.exclusion DESC;

-- name: exclusions_find
-- One exclusion of an arena.
SELECT restored FROM exclusions WHERE arena = %(arena)s AND exclusion = %(exclusion)s;

-- name: exclusions_restore
-- Its votes count again, from the event at this position on.
UPDATE exclusions SET restored = %(position)s WHERE arena = %(arena)s AND exclusion = %(exclusion)s;

-- name: exclusions_sessions
-- Whose matchups an arena ever served.
SELECT DISTINCT session FROM matchups WHERE arena = %(arena)s;
