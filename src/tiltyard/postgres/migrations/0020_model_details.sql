-- What the operator says about a model. It is shown beside its ratings and is in none of them. Null: not known.
CREATE TABLE model_details (
    arena integer NOT NULL,
    model integer NOT NULL,
    maker text,
    family text,
    licence text,
    link text CHECK (link ~ '^https?://'),
    open_weights boolean,
    -- US dollars for a million tokens.
    input_usd double precision CHECK (input_usd >= 0),
    output_usd double precision CHECK (output_usd >= 0),
    PRIMARY KEY (arena, model),
    FOREIGN KEY (arena, model) REFERENCES models ON DELETE CASCADE
);

-- What the file of answers said about making a response, and how its text is written. Null: not known, or no text.
CREATE TABLE response_details (
    response bigint PRIMARY KEY REFERENCES responses ON DELETE CASCADE,
    arena integer NOT NULL REFERENCES arenas,
    input_tokens bigint CHECK (input_tokens >= 0),
    output_tokens bigint CHECK (output_tokens >= 0),
    cost_usd double precision CHECK (cost_usd >= 0),
    latency_seconds double precision CHECK (latency_seconds >= 0),
    -- Characters, and Markdown marks outside code.
    length integer,
    headers integer,
    lists integer,
    bold integer
);
CREATE INDEX response_details_of_arena ON response_details (arena);
CREATE INDEX response_details_used ON response_details (arena)
    WHERE cost_usd IS NOT NULL OR latency_seconds IS NOT NULL OR output_tokens IS NOT NULL;
