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
