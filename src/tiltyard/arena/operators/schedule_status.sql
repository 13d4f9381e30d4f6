-- name: job_failures_keep
-- Why a job failed last.
INSERT INTO job_failures (name, due_at, problem, retry_at)
VALUES (%(name)s, %(due_at)s, %(problem)s, %(retry_at)s)
ON CONFLICT (name) DO UPDATE SET due_at = excluded.due_at, problem = excluded.problem, failed_at = now(),
    retry_at = excluded.retry_at;

-- name: job_failures_list
-- Why each job failed last.
SELECT name, due_at, problem, retry_at FROM job_failures;
