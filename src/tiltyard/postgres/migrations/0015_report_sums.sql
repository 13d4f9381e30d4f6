-- What the next weekly report of an arena goes on from; see arena/boards/report_sums.py.
CREATE TABLE report_sums (
    arena bigint PRIMARY KEY REFERENCES arenas,
    until timestamptz NOT NULL,
    generation bigint NOT NULL,
    position bigint NOT NULL,
    explored bytea NOT NULL
);
