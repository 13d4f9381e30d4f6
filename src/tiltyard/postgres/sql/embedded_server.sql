-- name: own_database
-- Returns a row if the database of the embedded server exists.
SELECT FROM pg_database WHERE datname = 'tiltyard';

-- name: make_own_database
-- Creates the database of the embedded server.
CREATE DATABASE tiltyard;
