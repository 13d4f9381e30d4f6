-- name: pooler_process
-- Which process of the server answers, and what was set in its session.
SELECT pg_backend_pid(), current_setting('tiltyard.probe', true);

-- name: pooler_mark
-- Set something in this session, to see whether it lasts.
SELECT pg_backend_pid(), set_config('tiltyard.probe', %(mark)s, false);

-- name: pooler_database
-- Which database this is: its name, and since when its server has been running.
SELECT current_database(), pg_postmaster_start_time();
