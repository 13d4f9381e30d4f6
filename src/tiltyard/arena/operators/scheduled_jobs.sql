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
