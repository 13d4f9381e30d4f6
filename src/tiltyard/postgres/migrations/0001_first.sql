-- Everything that an arena keeps. The event log is the truth; endings, battles, snapshots and
-- checkpoints follow from it. Names are those of the glossary.
--
-- Sources are 0 (human) and 1 (llm-judge). Models and prompts are numbered from 0 within an arena and
-- keep their numbers for ever. What grows is partitioned: by arena, and within an arena by ranges of
-- ten million (partitions are made by the code that appends, ahead of need).

CREATE TABLE arenas (
    arena integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'),
    title text NOT NULL,
    -- ArenaSettings as JSON: visibility, undo_seconds, expiry_seconds, snapshot_seconds, timezone, order…
    settings jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE models (
    arena integer NOT NULL REFERENCES arenas,
    model integer NOT NULL CHECK (model >= 0),
    name text NOT NULL CHECK (name <> ''),
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, model),
    UNIQUE (arena, name)
);

CREATE TABLE prompts (
    arena integer NOT NULL REFERENCES arenas,
    prompt integer NOT NULL CHECK (prompt >= 0),
    name text NOT NULL CHECK (name <> ''),
    -- Gone once the prompt is withdrawn; its hash stays.
    text text,
    sha256 bytea NOT NULL,
    category text,
    language text,
    added_at timestamptz NOT NULL DEFAULT now(),
    withdrawn_at timestamptz,
    PRIMARY KEY (arena, prompt),
    UNIQUE (arena, name)
);

-- Bytes by their hash. ``bytes`` is null where they lie in a folder or a bucket.
CREATE TABLE contents (
    sha256 bytea PRIMARY KEY,
    size bigint NOT NULL,
    bytes bytea,
    added_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE responses (
    response bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL,
    model integer NOT NULL,
    prompt integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('text', 'image', 'audio', 'app')),
    media_type text NOT NULL,
    sha256 bytea NOT NULL,
    size bigint NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    withdrawn_at timestamptz,
    FOREIGN KEY (arena, model) REFERENCES models,
    FOREIGN KEY (arena, prompt) REFERENCES prompts
);
CREATE UNIQUE INDEX responses_live ON responses (arena, model, prompt) WHERE withdrawn_at IS NULL;
CREATE INDEX responses_by_content ON responses (sha256);

-- Who votes. The cookie's token is kept as a hash only. A judge's session has a name.
CREATE TABLE sessions (
    session bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token_sha256 bytea NOT NULL UNIQUE,
    source smallint NOT NULL CHECK (source IN (0, 1)),
    name text,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);

-- One row for each served matchup, never changed. ``serial`` counts from 0 within arena and source.
CREATE TABLE matchups (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    matchup uuid NOT NULL,
    position bigint NOT NULL,
    session bigint NOT NULL,
    a integer NOT NULL,
    b integer NOT NULL,
    prompt integer NOT NULL,
    response_a bigint NOT NULL,
    response_b bigint NOT NULL,
    nominal smallint NOT NULL,
    lane smallint NOT NULL,
    reason text NOT NULL,
    propensity double precision NOT NULL,
    -- 1: exposure, 2: session.
    given_up smallint NOT NULL,
    served_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (arena, source, serial)
) PARTITION BY LIST (arena);
CREATE INDEX matchups_by_id ON matchups (matchup);
CREATE INDEX matchups_by_session ON matchups (arena, session);
-- Tiny, because rows come in the order of time.
CREATE INDEX matchups_by_expiry ON matchups USING brin (expires_at);

-- The log: dense positions from 1, in the order of commits. Append-only.
-- kind: 0 served, 1 vote, 2 skip, 3 expire, 4 enable, 5 retire, 6 respond, 7 withdraw,
--       8 undo, 9 reveal, 10 exclude, 11 restore, 12 policy, 13 widen.
CREATE TABLE events (
    arena integer NOT NULL,
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    kind smallint NOT NULL CHECK (kind BETWEEN 0 AND 13),
    source smallint,
    -- Of a matchup's events: which one. Of a response that came or went: the response.
    serial bigint,
    session bigint,
    a integer,
    b integer,
    prompt integer,
    -- Of a vote: the kind of its battle (win_a 0, win_b 1, tie 2, both_bad 3, lean_a 4, lean_b 5, inconsistent 6).
    outcome smallint CHECK (outcome BETWEEN 0 AND 6),
    nominal smallint,
    lane smallint,
    -- Of a policy: the policy. Of an exclusion: which one. Of a judge's vote: judge_model and pref.
    detail jsonb,
    PRIMARY KEY (arena, position)
) PARTITION BY LIST (arena);
-- Who is enabled and which policy holds, without reading the whole log.
CREATE INDEX events_of_roster ON events (arena, kind, position) WHERE kind IN (4, 5, 12);

