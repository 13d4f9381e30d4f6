-- name: make_judge_session
-- Create the session of a judge, unless its token has one.
INSERT INTO sessions (source, name) VALUES (1, %(name)s) ON CONFLICT (name) DO NOTHING RETURNING session;

-- name: find_judge_session
-- The session of a judge, unless it was revoked.
SELECT session FROM sessions WHERE name = %(name)s AND revoked_at IS NULL;

-- name: revoke_session
-- Revoke a session. A voter's gets its row now; one with a number that is not random must have a row.
INSERT INTO sessions (session, source, revoked_at) OVERRIDING SYSTEM VALUE
SELECT %(session)s, coalesce(known.source, 0), now()
FROM (SELECT) AS one LEFT JOIN sessions AS known ON known.session = %(session)s
WHERE %(random)s OR known.session IS NOT NULL
ON CONFLICT (session) DO UPDATE SET revoked_at = coalesce(sessions.revoked_at, excluded.revoked_at)
RETURNING session;

-- name: keep_gate
-- Keep the result of the gate with a voter's session, which gets its row now, and where it came from. Who has passed stays
-- so.
INSERT INTO sessions (session, source, gate, network, language) OVERRIDING SYSTEM VALUE
VALUES (%(session)s, 0, %(gate)s, %(network)s, %(language)s)
ON CONFLICT (session) DO UPDATE SET gate = excluded.gate, network = coalesce(sessions.network, excluded.network),
    language = coalesce(sessions.language, excluded.language)
WHERE sessions.gate <> 1;

-- name: revoked_sessions
-- Voters' sessions that were revoked and whose cookies have not expired.
SELECT session FROM sessions WHERE source = 0 AND revoked_at > now() - %(within)s::interval;

-- name: has_operator
-- Whether the installation has an owner.
SELECT EXISTS (
    SELECT FROM operator_roles r JOIN operators o USING (operator)
    WHERE r.arena IS NULL AND r.role = 'owner' AND o.removed_at IS NULL
);

-- name: make_operator_link
-- Create a link that makes an owner or sets an operator's password, once.
INSERT INTO operator_links (token_sha256, expires_at) VALUES (%(token)s, now() + %(life)s);

-- name: find_operator_link
-- A link that can be used: the operator whose password it sets, or the role that it gives and the title of its arena.
SELECT o.name, l.role, (SELECT a.title FROM arenas a WHERE a.arena = l.arena)
FROM operator_links l LEFT JOIN operators o USING (operator)
WHERE l.token_sha256 = %(token)s AND l.used_at IS NULL AND l.revoked_at IS NULL AND l.expires_at > now()
    AND o.removed_at IS NULL;

-- name: use_operator_link
-- Mark a link as used; no row if it was used or revoked before, has expired or never existed.
UPDATE operator_links l SET used_at = now()
WHERE l.token_sha256 = %(token)s AND l.used_at IS NULL AND l.revoked_at IS NULL AND l.expires_at > now()
RETURNING l.link, l.operator, l.role, l.arena, (SELECT a.name FROM arenas a WHERE a.arena = l.arena);

-- name: lock_operators
-- One change of operators and their roles at a time.
SELECT pg_advisory_xact_lock(hashtext('tiltyard'), hashtext('operators'));

-- name: lock_operator
-- The operator of that name, also one that was removed.
SELECT operator, removed_at FROM operators WHERE name = %(name)s FOR UPDATE;

-- name: set_password
-- Set the password of an operator.
UPDATE operators SET password_argon2 = %(password)s WHERE operator = %(operator)s;

-- name: make_operator
-- Create an operator.
INSERT INTO operators (name, password_argon2) VALUES (%(name)s, %(password)s) RETURNING operator;

-- name: grant_role
-- Give an operator a role in an arena, or for the installation, in place of the one it has there.
INSERT INTO operator_roles (operator, arena, role) VALUES (%(operator)s, %(arena)s, %(role)s)
ON CONFLICT (operator, arena) DO UPDATE SET role = excluded.role, granted_at = now();

-- name: find_operator
-- The operator of that name, with the hash of the password, and whether it has a second factor.
SELECT operator, password_argon2, totp_since IS NOT NULL FROM operators
WHERE name = %(name)s AND removed_at IS NULL;

-- name: make_operator_session
-- Create an operator session; no row if the operator was removed.
INSERT INTO operator_sessions (token_sha256, operator, expires_at, address, browser, awaits_code)
SELECT %(token)s, o.operator, now() + %(life)s::interval, %(address)s, %(browser)s, %(awaits_code)s
FROM operators o WHERE o.operator = %(operator)s AND o.removed_at IS NULL
RETURNING session, (SELECT name FROM operators WHERE operator = %(operator)s);

