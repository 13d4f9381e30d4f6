-- name: make_migrations_table
-- What was applied, when, and the hash of its text.
CREATE TABLE IF NOT EXISTS migrations (
    name text PRIMARY KEY,
    sha256 bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: has_migrations_table
-- Whether this database was ever migrated.
SELECT to_regclass('migrations') IS NOT NULL;

-- name: applied_migrations
-- Names and hashes of what was applied, in order.
SELECT name, sha256 FROM migrations ORDER BY name;

-- name: record_migration
-- One migration was applied.
INSERT INTO migrations (name, sha256) VALUES (%(name)s, %(sha256)s);

-- name: lock_migrating
-- Only one migrates a database at a time; the lock goes with the transaction.
SELECT pg_advisory_xact_lock(hashtext('tiltyard'), hashtext('migrating'));

-- name: plan_mode
-- Whether prepared statements are planned for their values each time.
SELECT current_setting('plan_cache_mode');
