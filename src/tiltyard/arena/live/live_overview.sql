-- name: live_entrant_use
-- The calls of each model in some days: how many, how many failed, what they cost, and what has failed since the last
-- answer.
SELECT m.name, e.version, e.enabled, count(c.call), count(c.call) FILTER (WHERE c.state IN ('failed', 'unknown')),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY c.first_token_seconds),
       coalesce(sum(coalesce(c.cost, c.reserve)) FILTER (WHERE c.day = (clock_timestamp() AT TIME ZONE 'UTC')::date), 0)::bigint,
       coalesce(sum(coalesce(c.cost, c.reserve)), 0)::bigint, a.answered_at,
       count(c.call) FILTER (WHERE c.state = 'failed' AND c.ended_at > coalesce(a.answered_at, '-infinity')),
       (SELECT f.problem FROM live_calls f
        WHERE f.arena = e.arena AND f.model = e.model AND f.state = 'failed'
            AND f.ended_at > coalesce(a.answered_at, '-infinity')
        ORDER BY f.began_at DESC LIMIT 1)
FROM live_entrants e
JOIN models m USING (arena, model)
LEFT JOIN live_calls c ON c.arena = e.arena AND c.model = e.model
    AND c.began_at > clock_timestamp() - make_interval(days => %(days)s)
LEFT JOIN LATERAL (
    SELECT d.ended_at AS answered_at FROM live_calls d
    WHERE d.arena = e.arena AND d.model = e.model AND d.state = 'done'
    ORDER BY d.began_at DESC LIMIT 1
) a ON true
WHERE e.arena = %(arena)s
GROUP BY e.arena, e.model, m.name, e.version, e.enabled, a.answered_at
ORDER BY e.enabled DESC, e.model;

-- name: live_failures
-- Why calls failed, by model; the most frequent first.
SELECT m.name, coalesce(c.problem, c.state), count(*)
FROM live_calls c JOIN models m USING (arena, model)
WHERE c.arena = %(arena)s AND c.state IN ('failed', 'unknown')
    AND c.began_at > clock_timestamp() - make_interval(days => %(days)s)
GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT %(limit)s;

-- name: live_battle_counts
-- How many battles began in some days, and how many of them are void.
SELECT count(*), count(void) FROM live_battles
WHERE arena = %(arena)s AND began_at > clock_timestamp() - make_interval(days => %(days)s);
