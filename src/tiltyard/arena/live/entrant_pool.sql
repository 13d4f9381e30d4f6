-- name: health_read
-- The time now, and the models of an arena that are not well; one row with the time alone if all are.
SELECT clock_timestamp(), h.model, h.state, h.since, h.failures, h.rests, h.problem, h.until
FROM (VALUES (%(arena)s::integer)) AS a (arena) LEFT JOIN live_health h USING (arena);

-- name: health_lock
-- The time now and the health of a model, which nobody else changes until the transaction ends.
INSERT INTO live_health (arena, model) VALUES (%(arena)s, %(model)s)
ON CONFLICT (arena, model) DO UPDATE SET model = excluded.model
RETURNING clock_timestamp(), state, since, failures, rests, problem, until;

-- name: health_put
-- How a model is.
UPDATE live_health
SET state = %(state)s, since = %(since)s, failures = %(failures)s, rests = %(rests)s, problem = %(problem)s,
    until = %(until)s
WHERE arena = %(arena)s AND model = %(model)s;

-- name: health_well
-- A model has answered: it is well.
DELETE FROM live_health WHERE arena = %(arena)s AND model = %(model)s;

-- name: health_witnesses
-- By their last calls to a model in ten minutes: voters for whom it failed, and with how many prompts; voters whom it
-- answered. What was before its last rest ended says nothing of it now. Who has no session of their own is a network.
WITH calls AS (
    SELECT coalesce(b.payers[cardinality(b.payers)], b.session) AS voter, b.free_prompt, c.state, c.call
    FROM live_calls c JOIN live_battles b USING (arena, matchup)
    WHERE c.arena = %(arena)s AND c.model = %(model)s AND c.state IN ('done', 'failed')
        AND c.began_at > clock_timestamp() - interval '10 minutes'
        AND c.began_at > coalesce((SELECT until FROM live_health WHERE arena = c.arena AND model = c.model), '-infinity')
), latest AS (
    SELECT DISTINCT ON (voter) voter, free_prompt, state FROM calls ORDER BY voter, call DESC
)
SELECT count(*) FILTER (WHERE state = 'failed'), count(DISTINCT free_prompt) FILTER (WHERE state = 'failed'),
       count(*) FILTER (WHERE state = 'done')
FROM latest;
