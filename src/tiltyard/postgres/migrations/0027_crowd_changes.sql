-- Changes of the crowd: each is an event of the log (kind 26), and here with its evidence until it is explained (kind 27).
CREATE TABLE crowd_changes (
    arena integer NOT NULL REFERENCES arenas,
    position bigint NOT NULL,
    found_at timestamptz NOT NULL,
    model integer NOT NULL,
    vote_group smallint NOT NULL,
    detail jsonb NOT NULL,
    -- Position of the event that explains it, and why.
    explained bigint,
    reason text,
    PRIMARY KEY (arena, position)
);
-- A model has one change at a time that is not explained.
CREATE UNIQUE INDEX crowd_changes_open ON crowd_changes (arena, model) WHERE explained IS NULL;
