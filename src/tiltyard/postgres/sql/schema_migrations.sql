-- name: make_migrations_table
-- Applied migrations with the hashes of their texts.
CREATE TABLE IF NOT EXISTS migrations (
    name text PRIMARY KEY,
    sha256 bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: has_migrations_table
-- Whether the table of migrations exists.
SELECT to_regclass('migrations') IS NOT NULL;

-- name: applied_migrations
-- Names and hashes of the applied migrations, in order.
SELECT name, sha256 FROM migrations ORDER BY name;

-- name: record_migration
-- Records an applied migration.
INSERT INTO migrations (name, sha256) VALUES (%(name)s, %(sha256)s);

-- name: try_migrating
-- Allows one migrator at a time; whether it is this one.
SELECT pg_try_advisory_lock(hashtext('tiltyard'), hashtext('migrating'));

-- name: end_migrating
-- Lets another migrator begin.
SELECT pg_advisory_unlock(hashtext('tiltyard'), hashtext('migrating'));

-- name: lock_migrating
-- The same, waited for; released at the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('tiltyard'), hashtext('migrating'));

-- name: plan_mode
-- How prepared statements are planned: force_custom_plan, or another mode.
SELECT current_setting('plan_cache_mode');
