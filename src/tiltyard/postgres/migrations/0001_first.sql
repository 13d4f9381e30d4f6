-- The first schema. Comments before a table and before its columns are their documentation.

-- The kind of a battle, as it is folded: the outcome, or with the flag one of 7 to 12. Outcomes 0, 1, 2 become 7, 8,
-- 9; 4, 5, 6 become 10, 11, 12; 3 is a person's both_bad and has no flag.
CREATE FUNCTION vote_kind(outcome smallint, both_bad boolean) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
        SELECT CASE WHEN both_bad THEN (outcome + CASE WHEN outcome < 3 THEN 7 ELSE 6 END)::smallint ELSE outcome END
    $$;

-- The outcome of a kind: the same the other way round.
CREATE FUNCTION vote_outcome(kind smallint) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT (CASE WHEN kind >= 10 THEN kind - 6 WHEN kind >= 7 THEN kind - 7 ELSE kind END)::smallint $$;

-- Why a vote is not on the board of a position; null if it is.
CREATE FUNCTION vote_unrated(blind boolean, mark smallint, admitted bigint, upto bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN blind IS FALSE THEN 'not-blind' WHEN mark = 1 THEN 'unseen' WHEN mark = 2 THEN 'early'
    WHEN mark = 3 AND (admitted IS NULL OR admitted > upto) THEN 'waiting' END $$;

-- Everything that an arena keeps. The event log is the truth; endings, battles, snapshots and checkpoints follow from
-- it. Names are those of the glossary. Sources are 0 (human) and 1 (llm-judge). Models and prompts are numbered from 0
-- within an arena and keep their numbers for ever. What grows is partitioned: by bucket, and within a bucket by ranges
-- of ten million (partitions are made by the code that appends, ahead of need).
CREATE TABLE arenas (
    arena integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'),
    title text NOT NULL,
    -- ArenaSettings as JSON: visibility, undo_seconds, expiry_seconds, snapshot_seconds, timezone, order…
    settings jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- 0 to 63: a shared bucket. 64 + arena: the arena's own.
    bucket integer NOT NULL CHECK (bucket BETWEEN 0 AND 63 OR bucket = 64 + arena),
    -- While the arena is being moved: the bucket to which its log is copied. Processes then do not cache ``bucket``.
    moving_to integer,
    -- After a move: the bucket in which the old copy waits to be deleted, and since when.
    moved_from integer,
    moved_at timestamptz,
    -- Up to this position of an arena's log, voters who stayed away for longer than it keeps them were erased.
    forgotten_upto bigint NOT NULL DEFAULT 0
);

CREATE TABLE models (
    arena integer NOT NULL REFERENCES arenas,
    model integer NOT NULL CHECK (model >= 0),
    name text NOT NULL CHECK (name <> ''),
    added_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (arena, name),
    PRIMARY KEY (arena, model)
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
    UNIQUE (arena, name),
    PRIMARY KEY (arena, prompt)
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
    -- A hidden response is withdrawn, but its bytes stay, and it can be shown again.
    hidden_at timestamptz,
    FOREIGN KEY (arena, model) REFERENCES models(arena, model),
    FOREIGN KEY (arena, prompt) REFERENCES prompts(arena, prompt)
);
CREATE INDEX responses_by_content ON responses (sha256);
CREATE UNIQUE INDEX responses_live ON responses (arena, model, prompt) WHERE withdrawn_at IS NULL;

-- Judges, whose sessions have a name, and voters who came to the gate or were revoked; other voters have no row.
CREATE TABLE sessions (
    session bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source smallint NOT NULL CHECK (source IN (0, 1)),
    name text UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    -- The result of the gate: 0 none was needed, 1 passed, 2 failed, 3 unavailable.
    gate smallint NOT NULL DEFAULT 0 CHECK (gate BETWEEN 0 AND 3),
    -- Where a voter's session came from, if it came to a gate: 16 bits of a keyed hash of the network, and the
    -- language that the browser asks for first.
    network integer,
    language text
);
-- Sessions that passed have rows too, so revoked ones are few among many.
CREATE INDEX sessions_revoked ON sessions (revoked_at) WHERE revoked_at IS NOT NULL;

-- One row for each served matchup. ``serial`` counts from 0 within arena and source. Only ``ballot`` and
-- ``expires_at`` change, when a vote is undone. In all three tables the bucket is part of the key because it is part
-- of the partition key; it comes last, so that statements on one bucket's partition find rows by the other columns.
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
    -- 1: exposure, 2: session, 4: name told.
    given_up smallint NOT NULL,
    served_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- How often the matchup's vote was undone: the number of the ballot that is open, or was answered last.
    ballot integer NOT NULL DEFAULT 0,
    bucket integer NOT NULL,
    -- Whether it was prefetched and has not been shown. It expires within minutes then, and later once it is shown.
    unseen boolean NOT NULL DEFAULT false,
    -- The distinct prompt that a voter wrote, by its number in live_prompts; null where prompts are the operator's. The
    -- vote's event has it too, so that the log alone can be folded.
    free_prompt integer,
    -- When a prefetched matchup was shown; null if it was shown when it was served, or has not been shown.
    shown_at timestamptz,
    PRIMARY KEY (arena, source, serial, bucket)
) PARTITION BY LIST (bucket);
-- Tiny, because rows come in the order of time.
CREATE INDEX matchups_by_expiry ON matchups USING brin (expires_at);
CREATE INDEX matchups_by_id ON matchups (matchup);
CREATE INDEX matchups_by_session ON matchups (arena, session);

