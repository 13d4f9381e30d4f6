-- Any web process decides, and no process calls another.
ALTER TABLE processes DROP COLUMN address, DROP COLUMN machine;
-- The process that leads, while its lease is valid.
ALTER TABLE raters ADD COLUMN process bigint;
