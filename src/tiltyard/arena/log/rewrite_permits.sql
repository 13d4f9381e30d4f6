-- name: rewriting_permit
-- Write an audit entry, and let this transaction change and delete rows of logs in its name.
WITH written AS (
    INSERT INTO audit (arena, actor, action, detail)
    VALUES (%(arena)s, %(actor)s, %(action)s, %(detail)s)
    RETURNING entry
)
SELECT set_config('tiltyard.audit_entry', entry::text, true) FROM written;
