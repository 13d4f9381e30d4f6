-- Limits that all web processes share, and the gate of open arenas.

-- Token buckets, of which processes lease blocks.
CREATE TABLE limit_buckets (
    -- The keyed hash of what is limited: a session, a network or an arena, and what it does.
    bucket bytea PRIMARY KEY,
    -- So many in so many seconds.
    capacity double precision NOT NULL,
    seconds double precision NOT NULL,
    -- What is left; less than nothing if processes reported more than there was.
    tokens double precision NOT NULL,
    -- The last lease: what the process had spent without one, and what it was granted.
    spent double precision NOT NULL,
    granted double precision NOT NULL,
    leased_at timestamptz NOT NULL
) WITH (fillfactor = 50);
-- What is lost in a crash is refilled within a minute, so nothing is written ahead.
ALTER TABLE limit_buckets SET UNLOGGED;

-- The result of the gate: 0 none was needed, 1 passed, 2 failed, 3 unavailable.
ALTER TABLE sessions ADD COLUMN gate smallint NOT NULL DEFAULT 0 CHECK (gate BETWEEN 0 AND 3);
-- Sessions that passed have rows too, so revoked ones are few among many.
CREATE INDEX sessions_revoked ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;