-- The log: dense positions from 1 in each arena, in the order of commits. Append-only.
CREATE TABLE events (
    arena integer NOT NULL,
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    kind smallint NOT NULL CHECK (kind BETWEEN 0 AND 29),
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
    -- A judge that calls both responses bad says so beside its vote, which is decided by its verdict all the same.
    both_bad boolean,
    -- A vote is blind if its voter had not been told the name behind either response.
    blind boolean,
    bucket integer NOT NULL,
    free_prompt integer,
    -- Votes that are stored and not rated say why: 1 a response was not sent to the voter, 2 the vote came too early,
    -- 3 the voter is new and the vote waits. 4: the vote was cast elsewhere and imported; it is rated. Null: nothing
    -- speaks against the vote. One more kind of events: 17 a vote that waited is admitted to the board.
    mark smallint,
    PRIMARY KEY (arena, position, bucket)
) PARTITION BY LIST (bucket);
CREATE INDEX events_of_roster ON events (arena, kind, position) WHERE kind IN (4, 5, 12);

-- How each matchup ended: by a vote, a skip or an expiry, once. The key makes a second vote impossible.
CREATE TABLE endings (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    position bigint NOT NULL,
    at timestamptz NOT NULL,
    kind smallint NOT NULL CHECK (kind IN (1, 2, 3, 16)),
    outcome smallint,
    revealed_at timestamptz,
    -- Position of the undo, if the vote was taken back.
    undone bigint,
    both_bad boolean,
    blind boolean,
    bucket integer NOT NULL,
    mark smallint,
    -- Of a vote that waited: the position of the event that admitted it.
    admitted bigint,
    PRIMARY KEY (arena, source, serial, bucket),
    CONSTRAINT endings_check CHECK ((kind = 1) = (outcome IS NOT NULL)),
    CONSTRAINT endings_check1 CHECK ((kind = 1) OR (undone IS NULL))
) PARTITION BY LIST (bucket);
CREATE INDEX endings_admitted ON endings (arena, source, admitted) WHERE admitted IS NOT NULL;
CREATE INDEX endings_not_blind ON endings (arena, source, position) WHERE NOT blind;
-- Boards say how many votes are not rated and how many wait: few, among many.
CREATE INDEX endings_unlooked ON endings (arena, source, position) WHERE mark < 3;
CREATE INDEX endings_waiting ON endings (arena, source, position) WHERE mark = 3 AND admitted IS NULL;

-- Past votes that were imported from files, a row for each batch. Its events are pairs from ``position`` on: a matchup that is
-- served, and its vote. How far a file came is the sum of its batches, so that an interrupted import goes on there.
CREATE TABLE vote_imports (
    arena integer NOT NULL REFERENCES arenas,
    position bigint NOT NULL,
    votes integer NOT NULL CHECK (votes > 0),
    -- Of the bytes of the file, and of its votes as they were read, in the order in which they enter the log.
    file_sha256 bytea NOT NULL,
    votes_sha256 bytea NOT NULL,
    name text NOT NULL,
    -- The votes of the whole file.
    total bigint NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, position)
);

