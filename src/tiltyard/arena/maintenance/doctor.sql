-- name: doctor_connections
-- Connections of clients now, how many there may be, and how many of ours there are.
SELECT count(*), current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
       count(*) FILTER (WHERE application_name LIKE 'tiltyard%' AND datname = current_database())
FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL;

-- name: doctor_clock
-- The server's clock.
SELECT clock_timestamp();

-- name: doctor_settings
-- Settings on which it depends whether a vote that was acknowledged survives.
SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') ORDER BY name;

-- name: doctor_data
-- The server's folder, if we may know it; and how large the database is.
SELECT (SELECT setting FROM pg_settings WHERE name = 'data_directory'), pg_database_size(current_database());
