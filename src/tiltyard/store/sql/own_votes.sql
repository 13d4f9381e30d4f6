-- name: own_votes_totals
-- Of one voter: votes that may be told, votes that may not be yet, matchups passed over.
WITH ended AS (
    SELECT d.kind,
           d.revealed_at IS NOT NULL OR d.at <= now() - make_interval(secs => %(after)s) AS told
    FROM matchups m
    JOIN endings d USING (arena, source, serial)
    WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
        AND d.kind IN (1, 2) AND d.undone IS NULL
)
SELECT count(*) FILTER (WHERE kind = 1 AND told), count(*) FILTER (WHERE kind = 1 AND NOT told),
       count(*) FILTER (WHERE kind = 2)
FROM ended;

-- name: own_votes_counts
-- How often one voter ended each pair how, on each prompt, in votes that may be told.
SELECT m.a, m.b, m.prompt, d.outcome, count(*)
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND d.kind = 1 AND d.undone IS NULL
    AND (d.revealed_at IS NOT NULL OR d.at <= now() - make_interval(secs => %(after)s))
GROUP BY m.a, m.b, m.prompt, d.outcome
ORDER BY m.a, m.b, m.prompt, d.outcome;

-- name: own_votes_recent
-- The last votes of one voter that may be told, newest first.
SELECT m.matchup, d.at, m.a, m.b, m.prompt, d.outcome
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND d.kind = 1 AND d.undone IS NULL
    AND (d.revealed_at IS NOT NULL OR d.at <= now() - make_interval(secs => %(after)s))
ORDER BY d.position DESC LIMIT %(limit)s;
