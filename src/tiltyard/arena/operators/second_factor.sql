-- name: factor_read
-- Since when an operator has a second factor, and how many recovery codes were not used.
SELECT o.totp_since, (SELECT count(*)::integer FROM operator_recovery_codes c
                      WHERE c.operator = o.operator AND c.used_at IS NULL)
FROM operators o WHERE o.operator = %(operator)s;

-- name: factor_begin
-- A random number from which the key is derived; the one that was begun before, if it was not confirmed.
UPDATE operators SET totp_nonce = coalesce(totp_nonce, %(nonce)s)
WHERE operator = %(operator)s AND totp_since IS NULL AND removed_at IS NULL RETURNING totp_nonce;

-- name: factor_lock
-- The second factor of an operator, which nobody else changes meanwhile.
SELECT name, totp_nonce, totp_since, totp_step FROM operators
WHERE operator = %(operator)s AND removed_at IS NULL FOR UPDATE;

-- name: factor_confirm
-- Put the second factor in use.
UPDATE operators SET totp_since = now(), totp_step = %(step)s WHERE operator = %(operator)s RETURNING operator;

-- name: factor_use_step
-- A code of this step or an earlier one is not right again.
UPDATE operators SET totp_step = %(step)s WHERE operator = %(operator)s;

-- name: factor_use_code
-- Use a recovery code; no row if there is none or it was used. Returns how many are left.
UPDATE operator_recovery_codes SET used_at = now()
WHERE operator = %(operator)s AND code_sha256 = %(code)s AND used_at IS NULL
RETURNING (SELECT count(*)::integer - 1 FROM operator_recovery_codes c
           WHERE c.operator = %(operator)s AND c.used_at IS NULL);

-- name: factor_add_codes
-- New recovery codes.
INSERT INTO operator_recovery_codes (code_sha256, operator)
SELECT code, %(operator)s::integer FROM unnest(%(codes)s::bytea[]) AS code;

-- name: factor_forget_codes
-- Delete the recovery codes of an operator.
DELETE FROM operator_recovery_codes WHERE operator = %(operator)s;

-- name: factor_off
-- Without a second factor. The last step stays, so that its code is not right again.
UPDATE operators SET totp_nonce = NULL, totp_since = NULL WHERE operator = %(operator)s;

-- name: factor_waiting
-- The session that waits for a code, unless it ended, or the operator had too many wrong codes of late.
SELECT s.session, s.operator FROM operator_sessions s
WHERE s.token_sha256 = %(token)s AND s.awaits_code AND s.revoked_at IS NULL AND s.expires_at > now()
    AND (SELECT sum(o.wrong_codes) FROM operator_sessions o
         WHERE o.operator = s.operator AND o.created_at > now() - interval '15 minutes') < 20
FOR UPDATE;

-- name: factor_wrong_code
-- Count a wrong code. The fifth ends the session.
UPDATE operator_sessions
SET wrong_codes = wrong_codes + 1, revoked_at = CASE WHEN wrong_codes >= 4 THEN now() ELSE revoked_at END
WHERE session = %(session)s;
