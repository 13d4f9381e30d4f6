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
