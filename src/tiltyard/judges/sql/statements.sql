-- name: add_run
-- Adds a run, unless it exists.
INSERT INTO judge_runs (run, plan, generation, cap, held, spent, estimate)
VALUES (:run, :plan, 0, :cap, 0, 0, :estimate) ON CONFLICT (run) DO NOTHING;

-- name: set_cap
-- Sets the budget, which may change when a run is resumed.
UPDATE judge_runs SET cap = :cap WHERE run = :run;

-- name: get_run
-- The state of a run.
SELECT plan, generation, cap, held, spent, estimate FROM judge_runs WHERE run = :run;

-- name: next_generation
-- Starts a new pass over the plan, unless another worker has.
UPDATE judge_runs SET generation = :generation + 1 WHERE run = :run AND generation = :generation;

-- name: line_up
-- Locks a run until the end of the transaction.
UPDATE judge_runs SET held = held WHERE run = :run;

-- name: hold
-- Reserves the worst case, if the remaining budget covers it and leaves the headroom.
UPDATE judge_runs SET held = held + :amount
WHERE run = :run AND (cap IS NULL OR spent + held + :amount + :headroom <= cap);

-- name: release
-- Replaces reservations by the real cost.
UPDATE judge_runs SET held = held - :reserved, spent = spent + :cost WHERE run = :run;

-- name: add_attempt
-- Records an intent, before anything is sent.
INSERT INTO judge_attempts
    (attempt_id, run, request_key, ask, question_id, judge, dimension, worker, batch, place, state,
     reserved, priced, started_at)
VALUES
    (:attempt_id, :run, :request_key, :ask, :question_id, :judge, :dimension, :worker, :batch, :place, 'intent',
     :reserved, :priced, :started_at)
ON CONFLICT DO NOTHING;

-- name: drop_intent
-- Deletes an intent that was not sent.
DELETE FROM judge_attempts WHERE attempt_id = :attempt_id AND state = 'intent';

-- name: settle_attempt
-- Settles an attempt; settling it again has no effect.
UPDATE judge_attempts
SET state = :state, cost = :cost, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cache_write_tokens = :cache_write_tokens, cache_read_tokens = :cache_read_tokens,
    error = :error, finished_at = :finished_at
WHERE attempt_id = :attempt_id AND state = 'intent';

-- name: add_reply
-- Stores a raw reply permanently.
INSERT INTO judge_replies (request_key, ask, body, received_at)
VALUES (:request_key, :ask, :body, :received_at) ON CONFLICT (request_key, ask) DO NOTHING;

-- name: in_flight
-- Live calls that a dead worker had in flight.
SELECT attempt_id, run, reserved, priced FROM judge_attempts
WHERE worker = :worker AND state = 'intent' AND batch IS NULL;

-- name: unpriced_attempts
-- How many attempts of a run were made at an unknown price.
SELECT COUNT(*) FROM judge_attempts WHERE run = :run AND state <> 'intent' AND cost IS NULL;

-- name: attempts_of_run
-- All attempts of a run, in a stable order.
SELECT a.attempt_id, a.request_key, a.ask, a.question_id, a.judge, a.dimension, a.worker,
       CASE WHEN a.batch IS NULL THEN NULL ELSE COALESCE(b.provider_id, '') END,
       a.state, a.reserved, a.cost, a.input_tokens, a.output_tokens, a.cache_write_tokens, a.cache_read_tokens,
       a.error, a.started_at, a.finished_at
FROM judge_attempts a LEFT JOIN judge_batches b ON b.batch = a.batch
WHERE a.run = :run ORDER BY a.question_id, a.started_at, a.attempt_id;

-- name: add_batch
-- Records the intent to create a batch.
INSERT INTO judge_batches (batch, run, shard, judge, provider_id, state, size, created_at, watched_until)
VALUES (:batch, :run, :shard, :judge, NULL, 'intent', :size, :created_at, :watched_until);

-- name: watch_batch
-- Renews the lease of the worker that waits for a batch.
UPDATE judge_batches SET watched_until = :watched_until WHERE batch = :batch;

-- name: left_behind
-- Whether a request is in a batch whose lease has expired.
SELECT 1 FROM judge_attempts a JOIN judge_batches b ON b.batch = a.batch
WHERE a.run = :run AND a.request_key = :request_key AND a.ask = :ask AND a.state = 'intent'
  AND b.watched_until <= :now;

-- name: held_behind
-- The amount reserved for batches whose lease has expired.
SELECT SUM(a.reserved) FROM judge_attempts a JOIN judge_batches b ON b.batch = a.batch
WHERE a.run = :run AND a.state = 'intent' AND b.watched_until <= :now GROUP BY a.run;

-- name: name_batch
-- Records the provider's ID of a batch.
UPDATE judge_batches SET provider_id = :provider_id, state = 'created' WHERE batch = :batch;

-- name: close_batch
-- Closes a batch.
UPDATE judge_batches SET state = :state WHERE batch = :batch;

-- name: open_batches
-- Open batches of a shard.
SELECT batch, judge, provider_id, size, created_at FROM judge_batches
WHERE run = :run AND shard = :shard AND state IN ('intent', 'created') ORDER BY created_at, batch;

-- name: claimed_batches
-- Provider IDs that are already assigned to a batch.
SELECT provider_id FROM judge_batches WHERE provider_id IS NOT NULL AND created_at >= :since;

-- name: batch_attempts
-- Unsettled attempts of a batch.
SELECT attempt_id, place, request_key, ask, question_id, dimension, reserved FROM judge_attempts
WHERE batch = :batch AND state = 'intent' ORDER BY place;

-- name: add_limit
-- Adds a provider key, unless it exists.
INSERT INTO judge_limits (name, next_at, paused_until) VALUES (:name, 0, 0) ON CONFLICT (name) DO NOTHING;

-- name: take_permits
-- Reserves the next time slot for a number of calls.
UPDATE judge_limits
SET next_at = CASE WHEN next_at > :now THEN next_at ELSE :now END + :length
WHERE name = :name;

-- name: pause
-- Pauses all calls until a time.
UPDATE judge_limits SET paused_until = CASE WHEN paused_until > :until THEN paused_until ELSE :until END
WHERE name = :name;

-- name: get_limit
-- When the next call may be sent, and until when calls are paused.
SELECT next_at, paused_until FROM judge_limits WHERE name = :name;
