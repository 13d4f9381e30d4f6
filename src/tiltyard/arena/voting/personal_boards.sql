-- name: own_votes_totals
-- For one voter: votes with revealed names, votes without, and skipped matchups.
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
-- Counts of one voter's rated votes with revealed names, by pair, prompt and outcome; of live battles by the prompt that the voter wrote.
SELECT m.a, m.b, m.prompt, coalesce(m.free_prompt, 0), d.outcome, count(*)
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND d.kind = 1 AND d.undone IS NULL AND d.revealed_at IS NOT NULL AND (d.mark IS NULL OR d.admitted IS NOT NULL)
    AND d.blind IS NOT FALSE
GROUP BY m.a, m.b, m.prompt, m.free_prompt, d.outcome
ORDER BY m.a, m.b, m.prompt, m.free_prompt, d.outcome;

-- name: own_votes_recent
-- The last votes of one voter with revealed names, newest first; or only those of the last reveal.
SELECT m.matchup, d.at, m.a, m.b, m.prompt, d.outcome, coalesce(d.blind, true),
       vote_unrated(d.blind, d.mark, d.admitted, 9223372036854775807)
FROM matchups m
JOIN endings d USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.session = %(session)s AND m.source = %(source)s
    AND d.kind = 1 AND d.undone IS NULL AND d.revealed_at IS NOT NULL
    AND (NOT %(latest)s OR d.revealed_at = (
        SELECT max(e.revealed_at) FROM matchups n JOIN endings e USING (arena, source, serial)
        WHERE n.arena = %(arena)s AND n.session = %(session)s AND n.source = %(source)s AND e.undone IS NULL
    ))
ORDER BY d.position DESC LIMIT %(limit)s;
