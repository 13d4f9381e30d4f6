-- Defences are kept with the database, so that no process weakens them by its own environment; and a change of the crowd
-- holds the votes of those who made it.

-- The address at which the installation is served, and what holds strangers there: one row, once it has been served.
-- Defences are limits by name; one that has no number is 0.
CREATE TABLE installation (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    base_url text,
    public boolean NOT NULL,
    defences jsonb NOT NULL
);

-- The exclusion that holds their votes. Others may go on, so that a model has several changes to be explained.
ALTER TABLE crowd_changes ADD COLUMN exclusion bigint;
DROP INDEX crowd_changes_open;
