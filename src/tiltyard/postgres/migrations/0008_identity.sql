-- Ids of matchups are a shard (16 bits, 0 so far), the arena (32 bits) and random bits (80). The ids of earlier
-- versions get this form, so that open matchups can be voted on; their texts change, because texts are signed.
UPDATE matchups
SET matchup = encode('\x0000' || int4send(arena) || substring(uuid_send(matchup) FROM 7 FOR 10), 'hex')::uuid;

ALTER TABLE arenas DROP COLUMN ids_carry_arena;

-- A voter's session is a random number in a signed cookie. It has a row only if it was revoked; a judge's session has
-- one, by the name of its token. Cookies of earlier versions are no longer valid.
DELETE FROM sessions WHERE source = 0 AND revoked_at IS NULL;
ALTER TABLE sessions DROP COLUMN token_sha256;
ALTER TABLE sessions ADD CONSTRAINT sessions_name_key UNIQUE (name);
