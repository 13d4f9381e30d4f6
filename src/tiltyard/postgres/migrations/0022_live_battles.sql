-- Live battles: voters write their own prompts, and two hidden models answer at once.

-- The distinct prompt that a voter wrote, by its number in live_prompts; null where prompts are the operator's. The
-- vote's event has it too, so that the log alone can be folded.
ALTER TABLE matchups ADD COLUMN free_prompt integer;
ALTER TABLE events ADD COLUMN free_prompt integer;

-- Distinct prompts, numbered from 1: prompts that differ in case, white space or outer punctuation are one.
CREATE TABLE live_prompts (
    arena integer NOT NULL REFERENCES arenas ON DELETE CASCADE,
    number integer NOT NULL CHECK (number >= 1),
    -- Of the normalised text. Null once everybody who wrote it has been erased.
    sha256 bytea,
    PRIMARY KEY (arena, number),
    UNIQUE (arena, sha256)
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
    FOREIGN KEY (arena, model) REFERENCES models ON DELETE CASCADE
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
    PRIMARY KEY (arena, matchup),
    FOREIGN KEY (arena, free_prompt) REFERENCES live_prompts
);
CREATE INDEX live_battles_of_voter ON live_battles (arena, session, began_at DESC);
CREATE INDEX live_battles_of_prompt ON live_battles (arena, free_prompt);

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
    flags jsonb NOT NULL DEFAULT '{}',
    -- The process in which the answers are generated, while they are.
    process bigint,
    began_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    PRIMARY KEY (arena, matchup, turn),
    FOREIGN KEY (arena, matchup) REFERENCES live_battles ON DELETE CASCADE
);
CREATE INDEX live_turns_running ON live_turns (arena, process) WHERE ended_at IS NULL;

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
    FOREIGN KEY (arena, matchup, turn) REFERENCES live_turns ON DELETE CASCADE
);
CREATE INDEX live_calls_of_turn ON live_calls (arena, matchup, turn);
CREATE INDEX live_calls_of_model ON live_calls (arena, model, began_at);

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
