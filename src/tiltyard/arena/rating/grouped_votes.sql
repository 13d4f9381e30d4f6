-- name: voter_origins
-- Where these sessions came from, as far as it is known.
SELECT session, network, language FROM sessions
WHERE session = ANY(%(sessions)s) AND (network IS NOT NULL OR language IS NOT NULL);
