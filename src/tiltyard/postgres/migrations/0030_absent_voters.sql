-- Up to this position of an arena's log, voters who stayed away for longer than it keeps them were erased.
ALTER TABLE arenas ADD COLUMN forgotten_upto bigint NOT NULL DEFAULT 0;
