-- name: own_votes_totals
-- Of one voter: votes whose names were told, votes whose names were not, matchups passed over.
WITH ended AS (
    SELECT d.kind, d.revealed_at IS NOT NULL AS told
    FROM matchups m
    JOIN endings d USING (arena, source, serial)
    WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
        AND d.kind IN (1, 2) AND d.undone IS NULL
)
SELECT count(*) FILTER (WHERE kind = 1 AND told), count(*) FILTER (WHERE kind = 1 AND NOT told),
       count(*) FILTER (WHERE kind = 2)
FROM ended;

-- name: own_votes_counts
-- How often one voter ended each pair how, on each prompt, in blind votes whose names were told.
SELECT m.a, m.b, m.prompt, d.outcome, count(*)
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND d.kind = 1 AND d.undone IS NULL AND d.revealed_at IS NOT NULL AND d.blind IS NOT FALSE
GROUP BY m.a, m.b, m.prompt, d.outcome
ORDER BY m.a, m.b, m.prompt, d.outcome;

-- name: own_votes_recent
-- The last votes of one voter whose names were told, newest first; or only those that were told last, all at once.
SELECT m.matchup, d.at, m.a, m.b, m.prompt, d.outcome, coalesce(d.blind, true)
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND d.kind = 1 AND d.undone IS NULL AND d.revealed_at IS NOT NULL
    AND (NOT %(latest)s OR d.revealed_at = (
        SELECT max(e.revealed_at) FROM matchups n JOIN endings e USING (arena, source, serial)
        WHERE n.arena = %(arena)s AND n.session = %(session)s AND n.source = %(source)s AND e.undone IS NULL
    ))
ORDER BY d.position DESC LIMIT %(limit)s;
