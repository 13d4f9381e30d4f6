-- A matchup that was prefetched is an exposure only when it is shown. Three kinds of events say so: 14 prefetched,
-- 15 shown, 16 released (it ended without having been shown). All matchups before this step were shown when they
-- were served.

ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check CHECK (kind BETWEEN 0 AND 16);
ALTER TABLE endings DROP CONSTRAINT endings_kind_check;
ALTER TABLE endings ADD CONSTRAINT endings_kind_check CHECK (kind IN (1, 2, 3, 16));

-- Whether it was prefetched and has not been shown. It expires within minutes then, and later once it is shown.
ALTER TABLE matchups ADD COLUMN unseen boolean NOT NULL DEFAULT false;
