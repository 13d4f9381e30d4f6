-- Expert panels: named raters, the items that they are asked about, and who is asked about which.
-- Two kinds of events: 20 a panel was opened, 21 it was closed.

ALTER TABLE events DROP CONSTRAINT events_kind_check;
ALTER TABLE events ADD CONSTRAINT events_kind_check CHECK (kind BETWEEN 0 AND 29);

CREATE TABLE expert_panels (
    panel bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arena integer NOT NULL REFERENCES arenas (arena),
    name text NOT NULL,
    overlap integer NOT NULL CHECK (overlap > 0),
    -- Null: all pairs of models.
    pairs_per_prompt integer CHECK (pairs_per_prompt > 0),
    seed bigint NOT NULL,
    opened_at timestamptz NOT NULL,
    opened bigint NOT NULL,
    closed_at timestamptz,
    closed bigint,
    -- What the arena told voters of names before it had an open panel.
    reveal_before text NOT NULL,
    UNIQUE (arena, name),
    CHECK ((closed_at IS NULL) = (closed IS NULL))
);

CREATE TABLE panel_raters (
    panel bigint NOT NULL REFERENCES expert_panels (panel),
    rater integer NOT NULL,
    name text NOT NULL,
    -- The session in which the rater votes, on whatever device the link is opened.
    session bigint NOT NULL UNIQUE,
    invitation bigint NOT NULL UNIQUE REFERENCES invitations (invitation),
    PRIMARY KEY (panel, rater),
    UNIQUE (panel, name)
);

CREATE TABLE panel_items (
    panel bigint NOT NULL REFERENCES expert_panels (panel),
    item integer NOT NULL,
    prompt integer NOT NULL,
    one integer NOT NULL,
    other integer NOT NULL,
    PRIMARY KEY (panel, item),
    CHECK (one < other)
);

CREATE TABLE panel_tasks (
    panel bigint NOT NULL,
    item integer NOT NULL,
    rater integer NOT NULL,
    place integer NOT NULL,
    -- Whether the model with the lower number is on the right.
    exchanged boolean NOT NULL,
    PRIMARY KEY (panel, rater, place),
    UNIQUE (panel, item, rater),
    FOREIGN KEY (panel, item) REFERENCES panel_items (panel, item),
    FOREIGN KEY (panel, rater) REFERENCES panel_raters (panel, rater)
);

-- What a senior rater said of an item on which others disagree: a record beside the votes, which stay as they are.
-- The newest one of an item applies.
CREATE TABLE panel_adjudications (
    adjudication bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    panel bigint NOT NULL,
    item integer NOT NULL,
    -- 0 the first model, 1 a tie, 2 the second, 3 both bad; see core/judging/diagnostics/rater_agreement.py.
    verdict smallint NOT NULL CHECK (verdict BETWEEN 0 AND 3),
    note text NOT NULL,
    actor text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (panel, item) REFERENCES panel_items (panel, item)
);
CREATE INDEX panel_adjudications_of_item ON panel_adjudications (panel, item, adjudication);

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON panel_items
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON panel_tasks
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON panel_adjudications
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
