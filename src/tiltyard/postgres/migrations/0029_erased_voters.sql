-- Voters who delete what is held about them: from this position on the log was rewritten, and is folded again.
ALTER TABLE exclusions ADD COLUMN erased_from bigint;

-- Random keys for hashes of addresses, one for each day: without its key, nobody can compute a hash of that day again.
CREATE TABLE network_keys (
    day date PRIMARY KEY,
    key bytea NOT NULL
);