-- name: find_operator_session
-- The operator who is signed in with this token, and its roles by arena.
SELECT o.operator, o.name, s.session, o.totp_since IS NOT NULL, o.issuer IS NOT NULL,
    (SELECT coalesce(jsonb_agg(jsonb_build_array(a.name, r.role)), '[]')
     FROM operator_roles r LEFT JOIN arenas a USING (arena) WHERE r.operator = o.operator)
FROM operator_sessions s JOIN operators o USING (operator)
WHERE s.token_sha256 = %(token)s AND NOT s.awaits_code AND s.revoked_at IS NULL AND s.expires_at > now()
    AND o.removed_at IS NULL;

-- name: note_operator_session
-- Remember that a session is used, at most once a minute.
UPDATE operator_sessions SET last_seen_at = now()
WHERE session = %(session)s AND last_seen_at < now() - interval '1 minute';

-- name: end_operator_session
-- Sign out.
UPDATE operator_sessions s SET revoked_at = now() FROM operators o
WHERE s.token_sha256 = %(token)s AND s.revoked_at IS NULL AND o.operator = s.operator
RETURNING s.session, o.name;

-- name: end_sessions_of
-- Sign an operator out everywhere, except in one session that is kept.
UPDATE operator_sessions SET revoked_at = now()
WHERE operator = %(operator)s AND revoked_at IS NULL AND session IS DISTINCT FROM %(kept)s::bigint
RETURNING session;

-- name: end_operator_sessions
-- Sign every operator out everywhere.
UPDATE operator_sessions SET revoked_at = now() WHERE revoked_at IS NULL;

-- name: list_owners
-- Who can grant roles in an arena, or for the installation.
SELECT DISTINCT o.name FROM operators o JOIN operator_roles r USING (operator) LEFT JOIN arenas a USING (arena)
WHERE o.removed_at IS NULL AND r.role = 'owner' AND (r.arena IS NULL OR a.name = %(arena)s::text)
ORDER BY o.name LIMIT 5;

-- name: make_api_token
-- Create an API token; no row if its arena does not exist.
INSERT INTO api_tokens (name, token_sha256, scopes, arena, expires_at, operator)
SELECT %(name)s, %(token)s, %(scopes)s, found.arena, now() + %(life)s::interval, %(operator)s::integer
FROM (SELECT arena FROM arenas WHERE name = %(arena)s::text
      UNION ALL SELECT NULL WHERE %(arena)s::text IS NULL) AS found
RETURNING api_token, name, scopes, %(arena)s::text, created_at, expires_at, revoked_at,
    (SELECT o.name FROM operators o WHERE o.operator = %(operator)s::integer);

-- name: find_api_token
-- The record of a token and its operator's roles by arena, unless it was revoked, has expired or its operator was removed.
SELECT t.api_token, t.name, t.scopes, a.name, t.created_at, t.expires_at, t.revoked_at, o.name, t.operator,
    (SELECT coalesce(jsonb_agg(jsonb_build_array(g.name, r.role)), '[]')
     FROM operator_roles r LEFT JOIN arenas g USING (arena) WHERE r.operator = t.operator)
FROM api_tokens t LEFT JOIN arenas a USING (arena) LEFT JOIN operators o USING (operator)
WHERE t.token_sha256 = %(token)s AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
    AND o.removed_at IS NULL;

-- name: list_api_tokens
-- All tokens, or those of one operator, without their hashes.
SELECT t.api_token, t.name, t.scopes, a.name, t.created_at, t.expires_at, t.revoked_at, o.name
FROM api_tokens t LEFT JOIN arenas a USING (arena) LEFT JOIN operators o USING (operator)
WHERE %(operator)s::integer IS NULL OR t.operator = %(operator)s::integer
ORDER BY t.api_token;

-- name: revoke_api_token
-- Revoke a token; with an operator, only one of its own. Returns when it was revoked before, and now.
UPDATE api_tokens t SET revoked_at = coalesce(t.revoked_at, now())
FROM api_tokens before
WHERE t.api_token = %(api_token)s AND before.api_token = t.api_token
    AND (%(operator)s::integer IS NULL OR t.operator = %(operator)s::integer)
RETURNING before.revoked_at, t.revoked_at;

-- name: write_audit
-- Add an entry to the audit log.
INSERT INTO audit (arena, actor, action, detail) VALUES (%(arena)s, %(actor)s, %(action)s, %(detail)s);
