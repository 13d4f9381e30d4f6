-- name: installation_lock
-- What was kept of the process that started last, which nobody else changes until this transaction ends.
SELECT base_url, defences FROM installation FOR UPDATE;

-- name: installation_put
-- Keep it of another.
INSERT INTO installation (base_url, public, defences) VALUES (%(base_url)s, %(public)s, %(defences)s)
ON CONFLICT (one) DO UPDATE SET base_url = excluded.base_url, public = excluded.public, defences = excluded.defences
WHERE installation IS DISTINCT FROM excluded;

-- name: installation_tell
-- Arenas know whether the address is public.
UPDATE arenas SET settings = settings || jsonb_build_object('public_address', %(public)s::boolean)
WHERE (settings ->> 'public_address')::boolean IS DISTINCT FROM %(public)s;

-- name: installation_forget
-- Keep nothing.
DELETE FROM installation;
