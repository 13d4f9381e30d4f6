-- What lets people in to a private arena. A row is a batch of people: those who used one link, or one passcode.
-- People are not listed: a browser that was let in has a signed cookie with the number of the row.
CREATE TABLE invitations (
    invitation bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas (arena),
    batch text NOT NULL,
    -- One of both: the hash of the code in a link, or of a passcode.
    code_sha256 bytea UNIQUE,
    passcode_argon2 text,
    -- A passcode may be used any number of times, until it is replaced.
    uses_allowed integer CHECK (uses_allowed > 0),
    uses integer NOT NULL DEFAULT 0,
    -- The last use: when, and the hash of a random number of the page on which the button was pressed.
    last_used_at timestamptz,
    last_visit_sha256 bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CHECK ((code_sha256 IS NULL) <> (passcode_argon2 IS NULL)),
    CHECK (code_sha256 IS NULL OR (uses_allowed IS NOT NULL AND expires_at IS NOT NULL)),
    CHECK (uses <= uses_allowed)
);
CREATE INDEX invitations_of_arena ON invitations (arena, invitation);
-- An arena has one passcode at a time.
CREATE UNIQUE INDEX invitations_passcode ON invitations (arena) WHERE passcode_argon2 IS NOT NULL AND revoked_at IS NULL;
