-- Any web process decides, and no process calls another.
ALTER TABLE processes DROP COLUMN address, DROP COLUMN machine;
-- The process that leads, while its lease is valid.
ALTER TABLE raters ADD COLUMN process bigint;

-- When a prefetched matchup was shown; null if it was shown when it was served, or has not been shown.
ALTER TABLE matchups ADD COLUMN shown_at timestamptz;
DROP TRIGGER append_only ON matchups;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON matchups
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting('ballot', 'expires_at', 'unseen', 'shown_at');

-- Responses that were sent by an address of their own, so that a vote on them counts.
CREATE UNLOGGED TABLE sent_responses (
    matchup uuid NOT NULL,
    side smallint NOT NULL,
    characters integer NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (matchup, side)
);

-- Voters of live arenas whose turn runs, with what it shows, or who wait for a place: no process.
CREATE UNLOGGED TABLE live_slots (
    arena integer NOT NULL,
    session bigint NOT NULL,
    process bigint,
    came_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    matchup uuid,
    turn smallint,
    a text NOT NULL DEFAULT '',
    b text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'waiting',
    ended_a boolean NOT NULL DEFAULT false,
    ended_b boolean NOT NULL DEFAULT false,
    stopping boolean NOT NULL DEFAULT false,
    PRIMARY KEY (arena, session)
) WITH (fillfactor = 50);

-- Models of live arenas that have failed since their last answer.
CREATE UNLOGGED TABLE live_health (
    arena integer NOT NULL,
    model integer NOT NULL,
    state text NOT NULL DEFAULT 'well',
    since timestamptz,
    failures integer NOT NULL DEFAULT 0,
    rests integer NOT NULL DEFAULT 0,
    problem text,
    until timestamptz,
    PRIMARY KEY (arena, model)
);
