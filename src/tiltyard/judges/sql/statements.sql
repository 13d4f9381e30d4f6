-- name: add_run
-- A run that is not known yet.
INSERT INTO judge_runs (run, plan, generation, cap, held, spent, estimate)
VALUES (:run, :plan, 0, :cap, 0, 0, :estimate) ON CONFLICT (run) DO NOTHING;

-- name: set_cap
-- The budget of a run may be raised or lowered when it is resumed.
UPDATE judge_runs SET cap = :cap WHERE run = :run;

-- name: get_run
-- Where a run stands.
SELECT plan, generation, cap, held, spent, estimate FROM judge_runs WHERE run = :run;

-- name: next_generation
-- A new pass over the plan, unless somebody else has begun it.
UPDATE judge_runs SET generation = :generation + 1 WHERE run = :run AND generation = :generation;

-- name: line_up
-- Nobody else changes this run until the transaction ends.
UPDATE judge_runs SET held = held WHERE run = :run;

-- name: hold
-- Reserve the worst case, if what is left covers it.
UPDATE judge_runs SET held = held + :amount
WHERE run = :run AND (cap IS NULL OR spent + held + :amount <= cap);

-- name: release
-- Reservations become what was really spent.
UPDATE judge_runs SET held = held - :reserved, spent = spent + :cost WHERE run = :run;

-- name: add_attempt
-- The intent, written before anything is sent.
INSERT INTO judge_attempts
    (attempt_id, run, request_key, ask, question_id, judge, dimension, worker, batch, place, state,
     reserved, priced, started_at)
VALUES
    (:attempt_id, :run, :request_key, :ask, :question_id, :judge, :dimension, :worker, :batch, :place, 'intent',
     :reserved, :priced, :started_at)
ON CONFLICT DO NOTHING;

-- name: drop_intent
-- Take back an intent that was not needed: nothing has been sent.
DELETE FROM judge_attempts WHERE attempt_id = :attempt_id AND state = 'intent';

-- name: settle_attempt
-- How an attempt ended; a second ending changes nothing.
UPDATE judge_attempts
SET state = :state, cost = :cost, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cache_write_tokens = :cache_write_tokens, cache_read_tokens = :cache_read_tokens,
    error = :error, finished_at = :finished_at
WHERE attempt_id = :attempt_id AND state = 'intent';

-- name: add_reply
-- A raw reply, kept for ever.
INSERT INTO judge_replies (request_key, ask, body, received_at)
VALUES (:request_key, :ask, :body, :received_at) ON CONFLICT (request_key, ask) DO NOTHING;

-- name: in_flight
-- Live calls that a dead worker had in flight.
SELECT attempt_id, run, reserved, priced FROM judge_attempts
WHERE worker = :worker AND state = 'intent' AND batch IS NULL;

-- name: attempts_of_run
-- Every attempt of a run, in a stable order.
SELECT a.attempt_id, a.request_key, a.ask, a.question_id, a.judge, a.dimension, a.worker,
       CASE WHEN a.batch IS NULL THEN NULL ELSE COALESCE(b.provider_id, '') END,
       a.state, a.reserved, a.cost, a.input_tokens, a.output_tokens, a.cache_write_tokens, a.cache_read_tokens,
       a.error, a.started_at, a.finished_at
FROM judge_attempts a LEFT JOIN judge_batches b ON b.batch = a.batch
WHERE a.run = :run ORDER BY a.question_id, a.started_at, a.attempt_id;

-- name: add_batch
-- The intent of a batch.
INSERT INTO judge_batches (batch, run, shard, judge, provider_id, state, size, created_at, watched_until)
VALUES (:batch, :run, :shard, :judge, NULL, 'intent', :size, :created_at, :watched_until);

-- name: watch_batch
-- Somebody waits for this batch until then, and will say so again before.
UPDATE judge_batches SET watched_until = :watched_until WHERE batch = :batch;

-- name: left_behind
-- Whether a request is under way in a batch that nobody waits for.
SELECT 1 FROM judge_attempts a JOIN judge_batches b ON b.batch = a.batch
WHERE a.run = :run AND a.request_key = :request_key AND a.ask = :ask AND a.state = 'intent'
  AND b.watched_until <= :now;

-- name: held_behind
-- What is held for batches that nobody waits for.
SELECT SUM(a.reserved) FROM judge_attempts a JOIN judge_batches b ON b.batch = a.batch
WHERE a.run = :run AND a.state = 'intent' AND b.watched_until <= :now GROUP BY a.run;

-- name: name_batch
-- The id that the provider gave.
UPDATE judge_batches SET provider_id = :provider_id, state = 'created' WHERE batch = :batch;

-- name: close_batch
-- Nothing more will come of this batch.
UPDATE judge_batches SET state = :state WHERE batch = :batch;

-- name: open_batches
-- Batches of a shard that may still bring something.
SELECT batch, judge, provider_id, size, created_at FROM judge_batches
WHERE run = :run AND shard = :shard AND state IN ('intent', 'created') ORDER BY created_at, batch;

-- name: claimed_batches
-- Providers' ids that are already some batch of ours.
SELECT provider_id FROM judge_batches WHERE provider_id IS NOT NULL AND created_at >= :since;

-- name: batch_attempts
-- What was sent in a batch, and is not settled.
SELECT attempt_id, place, request_key, ask, question_id, dimension, reserved FROM judge_attempts
WHERE batch = :batch AND state = 'intent' ORDER BY place;

-- name: add_limit
-- A provider key that is not known yet.
INSERT INTO judge_limits (name, next_at, paused_until) VALUES (:name, 0, 0) ON CONFLICT (name) DO NOTHING;

-- name: take_permits
-- A stretch of time in which this many calls may leave, one after another.
UPDATE judge_limits
SET next_at = CASE WHEN next_at > :now THEN next_at ELSE :now END + :length
WHERE name = :name;

-- name: pause
-- Nobody may call before this moment.
UPDATE judge_limits SET paused_until = CASE WHEN paused_until > :until THEN paused_until ELSE :until END
WHERE name = :name;

-- name: get_limit
-- When the next call may leave, and until when nobody may call.
SELECT next_at, paused_until FROM judge_limits WHERE name = :name;
