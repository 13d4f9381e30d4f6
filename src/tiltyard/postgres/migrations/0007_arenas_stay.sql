-- The log of an arena stays in the bucket of the arena's number. A database with an arena that was moved is refused.
ALTER TABLE arenas DROP COLUMN moving_to;
ALTER TABLE arenas DROP COLUMN moved_from;
ALTER TABLE arenas DROP COLUMN moved_at;
ALTER TABLE arenas ADD CHECK (bucket = arena % 64);