CREATE TABLE exclusions (
    exclusion bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    reason text NOT NULL,
    excluded bigint NOT NULL,
    restored bigint,
    made_at timestamptz NOT NULL DEFAULT now(),
    -- Test votes, cast before the arena was opened: they are excluded for good.
    final boolean NOT NULL DEFAULT false,
    -- Voters who delete what is held about them: from this position on the log was rewritten, and is folded again.
    erased_from bigint
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
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- The process that leads, while its lease is valid.
    process bigint
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
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Who it is at an identity provider, if it signs in there. Such an operator has the password '', which none
    -- matches.
    issuer text,
    subject text,
    removed_at timestamptz,
    -- The second factor: what its key is derived from, when it was confirmed, and the last step whose code was used.
    totp_nonce bytea,
    totp_since timestamptz,
    totp_step bigint NOT NULL DEFAULT 0,
    UNIQUE (issuer, subject),
    CONSTRAINT operators_identity CHECK ((issuer IS NULL) = (subject IS NULL))
);

-- Single-use links by which an operator sets a password.
CREATE TABLE operator_links (
    token_sha256 bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    link bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    operator integer REFERENCES operators,
    role text CHECK (role IN ('owner', 'operator', 'moderator', 'analyst')),
    arena integer REFERENCES arenas,
    -- Whom the link is for; only operators see it.
    invitee text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    CONSTRAINT operator_links_purpose CHECK ((operator IS NULL) OR ((role IS NULL) AND (arena IS NULL)))
);

CREATE TABLE operator_sessions (
    token_sha256 bytea PRIMARY KEY,
    operator integer NOT NULL REFERENCES operators,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    session bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    -- Where from: the client's network, and what the browser calls itself.
    address text NOT NULL DEFAULT '',
    browser text NOT NULL DEFAULT '',
    -- Only the password was right so far; and how many codes were wrong.
    awaits_code boolean NOT NULL DEFAULT false,
    wrong_codes integer NOT NULL DEFAULT 0
);
CREATE INDEX operator_sessions_of_operator ON operator_sessions (operator);

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
    revoked_at timestamptz,
    -- Whose rights a token has. Null: made on the command line, or before there were roles; it has those of an owner.
    operator integer REFERENCES operators
);
CREATE INDEX api_tokens_of_operator ON api_tokens (operator);

CREATE TABLE audit (
    entry bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    arena integer REFERENCES arenas,
    -- operator:NAME, token:NAME, cli.
    actor text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL
);

-- What the pages keep beside the log: nothing here moves a rating. Why a voter decided so, said after the vote and
-- before the names were shown. Private: no export has it.
CREATE TABLE remarks (
    arena integer NOT NULL REFERENCES arenas,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    session bigint NOT NULL,
    tags text[] NOT NULL,
    comment text,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, source, serial)
);

