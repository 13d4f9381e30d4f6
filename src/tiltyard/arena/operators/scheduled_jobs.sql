-- name: scheduled_jobs_add
-- Add jobs that the table does not have yet.
INSERT INTO scheduled_jobs (name) SELECT unnest(%(names)s::text[]) ON CONFLICT DO NOTHING;

-- name: scheduled_jobs_claim
-- Claim a job that is due, or whose process died. A due time or a lease too far in the future means that the clock was
-- set back.
WITH free AS (
    SELECT name, due.due_at, due.retry_at
    FROM scheduled_jobs AS job
    JOIN unnest(%(names)s::text[], %(due_at)s::timestamptz[], %(retry_at)s::timestamptz[])
        AS due (name, due_at, retry_at) USING (name)
    WHERE CASE
        WHEN job.finished_at IS NULL THEN job.leased_until NOT BETWEEN now() AND now() + %(lease)s
        ELSE job.due_at < due.due_at OR job.due_at > now()
    END
    LIMIT 1
    FOR UPDATE OF job SKIP LOCKED
)
UPDATE scheduled_jobs AS job
SET due_at = free.due_at, retry_at = free.retry_at, finished_at = NULL, problem = NULL, process = %(process)s,
    leased_until = now() + %(lease)s
FROM free
WHERE job.name = free.name
RETURNING job.name, job.due_at;

-- name: scheduled_jobs_renew
-- Renew the leases of a process's jobs.
UPDATE scheduled_jobs SET leased_until = now() + %(lease)s
WHERE name = ANY(%(names)s) AND process = %(process)s AND finished_at IS NULL
RETURNING name;

-- name: scheduled_jobs_finish
-- The end of a job, and why it failed.
UPDATE scheduled_jobs SET finished_at = now(), problem = %(problem)s
WHERE name = %(name)s AND process = %(process)s AND finished_at IS NULL;

-- name: scheduled_jobs_release
-- Leave the jobs of a process that stops to the next one.
UPDATE scheduled_jobs SET leased_until = '-infinity' WHERE process = %(process)s AND finished_at IS NULL;

-- name: scheduled_jobs_list
-- How each job went last.
SELECT name, due_at, CASE WHEN finished_at IS NULL THEN 'running' WHEN problem IS NULL THEN 'done' ELSE 'failed' END,
    problem, retry_at
FROM scheduled_jobs
WHERE due_at IS NOT NULL;

-- name: admissions_arenas
-- Arenas of a bucket: small ones in use, and of the others those in their turn in which votes wait, or that something
-- happened in lately.
SELECT a.name, a.arena, a.settings FROM arenas a LEFT JOIN LATERAL (
    SELECT e.position, e.at FROM events e WHERE e.arena = a.arena ORDER BY e.position DESC LIMIT 1
) latest ON true
WHERE a.bucket = %(bucket)s AND (latest.position <= 20000 AND latest.at > now() - interval '2 minutes'
    OR (%(turn)s::integer IS NULL OR a.arena %% 10 = %(turn)s) AND (latest.at > now() - interval '1 hour' OR EXISTS (
        SELECT FROM endings e WHERE e.arena = a.arena AND e.mark = 3 AND e.admitted IS NULL AND e.undone IS NULL
    )))
ORDER BY a.arena;

-- name: admissions_due
-- Votes up to a position that wait and need not any longer, because their voter is known, has waited long enough or has
-- passed the checks: so many votes over so long a time, and the gate if there was one. Whom a change of the crowd or a
-- test of voters holds waits for the operator.
WITH waiting AS (
    SELECT d.source, d.serial, d.position, d.at, m.session, m.a, m.b, m.prompt,
           vote_kind(d.outcome, d.both_bad) AS vote, coalesce(m.free_prompt, 0) AS free_prompt
    FROM endings d JOIN matchups m USING (arena, source, serial)
    WHERE d.arena = %(arena)s AND d.mark = 3 AND d.admitted IS NULL AND d.undone IS NULL AND d.blind IS NOT FALSE
        AND d.position <= %(horizon)s
), voters AS (
    SELECT session, min(at) AS since, max(at) AS until, count(*) AS votes FROM waiting
    GROUP BY session
    HAVING NOT EXISTS (
        SELECT FROM crowd_changes c JOIN exclusions x USING (exclusion)
        WHERE c.arena = %(arena)s AND x.restored IS NULL AND c.detail -> 'sessions' @> to_jsonb(session)
    ) AND NOT EXISTS (
        SELECT FROM matchups o JOIN excluded_votes v USING (arena, source, serial) JOIN exclusions x USING (exclusion)
        WHERE o.arena = %(arena)s AND o.session = waiting.session AND x.reason = %(reason)s AND x.restored IS NULL
    )
)
SELECT w.source, w.serial, w.session, w.a, w.b, w.prompt, w.vote, w.free_prompt
FROM waiting w JOIN voters v USING (session)
WHERE v.since <= %(now)s::timestamptz - %(hours)s * interval '1 hour'
    OR (v.votes >= %(votes)s AND v.until - v.since >= %(minutes)s * interval '1 minute' AND NOT EXISTS (
        SELECT FROM sessions s WHERE s.session = v.session AND (s.gate > 1 OR s.revoked_at IS NOT NULL)
    ))
    OR EXISTS (
        SELECT FROM matchups n JOIN endings k USING (arena, source, serial)
        WHERE n.arena = %(arena)s AND n.session = v.session AND n.source = 0 AND k.kind = 1 AND k.undone IS NULL
            AND k.blind IS NOT FALSE AND (k.mark IS NULL OR k.admitted IS NOT NULL)
    )
ORDER BY w.position LIMIT %(limit)s;
