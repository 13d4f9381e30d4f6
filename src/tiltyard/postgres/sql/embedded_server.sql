-- name: own_database
-- A row if the embedded server has its database already.
SELECT FROM pg_database WHERE datname = 'tiltyard';

-- name: make_own_database
-- The embedded server's database.
CREATE DATABASE tiltyard;
