-- Leases of the processes that serve this database. Nothing here needs a backup: rows live for seconds.
CREATE UNLOGGED TABLE processes (
    process bigint PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('web', 'rater')),
    address text NOT NULL,
    machine text NOT NULL,
    expires_at timestamptz NOT NULL
);
