-- How long both answers of a turn are: it stays when their texts are deleted, because effects of length rest on it.
ALTER TABLE live_turns ADD COLUMN characters_a integer;
ALTER TABLE live_turns ADD COLUMN characters_b integer;
UPDATE live_turns SET characters_a = char_length(answer_a), characters_b = char_length(answer_b)
WHERE ended_at IS NOT NULL;

-- Accounts besides the voter's session on which a battle is counted, as numbers made by a keyed hash: that of the
-- invitation by which the voter came in, or that of the voter's network on this day.
ALTER TABLE live_battles ADD COLUMN payers bigint[] NOT NULL DEFAULT '{}';
