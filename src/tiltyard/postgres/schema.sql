-- The tables as they are after all migrations: written by tests/schema_listing.py from a real
-- database, compared with one by a test, and read by nobody but you.

CREATE FUNCTION public.vote_kind(outcome smallint, both_bad boolean) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN both_bad THEN (outcome + CASE WHEN outcome < 3 THEN 7 ELSE 6 END)::smallint ELSE outcome END $$;

CREATE FUNCTION public.vote_outcome(kind smallint) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT (CASE WHEN kind >= 10 THEN kind - 6 WHEN kind >= 7 THEN kind - 7 ELSE kind END)::smallint $$;

CREATE TABLE public.api_tokens (
    api_token integer NOT NULL,
    name text NOT NULL,
    token_sha256 bytea NOT NULL,
    scopes text[] NOT NULL,
    arena integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone
);

ALTER TABLE public.api_tokens ALTER COLUMN api_token ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.api_tokens_api_token_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.arenas (
    arena integer NOT NULL,
    name text NOT NULL,
    title text NOT NULL,
    settings jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    ids_carry_arena boolean DEFAULT false NOT NULL,
    CONSTRAINT arenas_name_check CHECK ((name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'::text))
);

ALTER TABLE public.arenas ALTER COLUMN arena ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.arenas_arena_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.audit (
    entry bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    arena integer,
    actor text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL
);

ALTER TABLE public.audit ALTER COLUMN entry ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.audit_entry_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.endings (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    "position" bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind smallint NOT NULL,
    outcome smallint,
    revealed_at timestamp with time zone,
    undone bigint,
    both_bad boolean,
    blind boolean,
    CONSTRAINT endings_check CHECK (((kind = 1) = (outcome IS NOT NULL))),
    CONSTRAINT endings_check1 CHECK (((kind = 1) OR (undone IS NULL))),
    CONSTRAINT endings_kind_check CHECK ((kind = ANY (ARRAY[1, 2, 3])))
)
PARTITION BY LIST (arena);

CREATE TABLE public.excluded_votes (
    exclusion bigint NOT NULL,
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL
);

CREATE TABLE public.exclusions (
    exclusion bigint NOT NULL,
    arena integer NOT NULL,
    reason text NOT NULL,
    excluded bigint NOT NULL,
    restored bigint,
    made_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.matchups (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    matchup uuid NOT NULL,
    "position" bigint NOT NULL,
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
    given_up smallint NOT NULL,
    served_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ballot integer DEFAULT 0 NOT NULL
)
PARTITION BY LIST (arena);

CREATE VIEW public.battles AS
 SELECT e.arena,
    e.source,
    e.serial,
    e."position",
    e.at,
    e.outcome,
    m.a,
    m.b,
    m.prompt,
    m.session,
    m.nominal,
    m.lane,
    m.propensity,
    m.served_at,
    (EXISTS ( SELECT
           FROM (public.excluded_votes v
             JOIN public.exclusions x USING (exclusion))
          WHERE ((v.arena = e.arena) AND (v.source = e.source) AND (v.serial = e.serial) AND (x.restored IS NULL)))) AS excluded,
    e.both_bad,
    COALESCE(e.blind, true) AS blind
   FROM (public.endings e
     JOIN public.matchups m USING (arena, source, serial))
  WHERE ((e.kind = 1) AND (e.undone IS NULL));

CREATE TABLE public.checkpoints (
    arena integer NOT NULL,
    generation bigint NOT NULL,
    "position" bigint NOT NULL,
    kernel text NOT NULL,
    digest bytea NOT NULL,
    state bytea NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY public.checkpoints ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE TABLE public.complaints (
    complaint bigint NOT NULL,
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    session bigint NOT NULL,
    reason text NOT NULL,
    note text,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    settled_at timestamp with time zone
);

ALTER TABLE public.complaints ALTER COLUMN complaint ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.complaints_complaint_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.contents (
    sha256 bytea NOT NULL,
    size bigint NOT NULL,
    bytes bytea,
    added_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.events (
    arena integer NOT NULL,
    "position" bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind smallint NOT NULL,
    source smallint,
    serial bigint,
    session bigint,
    a integer,
    b integer,
    prompt integer,
    outcome smallint,
    nominal smallint,
    lane smallint,
    detail jsonb,
    both_bad boolean,
    blind boolean,
    CONSTRAINT events_kind_check CHECK (((kind >= 0) AND (kind <= 13))),
    CONSTRAINT events_outcome_check CHECK (((outcome >= 0) AND (outcome <= 6)))
)
PARTITION BY LIST (arena);

ALTER TABLE public.exclusions ALTER COLUMN exclusion ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.exclusions_exclusion_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.migrations (
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.models (
    arena integer NOT NULL,
    model integer NOT NULL,
    name text NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT models_model_check CHECK ((model >= 0)),
    CONSTRAINT models_name_check CHECK ((name <> ''::text))
);

CREATE TABLE public.operator_links (
    token_sha256 bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone
);

CREATE TABLE public.operator_sessions (
    token_sha256 bytea NOT NULL,
    operator integer NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone
);

CREATE TABLE public.operators (
    operator integer NOT NULL,
    name text NOT NULL,
    password_argon2 text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE public.operators ALTER COLUMN operator ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.operators_operator_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.prompts (
    arena integer NOT NULL,
    prompt integer NOT NULL,
    name text NOT NULL,
    text text,
    sha256 bytea NOT NULL,
    category text,
    language text,
    added_at timestamp with time zone DEFAULT now() NOT NULL,
    withdrawn_at timestamp with time zone,
    CONSTRAINT prompts_name_check CHECK ((name <> ''::text)),
    CONSTRAINT prompts_prompt_check CHECK ((prompt >= 0))
);

CREATE TABLE public.raters (
    arena integer NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    horizon bigint DEFAULT 0 NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    leader text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.remarks (
    arena integer NOT NULL,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    session bigint NOT NULL,
    tags text[] NOT NULL,
    comment text,
    made_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.reports (
    arena integer NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    "position" bigint NOT NULL,
    sha256 bytea NOT NULL,
    document text NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.responses (
    response bigint NOT NULL,
    arena integer NOT NULL,
    model integer NOT NULL,
    prompt integer NOT NULL,
    kind text NOT NULL,
    media_type text NOT NULL,
    sha256 bytea NOT NULL,
    size bigint NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL,
    withdrawn_at timestamp with time zone,
    CONSTRAINT responses_kind_check CHECK ((kind = ANY (ARRAY['text'::text, 'image'::text, 'audio'::text, 'app'::text])))
);

ALTER TABLE public.responses ALTER COLUMN response ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.responses_response_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.sessions (
    session bigint NOT NULL,
    token_sha256 bytea NOT NULL,
    source smallint NOT NULL,
    name text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT sessions_source_check CHECK ((source = ANY (ARRAY[0, 1])))
);

ALTER TABLE public.sessions ALTER COLUMN session ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sessions_session_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.snapshots (
    arena integer NOT NULL,
    source smallint NOT NULL,
    generation bigint NOT NULL,
    "position" bigint NOT NULL,
    sha256 bytea NOT NULL,
    votes bigint NOT NULL,
    evaluated boolean NOT NULL,
    document text NOT NULL,
    strengths jsonb NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.told_responses (
    arena integer NOT NULL,
    session bigint NOT NULL,
    response bigint NOT NULL
);

CREATE TABLE public.uploads (
    upload uuid NOT NULL,
    arena integer NOT NULL,
    actor text NOT NULL,
    name text NOT NULL,
    bytes bytea NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY public.uploads ALTER COLUMN bytes SET STORAGE EXTERNAL;

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_pkey PRIMARY KEY (api_token);

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_token_sha256_key UNIQUE (token_sha256);

ALTER TABLE ONLY public.arenas
    ADD CONSTRAINT arenas_name_key UNIQUE (name);

ALTER TABLE ONLY public.arenas
    ADD CONSTRAINT arenas_pkey PRIMARY KEY (arena);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (entry);

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (arena, generation, "position");

ALTER TABLE ONLY public.complaints
    ADD CONSTRAINT complaints_pkey PRIMARY KEY (complaint);

ALTER TABLE ONLY public.contents
    ADD CONSTRAINT contents_pkey PRIMARY KEY (sha256);

ALTER TABLE ONLY public.endings
    ADD CONSTRAINT endings_pkey PRIMARY KEY (arena, source, serial);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (arena, "position");

ALTER TABLE ONLY public.excluded_votes
    ADD CONSTRAINT excluded_votes_pkey PRIMARY KEY (exclusion, source, serial);

ALTER TABLE ONLY public.exclusions
    ADD CONSTRAINT exclusions_pkey PRIMARY KEY (exclusion);

ALTER TABLE ONLY public.matchups
    ADD CONSTRAINT matchups_pkey PRIMARY KEY (arena, source, serial);

ALTER TABLE ONLY public.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.models
    ADD CONSTRAINT models_arena_name_key UNIQUE (arena, name);

ALTER TABLE ONLY public.models
    ADD CONSTRAINT models_pkey PRIMARY KEY (arena, model);

ALTER TABLE ONLY public.operator_links
    ADD CONSTRAINT operator_links_pkey PRIMARY KEY (token_sha256);

ALTER TABLE ONLY public.operator_sessions
    ADD CONSTRAINT operator_sessions_pkey PRIMARY KEY (token_sha256);

ALTER TABLE ONLY public.operators
    ADD CONSTRAINT operators_name_key UNIQUE (name);

ALTER TABLE ONLY public.operators
    ADD CONSTRAINT operators_pkey PRIMARY KEY (operator);

ALTER TABLE ONLY public.prompts
    ADD CONSTRAINT prompts_arena_name_key UNIQUE (arena, name);

ALTER TABLE ONLY public.prompts
    ADD CONSTRAINT prompts_pkey PRIMARY KEY (arena, prompt);

ALTER TABLE ONLY public.raters
    ADD CONSTRAINT raters_pkey PRIMARY KEY (arena);

ALTER TABLE ONLY public.remarks
    ADD CONSTRAINT remarks_pkey PRIMARY KEY (arena, source, serial);

ALTER TABLE ONLY public.reports
    ADD CONSTRAINT reports_pkey PRIMARY KEY (arena, since, until);

ALTER TABLE ONLY public.responses
    ADD CONSTRAINT responses_pkey PRIMARY KEY (response);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (session);

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_token_sha256_key UNIQUE (token_sha256);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (arena, source, generation, "position");

ALTER TABLE ONLY public.told_responses
    ADD CONSTRAINT told_responses_pkey PRIMARY KEY (arena, session, response);

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_pkey PRIMARY KEY (upload);

CREATE INDEX endings_not_blind ON ONLY public.endings USING btree (arena, source, "position") WHERE (NOT blind);

CREATE INDEX events_of_roster ON ONLY public.events USING btree (arena, kind, "position") WHERE (kind = ANY (ARRAY[4, 5, 12]));

CREATE INDEX excluded_by_serial ON public.excluded_votes USING btree (arena, source, serial);

CREATE INDEX matchups_by_expiry ON ONLY public.matchups USING brin (expires_at);

CREATE INDEX matchups_by_id ON ONLY public.matchups USING btree (matchup);

CREATE INDEX matchups_by_session ON ONLY public.matchups USING btree (arena, session);

CREATE INDEX responses_by_content ON public.responses USING btree (sha256);

CREATE UNIQUE INDEX responses_live ON public.responses USING btree (arena, model, prompt) WHERE (withdrawn_at IS NULL);

CREATE INDEX snapshots_by_hash ON public.snapshots USING btree (sha256);

ALTER TABLE ONLY public.api_tokens
    ADD CONSTRAINT api_tokens_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.complaints
    ADD CONSTRAINT complaints_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.excluded_votes
    ADD CONSTRAINT excluded_votes_exclusion_fkey FOREIGN KEY (exclusion) REFERENCES public.exclusions(exclusion);

ALTER TABLE ONLY public.exclusions
    ADD CONSTRAINT exclusions_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.models
    ADD CONSTRAINT models_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.operator_sessions
    ADD CONSTRAINT operator_sessions_operator_fkey FOREIGN KEY (operator) REFERENCES public.operators(operator);

ALTER TABLE ONLY public.prompts
    ADD CONSTRAINT prompts_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.raters
    ADD CONSTRAINT raters_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.remarks
    ADD CONSTRAINT remarks_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.reports
    ADD CONSTRAINT reports_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.responses
    ADD CONSTRAINT responses_arena_model_fkey FOREIGN KEY (arena, model) REFERENCES public.models(arena, model);

ALTER TABLE ONLY public.responses
    ADD CONSTRAINT responses_arena_prompt_fkey FOREIGN KEY (arena, prompt) REFERENCES public.prompts(arena, prompt);

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.told_responses
    ADD CONSTRAINT told_responses_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);

ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT uploads_arena_fkey FOREIGN KEY (arena) REFERENCES public.arenas(arena);
