-- name: voters_list
-- Sessions by how many of their votes stand, with what can be counted of each; all, or one of them.
SELECT m.session, m.source, count(*) AS votes,
       count(*) FILTER (WHERE d.outcome IN (0, 4)), count(*) FILTER (WHERE d.outcome IN (1, 5)),
       count(*) FILTER (WHERE d.outcome IN (2, 6)), count(*) FILTER (WHERE d.outcome = 3 OR d.both_bad),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.at - m.served_at)::double precision)
           FILTER (WHERE d.mark IS DISTINCT FROM 4),
       min(d.at), max(d.at), count(DISTINCT (d.at AT TIME ZONE %(timezone)s)::date),
       count(*) FILTER (WHERE EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = d.arena AND v.source = d.source AND v.serial = d.serial AND x.restored IS NULL
       )),
       count(*) FILTER (WHERE d.mark IN (1, 2)), count(*) FILTER (WHERE d.mark = 3 AND d.admitted IS NULL)
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND (%(session)s::bigint IS NULL OR m.session = %(session)s)
    AND d.kind = 1 AND d.undone IS NULL
GROUP BY m.session, m.source
ORDER BY votes DESC, m.session, m.source LIMIT %(limit)s OFFSET %(offset)s;

-- name: voters_votes
-- Votes of one session, newest first, a page of them, with what was said of each.
SELECT d.position, d.at, m.served_at, d.source, a.name, b.name, p.name, d.outcome,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = d.arena AND v.source = d.source AND v.serial = d.serial AND x.restored IS NULL
       ),
       vote_unrated(d.blind, d.mark, d.admitted, 9223372036854775807), coalesce(r.tags, '{}'), r.comment, m.matchup
FROM matchups m
JOIN endings d USING (arena, source, serial)
JOIN models a ON a.arena = m.arena AND a.model = m.a
JOIN models b ON b.arena = m.arena AND b.model = m.b
JOIN prompts p ON p.arena = m.arena AND p.prompt = m.prompt
LEFT JOIN remarks r ON r.arena = m.arena AND r.source = m.source AND r.serial = m.serial
WHERE m.arena = %(arena)s AND m.session = %(session)s AND d.kind = 1 AND d.undone IS NULL
    AND d.position < %(before)s
ORDER BY d.position DESC LIMIT %(limit)s;

-- name: voters_to_hold
-- The matchups of votes of some sessions that are not excluded: all votes of some of them, of the others those that wait.
-- None of a session whose votes were excluded for this reason and restored.
SELECT m.matchup FROM matchups m JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = 0 AND m.session = ANY(%(sessions)s::bigint[]) AND d.kind = 1 AND d.undone IS NULL
    AND (m.session = ANY(%(wholly)s::bigint[]) OR (d.mark = 3 AND d.admitted IS NULL))
    AND NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE v.arena = m.arena AND v.source = m.source AND v.serial = m.serial AND x.restored IS NULL
    ) AND NOT EXISTS (
        SELECT FROM matchups o JOIN excluded_votes v USING (arena, source, serial) JOIN exclusions x USING (exclusion)
        WHERE o.arena = m.arena AND o.session = m.session AND x.reason = %(reason)s AND x.restored IS NOT NULL
    );

-- name: voters_latest
-- Matchups of people that ended after a position, without imported votes, in that order: session, models, outcome of a vote (-1 if there is
-- none: skipped, expired, or fetched ahead and never shown), whether it came too early, whether it waits to count (1) or counts (2), when it was served and when it ended.
SELECT m.session, m.a, m.b, CASE e.kind WHEN 1 THEN vote_kind(d.outcome, d.both_bad) ELSE -1 END,
       (e.kind = 1 AND d.mark IN (1, 2) AND d.mark IS NOT NULL)::integer,
       CASE WHEN e.kind <> 1 OR d.blind IS FALSE OR coalesce(d.mark, 3) <> 3 THEN 0
            WHEN d.mark IS NULL OR d.admitted IS NOT NULL THEN 2 ELSE 1 END,
       (extract(epoch FROM m.served_at) * 1000000)::bigint, (extract(epoch FROM d.at) * 1000000)::bigint
FROM events e
JOIN endings d ON d.arena = e.arena AND d.source = e.source AND d.serial = e.serial AND d.position = e.position
JOIN matchups m ON m.arena = e.arena AND m.source = e.source AND m.serial = e.serial
WHERE e.arena = %(arena)s AND e.position > %(after)s AND e.kind IN (1, 2, 3, 16) AND e.source = 0 AND d.undone IS NULL
    AND d.mark IS DISTINCT FROM 4
    AND NOT EXISTS (
        SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
        WHERE v.arena = d.arena AND v.source = d.source AND v.serial = d.serial AND x.restored IS NULL
    )
ORDER BY e.position;

-- name: voters_remarks
-- A page of remarks on votes that were not undone, newest first.
SELECT r.made_at, r.session, r.tags, r.comment, a.name, b.name, p.name, d.outcome
FROM remarks r
JOIN matchups m USING (arena, source, serial)
JOIN endings d USING (arena, source, serial)
JOIN models a ON a.arena = m.arena AND a.model = m.a
JOIN models b ON b.arena = m.arena AND b.model = m.b
JOIN prompts p ON p.arena = m.arena AND p.prompt = m.prompt
WHERE r.arena = %(arena)s AND d.kind = 1 AND d.undone IS NULL
ORDER BY r.made_at DESC, r.source, r.serial DESC LIMIT %(limit)s OFFSET %(offset)s;
