-- What the pages keep beside the log: nothing here moves a rating.

-- Why a voter decided so, said after the vote and before the names were shown. Private: no export has it.
CREATE TABLE remarks (
    arena integer NOT NULL REFERENCES arenas,
    source smallint NOT NULL,
    serial bigint NOT NULL,
    session bigint NOT NULL,
    tags text[] NOT NULL,
    comment text,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arena, source, serial)
);

-- Answers files that an operator looks over before they are let in; gone afterwards, or after an hour.
CREATE TABLE uploads (
    upload uuid PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas,
    actor text NOT NULL,
    name text NOT NULL,
    bytes bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE uploads ALTER COLUMN bytes SET STORAGE EXTERNAL;
