-- An arena's stage is one of its settings. Here is what its stages need besides.

-- Test votes, cast before the arena was opened: they are excluded for good.
ALTER TABLE exclusions ADD COLUMN final boolean NOT NULL DEFAULT false;

-- A hidden response is withdrawn, but its bytes stay, and it can be shown again.
ALTER TABLE responses ADD COLUMN hidden_at timestamptz;

-- Arenas that are going to be deleted, or were. One that is restored before it is due has no row.
CREATE TABLE arena_deletions (
    arena integer PRIMARY KEY REFERENCES arenas (arena),
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
    arena integer NOT NULL REFERENCES arenas (arena),
    name text NOT NULL CHECK (name IN ('announcement', 'instructions', 'consent', 'thanks', 'pause')),
    content text NOT NULL,
    sha256 bytea NOT NULL,
    made_by text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX arena_texts_newest ON arena_texts (arena, name, version DESC);

-- Who agreed to which version of the consent, by its hash.
CREATE TABLE consents (
    arena integer NOT NULL REFERENCES arenas (arena),
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
    leased_until timestamptz NOT NULL DEFAULT '-infinity'
);
