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

-- Why a scheduled job failed last, and when it is tried again. A later success does not delete it.
CREATE TABLE job_failures (
    name text PRIMARY KEY,
    due_at timestamptz NOT NULL,
    problem text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now(),
    retry_at timestamptz NOT NULL
);
