-- People who signed in through an identity provider or a gateway. Who they are is not stored, except for the name that
-- is shown: issuer and subject are hashed with the installation's secret key.
CREATE TABLE people (
    person bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity_hmac bytea NOT NULL UNIQUE,
    -- The number that their votes have, on all their devices.
    session bigint NOT NULL UNIQUE CHECK (session > 0),
    name text NOT NULL,
    -- As of the last sign-in.
    groups text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    signed_in_at timestamptz NOT NULL DEFAULT now()
);

-- One row for each browser that is signed in.
CREATE TABLE person_sign_ins (
    token_sha256 bytea PRIMARY KEY,
    person bigint NOT NULL REFERENCES people,
    -- The attempt that it came from: each makes one sign-in.
    state_sha256 bytea NOT NULL UNIQUE,
    expires_at timestamptz NOT NULL,
    ended_at timestamptz
);
CREATE INDEX person_sign_ins_of_person ON person_sign_ins (person);