-- How each matchup ended: by a vote, a skip or an expiry, once. This is what makes a second vote impossible.
CREATE TABLE endings (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    kind smallint NOT NULL CHECK (kind IN (1, 2, 3)),
    outcome smallint,
    revealed_at timestamptz,
    -- Position of the undo, if the vote was taken back.
    undone bigint,
    PRIMARY KEY (arena, source, serial),
    CHECK ((kind = 1) = (outcome IS NOT NULL)),
    CHECK (kind = 1 OR undone IS NULL)
) PARTITION BY LIST (arena);

CREATE TABLE exclusions (
    exclusion bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    reason text NOT NULL,
    excluded bigint NOT NULL,
    restored bigint,
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE excluded_votes (
    exclusion bigint NOT NULL REFERENCES exclusions,
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    PRIMARY KEY (exclusion, source, serial)
);
CREATE INDEX excluded_by_serial ON excluded_votes (arena, source, serial);

-- One row for each arena: who rates it and how far. Undo is refused up to ``horizon``.
CREATE TABLE raters (
    arena integer PRIMARY KEY REFERENCES arenas,
    position bigint NOT NULL DEFAULT 0,
    horizon bigint NOT NULL DEFAULT 0,
    -- Counts exclusions and restorations that were folded in.
    generation bigint NOT NULL DEFAULT 0,
    -- Raised by each new leader; a deposed one's writes find another number.
    term bigint NOT NULL DEFAULT 0,
    leader text,
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE checkpoints (
    arena integer NOT NULL REFERENCES arenas,
    generation bigint NOT NULL,
    position bigint NOT NULL,
    -- Versions and architecture under which the bits hold.
    kernel text NOT NULL,
    digest bytea NOT NULL,
    state bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, generation, position)
);
ALTER TABLE checkpoints ALTER COLUMN state SET STORAGE EXTERNAL;

-- Published boards. ``document`` is canonical JSON, ``sha256`` its hash: the permalink.
CREATE TABLE snapshots (
    arena integer NOT NULL REFERENCES arenas,
    source smallint NOT NULL,
    generation bigint NOT NULL,
    position bigint NOT NULL,
    sha256 bytea NOT NULL,
    votes bigint NOT NULL,
    -- Whether an evaluation of the rules fell on it; such a snapshot is kept for ever.
    evaluated boolean NOT NULL,
    document text NOT NULL,
    -- What matchmaking needs: rating, rd, se, misorder by model number.
    strengths jsonb NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, source, generation, position)
);
CREATE INDEX snapshots_by_hash ON snapshots (sha256);

CREATE TABLE reports (
    arena integer NOT NULL REFERENCES arenas,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    position bigint NOT NULL,
    sha256 bytea NOT NULL,
    document text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, since, until)
);

-- What voters said is wrong with a matchup.
CREATE TABLE complaints (
    complaint bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    session bigint NOT NULL,
    reason text NOT NULL,
    note text,
    made_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz
);

CREATE TABLE operators (
    operator integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    password_argon2 text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
-- Single-use links by which an operator sets a password.
CREATE TABLE operator_links (
    token_sha256 bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE TABLE operator_sessions (
    token_sha256 bytea PRIMARY KEY,
    operator integer NOT NULL REFERENCES operators,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE TABLE api_tokens (
    api_token integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    token_sha256 bytea NOT NULL UNIQUE,
    -- Of: read, judge, import, admin, metrics.
    scopes text[] NOT NULL,
    -- Null: every arena.
    arena integer REFERENCES arenas,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE TABLE audit (
    entry bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    arena integer REFERENCES arenas,
    -- operator:NAME, token:NAME, cli.
    actor text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL
);

-- Battles are a projection: votes that were not taken back, with what was served.
CREATE VIEW battles AS
SELECT e.arena, e.source, e.serial, e.position, e.at, e.outcome, m.a, m.b, m.prompt, m.session,
       m.nominal, m.lane, m.propensity, m.served_at,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial AND x.restored IS NULL
       ) AS excluded
FROM endings e JOIN matchups m USING (arena, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL;
