-- name: slots_lock
-- One voter at a time looks for a place, so that no more turns run than may. Plans are kept.
SELECT set_config('lock_timeout', '5s', true), set_config('plan_cache_mode', 'auto', true),
       pg_advisory_xact_lock(7210, 0);

-- name: slots_clear
-- Who waited and does not ask any more has lost the place in line. Turns of lost processes run no more, and what did
-- not begin within a minute never will.
DELETE FROM live_slots s
WHERE (process IS NULL AND asked_at < clock_timestamp() - interval '20 seconds')
    OR (matchup IS NULL AND asked_at < clock_timestamp() - interval '1 minute')
    OR asked_at < clock_timestamp() - interval '1 hour'
    OR (process <> %(process)s AND NOT EXISTS (
        SELECT FROM processes p WHERE p.process = s.process AND p.expires_at > clock_timestamp()
    ));

-- name: slots_look
-- How many turns run and how many voters wait; whether this voter has a place, and how many wait before this voter.
WITH mine AS (SELECT came_at, process FROM live_slots WHERE arena = %(arena)s AND session = %(session)s)
SELECT count(process), count(*) - count(process), (SELECT process IS NOT NULL FROM mine),
       count(*) FILTER (WHERE process IS NULL AND came_at < (SELECT came_at FROM mine))
FROM live_slots;

-- name: slots_count
-- How many turns run and how many voters wait, as far as they still ask.
SELECT count(process), count(*) FILTER (WHERE process IS NULL AND asked_at > clock_timestamp() - interval '20 seconds')
FROM live_slots;

-- name: slots_put
-- A voter has a place, or waits for one where the process is null.
INSERT INTO live_slots (arena, session, process) VALUES (%(arena)s, %(session)s, %(process)s)
ON CONFLICT (arena, session) DO UPDATE SET process = excluded.process, asked_at = clock_timestamp();

-- name: slots_release
-- A place in which no turn has begun is free again.
DELETE FROM live_slots
WHERE arena = %(arena)s AND session = %(session)s AND process = %(process)s AND matchup IS NULL;

-- name: slots_begin
-- A turn begins, unless another of its voter runs or the voter's place belongs to another process.
INSERT INTO live_slots AS known (arena, session, process, matchup, turn)
VALUES (%(arena)s, %(session)s, %(process)s, %(matchup)s, %(turn)s)
ON CONFLICT (arena, session) DO UPDATE SET matchup = excluded.matchup, turn = excluded.turn
WHERE known.process = excluded.process AND known.matchup IS NULL;

-- name: slots_stop
-- The voter stops a turn: the process that runs it looks here.
UPDATE live_slots SET stopping = true
WHERE arena = %(arena)s AND session = %(session)s AND matchup = %(matchup)s;

-- name: slots_exchange
-- Write what turns of this process show. Read which of them must stop, and what is new of turns that are followed here.
WITH written AS (
    UPDATE live_slots s
    SET a = left(s.a, w.from_a) || w.a, b = left(s.b, w.from_b) || w.b, state = w.state, ended_a = w.ended_a,
        ended_b = w.ended_b
    FROM unnest(%(matchup)s::uuid[], %(from_a)s::integer[], %(from_b)s::integer[], %(a)s::text[], %(b)s::text[],
                %(state)s::text[], %(ended_a)s::boolean[], %(ended_b)s::boolean[])
        AS w (matchup, from_a, from_b, a, b, state, ended_a, ended_b)
    WHERE s.arena = %(arena)s AND s.matchup = w.matchup AND s.process = %(process)s
)
SELECT s.matchup, s.turn, f.matchup IS NOT NULL,
       s.stopping OR (s.process = %(process)s AND EXISTS (
           SELECT FROM matchups m JOIN endings e USING (arena, source, serial)
           WHERE m.arena = %(arena)s AND m.matchup = s.matchup AND e.undone IS NULL
       )),
       substr(s.a, f.has_a + 1), substr(s.b, f.has_b + 1), s.state, s.ended_a, s.ended_b
FROM live_slots s
LEFT JOIN unnest(%(followed)s::uuid[], %(has_a)s::integer[], %(has_b)s::integer[]) AS f (matchup, has_a, has_b)
    ON f.matchup = s.matchup
WHERE s.arena = %(arena)s AND s.matchup IS NOT NULL AND (s.process = %(process)s OR f.matchup IS NOT NULL);
