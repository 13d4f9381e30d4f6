-- Voters who came in by an invitation or with a passcode have rows, as those who came to the gate have.

-- Of a voter who was let in: by which invitation or passcode. The network and the language are kept of these, too.
ALTER TABLE sessions ADD COLUMN invitation bigint REFERENCES invitations;
CREATE INDEX sessions_invited ON sessions (invitation) WHERE invitation IS NOT NULL;
