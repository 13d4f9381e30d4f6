-- name: report_sums_find
-- The votes of the exploration lane up to the end of the last report, if it ended before this one begins.
SELECT generation, position, explored FROM report_sums WHERE arena = %(arena)s AND until <= %(since)s;

-- name: report_sums_keep
-- Keep them for the next report.
INSERT INTO report_sums (arena, until, generation, position, explored)
VALUES (%(arena)s, %(until)s, %(generation)s, %(position)s, %(explored)s)
ON CONFLICT (arena) DO UPDATE
SET until = excluded.until, generation = excluded.generation, position = excluded.position, explored = excluded.explored;

-- name: reports_position_at
-- The first event after a position that happened at a time or later.
SELECT position FROM events WHERE arena = %(arena)s AND position > %(after)s AND at >= %(at)s
ORDER BY position LIMIT 1;

-- name: reports_lane
-- Serials, in a range, of one source's matchups that a lane chose.
SELECT serial FROM matchups
WHERE arena = %(arena)s AND source = %(source)s AND lane = %(lane)s AND serial >= %(first)s AND serial < %(stop)s;
