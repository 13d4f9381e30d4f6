-- name: network_keys_make
-- The key of a day, unless another process has made it.
INSERT INTO network_keys (day, key) VALUES (%(day)s, %(key)s) ON CONFLICT DO NOTHING;

-- name: network_keys_find
-- The key of a day.
SELECT key FROM network_keys WHERE day = %(day)s;

-- name: network_keys_delete
-- Delete the keys of earlier days.
DELETE FROM network_keys WHERE day < %(before)s;