-- Answers files that an operator looks over before they are let in; gone afterwards, or after an hour.
CREATE TABLE uploads (
    upload uuid PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    actor text NOT NULL,
    name text NOT NULL,
    bytes bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE uploads ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Responses whose model's name a voter was told. It follows from the endings whose names were shown, and is kept so
-- that a vote need not look at all of its voter's votes before it.
CREATE TABLE told_responses (
    arena integer NOT NULL REFERENCES arenas,
    session bigint NOT NULL,
    response bigint NOT NULL,
    PRIMARY KEY (arena, session, response)
);

-- Leases of the processes that serve this database. Nothing here needs a backup: rows live for seconds.
CREATE UNLOGGED TABLE processes (
    process bigint PRIMARY KEY,
    role text NOT NULL CHECK (role IN ('web', 'rater')),
    expires_at timestamptz NOT NULL
);

-- What lets people in to a private arena. A row is a batch of people: those who used one link, or one passcode.
-- People are not listed: a browser that was let in has a signed cookie with the number of the row.
CREATE TABLE invitations (
    invitation bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
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
    CONSTRAINT invitations_check CHECK ((code_sha256 IS NULL) <> (passcode_argon2 IS NULL)),
    CONSTRAINT invitations_check1 CHECK (code_sha256 IS NULL OR (uses_allowed IS NOT NULL AND expires_at IS NOT NULL)),
    CONSTRAINT invitations_check2 CHECK (uses <= uses_allowed)
);
CREATE INDEX invitations_of_arena ON invitations (arena, invitation);
-- An arena has one passcode at a time.
CREATE UNIQUE INDEX invitations_passcode ON invitations (arena)
    WHERE passcode_argon2 IS NOT NULL AND revoked_at IS NULL;

-- What the next weekly report of an arena goes on from; see arena/boards/weekly_reports.py.
CREATE TABLE report_sums (
    arena bigint PRIMARY KEY REFERENCES arenas,
    until timestamptz NOT NULL,
    generation bigint NOT NULL,
    position bigint NOT NULL,
    explored bytea NOT NULL
);

CREATE TABLE operator_roles (
    operator integer NOT NULL REFERENCES operators,
    -- Null: the installation, which is every arena.
    arena integer REFERENCES arenas,
    role text NOT NULL CHECK (role IN ('owner', 'operator', 'moderator', 'analyst')),
    granted_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (operator, arena)
);
CREATE INDEX operator_roles_of_arena ON operator_roles (arena);

-- Codes that replace a code of the second factor once each.
CREATE TABLE operator_recovery_codes (
    code_sha256 bytea PRIMARY KEY,
    operator integer NOT NULL REFERENCES operators,
    used_at timestamptz
);
CREATE INDEX operator_recovery_codes_of_operator ON operator_recovery_codes (operator);

-- People who signed in through an identity provider or a gateway. Who they are is not stored, except for the name
-- that is shown: issuer and subject are hashed with the installation's secret key.
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

CREATE TABLE expert_panels (
    panel bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    name text NOT NULL,
    overlap integer NOT NULL CHECK (overlap > 0),
    -- Null: all pairs of models.
    pairs_per_prompt integer CHECK (pairs_per_prompt > 0),
    seed bigint NOT NULL,
    opened_at timestamptz NOT NULL,
    opened bigint NOT NULL,
    closed_at timestamptz,
    closed bigint,
    -- What the arena told voters of names before it had an open panel.
    reveal_before text NOT NULL,
    UNIQUE (arena, name),
    CONSTRAINT expert_panels_check CHECK ((closed_at IS NULL) = (closed IS NULL))
);

CREATE TABLE panel_raters (
    panel bigint NOT NULL REFERENCES expert_panels,
    rater integer NOT NULL,
    name text NOT NULL,
    -- The session in which the rater votes, on whatever device the link is opened.
    session bigint NOT NULL UNIQUE,
    invitation bigint NOT NULL UNIQUE REFERENCES invitations,
    UNIQUE (panel, name),
    PRIMARY KEY (panel, rater)
);

CREATE TABLE panel_items (
    panel bigint NOT NULL REFERENCES expert_panels,
    item integer NOT NULL,
    prompt integer NOT NULL,
    one integer NOT NULL,
    other integer NOT NULL,
    PRIMARY KEY (panel, item),
    CONSTRAINT panel_items_check CHECK (one < other)
);

CREATE TABLE panel_tasks (
    panel bigint NOT NULL,
    item integer NOT NULL,
    rater integer NOT NULL,
    place integer NOT NULL,
    -- Whether the model with the lower number is on the right.
    exchanged boolean NOT NULL,
    UNIQUE (panel, item, rater),
    PRIMARY KEY (panel, rater, place),
    FOREIGN KEY (panel, item) REFERENCES panel_items(panel, item),
    FOREIGN KEY (panel, rater) REFERENCES panel_raters(panel, rater)
);

-- What a senior rater said of an item on which others disagree: a record beside the votes, which stay as they are.
-- The newest one of an item applies.
CREATE TABLE panel_adjudications (
    adjudication bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    panel bigint NOT NULL,
    item integer NOT NULL,
    -- 0 the first model, 1 a tie, 2 the second, 3 both bad; see core/judging/diagnostics/rater_agreement.py.
    verdict smallint NOT NULL CHECK (verdict BETWEEN 0 AND 3),
    note text NOT NULL,
    actor text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (panel, item) REFERENCES panel_items(panel, item)
);
CREATE INDEX panel_adjudications_of_item ON panel_adjudications (panel, item, adjudication);

-- What the operator says about a model. It is shown beside its ratings and is in none of them. Null: not known.
CREATE TABLE model_details (
    arena integer NOT NULL,
    model integer NOT NULL,
    maker text,
    family text,
    licence text,
    link text CHECK (link ~ '^https?://'),
    open_weights boolean,
    -- US dollars for a million tokens.
    input_usd double precision CHECK (input_usd >= 0),
    output_usd double precision CHECK (output_usd >= 0),
    PRIMARY KEY (arena, model),
    FOREIGN KEY (arena, model) REFERENCES models(arena, model) ON DELETE CASCADE
);

-- What the file of answers said about making a response, and how its text is written. Null: not known, or no text.
CREATE TABLE response_details (
    response bigint PRIMARY KEY REFERENCES responses ON DELETE CASCADE,
    arena integer NOT NULL REFERENCES arenas,
    input_tokens bigint CHECK (input_tokens >= 0),
    output_tokens bigint CHECK (output_tokens >= 0),
    cost_usd double precision CHECK (cost_usd >= 0),
    latency_seconds double precision CHECK (latency_seconds >= 0),
    -- Characters, and Markdown marks outside code.
    length integer,
    headers integer,
    lists integer,
    bold integer
);
CREATE INDEX response_details_of_arena ON response_details (arena);
CREATE INDEX response_details_used ON response_details (arena)
    WHERE cost_usd IS NOT NULL OR latency_seconds IS NOT NULL OR output_tokens IS NOT NULL;

-- Arenas that are going to be deleted, or were. One that is restored before it is due has no row.
CREATE TABLE arena_deletions (
    arena integer PRIMARY KEY REFERENCES arenas,
    -- The stage to which the arena returns if it is restored.
    restored_stage text NOT NULL,
    asked_by text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL,
    done_at timestamptz
);

-- What an operator tells voters. Every version stays; the newest of a name counts, and an empty one is none.
CREATE TABLE arena_texts (
    version bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    name text NOT NULL CHECK (name IN ('announcement', 'instructions', 'consent', 'thanks', 'pause')),
    content text NOT NULL,
    sha256 bytea NOT NULL,
    made_by text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX arena_texts_newest ON arena_texts (arena, name, version DESC);

-- Who agreed to which version of the consent, by its hash.
CREATE TABLE consents (
    arena integer NOT NULL REFERENCES arenas,
    session bigint NOT NULL,
    sha256 bytea NOT NULL,
    given_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, session, sha256)
);

-- Scheduled jobs: when each was last due, when it is due again, who runs it until when, and how it ended.
CREATE TABLE scheduled_jobs (
    name text PRIMARY KEY,
    due_at timestamptz,
    retry_at timestamptz,
    finished_at timestamptz,
    problem text,
    process text,
    leased_until timestamptz NOT NULL DEFAULT '-infinity'::timestamptz
);

-- Distinct prompts, numbered from 1: prompts that differ in case, white space or outer punctuation are one.
CREATE TABLE live_prompts (
    arena integer NOT NULL REFERENCES arenas ON DELETE CASCADE,
    number integer NOT NULL CHECK (number >= 1),
    -- Of the normalised text. Null once everybody who wrote it has been erased.
    sha256 bytea,
    UNIQUE (arena, sha256),
    PRIMARY KEY (arena, number)
);

-- Who answers: a model of the roster is one version of an entrant.
CREATE TABLE live_entrants (
    arena integer NOT NULL,
    model integer NOT NULL,
    -- The entrant's name in the models file. The model of a later version has a number behind it.
    name text NOT NULL,
    -- The hash of endpoint, model, system prompt, parameters and thinking policy.
    version text NOT NULL,
    -- The entrant's section of the models file, without keys.
    config jsonb NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    added_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz,
    PRIMARY KEY (arena, model),
    FOREIGN KEY (arena, model) REFERENCES models(arena, model) ON DELETE CASCADE
);

-- One battle: a matchup with a conversation.
CREATE TABLE live_battles (
    arena integer NOT NULL REFERENCES arenas ON DELETE CASCADE,
    matchup uuid NOT NULL,
    session bigint NOT NULL,
    category integer NOT NULL,
    free_prompt integer NOT NULL,
    began_at timestamptz NOT NULL DEFAULT now(),
    -- Whether both answers of the last turn are complete.
    votable boolean NOT NULL DEFAULT false,
    -- Why nothing of it is rated; null if it is not void.
    void text,
    -- What a board may be filtered by: the language of a live battle's first prompt, and whether any of its turns
    -- talks about who answers.
    language text,
    identity_talk boolean NOT NULL DEFAULT false,
    -- Accounts besides the voter's session on which a battle is counted, as numbers made by a keyed hash: that of the
    -- invitation by which the voter came in, or that of the voter's network on this day.
    payers bigint[] NOT NULL DEFAULT '{}'::bigint[],
    PRIMARY KEY (arena, matchup),
    FOREIGN KEY (arena, free_prompt) REFERENCES live_prompts(arena, number)
);
CREATE INDEX live_battles_by_language ON live_battles (arena, language);
CREATE INDEX live_battles_of_prompt ON live_battles (arena, free_prompt);
CREATE INDEX live_battles_of_voter ON live_battles (arena, session, began_at DESC);

-- One prompt of a battle and both answers. Texts are null once they are erased.
CREATE TABLE live_turns (
    arena integer NOT NULL,
    matchup uuid NOT NULL,
    turn smallint NOT NULL CHECK (turn >= 1),
    prompt text,
    answer_a text,
    answer_b text,
    thinking_a text,
    thinking_b text,
    state text NOT NULL CHECK (state IN ('waiting', 'streaming', 'done', 'stopped', 'void')),
    -- The verdict on this turn alone, if the arena asks for one.
    outcome text CHECK (outcome IN ('a', 'b', 'tie', 'both_bad')),
    -- What the checks found: identity talk, language, moderation.
    flags jsonb NOT NULL DEFAULT '{}'::jsonb,
    -- The process in which the answers are generated, while they are.
    process bigint,
    began_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    -- How long both answers of a turn are: it stays when their texts are deleted, because effects of length rest on
    -- it.
    characters_a integer,
    characters_b integer,
    PRIMARY KEY (arena, matchup, turn),
    FOREIGN KEY (arena, matchup) REFERENCES live_battles(arena, matchup) ON DELETE CASCADE
);
CREATE INDEX live_turns_running ON live_turns (arena, process) WHERE ended_at IS NULL;
-- Texts that are due to be deleted are found by their age.
CREATE INDEX live_turns_with_text ON live_turns (arena, began_at) WHERE prompt IS NOT NULL;

-- Every call to an entrant. Money is in millionths of a US dollar.
CREATE TABLE live_calls (
    arena integer NOT NULL,
    call bigint GENERATED ALWAYS AS IDENTITY,
    matchup uuid NOT NULL,
    turn smallint NOT NULL,
    -- 0: on the left, 1: on the right.
    side smallint NOT NULL CHECK (side IN (0, 1)),
    model integer NOT NULL,
    session bigint NOT NULL,
    -- The day on which it is accounted, in UTC.
    day date NOT NULL,
    max_tokens integer NOT NULL,
    -- The most that it can cost; null if the price is unknown.
    reserve bigint CHECK (reserve >= 0),
    state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped', 'failed', 'unknown')),
    -- What it cost. Null while it runs, and where nobody knows: its reserve is counted then.
    cost bigint CHECK (cost >= 0),
    input_tokens bigint,
    output_tokens bigint,
    first_token_seconds double precision,
    seconds double precision,
    problem text,
    began_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    PRIMARY KEY (arena, call),
    FOREIGN KEY (arena, matchup, turn) REFERENCES live_turns(arena, matchup, turn) ON DELETE CASCADE
);
CREATE INDEX live_calls_of_model ON live_calls (arena, model, began_at);
CREATE INDEX live_calls_of_turn ON live_calls (arena, matchup, turn);

-- What is counted against the budgets: costs, and reserves of calls whose cost is not known. It is the sum of
-- live_calls, kept so that a reservation does not read them all.
CREATE TABLE live_spending (
    arena integer NOT NULL REFERENCES arenas ON DELETE CASCADE,
    -- 0: all voters together.
    session bigint NOT NULL,
    day date NOT NULL,
    counted bigint NOT NULL,
    PRIMARY KEY (arena, session, day)
);

-- Token buckets, of which processes lease blocks.
CREATE UNLOGGED TABLE limit_buckets (
    -- The keyed hash of what is limited: a session, a network or an arena, and what it does.
    bucket bytea PRIMARY KEY,
    -- So many in so many seconds.
    capacity double precision NOT NULL,
    seconds double precision NOT NULL,
    -- What is left; less than nothing if processes reported more than there was.
    tokens double precision NOT NULL,
    -- The last lease: what the process had spent without one, and what it was granted.
    spent double precision NOT NULL,
    granted double precision NOT NULL,
    leased_at timestamptz NOT NULL
) WITH (fillfactor='50');

-- Changes of the crowd: each is an event of the log (kind 26), and here with its evidence until it is explained (kind
-- 27).
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

-- What the watch of an arena's crowd remembers up to a position, so that a rater that starts need not read the log
-- again.
CREATE TABLE crowd_watches (
    arena integer PRIMARY KEY REFERENCES arenas,
    -- The exclusions that it includes, as in checkpoints.
    generation bigint NOT NULL,
    position bigint NOT NULL,
    version text NOT NULL,
    state bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE crowd_watches ALTER COLUMN state SET STORAGE EXTERNAL;

-- Random keys for hashes of addresses, one for each day: without its key, nobody can compute a hash of that day
-- again.
CREATE TABLE network_keys (
    day date PRIMARY KEY,
    key bytea NOT NULL
);

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
) WITH (fillfactor='50');

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

-- Votes that were not undone, with what was served. For reading by people: statements of the code name one bucket.
CREATE VIEW battles AS
SELECT e.arena, e.source, e.serial, e.position, e.at, e.outcome, m.a, m.b, m.prompt, m.session,
       m.nominal, m.lane, m.propensity, m.served_at,
       EXISTS (
           SELECT FROM excluded_votes v JOIN exclusions x USING (exclusion)
           WHERE v.arena = e.arena AND v.source = e.source AND v.serial = e.serial AND x.restored IS NULL
       ) AS excluded,
       e.both_bad, coalesce(e.blind, true) AS blind,
       vote_unrated(e.blind, e.mark, e.admitted, 9223372036854775807) AS unrated
FROM arenas JOIN endings e USING (arena, bucket) JOIN matchups m USING (arena, bucket, source, serial)
WHERE e.kind = 1 AND e.undone IS NULL;

-- Logs are append-only by the database itself. Rows of events and matchups can be changed or deleted, and endings
-- deleted, only in a transaction that has written an audit entry and named it (see arena/log/rewrite_permits.sql).
-- The owner of the tables and a superuser can still disable these triggers.
CREATE FUNCTION refuse_rewriting() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    named text := coalesce(current_setting('tiltyard.audit_entry', true), '');
BEGIN
    -- Columns that may change are the arguments of the trigger.
    IF TG_OP = 'UPDATE' AND TG_NARGS > 0 AND to_jsonb(NEW) - TG_ARGV = to_jsonb(OLD) - TG_ARGV THEN
        RETURN NEW;
    END IF;
    IF named <> '' AND EXISTS (SELECT FROM audit WHERE entry = named::bigint AND at = now()) THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% on % is refused: logs are append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

-- They are inherited by all partitions, and cost nothing where rows are inserted.
CREATE TRIGGER append_only BEFORE DELETE ON endings FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON events FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON matchups FOR EACH ROW
    EXECUTE FUNCTION refuse_rewriting('ballot', 'expires_at', 'unseen', 'shown_at');
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON panel_adjudications FOR EACH ROW
    EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON panel_items FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON panel_tasks FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON endings FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON matchups FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
