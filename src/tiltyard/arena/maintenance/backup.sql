-- name: backup_arenas
-- Every arena, with its bucket.
SELECT name, arena, bucket FROM arenas ORDER BY name;

-- name: backup_counts
-- The last and the first position of each log in a bucket, and how many there are; not of copies that were moved away.
SELECT e.arena, max(e.position), min(e.position), count(*)
FROM events e JOIN arenas a ON a.arena = e.arena AND a.bucket = %(bucket)s
GROUP BY e.arena;

-- name: backup_bulky
-- Hashes of bytes that do not lie in the database.
SELECT sha256 FROM contents WHERE bytes IS NULL ORDER BY sha256;

-- name: backup_still_named
-- A row if bytes with this hash are still wanted.
SELECT FROM contents WHERE sha256 = %(sha256)s;

-- name: backup_relations
-- User-defined tables, views and sequences.
SELECT n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_toast%'
    AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
ORDER BY 1
LIMIT 3;

-- name: backup_recorded
-- A backup was made, or one was restored.
INSERT INTO audit (actor, action, detail) VALUES ('cli', %(action)s, %(detail)s::jsonb);

-- name: backup_last
-- How many seconds ago the last backup was made, and where it was written.
SELECT extract(epoch FROM now() - at)::double precision, detail ->> 'file'
FROM audit WHERE action = 'backup' ORDER BY at DESC LIMIT 1;

-- name: restored_tokens
-- Tokens that can be used.
SELECT t.api_token, t.name, t.scopes, a.name
FROM api_tokens t LEFT JOIN arenas a USING (arena) LEFT JOIN operators o USING (operator)
WHERE t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now()) AND o.removed_at IS NULL
ORDER BY t.api_token;

-- name: restored_operators
-- Operators with a password.
SELECT name FROM operators WHERE password_argon2 <> '' AND removed_at IS NULL ORDER BY name;

-- name: restored_operator_sessions
-- How many operator sessions, and links that make operators or set their passwords, can be used.
SELECT
    (SELECT count(*) FROM operator_sessions WHERE revoked_at IS NULL AND expires_at > now()),
    (SELECT count(*) FROM operator_links WHERE used_at IS NULL AND revoked_at IS NULL AND expires_at > now());

-- name: restored_invitations
-- How many invitations to private arenas let people in, or let in those who came by them.
SELECT count(*) FROM invitations WHERE revoked_at IS NULL;

-- name: restored_responses
-- How many responses of each arena are shown, and how many were withdrawn.
SELECT a.name, count(*) FILTER (WHERE r.withdrawn_at IS NULL), count(*) FILTER (WHERE r.withdrawn_at IS NOT NULL)
FROM arenas a JOIN responses r USING (arena) GROUP BY a.name ORDER BY a.name;

-- name: revoke_restored_tokens
-- Revoke every token.
UPDATE api_tokens SET revoked_at = now() WHERE revoked_at IS NULL;

-- name: revoke_restored_operator_links
-- Close links that make operators or set their passwords.
UPDATE operator_links SET used_at = now() WHERE used_at IS NULL;

-- name: revoke_restored_sign_ins
-- End every sign-in of people.
UPDATE person_sign_ins SET ended_at = now() WHERE ended_at IS NULL;

-- name: revoke_restored_invitations
-- Revoke every invitation to a private arena, and every passcode.
UPDATE invitations SET revoked_at = now() WHERE revoked_at IS NULL;

-- name: revoke_restored_passwords
-- A hash that no password matches.
UPDATE operators SET password_argon2 = '';
