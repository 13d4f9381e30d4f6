-- A call that a model refused because of its prompt says nothing of the model's health.
ALTER TABLE live_calls DROP CONSTRAINT live_calls_state_check;
ALTER TABLE live_calls ADD CONSTRAINT live_calls_state_check
    CHECK (state IN ('running', 'done', 'stopped', 'failed', 'refused', 'unknown'));
