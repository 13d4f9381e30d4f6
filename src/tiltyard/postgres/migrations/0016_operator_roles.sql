-- Several operators, with roles for the installation and for arenas. Whoever was the operator is an owner.
ALTER TABLE operators
    -- Who it is at an identity provider, if it signs in there. Such an operator has the password '', which none matches.
    ADD COLUMN issuer text,
    ADD COLUMN subject text,
    ADD COLUMN removed_at timestamptz,
    -- The second factor: what its key is derived from, when it was confirmed, and the last step whose code was used.
    ADD COLUMN totp_nonce bytea,
    ADD COLUMN totp_since timestamptz,
    ADD COLUMN totp_step bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT operators_identity CHECK ((issuer IS NULL) = (subject IS NULL)),
    ADD CONSTRAINT operators_identity_key UNIQUE (issuer, subject);
CREATE TABLE operator_roles (
    operator integer NOT NULL REFERENCES operators,
    -- Null: the installation, which is every arena.
    arena integer REFERENCES arenas,
    role text NOT NULL CHECK (role IN ('owner', 'operator', 'moderator', 'analyst')),
    granted_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (operator, arena)
);
CREATE INDEX operator_roles_of_arena ON operator_roles (arena);
INSERT INTO operator_roles (operator, role) SELECT operator, 'owner' FROM operators;

-- Codes that replace a code of the second factor once each.
CREATE TABLE operator_recovery_codes (
    code_sha256 bytea PRIMARY KEY,
    operator integer NOT NULL REFERENCES operators,
    used_at timestamptz
);
CREATE INDEX operator_recovery_codes_of_operator ON operator_recovery_codes (operator);

-- A link invites a new operator to a role, or sets the password of one operator. With neither role nor operator it
-- comes from the command line: it makes an owner of the installation, or sets the password of an operator by name.
ALTER TABLE operator_links
    ADD COLUMN link bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    ADD COLUMN operator integer REFERENCES operators,
    ADD COLUMN role text CHECK (role IN ('owner', 'operator', 'moderator', 'analyst')),
    ADD COLUMN arena integer REFERENCES arenas,
    -- Whom the link is for; only operators see it.
    ADD COLUMN invitee text NOT NULL DEFAULT '',
    ADD COLUMN created_at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN revoked_at timestamptz,
    ADD CONSTRAINT operator_links_purpose CHECK (operator IS NULL OR (role IS NULL AND arena IS NULL));

ALTER TABLE operator_sessions
    ADD COLUMN session bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    ADD COLUMN last_seen_at timestamptz NOT NULL DEFAULT now(),
    -- Where from: the client's network, and what the browser calls itself.
    ADD COLUMN address text NOT NULL DEFAULT '',
    ADD COLUMN browser text NOT NULL DEFAULT '',
    -- Only the password was right so far; and how many codes were wrong.
    ADD COLUMN awaits_code boolean NOT NULL DEFAULT false,
    ADD COLUMN wrong_codes integer NOT NULL DEFAULT 0;
CREATE INDEX operator_sessions_of_operator ON operator_sessions (operator);

-- Whose rights a token has. Null: made on the command line, or before there were roles; it has those of an owner.
ALTER TABLE api_tokens ADD COLUMN operator integer REFERENCES operators;
CREATE INDEX api_tokens_of_operator ON api_tokens (operator);
