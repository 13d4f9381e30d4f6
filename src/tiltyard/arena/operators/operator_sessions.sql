-- name: operator_sessions_list
-- The sessions of an operator that are valid.
SELECT session, created_at, last_seen_at, address, browser FROM operator_sessions
WHERE operator = %(operator)s AND revoked_at IS NULL AND expires_at > now() AND NOT awaits_code
ORDER BY last_seen_at DESC, session DESC;

-- name: operator_sessions_end
-- End one session of an operator.
UPDATE operator_sessions s SET revoked_at = now() FROM operators o
WHERE s.session = %(session)s AND s.operator = %(operator)s AND s.revoked_at IS NULL AND o.operator = s.operator
RETURNING o.name;

-- name: operator_name
-- The name of an operator.
SELECT name FROM operators WHERE operator = %(operator)s;
