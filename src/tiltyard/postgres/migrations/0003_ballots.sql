-- An undo reopens its matchup: the ending that was undone is replaced when the matchup ends again.

-- How often the matchup's vote was undone: the number of the ballot that is open, or was answered last.
ALTER TABLE matchups ADD COLUMN ballot integer NOT NULL DEFAULT 0;

-- Every undo names its vote by position. Those of the version before had one vote for each matchup to name.
UPDATE events u SET detail = jsonb_build_object('vote', n.position)
FROM endings n
WHERE u.kind = 8 AND u.detail IS NULL
    AND n.arena = u.arena AND n.source = u.source AND n.serial = u.serial AND n.undone = u.position;
