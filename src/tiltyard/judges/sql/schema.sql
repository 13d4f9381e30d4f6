-- The ledger of judges' calls, in the subset of SQL that SQLite 3.35 and PostgreSQL share.
-- Money is in picodollars. Times are seconds since 1970, UTC.

-- Raw replies by the hash of the exact request; a second one only if the first could not be parsed.
CREATE TABLE IF NOT EXISTS judge_replies (
    request_key TEXT NOT NULL,
    ask INTEGER NOT NULL,
    body BYTEA NOT NULL,
    received_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (request_key, ask)
);

-- All attempts, recorded before they are sent: after a crash, calls in flight are left as intent rows.
CREATE TABLE IF NOT EXISTS judge_attempts (
    attempt_id TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    request_key TEXT NOT NULL,
    ask INTEGER NOT NULL,
    question_id TEXT NOT NULL,
    judge TEXT NOT NULL,
    dimension TEXT NOT NULL,
    worker TEXT NOT NULL,
    batch TEXT,
    place INTEGER,
    state TEXT NOT NULL,
    reserved BIGINT NOT NULL,
    priced INTEGER NOT NULL,
    cost BIGINT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cache_write_tokens BIGINT,
    cache_read_tokens BIGINT,
    error TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION
);
CREATE INDEX IF NOT EXISTS judge_attempts_of_run ON judge_attempts (run, question_id);
-- Within a run, a request is in flight at most once.
CREATE UNIQUE INDEX IF NOT EXISTS judge_attempts_once ON judge_attempts (run, request_key, ask) WHERE state = 'intent';
CREATE INDEX IF NOT EXISTS judge_attempts_in_flight ON judge_attempts (worker) WHERE state = 'intent';
CREATE INDEX IF NOT EXISTS judge_attempts_of_batch ON judge_attempts (batch, place) WHERE batch IS NOT NULL;

-- Batches: the row is written before the batch is created, its ID is added afterwards.
-- A worker that waits for a batch renews its lease, which expires at watched_until.
CREATE TABLE IF NOT EXISTS judge_batches (
    batch TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    shard TEXT NOT NULL,
    judge TEXT NOT NULL,
    provider_id TEXT,
    state TEXT NOT NULL,
    size INTEGER NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    watched_until DOUBLE PRECISION NOT NULL
);
CREATE INDEX IF NOT EXISTS judge_batches_of_shard ON judge_batches (run, shard, state);

-- Runs: plan, pass over the plan, budget, amounts reserved and spent, cost estimate.
CREATE TABLE IF NOT EXISTS judge_runs (
    run TEXT PRIMARY KEY,
    plan TEXT NOT NULL,
    generation INTEGER NOT NULL,
    cap BIGINT,
    held BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    estimate TEXT NOT NULL
);

-- Provider keys: when the next call may be sent, and until when calls are paused.
CREATE TABLE IF NOT EXISTS judge_limits (
    name TEXT PRIMARY KEY,
    next_at DOUBLE PRECISION NOT NULL,
    paused_until DOUBLE PRECISION NOT NULL
);
