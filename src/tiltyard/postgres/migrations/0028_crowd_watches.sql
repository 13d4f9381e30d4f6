-- What the watch of an arena's crowd remembers up to a position, so that a rater that starts need not read the log again.
CREATE TABLE crowd_watches (
    arena integer PRIMARY KEY REFERENCES arenas,
    -- The exclusions that it includes, as in checkpoints.
    generation bigint NOT NULL,
    position bigint NOT NULL,
    version text NOT NULL,
    state bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
-- Compressed already.
ALTER TABLE crowd_watches ALTER COLUMN state SET STORAGE EXTERNAL;

-- Where a voter's session came from, if it came to a gate: 16 bits of a keyed hash of the network, and the language that the
-- browser asks for first.
ALTER TABLE sessions ADD COLUMN network integer;
ALTER TABLE sessions ADD COLUMN language text;
