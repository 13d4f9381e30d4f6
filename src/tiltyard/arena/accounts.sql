-- name: make_session
-- Create a voter's session, or a judge's session if its token has none yet.
INSERT INTO sessions (token_sha256, source, name) VALUES (%(token)s, %(source)s, %(name)s)
ON CONFLICT (token_sha256) DO NOTHING RETURNING session;

-- name: find_session
-- The session of a token, unless it was revoked.
SELECT session, source FROM sessions WHERE token_sha256 = %(token)s AND revoked_at IS NULL;

-- name: has_operator
-- Whether the operator account exists.
SELECT EXISTS (SELECT FROM operators);

-- name: make_operator_link
-- Create a link for setting the operator's name and password once.
INSERT INTO operator_links (token_sha256, expires_at) VALUES (%(token)s, now() + %(life)s);

-- name: operator_link_is_open
-- Whether a link can still be used.
SELECT EXISTS (
    SELECT FROM operator_links WHERE token_sha256 = %(token)s AND used_at IS NULL AND expires_at > now()
);

-- name: use_operator_link
-- Mark a link as used; no row if it was used before, has expired or never existed.
UPDATE operator_links SET used_at = now()
WHERE token_sha256 = %(token)s AND used_at IS NULL AND expires_at > now() RETURNING token_sha256;

-- name: lock_operators
-- One claim at a time: there is one operator.
SELECT pg_advisory_xact_lock(hashtext('tiltyard'), hashtext('operators'));

-- name: change_operator
-- Change the operator's name and password.
UPDATE operators SET name = %(name)s, password_argon2 = %(password)s RETURNING operator;

-- name: make_operator
-- Create the operator.
INSERT INTO operators (name, password_argon2) VALUES (%(name)s, %(password)s) RETURNING operator;

-- name: find_operator
-- The operator of that name, with the hash of the password.
SELECT operator, password_argon2 FROM operators WHERE name = %(name)s;

-- name: rehash_password
-- Store the same password hashed with newer parameters.
UPDATE operators SET password_argon2 = %(password)s WHERE operator = %(operator)s;

-- name: make_operator_session
-- Create an operator session.
INSERT INTO operator_sessions (token_sha256, operator, expires_at)
VALUES (%(token)s, %(operator)s, now() + %(life)s);

-- name: find_operator_session
-- The name of the operator who is signed in with this token.
SELECT o.name FROM operator_sessions s JOIN operators o USING (operator)
WHERE s.token_sha256 = %(token)s AND s.revoked_at IS NULL AND s.expires_at > now();

-- name: end_operator_session
-- Sign out.
UPDATE operator_sessions SET revoked_at = now() WHERE token_sha256 = %(token)s AND revoked_at IS NULL;

-- name: end_operator_sessions
-- Sign out everywhere.
UPDATE operator_sessions SET revoked_at = now() WHERE revoked_at IS NULL;

-- name: make_api_token
-- Create an API token; no row if its arena does not exist.
INSERT INTO api_tokens (name, token_sha256, scopes, arena, expires_at)
SELECT %(name)s, %(token)s, %(scopes)s, found.arena, now() + %(life)s::interval
FROM (SELECT arena FROM arenas WHERE name = %(arena)s::text
      UNION ALL SELECT NULL WHERE %(arena)s::text IS NULL) AS found
RETURNING api_token, name, scopes, %(arena)s::text, created_at, expires_at, revoked_at;

-- name: find_api_token
-- The record of a token, unless it was revoked or has expired.
SELECT t.api_token, t.name, t.scopes, a.name, t.created_at, t.expires_at, t.revoked_at
FROM api_tokens t LEFT JOIN arenas a USING (arena)
WHERE t.token_sha256 = %(token)s AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now());

-- name: list_api_tokens
-- All tokens, without their hashes.
SELECT t.api_token, t.name, t.scopes, a.name, t.created_at, t.expires_at, t.revoked_at
FROM api_tokens t LEFT JOIN arenas a USING (arena) ORDER BY t.api_token;

-- name: revoke_api_token
-- Revoke a token.
UPDATE api_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE api_token = %(api_token)s
RETURNING api_token;

-- name: write_audit
-- Add an entry to the audit log.
INSERT INTO audit (arena, actor, action, detail) VALUES (%(arena)s, %(actor)s, %(action)s, %(detail)s);
