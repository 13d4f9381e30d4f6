-- name: effects_traits
-- By the position of each vote on a live battle: the characters of all its answers on the left and on the right, and the
-- mean seconds to their first tokens.
WITH written AS (
    SELECT matchup, sum(characters_a) AS a, sum(characters_b) AS b
    FROM live_turns WHERE arena = %(arena)s AND state IN ('done', 'stopped') GROUP BY matchup
), waited AS (
    SELECT matchup, avg(first_token_seconds) FILTER (WHERE side = 0) AS a,
           avg(first_token_seconds) FILTER (WHERE side = 1) AS b
    FROM live_calls WHERE arena = %(arena)s AND state IN ('done', 'stopped') GROUP BY matchup
)
SELECT d.position, written.a, written.b, waited.a, waited.b
FROM endings d
JOIN matchups m USING (arena, source, serial)
JOIN written ON written.matchup = m.matchup
JOIN waited ON waited.matchup = m.matchup
WHERE d.arena = %(arena)s AND d.source = %(source)s AND d.kind = 1 AND d.undone IS NULL AND d.position <= %(upto)s
ORDER BY d.position;
