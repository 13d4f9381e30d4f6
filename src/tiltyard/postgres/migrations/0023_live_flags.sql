-- What a board may be filtered by: the language of a live battle's first prompt, and whether any of its turns talks about
-- who answers.
ALTER TABLE live_battles ADD COLUMN language text;
ALTER TABLE live_battles ADD COLUMN identity_talk boolean NOT NULL DEFAULT false;
CREATE INDEX live_battles_by_language ON live_battles (arena, language);
-- Texts that are due to be deleted are found by their age.
CREATE INDEX live_turns_with_text ON live_turns (arena, began_at) WHERE prompt IS NOT NULL;
